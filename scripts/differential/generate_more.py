"""More random calls: functions with narrower arguments, and those that MLX lacks."""

import numpy as np
from generate import PLACEMENTS, call
from values import ALL, FLOATS, INEXACT, INTEGERS, array

ALIASES = """asin acos atan asinh acosh atanh bitwise_invert real imag conjugate conj stop_gradient zeros_like ones_like
full_like""".split()
PAIRS = "pow atan2 divmod allclose array_equal bitwise_left_shift bitwise_right_shift".split()


def others(m):
    """Second names of functions, and functions of two arrays that `binary` leaves out."""
    shape, dtype = m.shape(), m.pick(ALL)
    if m.chance(0.4):
        name = m.pick(PAIRS)
        if name.startswith("bitwise"):
            dtype = m.pick(INTEGERS)
            return call(name, m.array(shape, dtype), m.array(m.broadcastable(shape), dtype, 0, 1))
        x = m.array(shape, dtype)
        y = x if name in ("allclose", "array_equal") and m.chance(0.5) else m.array(shape, dtype)
        more = {"equal_nan": m.pick([True, False])} if name in ("allclose", "array_equal") else {}
        return call(name, x, y, **more)
    name = m.pick(ALIASES)
    if name == "bitwise_invert":
        return call(name, m.array(shape, m.pick(INTEGERS)))
    return call(name, m.array(shape, dtype), *([2] if name == "full_like" else []))


