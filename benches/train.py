"""The training step of a two-layer classifier in Olivine, MLX and PyTorch, and what elementwise passes cost.

    python benches/train.py --binary PATH [--rounds 7] [--markdown docs/benchmarks/train.md]

`PATH` is the example `train_bench` of crates/nn. The sides take turns in every round; the median of a side's steps
counts. MLX and PyTorch are measured where this Python has them.
"""

import argparse
import os
import platform
import statistics
import subprocess
import time
from datetime import date
from pathlib import Path

STEPS = 20
BATCH, INPUT, HIDDEN, CLASSES = 128, 784, 512, 10


class Olivine:
    """The process that answers lines of a row and a number of repeats."""

    def __init__(self, binary):
        self.process = subprocess.Popen([binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def row(self, name, repeats):
        self.process.stdin.write(f"{name} {repeats}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().split()
        if len(answer) != repeats:
            raise SystemExit(f"the row {name} failed")
        return [float(seconds) for seconds in answer]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def timed(step):
    def repeat(repeats):
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        return seconds

    return repeat


def mlx_step():
    import mlx.core as mx
    import mlx.nn as nn
    import mlx.optimizers as optim

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.l1 = nn.Linear(INPUT, HIDDEN)
            self.drop = nn.Dropout(0.1)
            self.l2 = nn.Linear(HIDDEN, CLASSES)

        def __call__(self, x):
            return self.l2(self.drop(nn.gelu(self.l1(x))))

    model = Classifier()
    optimizer = optim.AdamW(learning_rate=3e-4, weight_decay=0.01)
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state, mx.random.state]

    def loss_fn(model, x, y):
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    def step(x, y):
        loss, grads = nn.value_and_grad(model, loss_fn)(model, x, y)
        optimizer.update(model, grads)
        return loss

    step = mx.compile(step, inputs=state, outputs=state)
    x, y = mx.random.normal((BATCH, INPUT)), mx.random.randint(0, CLASSES, (BATCH,))
    mx.eval(state, x, y)

    def run():
        mx.eval(step(x, y), state)

    run()
    return timed(run)


def torch_steps():
    import torch

    torch.manual_seed(0)

    def build(compiled):
        model = torch.nn.Sequential(
            torch.nn.Linear(INPUT, HIDDEN), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.Linear(HIDDEN, CLASSES)
        )
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
        x, y = torch.randn(BATCH, INPUT), torch.randint(0, CLASSES, (BATCH,))

        def forward_backward():
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        run_both = torch.compile(forward_backward) if compiled else forward_backward

        def run():
            run_both()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        for _ in range(3):
            run()
        return timed(run)

    yield "PyTorch", build(False)
    try:
        yield "PyTorch, torch.compile", build(True)
    except Exception as e:  # it needs a C++ compiler, and says so in many ways
        print(f"torch.compile does not run here: {type(e).__name__}")


def peers():
    try:
        yield "MLX, mx.compile", mlx_step()
    except ImportError as e:
        print(f"without MLX: {e}")
    try:
        yield from torch_steps()
    except ImportError as e:
        print(f"without PyTorch: {e}")


def milliseconds(seconds):
    return f"{1e3 * statistics.median(seconds):.3g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    load_before = os.getloadavg()[0]
    olivine = Olivine(arguments.binary)
    first = olivine.row("first", 5)

    sides = {
        "Olivine, compile_step": (lambda n: olivine.row("step", n), STEPS),
        "Olivine, not compiled": (lambda n: olivine.row("step_plain", n), STEPS),
    }
    for name, run in peers():
        sides[name] = (run, STEPS if "PyTorch" in name else 2)
    steps = {name: [] for name in sides}
    for run, _ in sides.values():
        run(3)
    for _ in range(arguments.rounds):
        for name, (run, repeats) in sides.items():
            steps[name] += run(repeats)

    passes = {name: [] for name in ("chain", "chain_hand", "gelu", "copy", "copy_hand")}
    for name in passes:
        olivine.row(name, 2)
    for _ in range(arguments.rounds):
        for name, seconds in passes.items():
            seconds += olivine.row(name, 3)
    olivine.close()

    lines = [
        "# Training steps and elementwise passes",
        "",
        f"Written by `cargo xtask bench train` on {date.today()}: {os.cpu_count()} processors, {platform.machine()},",
        f"load {load_before:.1f} before the run. Medians, the sides by turns.",
        "",
        f"One step of {INPUT} to {HIDDEN} to {CLASSES}, GELU, dropout 0.1, cross entropy, AdamW, batches of {BATCH}:",
        "",
        "| side | ms a step | Olivine compiled is faster by |",
        "| --- | --- | --- |",
    ]
    ours = statistics.median(steps["Olivine, compile_step"])
    for name, seconds in steps.items():
        lines.append(f"| {name} | {milliseconds(seconds)} | {statistics.median(seconds) / ours:.2f} |")
    size = 2 * 4 * (1 << 24)
    lines += ["", "Passes over 16M numbers of `float32`, 128 MiB read and written:", ""]
    lines += ["| pass | ms | GB/s |", "| --- | --- | --- |"]
    names = {
        "chain": "40 operations, `compile`",
        "chain_hand": "the same, a fused loop by hand",
        "gelu": "`gelu` (erf), not compiled",
        "copy": "`x + 0`",
        "copy_hand": "a copy by hand",
    }
    for name, seconds in passes.items():
        lines.append(f"| {names[name]} | {milliseconds(seconds)} | {size / statistics.median(seconds) / 1e9:.1f} |")
    lines += ["", f"The first call of the compiled chain takes {1e3 * max(first):.2g} ms at most, tracing included."]
    text = "\n".join(lines) + "\n"
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)


if __name__ == "__main__":
    main()
