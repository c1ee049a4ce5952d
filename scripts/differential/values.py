"""Values of calls in the neutral form of `olivine_spec::wire`, and as arrays of NumPy."""

import time

import numpy as np

SIZES = {
    "bool": 1, "uint8": 1, "int8": 1, "uint16": 2, "int16": 2, "float16": 2, "bfloat16": 2, "uint32": 4,
    "int32": 4, "float32": 4, "uint64": 8, "int64": 8, "float64": 8, "complex64": 8,
}
FLOATS = ["float32", "float16", "bfloat16", "float64"]
INTEGERS = ["int32", "int64", "uint8", "int8", "uint32", "int16", "uint16", "uint64"]
INEXACT = FLOATS + ["complex64"]
ALL = FLOATS + INTEGERS + ["bool", "complex64"]


def to_bits(x, dtype):
    """Bytes of the elements of `x`, rounded to a type."""
    x = np.asarray(x)
    if dtype == "bfloat16":
        # Rounded to nearest even in the upper half of a float32.
        u = np.ascontiguousarray(x.astype(np.float32)).view(np.uint32).astype(np.uint64)
        rounded = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
        rounded = np.where(np.isnan(x.astype(np.float32)), np.uint16(0x7FC0), rounded)
        return rounded.tobytes()
    return x.astype(dtype).tobytes()


def from_bits(data, dtype, shape):
    """An array in which every element is exact: float32 for bfloat16, else the type itself."""
    if dtype == "bfloat16":
        u = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return u.view(np.float32).reshape(shape)
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape).copy()


def array(x, dtype, placement="rows"):
    """An array as a parameter."""
    x = np.asarray(x)
    return {"dtype": dtype, "shape": list(x.shape), "data": to_bits(x, dtype).hex(), "placement": placement}


def is_array(v):
    return isinstance(v, dict) and "data" in v


def to_numpy(v):
    return from_bits(bytes.fromhex(v["data"]), v["dtype"], v["shape"])


def number(x):
    """A float as a parameter, also one that JSON lacks."""
    return x if np.isfinite(x) else {"float": str(x)}


def times(repeat, f):
    """The seconds of `repeat` calls, or of fewer, at least two, that together take 50 ms."""
    begin, seconds = time.perf_counter(), []
    while len(seconds) < repeat and (len(seconds) < 2 or time.perf_counter() - begin < 0.05):
        start = time.perf_counter()
        f()
        seconds.append(time.perf_counter() - start)
    return seconds