def arrangements(m):
    """Shapes of several arrays, second names, and parts of memory."""
    shape = m.shape(1, 3, zero=0)
    x = m.array(shape, m.pick(ALL))
    name = m.pick("""permute_dims matrix_transpose broadcast_arrays atleast_1d atleast_2d concat as_strided depends
        cumulative_sum cumulative_prod minmax tile pad roll slice""".split())
    match name:
        case "permute_dims":
            return call(name, x, axes=[int(a) for a in m.rng.permutation(len(shape))])
        case "matrix_transpose":
            return call(name, m.array(m.shape(2, 4), m.pick(ALL)))
        case "broadcast_arrays":
            return call(name, x, m.array(m.broadcastable(shape), m.pick(ALL)))
        case "concat":
            return call(name, [x, m.array(shape, x["dtype"]), x], axis=m.axis(shape))
        case "as_strided":
            n = int(np.prod(shape))
            a = int(m.rng.integers(1, n + 1))
            return call(name, x, shape=[a], strides=[int(m.rng.integers(0, (n - 1) // max(a - 1, 1) + 1))], offset=0)
        case "depends":
            return call(name, [x], [m.array([2], "float32")])
        case "cumulative_sum" | "cumulative_prod":
            x = m.array(shape, m.pick(ALL), -2, 2)
            return call(name.replace("cumulative_", "cum"), x, axis=m.axis(shape))
        case "minmax":
            return call(name, x, axis=m.axes(shape), keepdims=m.pick([True, False]))
        case "tile":
            return call(name, x, reps=[int(v) for v in m.rng.integers(1, 3, int(m.rng.integers(1, 5)))])
        case "pad":
            widths = [[int(v) for v in m.rng.integers(0, 4, 2)] for _ in shape]
            return call(name, x, pad_width=widths, mode=m.pick(["constant", "edge"]))
        case "roll":
            axes = [int(a) for a in m.rng.permutation(len(shape))[: m.rng.integers(1, len(shape) + 1)]]
            return call(name, x, shift=[int(m.rng.integers(-7, 8)) for _ in axes], axis=axes)
        case "slice":
            sizes = [int(m.rng.integers(1, n + 1)) for n in shape]
            start = array([int(m.rng.integers(0, n - s + 1)) for n, s in zip(shape, sizes)], "int32")
            return call(name, x, start, axes=list(range(len(shape))), slice_size=sizes)
        case _:
            return call(name, m.array(m.shape(0, 3), m.pick(ALL)))


def sets(m):
    """Distinct elements: as many as a size says, the rest a fill value; and all of them, which MLX refuses."""
    dtype = m.pick(INTEGERS + FLOATS + ["bool"])
    n = int(m.rng.integers(1, 30))
    x = array(m.rng.integers(0, 2 if dtype == "bool" else 9, m.pick([[n], [n, 2]])), dtype, m.pick(PLACEMENTS))
    more = {f"return_{what}": m.pick([True, False]) for what in ("index", "inverse", "counts")}
    if m.chance(0.5):
        more["fill_value"] = m.pick([0, 1])
    return call("unique", x, size=int(m.rng.integers(1, 12)), **more)


def products_of_parts(m):
    """Products with chosen matrices, masked blocks and segments."""
    dtype = m.pick(FLOATS)
    a, k, b, many = (int(v) for v in m.rng.integers(1, 9, 4))
    match m.pick(["gather_mm", "block_masked_mm", "segmented_mm"]):
        case "gather_mm":
            at = [int(v) for v in m.rng.integers(1, 4, int(m.rng.integers(1, 3)))]
            lhs, rhs = (array(m.rng.integers(0, many, at), "uint32") for _ in range(2))
            x, y = m.array([many, a, k], dtype, -2, 2, 0), m.array([many, k, b], dtype, -2, 2, 0)
            return call("gather_mm", x, y, lhs_indices=lhs, rhs_indices=rhs)
        case "block_masked_mm":
            size = m.pick([32, 64])
            r, i, c = (int(v) for v in m.rng.integers(1, 3, 3))
            masks = {"mask_out": [r, c], "mask_lhs": [r, i], "mask_rhs": [i, c]}
            keys = {n: array(m.rng.integers(0, 2, s), "bool") for n, s in masks.items() if m.chance(0.6)}
            if ("mask_lhs" in keys) != ("mask_rhs" in keys):
                keys.pop("mask_lhs", None)
                keys.pop("mask_rhs", None)
            x, y = m.array([r * size, i * size], "float32", -2, 2, 0), m.array([i * size, c * size], "float32", -2, 2, 0)
            return call("block_masked_mm", x, y, block_size=size, **keys)
        case name:
            ends = np.sort(m.rng.integers(0, k + 1, [many, 2]), axis=1)
            x, y = m.array([a, k], "float32", -2, 2, 0), m.array([k, b], "float32", -2, 2, 0)
            return call(name, x, y, segments=array(ends, "uint32"))


def factorizations(m):
    n = int(m.rng.integers(2, 7))
    x = m.rng.uniform(-1, 1, m.shape(0, 1, 0) + [n, n])
    name = m.pick("qr eigh eig eigvals lu lu_factor svd pinv inv norm".split())
    match name:
        case "qr":
            rows = int(m.rng.integers(n, n + 3))
            return call("linalg.qr", array(m.rng.uniform(-1, 1, [rows, n]), "float32", m.pick(PLACEMENTS)))
        case "eigh":
            return call("linalg.eigh", array(x + np.swapaxes(x, -1, -2) + np.diag(np.arange(n)), "float32"))
        case "norm":
            return call("linalg.norm", array(x, "float32", m.pick(PLACEMENTS)), axis=[-2, -1])
        case _:
            return call(f"linalg.{name}", array(x, "float32", m.pick(PLACEMENTS)))


def spectra(m):
    """Frequencies and short-time transforms."""
    if m.chance(0.4):
        return call(m.pick(["fft.fftfreq", "fft.rfftfreq"]), n=int(m.rng.integers(1, 30)), d=m.pick([1.0, 0.5]))
    size = m.pick([8, 16, 12])
    x = m.array(m.pick([[40], [2, 50]]), "float32", special=0)
    return call("fft.stft", x, n_fft=size, hop_length=m.pick([None, size // 2]), center=m.pick([True, False]),
                pad_mode=m.pick(["reflect", "constant", "edge"]), onesided=m.pick([None, True, False]))


def eights(m):
    """Floats of eight bits, and packed products with chosen matrices."""
    match m.pick(["to_fp8", "from_fp8", "gather_qmm", "qqmm"]):
        case "to_fp8":
            return call("to_fp8", m.array(m.shape(), m.pick(["float32", "float16", "bfloat16"]), -300, 300, 0))
        case "from_fp8":
            bits = m.rng.integers(0, 127, m.shape()) + 128 * m.rng.integers(0, 2)
            return call("from_fp8", array(bits, "uint8"), dtype={"dtype": m.pick(["float32", "float16", "bfloat16"])})
        case "qqmm":
            rows, groups = int(m.rng.integers(1, 9)), 2 * int(m.rng.integers(1, 3))
            words = array(m.rng.integers(0, 2**32, [rows, 4 * groups]), "uint32")
            scales = array(m.rng.integers(40, 64, [rows, 2 * groups]), "uint8")
            return call("qqmm", m.array([1, 32 * groups], "float32", -1, 1, 0), words, scales=scales, mode="nvfp4")
        case name:
            group, bits, many = m.pick([32, 64]), m.pick([2, 4, 8]), int(m.rng.integers(1, 4))
            rows, groups = int(m.rng.integers(1, 9)), int(m.rng.integers(1, 4))
            words = array(m.rng.integers(0, 2**32, [many, rows, group * groups * bits // 32]), "uint32")
            scales = m.array([many, rows, groups], "float32", 0.01, 0.1, 0)
            biases = m.array([many, rows, groups], "float32", -0.5, 0.0, 0)
            at = int(m.rng.integers(1, 4))
            x = m.array([many, int(m.rng.integers(1, 4)), group * groups], "float32", -1, 1, 0)
            indices = {f"{side}_indices": array(m.rng.integers(0, many, [at]), "uint32") for side in ("lhs", "rhs")}
            return call(name, x, words, scales=scales, biases=biases, group_size=group, bits=bits, **indices)


def choices(m):
    """Draws that depend on arrays."""
    key = array(m.rng.integers(0, 2**31, 2), "uint32")
    match m.pick(["categorical", "categorical", "permutation", "uniform", "randint"]):
        case "categorical":
            shape = m.shape(1, 3, 0)
            more = {"num_samples": m.pick([None, 3])} if m.chance(0.5) else {"axis": m.axis(shape)}
            return call("random.categorical", m.array(shape, "float32", special=0), key=key, **more)
        case "permutation":
            x = m.pick([int(m.rng.integers(1, 40)), m.array(m.shape(1, 2, 0), "float32", special=0)])
            return call("random.permutation", x, key=key)
        case "randint":
            kind = {"dtype": m.pick(["int32", "uint32", "int16", "uint8"])}
            return call("random.randint", int(m.rng.integers(0, 9)), int(m.rng.integers(10, 99)), shape=m.shape(), dtype=kind, key=key)
        case _:
            return call("random.uniform", low=m.pick([0.0, -1.0]), high=m.pick([1.0, 3.0]), shape=m.shape(), key=key)


def networks(m):
    """Fused operations that `fused` leaves out."""
    if m.chance(0.5):
        rows, n = int(m.rng.integers(1, 6)), int(m.rng.integers(2, 40))
        logits = m.array([rows, n], "float32", special=0)
        return call("fast.cross_entropy", logits, array(m.rng.integers(0, n, [rows]), "int32"))
    b, t, h, d, v = (int(x) for x in [m.pick([1, 2]), m.pick([1, 3, 5]), m.pick([1, 2]), 32, m.pick([4, 8])])
    q, k = (m.array([b, t, h, d], "float32", -0.3, 0.3, 0) for _ in range(2))
    gates = (m.array([b, t, h], "float32", 0.1, 0.9, 0) for _ in range(2))
    state = m.array([b, h, v, d], "float32", -1, 1, 0) if m.chance(0.5) else None
    return call("fast.gated_delta_update", q, k, m.array([b, t, h, v], "float32", -1, 1, 0), *gates, initial_state=state)


def beyond(m):
    """What MLX lacks, as NumPy and SciPy have it."""
    n = int(m.rng.integers(2, 30))
    x = m.array([n], m.pick(["float32", "float64"]), special=0)
    counts = array(m.rng.integers(0, 9, [n]), m.pick(["int32", "uint8", "int64"]), m.pick(PLACEMENTS))
    edges = array(np.sort(m.rng.uniform(-4, 4, 6)), x["dtype"])
    name = m.pick("""lgamma digamma hypot copysign logspace quantile percentile cov bincount digitize histogram interp
        isin nonzero flatnonzero argwhere linalg.lstsq linalg.matrix_rank linalg.matrix_power unique""".split())
    match name:
        case "lgamma" | "digamma":
            return call(name, m.array(m.shape(), m.pick(["float32", "float64"]), 0.1, 9, 0))
        case "hypot" | "copysign":
            shape = m.shape()
            return call(name, m.array(shape, x["dtype"]), m.array(m.broadcastable(shape), x["dtype"]))
        case "logspace":
            return call(name, start=m.pick([0.0, -1.5]), stop=m.pick([1.0, 2.25]), num=n)
        case "quantile" | "percentile":
            q = m.rng.random() * (1 if name == "quantile" else 100)
            return call(name, x, q=float(q), method=m.pick(["linear", "lower", "higher", "midpoint", "nearest"]))
        case "cov":
            return call(name, m.array([int(m.rng.integers(1, 5)), n], x["dtype"], special=0), rowvar=m.pick([True, False]))
        case "bincount":
            return call(name, counts, minlength=m.pick([0, 12]))
        case "digitize":
            return call(name, x, edges, right=m.pick([True, False]))
        case "histogram":
            return call(name, x, edges)
        case "interp":
            return call(name, x, edges, m.array([6], x["dtype"], special=0))
        case "isin":
            return call(name, counts, array(m.rng.integers(0, 9, [3]), counts["dtype"]))
        case "nonzero" | "flatnonzero" | "argwhere":
            shape = m.shape(1, 3)
            return call(name, array(m.rng.integers(0, 2, shape), m.pick(ALL), m.pick(PLACEMENTS)))
        case "unique":
            more = {f"return_{what}": m.pick([True, False]) for what in ("index", "inverse", "counts")}
            return call(name, counts, **more)
        case "linalg.lstsq":
            a = array(m.rng.uniform(-1, 1, [n + 2, 3]), x["dtype"])
            return call(name, a, array(m.rng.uniform(-1, 1, [n + 2, 2]), x["dtype"]))
        case "linalg.matrix_rank":
            low = m.rng.uniform(-1, 1, [4, 2]) @ m.rng.uniform(-1, 1, [2, 5])
            return call(name, array(low, "float64"))
        case _:
            return call(name, array(m.rng.uniform(-1, 1, [4, 4]), x["dtype"]), n=int(m.rng.integers(0, 6)))


MORE = {f.__name__: f for f in (others, arrangements, sets, products_of_parts, factorizations, spectra, eights, choices,
                                networks, beyond)}
