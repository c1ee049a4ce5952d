"""Language models side by side: `olivine bench model` and llama.cpp on the same files.

    cargo xtask bench llm [--rounds 5] [--prompt-tokens 256] [--gen-tokens 64] [--json FILE]

Every round runs each side in a fresh process, and the sides take turns in going first, so that a slow spell
of the machine falls on both. Figures are medians over all repetitions of all rounds. Both sides count
evaluation only: llama.cpp's part calls `llama_decode` and neither samples nor converts text. Generation goes
on where the prompt ends.

Peak memory is the high-water mark of the process's resident set. For llama.cpp, that of the Python
interpreter before it loads the model is taken off, since the library needs none.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time

LLAMA = "llama.cpp"
OLIVINE = "olivine"

# (what, key in a side's figures, unit)
ROWS = [
    ("prompt, tokens/s", "prompt_tps", 1),
    ("generation, tokens/s", "generation_tps", 1),
    ("peak memory, MB", "peak_memory_bytes", 1e6),
]


def resident_bytes(field):
    """VmHWM or VmRSS of this process."""
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def run_llama(path, options):
    """Measures llama.cpp in this process and prints one JSON object."""
    import ctypes

    from llama_cpp import llama_cpp as llama

    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    interpreter = resident_bytes("VmRSS")
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    if not model:
        sys.exit(f"llama.cpp cannot load {path}")
    settings = llama.llama_context_default_params()
    settings.n_ctx = options.prompt_tokens + options.gen_tokens + 1
    settings.n_batch = settings.n_ubatch = options.prompt_tokens
    settings.n_threads = settings.n_threads_batch = options.threads
    context = llama.llama_init_from_model(model, settings)
    if not context:
        sys.exit("llama.cpp cannot make a context")
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    # Any ordinary tokens will do; these repeat only after the whole vocabulary.
    ids = [1000 + 7919 * i % (vocabulary - 1000) for i in range(options.prompt_tokens + options.gen_tokens)]

    def decode(tokens):
        array = (llama.llama_token * len(tokens))(*tokens)
        if llama.llama_decode(context, llama.llama_batch_get_one(array, len(tokens))) != 0:
            sys.exit("llama_decode failed")
        llama.llama_synchronize(context)

    prompt_tps, generation_tps = [], []
    # The first repetition warms caches and page tables up and does not count.
    for repetition in range(options.repetitions + 1):
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        start = time.perf_counter()
        decode(ids[: options.prompt_tokens])
        middle = time.perf_counter()
        for token in ids[options.prompt_tokens :]:
            decode([token])
        end = time.perf_counter()
        if repetition > 0:
            prompt_tps.append(options.prompt_tokens / (middle - start))
            generation_tps.append(options.gen_tokens / (end - middle))
    report = {
        "prompt_tps": prompt_tps,
        "generation_tps": generation_tps,
        "peak_memory_bytes": resident_bytes("VmHWM") - interpreter,
    }
    print(json.dumps(report))


def run_child(command):
    """Runs a command; returns its standard output and the high-water mark of its resident set."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return output.decode(), usage.ru_maxrss * unit


def measure(side, path, options):
    """One process of one side: lists of tokens per second, and bytes."""
    counts = ["--prompt-tokens", options.prompt_tokens, "--gen-tokens", options.gen_tokens]
    counts += ["--repetitions", options.repetitions]
    if side == LLAMA:
        command = [sys.executable, __file__, "--llama-child", path, "--threads", options.threads, *counts]
        output, _ = run_child([str(part) for part in command])
        return json.loads(output)
    command = [options.olivine, "bench", "model", "--model", path, *counts, "--json"]
    output, peak = run_child([str(part) for part in command])
    report = json.loads(output)
    return {
        "prompt_tps": report["prompt_tps_all"],
        "generation_tps": report["generation_tps_all"],
        "peak_memory_bytes": peak,
    }


def compare(name, path, sides, options):
    """Interleaved rounds over one model; returns the figures of each side."""
    figures = {side: {key: [] for _, key, _ in ROWS} for side in sides}
    for round_number in range(options.rounds):
        for side in sides if round_number % 2 == 0 else sides[::-1]:
            report = measure(side, path, options)
            figures[side]["prompt_tps"] += report["prompt_tps"]
            figures[side]["generation_tps"] += report["generation_tps"]
            figures[side]["peak_memory_bytes"].append(report["peak_memory_bytes"])
        print(f"{name}: round {round_number + 1} of {options.rounds}", file=sys.stderr)
    return figures


def table(results, sides):
    """The medians and, with both sides, Olivine's figure over llama.cpp's."""
    lines = [f"{'model':10} {'work':22}" + "".join(f"{side:>12}" for side in sides)]
    if len(sides) == 2:
        lines[0] += f"{'ratio':>8}"
    for name, figures in results.items():
        for label, key, unit in ROWS:
            medians = [statistics.median(figures[side][key]) / unit for side in sides]
            line = f"{name:10} {label:22}" + "".join(f"{median:12.1f}" for median in medians)
            if len(sides) == 2:
                line += f"{medians[0] / medians[1]:8.2f}"
            lines.append(line)
    return "\n".join(lines)


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--olivine", help="the program; without it only llama.cpp is measured")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="measure these models only")
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--repetitions", type=positive, default=3, help="in each process")
    parser.add_argument("--prompt-tokens", type=positive, default=256)
    parser.add_argument("--gen-tokens", type=positive, default=64)
    parser.add_argument("--threads", type=positive, default=os.cpu_count())
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    parser.add_argument("--llama-child", metavar="FILE", help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = parse()
    if options.llama_child:
        run_llama(options.llama_child, options)
        return
    os.environ["OLIVINE_NUM_THREADS"] = str(options.threads)
    sides = [OLIVINE, LLAMA] if options.olivine else [LLAMA]
    models = dict(model.split("=", 1) for model in options.model)
    unknown = [name for name in options.only if name not in models]
    if unknown or not models:
        sys.exit(f"no model {', '.join(unknown)}" if unknown else "name a model: --model NAME=FILE")
    results = {name: compare(name, models[name], sides, options) for name in options.only or models}
    print(table(results, sides))
    print(f"{options.threads} threads, prompt of {options.prompt_tokens}, {options.gen_tokens} generated, medians")
    if options.json:
        report = {
            "machine": platform.machine(),
            "threads": options.threads,
            "prompt_tokens": options.prompt_tokens,
            "gen_tokens": options.gen_tokens,
            "results": results,
        }
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
