"""Operations of Olivine, MLX and NumPy on arrays of a million elements, interleaved in one run.

    python benches/ops.py --driver PATH [--rounds 5] [--only NAMES] [--markdown docs/benchmarks/ops.md]

Each round measures every side on every operation, one after the other: eight calls, or the first ones that take 50 ms
together, at least two. The least time counts.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path

import numpy as np
import scipy.fft
import scipy.special

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "scripts" / "differential"))
from values import times  # noqa: E402

CALLS = 8
N = 1 << 20
SQUARE = [1024, 1024]


def array(low=-3.0, high=3.0, shape=(N,), dtype="float32", made=None):
    """An array of random numbers; `made` makes it "sorted", or of square matrices "definite" ones."""
    return {"random": [low, high], "shape": list(shape), "dtype": dtype} | ({"made": made} if made else {})


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
    yield call("searchsorted", array(shape=[1000], made="sorted"), one), np.searchsorted
    yield call("searchsorted", array(made="sorted"), one), np.searchsorted
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
    yield call("linspace", start=0.0, stop=1.0, num=N), np.linspace
    yield call("zeros", shape=[N]), np.zeros
    yield call("full", None, 2.0, shape=[N]), None
    yield call("eye", n=1024), lambda n: np.eye(n)
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
    yield call("random.bernoulli", 0.5, shape=[N]), None
    yield call("random.randint", 0, 100, shape=[N]), None
    yield call("random.gumbel", shape=[N]), None
    yield call("random.categorical", square), None
    yield call("random.permutation", N), None
    yield call("random.uniform", shape=[N]), None
    yield call("random.normal", shape=[N]), None
    yield call("fast.rms_norm", square, weight=array(shape=[1024]), eps=1e-5), None
    yield call("fast.layer_norm", square, weight=array(shape=[1024]), bias=array(shape=[1024]), eps=1e-5), None
    yield call("quantize", square, group_size=64, bits=4), None

    yield from more_elementwise(one, two, positive, square, integers)
    yield from more_arrangements(one, square, integers)
    yield from more_products()


def more_elementwise(one, two, positive, square, integers):
    complexes, truth = array(dtype="complex64"), array(0, 2, dtype="bool_")
    for name in "trunc radians isposinf isneginf isinf".split():
        yield call(name, one), getattr(np, name)
    for name, f in (("lgamma", scipy.special.gammaln), ("digamma", scipy.special.digamma)):
        yield call(name, positive), f
    yield call("arccosh", array(1.0, 9.0)), np.arccosh
    for name in ("real", "imag"):
        yield call(name, complexes), getattr(np, name)
    yield call("bitwise_invert", integers), np.invert
    for name in "logical_and logical_or".split():
        yield call(name, truth, truth), getattr(np, name)
    for name in "not_equal less_equal greater hypot copysign".split():
        yield call(name, one, two), getattr(np, name)
    for name in "bitwise_or bitwise_xor right_shift".split():
        yield call(name, integers, array(0, 8, dtype="int32")), getattr(np, name)
    yield call("divmod", one, two), np.divmod
    yield call("divmod", integers, array(1, 9, dtype="int32")), np.divmod
    yield call("allclose", one, one), np.allclose
    yield call("nan_to_num", array(dtype="float16")), np.nan_to_num
    yield call("add", array(dtype="bfloat16"), array(dtype="bfloat16")), None
    yield call("exp", array(dtype="float16")), np.exp
    for name in "silu gelu gelu_tanh".split():
        yield call(name, one), None
    yield call("ones", shape=[N]), np.ones
    for name in "ones_like zeros_like".split():
        yield call(name, one), getattr(np, name)
    yield call("full_like", one, 2.0), None
    yield call("identity", n=1024), lambda n: np.identity(n)
    yield call("tri", n=1024), lambda n: np.tri(n)
    yield call("triu", square), np.triu
    yield call("diag", array(shape=[1024])), np.diag
    yield call("logspace", start=0.0, stop=1.0, num=N), np.logspace
    for name in "hanning hamming bartlett blackman".split():
        yield call(name, M=N), getattr(np, name)


def more_arrangements(one, square, integers):
    yield call("reshape", square, shape=[2048, 512]), None
    yield call("flatten", square), None
    yield call("unflatten", one, axis=0, shape=[1024, 1024]), None
    yield call("swapaxes", square, axis1=0, axis2=1), None
    yield call("moveaxis", square, source=0, destination=1), None
    yield call("expand_dims", one, axis=0), None
    yield call("squeeze", array(shape=[1, N])), None
    yield call("broadcast_to", array(shape=[1024]), shape=[1024, 1024]), None
    yield call("split", square, indices_or_sections=4, axis=1), None
    yield call("unstack", array(shape=[16, 1 << 16]), axis=0), None
    yield call("flip", square, axis=1), np.flip
    yield call("meshgrid", array(shape=[1024]), array(shape=[1024]), indexing="xy"), None
    yield call("as_strided", one, shape=[1024, 1024], strides=[1, 1024], offset=0), None
    yield call("view", one, dtype={"dtype": "int32"}), None
    for name in "atleast_1d atleast_2d atleast_3d".split():
        yield call(name, one), None
    yield call("minmax", one), None
    yield call("count_nonzero", one), np.count_nonzero
    yield call("quantile", one, q=0.3), np.quantile
    yield call("percentile", one, q=30.0), np.percentile
    yield call("cov", array(shape=[64, 1 << 14])), np.cov
    yield call("diff", one, axis=0), np.diff
    yield call("trace", square), np.trace
    yield call("bincount", integers), np.bincount
    edges = array(shape=[100], made="sorted")
    yield call("digitize", one, edges), np.digitize
    yield call("histogram", one, edges), np.histogram
    yield call("interp", one, edges, array(shape=[100])), np.interp
    yield call("unique", integers), np.unique
    yield call("unique", one), np.unique
    yield call("unique", array(0, 1000, shape=[1 << 16], dtype="int32"), size=1000), None
    yield call("isin", integers, array(0, 100, shape=[20], dtype="int32")), np.isin
    for name in "nonzero flatnonzero argwhere".split():
        yield call(name, array(0, 2, dtype="int32")), getattr(np, name)
    at = array(0, 500, shape=[2], dtype="int32")
    half = [512, 512]
    yield call("slice", square, at, axes=[0, 1], slice_size=half), None
    yield call("slice_update", square, array(shape=half), at, axes=[0, 1]), None
    many = array(0, 1023, shape=[1024], dtype="int32")
    yield call("array.__getitem__", square, index=[many]), None
    yield call("array.__getitem__", square, index=["::2", "::-1"]), None
    yield call("array.__setitem__", square, array(shape=half), index=["::2", "::2"]), None
    for mode in "add multiply maximum".split():
        yield call("array.at", square, square, index=[many], mode=mode), None


def more_products():
    matrix, square = array(shape=[512, 512]), array(shape=SQUARE)
    yield call("einsum", matrix, matrix, subscripts="ij,jk->ik"), None
    yield call("vecdot", square, square), np.vecdot
    yield call("kron", array(shape=[32, 32]), array(shape=[32, 32])), np.kron
    yield call("addmm", matrix, matrix, matrix, alpha=0.5, beta=2.0), None
    eight = array(shape=[8, 128, 128])
    yield call("gather_mm", eight, eight, rhs_indices=array(0, 7, shape=[8], dtype="int32")), None
    mask = array(0, 2, shape=[8, 8], dtype="bool_")
    yield call("block_masked_mm", matrix, matrix, mask_lhs=mask), None
    definite = array(shape=[256, 256], made="definite")
    for name in "cholesky eigvalsh eigh".split():
        yield call(f"linalg.{name}", definite), getattr(np.linalg, name)
    for name in "eigvals eig lu det slogdet matrix_rank".split():
        f = getattr(np.linalg, name, None)
        yield call(f"linalg.{name}", array(shape=[256, 256])), f
    yield call("linalg.tri_inv", array(0.5, 1.0, shape=[256, 256])), None
    yield call("linalg.solve_triangular", array(0.5, 1.0, shape=[256, 256]), array(shape=[256, 64])), None
    yield call("linalg.cross", array(shape=[N // 4, 3]), array(shape=[N // 4, 3])), np.cross
    yield call("linalg.lstsq", array(shape=[512, 128]), array(shape=[512, 4])), None
    yield call("linalg.matrix_power", array(-0.1, 0.1, shape=[256, 256]), n=5), np.linalg.matrix_power
    for name in "fftn rfftn ifftn ifft2 rfft2".split():
        yield call(f"fft.{name}", square), getattr(scipy.fft, name)
    for name in "irfftn irfft2".split():
        yield call(f"fft.{name}", array(shape=SQUARE, dtype="complex64")), getattr(scipy.fft, name)
    for name in "fftshift ifftshift".split():
        yield call(f"fft.{name}", square), getattr(scipy.fft, name)
    for name in "fftfreq rfftfreq".split():
        yield call(f"fft.{name}", n=N), getattr(scipy.fft, name)
    yield call("fft.stft", array(), n_fft=512), None
    yield call("conv_transpose1d", array(shape=[4, 1024, 32]), array(shape=[32, 5, 32])), None
    yield call("conv_transpose3d", array(shape=[1, 16, 16, 16, 16]), array(shape=[16, 3, 3, 3, 16])), None
    yield call("conv_general", array(shape=[4, 32, 32, 32]), array(shape=[32, 3, 3, 32]), padding=1), None
    yield call("convolve", array(shape=[1 << 16]), array(shape=[64])), np.convolve
    words = array(0, 1 << 30, shape=[1024, 128], dtype="uint32")
    factors = {"scales": array(0.01, 0.1, shape=[1024, 16]), "biases": array(-0.5, 0.0, shape=[1024, 16])}
    yield call("dequantize", words, **factors), None
    for rows in (1, 64):
        yield call("quantized_matmul", array(shape=[rows, 1024]), words, **factors), None
    many = {k: {**v, "shape": [4, 1024, 16]} for k, v in factors.items()}
    experts = {**words, "shape": [4, 1024, 128]}
    chosen = {"rhs_indices": array(0, 3, shape=[4], dtype="uint32")}
    yield call("gather_qmm", array(shape=[4, 1, 1024]), experts, **many, **chosen), None
    yield call("to_fp8", array()), None
    yield call("from_fp8", array(0, 120, dtype="uint8")), None
    for name in "truncated_normal laplace exponential gamma beta poisson".split():
        ends = {"truncated_normal": [-1.0, 1.0], "exponential": [1.0], "gamma": [2.0, 1.0], "beta": [2.0, 3.0], "poisson": [4.0]}.get(name, [])
        yield call(f"random.{name}", *ends, shape=[N]), None
    heads = array(shape=[1, 8, 256, 64])
    yield call("fast.rope", heads, dims=64, traditional=False, base=10000.0, scale=1.0, offset=0), None
    yield call("fast.scaled_dot_product_attention", heads, heads, heads, scale=0.125), None
    yield call("fast.scaled_dot_product_attention", heads, heads, heads, scale=0.125, mask="causal"), None
    yield call("fast.cross_entropy", square, array(0, 1023, shape=[1024], dtype="int32")), None


def fill(v):
    if isinstance(v, list):
        return [fill(x) for x in v]
    if not (isinstance(v, dict) and "random" in v):
        return v
    x = np.random.default_rng(0).uniform(*v["random"], v["shape"])
    if v.get("made") == "definite":
        x = x @ x.T + len(x) * np.eye(len(x))
    x = np.sort(x) if v.get("made") == "sorted" else x
    return x.astype("bool" if v["dtype"] == "bool_" else v["dtype"])


def numpy_times(c, f, repeat):
    args, kwargs = [fill(v) for v in c["args"]], {k: fill(v) for k, v in c["kwargs"].items()}
    with np.errstate(all="ignore"):
        return times(repeat, lambda: f(*args, **kwargs))


class Side:
    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.refused = {}

    def times(self, c, repeat, types):
        text = json.dumps({**c, "repeat": repeat})
        self.process.stdin.write(text.replace('"bool_"', f'"{types}"') + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "seconds" not in answer:
            self.refused[name_of(c)] = next(iter(answer.values()))
        return answer.get("seconds", [])


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
            sides = [olivine.times(c, CALLS, "bool"), mlx.times(c, CALLS, "bool_"), numpy_times(c, f, CALLS) if f else []]
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
    for side, process in (("Olivine", olivine), ("MLX", mlx)):
        for what, why in process.refused.items():
            print(f"refused by {side}: {what}: {why}")
    if options.markdown:
        head = (
            "# Operations beside MLX and NumPy\n\n"
            f"`cargo xtask bench ops`, {date.today()}, {os.cpu_count()} processors ({platform.machine()}); MLX 0.32.4 "
            f"on the CPU, NumPy {np.__version__}. Sides take turns, {options.rounds} "
            f"each of up to {CALLS} calls; the least time counts. Load at the end: {os.getloadavg()[0]:.1f}.\n\n"
        )
        options.markdown.write_text(head + text + "\n")


main()
