"""Operations of Olivine, MLX and NumPy on arrays of a million elements, interleaved in one run.

    python benches/ops.py --driver PATH [--rounds 5] [--markdown docs/benchmarks/ops.md]

Each round measures every side twice on every operation, one after the other; the least time counts.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np
import scipy.fft
import scipy.special

HERE = Path(__file__).parent
N = 1 << 20
SQUARE = [1024, 1024]


def array(low=-3.0, high=3.0, shape=(N,), dtype="float32"):
    return {"random": [low, high], "shape": list(shape), "dtype": dtype}


def call(name, *args, **kwargs):
    return {"call": name, "args": list(args), "kwargs": kwargs}


def table():
    """Calls, each with the function of NumPy or SciPy, if there is one."""
    one, two, positive, unit = array(), array(), array(0.1, 9.0), array(-0.99, 0.99)
    square, integers = array(shape=SQUARE), array(0, 100, dtype="int32")
    same = """abs negative sign ceil floor square exp expm1 sin cos tan arctan sinh cosh tanh arcsinh isnan isfinite
        logical_not degrees""".split()
    for name in same:
        yield call(name, one), getattr(np, name)
    for name in "sqrt log log2 log10 log1p reciprocal".split():
        yield call(name, positive), getattr(np, name)
    for name in "arcsin arccos arctanh".split():
        yield call(name, unit), getattr(np, name)
    yield call("rsqrt", positive), lambda x: 1 / np.sqrt(x)
    yield call("erf", one), scipy.special.erf
    yield call("erfinv", unit), scipy.special.erfinv
    yield call("sigmoid", one), scipy.special.expit
    pairs = """add subtract multiply divide maximum minimum arctan2 logaddexp equal less greater_equal remainder
        floor_divide""".split()
    for name in pairs:
        yield call(name, one, two), getattr(np, name)
    yield call("power", positive, one), np.power
    for name in ("add", "multiply", "floor_divide"):
        yield call(name, integers, array(1, 9, dtype="int32")), getattr(np, name)
    yield call("where", array(0, 2, dtype="bool_"), one, two), np.where
    yield call("astype", one, {"dtype": "float16"}), lambda x, _: x.astype(np.float16)
    yield call("transpose", square), None
    for name in "sum prod max min mean var all".split():
        yield call(name, one), getattr(np, name)
        for axis in (0, 1):
            yield call(name, square, axis=axis), getattr(np, name)
    for name in "argmax argmin cumsum cumprod sort argsort".split():
        yield call(name, square, axis=1), getattr(np, name)
    yield call("cumsum", square, axis=0), np.cumsum
    for name in "cumsum cumprod cummax cummin logcumsumexp".split():
        yield call(name, one, axis=0), getattr(np, name, None)
    yield call("var", integers), np.var
    for name in "sum max any".split():
        yield call(name, integers), getattr(np, name)
    for name in "median std logsumexp".split():
        yield call(name, one), getattr(np, name, scipy.special.logsumexp)
    for name in "argmax argmin".split():
        yield call(name, one), getattr(np, name)
        yield call(name, square, axis=0), getattr(np, name)
    yield call("sort", one), np.sort
    yield call("topk", square, k=10, axis=1), lambda x, k, axis: np.partition(x, -k, axis)[:, -k:]
    yield call("topk", one, k=100, axis=0), lambda x, k, axis: np.partition(x, -k, axis)[-k:]
    for name in "partition argpartition".split():
        yield call(name, one, kth=N // 2, axis=0), getattr(np, name)
        yield call(name, square, kth=100, axis=1), getattr(np, name)
    yield call("argsort", one, axis=0), np.argsort
    yield call("sort", integers, axis=0), np.sort
    yield call("sort", square, axis=0), np.sort
    yield call("searchsorted", array(shape=[1000]), one), np.searchsorted
    yield call("softmax", square, axis=0), lambda x, axis: scipy.special.softmax(x, axis=axis)
    yield call("softmax", square, axis=1), lambda x, axis: scipy.special.softmax(x, axis=axis)
    yield call("logsumexp", square, axis=1), lambda x, axis: scipy.special.logsumexp(x, axis=axis)
    yield call("concatenate", [one, two]), lambda x: np.concatenate(x)
    yield call("repeat", one, repeats=2), lambda x, repeats: np.repeat(x, repeats)
    yield call("roll", one, shift=100), lambda x, shift: np.roll(x, shift)
    yield call("take", one, array(0, N - 1, dtype="int32"), axis=0), lambda x, i, axis: np.take(x, i, axis)
    yield call("repeat", square, repeats=3, axis=0), np.repeat
    yield call("tile", square, reps=[2, 2]), lambda x, reps: np.tile(x, reps)
    along = array(0, 1023, shape=SQUARE, dtype="int32")
    yield call("take", square, array(0, 1023, shape=[1024], dtype="int32"), axis=0), np.take
    yield call("take", square, array(0, 1023, shape=[1024], dtype="int32"), axis=1), np.take
    for axis in (0, 1):
        yield call("take_along_axis", square, along, axis=axis), np.take_along_axis
        yield call("put_along_axis", square, along, square, axis=axis), None
    for mode in "constant edge".split():
        padding = {"pad_width": [[16, 16], [16, 16]], "mode": mode}
        yield call("pad", square, **padding), lambda x, pad_width, mode: np.pad(x, pad_width, mode=mode)
    for to in "int32 float64 bfloat16 bool_ complex64".split():
        yield call("astype", one, {"dtype": to}), None
    yield call("astype", integers, {"dtype": "float32"}), None
    yield call("contiguous", square), None
    yield call("diagonal", square), np.diagonal
    yield call("tril", square), np.tril
    yield call("outer", array(shape=[1024]), array(shape=[1024])), np.outer
    yield call("inner", array(shape=[1024]), array(shape=[1024])), np.inner
    yield call("tensordot", array(shape=[512, 512]), array(shape=[512, 512]), axes=1), np.tensordot
    yield call("arange", 0, N, 1), None
    yield call("linspace", 0.0, 1.0, N), None
    yield call("zeros", [N]), lambda n: np.zeros(n)
    yield call("full", [N], 2.0), None
    yield call("eye", 1024), np.eye
    yield call("clip", one, -1.0, 1.0), np.clip
    yield call("isclose", one, two), np.isclose
    yield call("array_equal", one, one), np.array_equal
    yield call("nan_to_num", one), np.nan_to_num
    yield call("round", one), np.round
    yield call("conjugate", array(dtype="complex64")), np.conjugate
    yield call("multiply", array(dtype="complex64"), array(dtype="complex64")), np.multiply
    yield call("exp", array(dtype="complex64")), np.exp
    yield call("bitwise_and", integers, integers), np.bitwise_and
    yield call("left_shift", integers, array(0, 8, dtype="int32")), np.left_shift
    yield call("remainder", integers, array(1, 9, dtype="int32")), np.remainder
    yield call("stack", [square, square], axis=1), None
    yield call("matmul", array(shape=[512, 512]), array(shape=[512, 512])), np.matmul
    yield call("fft.fft", array(shape=SQUARE)), scipy.fft.fft
    yield call("fft.rfft", array(shape=SQUARE)), scipy.fft.rfft
    yield call("fft.ifft", array(shape=SQUARE, dtype="complex64")), scipy.fft.ifft
    yield call("fft.irfft", array(shape=SQUARE, dtype="complex64")), scipy.fft.irfft
    yield call("fft.fft2", array(shape=SQUARE)), scipy.fft.fft2
    yield call("fft.rfft", array(shape=SQUARE), axis=0), scipy.fft.rfft
    yield call("fft.fft", one), scipy.fft.fft
    yield call("hadamard_transform", square), None
    yield call("conv1d", array(shape=[4, 4096, 64]), array(shape=[64, 5, 64])), None
    yield call("conv2d", array(shape=[8, 64, 64, 64]), array(shape=[128, 3, 3, 64])), None
    yield call("conv3d", array(shape=[1, 16, 16, 16, 32]), array(shape=[32, 3, 3, 3, 32])), None
    yield call("conv_transpose2d", array(shape=[1, 64, 64, 32]), array(shape=[32, 3, 3, 32])), None
    yield call("conv2d", array(shape=[1, 64, 64, 32]), array(shape=[32, 3, 3, 1]), groups=32), None
    yield call("conv2d", array(shape=[1, 64, 64, 32]), array(shape=[32, 3, 3, 32])), None
    yield call("linalg.inv", array(shape=[256, 256])), np.linalg.inv
    for name in "qr svd lu_factor pinv eigh cholesky_inv".split():
        matrix = array(shape=[256, 256])
        yield call(f"linalg.{name}", matrix), None
    yield call("linalg.norm", square), np.linalg.norm
    yield call("linalg.solve", array(shape=[256, 256]), array(shape=[256, 256])), np.linalg.solve
    yield call("random.bernoulli", shape=[N]), None
    yield call("random.randint", 0, 100, shape=[N]), None
    yield call("random.gumbel", shape=[N]), None
    yield call("random.categorical", square), None
    yield call("random.permutation", N), None
    yield call("random.uniform", shape=[N]), None
    yield call("random.normal", shape=[N]), None
    yield call("fast.rms_norm", square, weight=array(shape=[1024]), eps=1e-5), None
    yield call("fast.layer_norm", square, weight=array(shape=[1024]), bias=array(shape=[1024]), eps=1e-5), None
    yield call("quantize", square, group_size=64, bits=4), None


def fill(v):
    if isinstance(v, list):
        return [fill(x) for x in v]
    if not (isinstance(v, dict) and "random" in v):
        return v
    x = np.random.default_rng(0).uniform(*v["random"], v["shape"])
    return x.astype("bool" if v["dtype"] == "bool_" else v["dtype"])


def numpy_times(c, f, repeat):
    args, kwargs = [fill(v) for v in c["args"]], {k: fill(v) for k, v in c["kwargs"].items()}
    out = []
    with np.errstate(all="ignore"):
        for _ in range(repeat):
            start = time.perf_counter()
            f(*args, **kwargs)
            out.append(time.perf_counter() - start)
    return out


class Side:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def times(self, c, repeat, types):
        text = json.dumps({**c, "repeat": repeat})
        self.process.stdin.write(text.replace('"bool_"', f'"{types}"') + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline()).get("seconds", [])


def name_of(c):
    def word(v):
        if isinstance(v, list):
            return " ".join(word(x) for x in v)
        if isinstance(v, dict) and "random" in v:
            return f"{v['dtype'].rstrip('_')} {'x'.join(map(str, v['shape']))}"
        return str(v.get("dtype")) if isinstance(v, dict) else str(v)

    extra = [f"{k} {v}" for k, v in c["kwargs"].items() if not isinstance(v, (dict, list))]
    return f"`{c['call']}` {word(c['args'][:1])}{', ' + ', '.join(extra) if extra else ''}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", help="functions, apart by commas")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    calls = [(c, f) for c, f in table() if not options.only or c["call"] in options.only.split(",")]
    script = HERE.parent / "scripts" / "differential" / "mlx_side.py"
    olivine, mlx = Side([options.driver]), Side([sys.executable, str(script)])
    best = [[float("inf")] * 3 for _ in calls]
    for _ in range(options.rounds):
        for row, (c, f) in zip(best, calls):
            sides = [olivine.times(c, 2, "bool"), mlx.times(c, 2, "bool_"), numpy_times(c, f, 2) if f else []]
            for i, seconds in enumerate(sides):
                row[i] = min([row[i], *seconds])
    inf = float("inf")
    cell = lambda s: "" if s == inf else f"{s * 1e3:.3f}"
    lines = ["| operation | Olivine, ms | MLX, ms | NumPy, ms | MLX / Olivine |", "| --- | --- | --- | --- | --- |"]
    slower = []
    for (c, _), (a, b, n) in zip(calls, best):
        ratio = f"{b / a:.2f}" if inf not in (a, b) else ""
        lines.append(f"| {name_of(c)} | {cell(a)} | {cell(b)} | {cell(n)} | {ratio} |")
        if inf not in (a, b) and a > b:
            slower.append(c["call"])
    both = [(a, b) for a, b, _ in best if inf not in (a, b)]
    ours, theirs = sum(a for a, _ in both), sum(b for _, b in both)
    lines.append(f"| sum of those both have | {ours * 1e3:.1f} | {theirs * 1e3:.1f} | | {theirs / ours:.2f} |")
    text = "\n".join(lines)
    print(text)
    print(f"slower than MLX: {', '.join(slower) or 'none'}")
    if options.markdown:
        head = (
            "# Operations beside MLX and NumPy\n\n"
            f"`cargo xtask bench ops`, {date.today()}, {os.cpu_count()} processors ({platform.machine()}); MLX 0.32.4 "
            f"on the CPU, NumPy {np.__version__}. Sides take turns; the least of {2 * options.rounds} times counts.\n\n"
        )
        options.markdown.write_text(head + text + "\n")


main()
