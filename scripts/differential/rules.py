"""Which differences from MLX are meant, after `docs/differences.md`. A rule names the row that it stands for."""

import re

ROUNDING = "values of one type that NumPy computes as Olivine does: precision, NaN and ends of the type"
# Second names.
SAME_AS = {"pow": "power", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift"}
LACKING = "functions that MLX lacks, computed as by NumPy and SciPy"
# What MLX refuses and Olivine computes: function, words of MLX's refusal, rule.
REFUSED = [
    ("nan_to_num", "Does not yet support given type", "nan_to_num of float64 and complex numbers"),
    ("expm1|sigmoid", "", "expm1 and sigmoid of complex numbers"),
    ("logsumexp|max|min|median", "empty", "logsumexp of nothing"),
    ("kron", "", "kron of nothing"),
    ("einsum|matmul|addmm|inner|tensordot", "", "products of integers and truth values"),
    ("isclose", "incompatible function arguments", "isclose with a number"),
    ("conv3d|conv_general|conv_transpose3d", "groups != 1 in 1D or 2D", "groups in three-dimensional convolutions"),
    (r"array\.(at|__setitem__)", "", "assigning to a new axis beside arrays of indices"),
    ("quantize|dequantize|quantized_matmul", "Cannot reshape", "packed rows of 16 by 3"),
    (r"as_strided|fft\.stft", "row contiguous", "as_strided of an array with strides"),
    ("gather_mm", "only supports float32", "gather_mm of other types than float32"),
    ("unique", "incompatible function arguments", "unique without a size"),
    ("minmax", "empty|zero size", "extremes of nothing"),
    ("qqmm", "NYI", "qqmm on the CPU"),
]


def reaches_less(call):
    """Whether the padding of a transposed convolution is beyond what its kernel reaches."""
    keys, sizes = call["kwargs"], call["args"][1]["shape"][1:-1]
    return any(keys["dilation"] * (k - 1) < keys["padding"] for k in sizes)


def explain(call, ours, theirs, what, numpy_agrees):
    """The rule that explains a difference, or None."""
    name = SAME_AS.get(call["call"], call["call"])
    types = {v["dtype"] for v in call["args"] if isinstance(v, dict) and "data" in v}
    if what.startswith("MLX refuses"):
        refused = theirs.get("error", "")
        if "died" in theirs and numpy_agrees:
            return "MLX dies or does not come to an end"
        if "has no attribute" in refused and numpy_agrees:
            return LACKING
        return next((rule for n, words, rule in REFUSED if re.fullmatch(n, name) and words in refused), None)
    if name.startswith("conv_transpose") and what.startswith("shape") and reaches_less(call):
        return "transposed convolutions padded beyond the reach of their kernel"
    if name in ("left_shift", "right_shift") and what.startswith("values"):
        return "shifts by the width or more"
    if name == "remainder" and what.startswith("values"):
        return "integer remainder by zero"
    if name in ("cumsum", "cumprod") and what.startswith("type"):
        return "cumsum and cumprod widen small integers"
    if name.startswith("conv") and "fewer than" in what:
        return "convolutions whose kernel is larger than the input"
    scalar = all(v["shape"] == [] for v in call["args"] if isinstance(v, dict) and "data" in v)
    if name in ("sum", "prod") and what.startswith("type") and scalar:
        return "sum and prod of a scalar widen small integers as those of arrays"
    if name in ("prod", "cumprod") and "complex64" in types and ("inf" in what or "nan" in what):
        return "what a complex product that overflows gives depends on the order of its factors"
    if name in ("softmax", "logsumexp") and what.startswith("type"):
        return "softmax and logsumexp of integers are float32"
    if name == "floor_divide" and "complex64" in types:
        return "floor_divide of complex numbers is refused"
    if name == "logaddexp" and "complex64" in types:
        return "logaddexp of complex numbers is the principal logarithm"
    if name == "power" and types <= {"int8", "int16", "int32", "int64"}:
        return "1 and -1 to a negative integer power are 1 and -1"
    if name == "pad" and "nothing to pad it with" in what:
        return "an empty axis has no edge to repeat"
    if name in ("cummax", "cummin", "logcumsumexp") and "complex64" in types and "nan" in what:
        return "complex NaN in running maxima and log-sums"
    if name == "array.at" and "divide] takes floats" in what:
        return "integers are not divided in place"
    if name == "clip" and "is outside" in what:
        return "a number outside the type of the array is refused"
    if numpy_agrees and what.startswith("values"):
        return ROUNDING
    return None
