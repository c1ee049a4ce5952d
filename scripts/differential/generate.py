"""Random calls of public functions, by family."""

import numpy as np
from values import ALL, FLOATS, INEXACT, INTEGERS, array

PLACEMENTS = ["rows", "rows", "columns", "reversed", "stepped", "part"]


class Maker:
    """Makes arguments from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def pick(self, of):
        return of[int(self.rng.integers(len(of)))]

    def chance(self, p):
        return self.rng.random() < p

    def shape(self, low=0, high=4, zero=0.05):
        rank = int(self.rng.integers(low, high + 1))
        return [0 if self.chance(zero) else int(self.rng.integers(1, 6)) for _ in range(rank)]

    def array(self, shape, dtype, low=-4.0, high=4.0, special=0.05):
        if dtype == "bool":
            x = self.rng.integers(0, 2, shape)
        elif dtype in INTEGERS:
            low = max(low, 0) if dtype.startswith("u") else low
            x = self.rng.integers(int(low), int(high) * 4 + 1, shape)
        else:
            x = self.rng.uniform(low, high, shape)
            if special and self.chance(0.3):
                ends = self.rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 2.5, -0.5], x.shape)
                x = np.where(self.rng.random(x.shape) < 4 * special, ends, x)
        if dtype == "complex64":
            x = x + 1j * self.rng.uniform(low, high, shape)
        return array(x, dtype, self.pick(PLACEMENTS))

    def broadcastable(self, shape):
        tail = shape[int(self.rng.integers(len(shape) + 1)):] if shape else []
        return [1 if self.chance(0.3) else n for n in tail]

    def axis(self, shape):
        return int(self.rng.integers(-len(shape), len(shape)))

    def axes(self, shape):
        if not shape or self.chance(0.3):
            return None
        if self.chance(0.5):
            return self.axis(shape)
        return [int(a) for a in self.rng.permutation(len(shape))[: self.rng.integers(1, len(shape) + 1)]]


def call(name, *args, **kwargs):
    return {"call": name, "args": list(args), "kwargs": {k: v for k, v in kwargs.items() if v is not None}}


UNARY = """abs negative sign ceil floor sqrt rsqrt square reciprocal exp expm1 log log2 log10 log1p sin cos tan
arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh erf erfinv sigmoid logical_not isnan isinf isfinite
isposinf isneginf degrees radians trunc positive round nan_to_num""".split()
BINARY = """add subtract multiply divide floor_divide remainder power maximum minimum arctan2 logaddexp equal not_equal
less less_equal greater greater_equal logical_and logical_or isclose""".split()
BITS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift".split()
REDUCE = "sum prod max min all any mean var std logsumexp count_nonzero median".split()
SCAN = "cumsum cumprod cummax cummin logcumsumexp".split()


def unary(m):
    return call(m.pick(UNARY), m.array(m.shape(), m.pick(ALL)))


def binary(m):
    if m.chance(0.2):
        dtype, shape = m.pick(INTEGERS), m.shape()
        y = m.array(m.broadcastable(shape), dtype, 0, 1)
        return call(m.pick(BITS), m.array(shape, dtype), y)
    shape, dtype = m.shape(), m.pick(ALL)
    other = dtype if m.chance(0.7) else m.pick(ALL)
    y = m.array(m.broadcastable(shape), other)
    if m.chance(0.15):
        y = m.pick([2, 3, 0.5, 1])
    return call(m.pick(BINARY), m.array(shape, dtype), y)


def choice(m):
    shape, dtype = m.shape(), m.pick(ALL)
    if m.chance(0.5):
        c = m.array(m.broadcastable(shape), "bool")
        return call("where", c, m.array(shape, dtype), m.array(m.broadcastable(shape), m.pick(ALL)))
    return call("clip", m.array(shape, m.pick(FLOATS + INTEGERS), special=0), m.pick([None, -1, 0]), m.pick([1, 2]))


def reduce(m):
    shape = m.shape(zero=0.02)
    return call(m.pick(REDUCE), m.array(shape, m.pick(ALL)), axis=m.axes(shape), keepdims=m.pick([True, False]))


def scan(m):
    shape = m.shape(1)
    x = m.array(shape, m.pick(ALL), -2, 2)
    return call(m.pick(SCAN), x, axis=m.axis(shape), reverse=m.pick([True, False]), inclusive=m.pick([True, False]))


def order(m):
    shape = m.shape(1, zero=0)
    axis = m.axis(shape)
    x = m.array(shape, m.pick(FLOATS + INTEGERS + ["bool"]))
    name = m.pick(["sort", "argsort", "argmax", "argmin", "topk", "softmax"])
    extra = {"k": int(m.rng.integers(1, shape[axis] + 1))} if name == "topk" else {}
    return call(name, x, axis=axis, **extra)


def shapes(m):
    shape = m.shape(1)
    x, axis = m.array(shape, m.pick(ALL)), m.axis(shape)
    n = int(np.prod(shape))
    name = m.pick("""transpose swapaxes moveaxis expand_dims squeeze flatten reshape broadcast_to concatenate stack split
        flip roll repeat tile pad diag tril triu diagonal trace atleast_3d unstack unflatten diff contiguous view
        meshgrid""".split())
    match name:
        case "transpose":
            return call(name, x, axes=[int(a) for a in m.rng.permutation(len(shape))])
        case "swapaxes":
            return call(name, x, axis1=axis, axis2=m.axis(shape))
        case "moveaxis":
            return call(name, x, source=axis, destination=m.axis(shape))
        case "expand_dims" | "stack":
            return call(name, [x, x] if name == "stack" else x, axis=int(m.rng.integers(len(shape) + 1)))
        case "squeeze" | "flatten" | "atleast_3d" | "contiguous":
            return call(name, x)
        case "reshape":
            return call(name, x, shape=m.pick([[n], [1, n], [-1, 1], shape[::-1]]))
        case "broadcast_to":
            return call(name, x, shape=[2] + shape)
        case "concatenate" | "unstack" | "flip":
            return call(name, [x, x] if name == "concatenate" else x, axis=axis)
        case "split":
            return call(name, x, indices_or_sections=[1], axis=axis)
        case "roll":
            return call(name, x, shift=int(m.rng.integers(-7, 8)), axis=axis)
        case "repeat":
            return call(name, x, repeats=int(m.rng.integers(0, 4)), axis=axis)
        case "tile":
            return call(name, x, reps=[int(v) for v in m.rng.integers(1, 3, len(shape))])
        case "pad":
            return call(name, x, pad_width=int(m.rng.integers(0, 3)), mode=m.pick(["constant", "edge"]))
        case "view":
            return call(name, x, dtype={"dtype": m.pick(["uint8", "int32", "float32", "float16"])})
        case "unflatten":
            return call(name, x, axis=axis, shape=[1, -1])
        case "diff":
            return call(name, m.array(shape, m.pick(FLOATS + INTEGERS), special=0), axis=axis)
        case "meshgrid":
            return call(name, m.array([3], "float32"), m.array([2], "float32"), indexing=m.pick(["xy", "ij"]))
        case "diag":
            return call(name, m.array(m.shape(1, 2), m.pick(ALL)), k=int(m.rng.integers(-2, 3)))
        case _:
            two = m.shape(2, 3)
            key = "k" if name in ("tril", "triu") else "offset"
            return call(name, m.array(two, m.pick(ALL)), **{key: int(m.rng.integers(-2, 3))})


def index(m):
    shape = m.shape(1, zero=0)
    axis = m.axis(shape)
    x, n = m.array(shape, m.pick(ALL)), shape[axis]
    if m.chance(0.5):
        i = array(m.rng.integers(-n, n, m.shape(0, 2)), "int32", m.pick(PLACEMENTS))
        return call("take", x, i, axis=axis)
    at = list(shape)
    at[axis] = int(m.rng.integers(1, 4))
    i = array(m.rng.integers(-n, n, at), "int32", m.pick(PLACEMENTS))
    return call("take_along_axis", x, i, axis=axis)


def indexing(m):
    """Reading, writing and updating at integers, ranges, new axes, ellipses and arrays of indices."""
    shape = m.shape(1, 3, zero=0)
    dtype = m.pick(ALL)
    x, items, left = m.array(shape, dtype, special=0), [], list(shape)
    arrays = m.shape(0, 2, zero=0)
    while left and not m.chance(0.2):
        n = left.pop(0)
        match m.pick(["int", "range", "range", "array", "new"]):
            case "int":
                items.append(int(m.rng.integers(-n, n)))
            case "range":
                ends = ["" if m.chance(0.4) else str(int(m.rng.integers(-n - 1, n + 2))) for _ in range(2)]
                step = m.pick(["", "1", "2", "-1", "-2"])
                items.append(":".join(ends + [step] if step else ends))
            case "array":
                of = arrays if m.chance(0.7) else [1] * len(arrays)
                items.append(array(m.rng.integers(-n, n, of), m.pick(["int32", "int64"]), m.pick(PLACEMENTS)))
            case _:
                left.insert(0, n)
                items.append(None)
    if left and m.chance(0.3):
        items.append("...")
        if m.chance(0.5):
            items.append(int(m.rng.integers(-left[-1], left[-1])))
    if not items:
        items = ["..."]
    name = m.pick(["array.__getitem__", "array.__getitem__", "array.__setitem__", "array.at"])
    if name == "array.__getitem__":
        return call(name, x, index=items)
    # One value for all places: what repeated places hold does not depend on an order that nobody promises.
    value = m.array(m.pick([[], [1]]), dtype, 1, 3, 0)
    if name == "array.__setitem__":
        return call(name, x, value, index=items)
    modes = ["add", "subtract", "multiply"] + (["divide", "maximum", "minimum"] if dtype != "complex64" else [])
    return call(name, x, value, index=items, mode=m.pick(modes))


def places(m):
    """Searching, distinct elements, selecting, and writing at indices along an axis."""
    shape = m.shape(1, 3, zero=0)
    axis, dtype = m.axis(shape), m.pick(FLOATS + INTEGERS)
    match m.pick(["searchsorted", "put_along_axis", "partition", "argpartition", "slice", "slice_update"]):
        case "searchsorted":
            s = np.sort(m.rng.integers(0, 9, int(m.rng.integers(0, 12))))
            v = array(m.rng.integers(-1, 10, shape), dtype if not dtype.startswith("u") else "int32", m.pick(PLACEMENTS))
            return call("searchsorted", array(s, v["dtype"], m.pick(PLACEMENTS)), v, side=m.pick(["left", "right"]))
        case "put_along_axis":
            # Each place once, so that no order of writing counts.
            order = np.argsort(m.rng.random(shape), axis)
            order = np.take(order, np.arange(int(m.rng.integers(1, shape[axis] + 1))), axis)
            values = m.array(list(order.shape), dtype, special=0)
            return call("put_along_axis", m.array(shape, dtype), array(order, "int32", m.pick(PLACEMENTS)), values, axis=axis)
        case "slice" | "slice_update" as name:
            sizes = [int(m.rng.integers(1, n + 1)) for n in shape]
            start = array([int(m.rng.integers(0, n - s + 1)) for n, s in zip(shape, sizes)], "int32")
            axes = list(range(len(shape)))
            if name == "slice":
                return call(name, m.array(shape, dtype), start, axes=axes, slice_size=sizes)
            return call(name, m.array(shape, dtype), m.array(sizes, dtype), start, axes=axes)
        case name:
            return call(name, m.array(shape, dtype, special=0), kth=int(m.rng.integers(0, shape[axis])), axis=axis)


def create(m):
    name = m.pick("zeros ones eye identity arange linspace tri hanning hamming bartlett blackman full".split())
    n, dtype = int(m.rng.integers(0, 8)), {"dtype": m.pick(FLOATS + INTEGERS)}
    match name:
        case "zeros" | "ones":
            return call(name, shape=m.shape(), dtype=dtype)
        case "full":
            return call(name, None, m.pick([1, 2, 3]), shape=m.shape(), dtype=dtype)
        case "eye" | "tri":
            return call(name, n=n, m=int(m.rng.integers(0, 8)), k=int(m.rng.integers(-3, 4)), dtype=dtype)
        case "identity":
            return call(name, n=n, dtype=dtype)
        case "arange":
            return call(name, int(m.rng.integers(-5, 5)), int(m.rng.integers(0, 30)), m.pick([1, 2, 3]))
        case "linspace":
            return call(name, start=m.pick([0.0, -1.5]), stop=m.pick([1.0, 7.25]), num=n)
        case _:
            return call(name, M=n)


def products(m):
    a, k, b = (int(v) for v in m.rng.integers(1, 9, 3))
    lead, dtype = m.shape(0, 2, 0), m.pick(INEXACT)
    x, y = m.array(lead + [a, k], dtype, special=0), m.array([k, b], dtype, special=0)
    name = m.pick(["matmul", "addmm", "inner", "outer", "tensordot", "kron", "einsum", "vecdot"])
    match name:
        case "matmul":
            return call(name, x, y)
        case "addmm":
            return call(name, m.array([a, b], dtype, special=0), x, y, alpha=m.pick([1.0, 0.5]), beta=m.pick([1.0, 2.0]))
        case "inner" | "vecdot":
            return call(name, m.array([a, k], dtype, special=0), m.array([a, k], dtype, special=0))
        case "outer" | "kron":
            return call(name, m.array([a], dtype, special=0), m.array([b], dtype, special=0))
        case "tensordot":
            return call(name, m.array([a, k], dtype, special=0), y, axes=1)
        case _:
            how = m.pick(["ij,jk->ik", "ij,jk->ki", "ij,jk->"])
            return call(name, m.array([a, k], dtype, special=0), y, subscripts=how)


def fourier(m):
    name = m.pick("fft ifft rfft irfft fft2 ifft2 fftn ifftn rfftn rfft2 irfft2 irfftn fftshift ifftshift".split())
    shape = m.shape(2, 3, 0)
    dtype = "float32" if name.startswith("rfft") else m.pick(["float32", "complex64"])
    x = m.array(shape, dtype, special=0)
    if name.endswith("shift"):
        return call(f"fft.{name}", x, axes=m.pick([None, [m.axis(shape)]]))
    norm = m.pick([None, "backward", "ortho", "forward"])
    if name in ("fft", "ifft", "rfft", "irfft"):
        n = m.pick([None, int(m.rng.integers(2, 9)), m.pick([16, 17, 30, 127])])
        return call(f"fft.{name}", x, n=n, axis=m.axis(shape), norm=norm)
    axes = m.pick([None, [0, 1], [-1, -2], [-2, -1]])
    s = m.pick([None, [int(v) for v in m.rng.integers(2, 9, 2)]]) if axes else None
    return call(f"fft.{name}", x, s=s, axes=axes, norm=norm)


def convolution(m):
    d = int(m.rng.integers(1, 4))
    groups = m.pick([1, 1, 2])
    c, o, k = 2 * groups, 2 * groups, int(m.rng.integers(1, 4))
    x = m.array([2] + [int(v) for v in m.rng.integers(4, 9, d)] + [c], "float32", special=0)
    w = m.array([o] + [k] * d + [c // groups], "float32", special=0)
    keys = {"stride": m.pick([1, 2]), "padding": m.pick([0, 1]), "dilation": m.pick([1, 2]), "groups": groups}
    match m.pick(["plain", "plain", "transposed", "general", "flat"]):
        case "transposed":
            keys["groups"] = 1
            w = m.array([o] + [k] * d + [c], "float32", special=0)
            return call(f"conv_transpose{d}d", x, w, **keys, output_padding=m.pick([0, 0, 1]) if keys["stride"] > 1 else 0)
        case "general":
            return call("conv_general", x, w, stride=keys["stride"], padding=keys["padding"],
                        kernel_dilation=keys["dilation"], input_dilation=m.pick([1, 2]), groups=groups,
                        flip=m.pick([True, False]))
        case "flat":
            a, b = (m.array([int(n)], m.pick(["float32", "float16"]), special=0) for n in m.rng.integers(1, 9, 2))
            return call("convolve", a, b, mode=m.pick(["full", "same", "valid"]))
    return call(f"conv{d}d", x, w, **keys)


def matrices(m):
    n = int(m.rng.integers(1, 6))
    x = m.rng.uniform(-1, 1, m.shape(0, 1, 0) + [n, n])
    spd = x @ np.swapaxes(x, -1, -2) + n * np.eye(n)
    name = m.pick("""inv norm norm det solve cholesky cholesky_inv pinv eigvalsh cross slogdet tri_inv svd
        solve_triangular hadamard""".split())
    match name:
        case "hadamard":
            x = m.array([2, m.pick([1, 2, 4, 12, 20, 28, 24, 40, 56, 64, 256])], m.pick(["float32", "float16"]), special=0)
            return call("hadamard_transform", x, scale=m.pick([None, 0.5]))
        case "svd":
            return call("linalg.svd", array(x, "float32"), compute_uv=False)
        case "solve_triangular":
            upper, b = m.chance(0.5), array(m.rng.uniform(-1, 1, list(x.shape[:-1]) + [2]), "float32")
            a = np.triu(spd) if upper else np.tril(spd)
            return call("linalg.solve_triangular", array(a, "float32"), b, upper=upper)
        case "cholesky" | "cholesky_inv" as f:
            a = np.linalg.cholesky(spd) if f == "cholesky_inv" else spd
            upper = m.chance(0.5)
            a = np.swapaxes(a, -1, -2) if upper and f == "cholesky_inv" else a
            return call(f"linalg.{f}", array(a, "float32"), upper=upper)
        case "norm":
            shape = m.shape(1, 3, 0)
            x, keep = m.array(shape, "float32", special=0), m.pick([True, False])
            if m.chance(0.4):
                return call("linalg.norm", x, axis=m.pick([None, m.axis(shape)]), keepdims=keep)
            if len(shape) > 1 and m.chance(0.5):
                how = m.pick(["fro", "nuc", 1, -1, 2, -2, "inf", "-inf"])
                how = {"float": how} if how in ("inf", "-inf") else how
                return call("linalg.norm", x, ord=how, axis=[-2, -1], keepdims=keep)
            how = m.pick([0, 1, 2, 3, 0.5, {"float": "inf"}, {"float": "-inf"}])
            return call("linalg.norm", x, ord=how, axis=m.axis(shape), keepdims=keep)
        case "solve":
            return call("linalg.solve", array(spd, "float32"), array(m.rng.uniform(-1, 1, list(x.shape[:-1]) + [2]), "float32"))
        case "cross":
            return call("linalg.cross", m.array([n, 3], "float32", special=0), m.array([n, 3], "float32", special=0))
        case "tri_inv":
            return call("linalg.tri_inv", array(np.tril(spd), "float32"))
        case _:
            return call(f"linalg.{name}", array(spd, "float32"))


def packed(m):
    group, bits = m.pick([32, 64, 128]), m.pick([2, 3, 4, 5, 6, 8])
    rows, groups = int(m.rng.integers(1, 9)), int(m.rng.integers(1, 4))
    dtype = m.pick(["float32", "float16", "bfloat16"])
    mode = m.pick(["affine", "affine", "mxfp4", "mxfp8", "nvfp4"])
    if mode != "affine":
        group, bits = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}[mode]
    name = m.pick(["quantize", "dequantize", "quantized_matmul"])
    keys = {"group_size": group, "bits": bits, "mode": mode}
    if name == "quantize":
        return call(name, m.array([rows, group * groups], dtype, special=0), **keys)
    words = array(m.rng.integers(0, 2**32, [rows, group * groups * bits // 32]), "uint32")
    biases = None
    if mode == "affine":
        scales = m.array([rows, groups], dtype, 0.01, 0.1, 0)
        biases = m.array([rows, groups], dtype, -0.5, 0.0, 0)
    else:
        # About 1 in either format of scales; not their NaN.
        low, high = (120, 130) if mode.startswith("mx") else (40, 64)
        scales = array(m.rng.integers(low, high, [rows, groups]), "uint8")
        if mode == "mxfp8":
            # All but the two words of NaN.
            low = m.rng.integers(0, 2, [rows, group * groups, 1]) * 128 + m.rng.integers(0, 120, [rows, group * groups, 1])
            words = array(np.ascontiguousarray(low.astype(np.uint8)).reshape(rows, -1).view(np.uint32), "uint32")
    if name == "dequantize":
        return call(name, words, scales=scales, biases=biases, **keys)
    x = m.array([int(m.rng.integers(1, 12)), group * groups], dtype, -1, 1, 0)
    return call(name, x, words, scales=scales, biases=biases, transpose=True, **keys)


def draws(m):
    key = array(m.rng.integers(0, 2**31, 2), "uint32")
    shape = m.shape()
    match m.pick(["uniform", "normal", "randint", "bernoulli", "gumbel", "laplace", "split", "truncated_normal"]):
        case "randint":
            return call("random.randint", int(m.rng.integers(-9, 0)), int(m.rng.integers(1, 99)), shape=shape, key=key)
        case "bernoulli":
            return call("random.bernoulli", array(m.rng.random(), "float32"), shape=shape, key=key)
        case "split":
            return call("random.split", key, num=int(m.rng.integers(1, 6)))
        case "truncated_normal":
            return call("random.truncated_normal", array(-1.0, "float32"), array(2.0, "float32"), shape=shape, key=key)
        case name:
            return call(f"random.{name}", shape=shape, key=key)


def fused(m):
    dtype, n = m.pick(["float32", "float16", "bfloat16"]), int(m.rng.integers(2, 40)) * 2
    w = m.array([n], dtype, special=0)
    match m.pick(["rms_norm", "layer_norm", "rope", "scaled_dot_product_attention"]):
        case "rope":
            x = m.array([2, 3, n], dtype, special=0)
            return call("fast.rope", x, dims=n, traditional=m.pick([True, False]), base=10000.0, scale=1.0, offset=3)
        case "scaled_dot_product_attention":
            q, k, v = (m.array([2, h, length, 8], dtype, -1, 1, 0) for h, length in ((4, 5), (2, 7), (2, 7)))
            return call("fast.scaled_dot_product_attention", q, k, v, scale=0.5, mask=m.pick([None, "causal"]))
        case "rms_norm":
            return call("fast.rms_norm", m.array([3, n], dtype, special=0), weight=w, eps=1e-5)
        case _:
            return call("fast.layer_norm", m.array([3, n], dtype, special=0), weight=w, bias=w, eps=1e-5)


def casts(m):
    # Only what the source type and the target hold: other conversions are undefined in MLX.
    return call("astype", m.array(m.shape(), m.pick(ALL), 0, 4, 0), {"dtype": m.pick(ALL)})


FAMILIES = {
    f.__name__: f
    for f in (unary, binary, choice, casts, reduce, scan, order, shapes, index, indexing, places, create, products, fourier, convolution,
              matrices, packed, draws, fused)
}
