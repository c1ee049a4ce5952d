"""Which differences from MLX are meant, after `docs/differences.md`. A rule names the row that it stands for."""

ROUNDING = "values of one type that NumPy computes as Olivine does: precision, NaN and ends of the type"
MORE = "types and sizes that MLX refuses"


def explain(call, ours, theirs, what, numpy_agrees):
    """The rule that explains a difference, or None."""
    name = call["call"]
    types = {v["dtype"] for v in call["args"] if isinstance(v, dict) and "data" in v}
    if what.startswith("MLX refuses") and "ok" in ours:
        import sys; print("REFUSE", name, types, theirs.get("error","")[:120], ours["ok"][0]["shape"] if ours["ok"] else None, file=sys.stderr)
        return MORE
    if name in ("left_shift", "right_shift") and what.startswith("values"):
        return "shifts by the width or more"
    if name == "remainder" and what.startswith("values"):
        return "integer remainder by zero"
    if name in ("cumsum", "cumprod") and what.startswith("type"):
        return "cumsum and cumprod widen small integers"
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
    if name == "clip" and "is outside" in what:
        return "a number outside the type of the array is refused"
    if numpy_agrees and what.startswith("values"):
        return ROUNDING
    return None
