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
    name = m.pick("fft ifft rfft irfft fft2 ifft2 fftn ifftn rfftn rfft2 fftshift ifftshift".split())
    shape = m.shape(2, 3, 0)
    dtype = "float32" if name.startswith("rfft") else m.pick(["float32", "complex64"])
    return call(f"fft.{name}", m.array(shape, dtype, special=0))


def convolution(m):
    d = int(m.rng.integers(1, 3))
    groups = m.pick([1, 1, 2])
    c, o, k = 2 * groups, 2 * groups, int(m.rng.integers(1, 4))
    x = m.array([2] + [int(v) for v in m.rng.integers(4, 9, d)] + [c], "float32", special=0)
    w = m.array([o] + [k] * d + [c // groups], "float32", special=0)
    keys = {"stride": m.pick([1, 2]), "padding": m.pick([0, 1]), "dilation": m.pick([1, 2]), "groups": groups}
    return call(f"conv{d}d", x, w, **keys)


def matrices(m):
    n = int(m.rng.integers(1, 6))
    x = m.rng.uniform(-1, 1, m.shape(0, 1, 0) + [n, n])
    spd = x @ np.swapaxes(x, -1, -2) + n * np.eye(n)
    name = m.pick("inv norm det solve cholesky pinv eigvalsh cross slogdet tri_inv".split())
    match name:
        case "norm":
            return call("linalg.norm", m.array(m.shape(1, 2, 0), "float32", special=0))
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
    shape = [int(m.rng.integers(1, 9)), group * int(m.rng.integers(1, 4))]
    return call("quantize", m.array(shape, m.pick(["float32", "float16", "bfloat16"]), special=0), group_size=group, bits=bits)


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
    for f in (unary, binary, choice, casts, reduce, scan, order, shapes, index, create, products, fourier, convolution,
              matrices, packed, draws, fused)
}
