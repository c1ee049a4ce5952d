"""Which differences from MLX are meant, after `docs/differences.md`. A rule names the row that it stands for."""

ROUNDING = "values of one type that NumPy computes as Olivine does: precision, NaN and ends of the type"
MORE = "types and sizes that MLX refuses"


def explain(call, ours, theirs, what, numpy_agrees):
    """The rule that explains a difference, or None."""
    name = call["call"]
    types = {v["dtype"] for v in call["args"] if isinstance(v, dict) and "data" in v}
    if what.startswith("MLX refuses") and "ok" in ours:
        return MORE
    if name in ("left_shift", "right_shift") and what.startswith("values"):
        return "shifts by the width or more"
    if name == "remainder" and what.startswith("values"):
        return "integer remainder by zero"
    if name in ("cumsum", "cumprod") and what.startswith("type"):
        return "cumsum and cumprod widen small integers"
    if name in ("softmax", "logsumexp") and what.startswith("type"):
        return "softmax and logsumexp of integers are float32"
    if name == "floor_divide" and "complex64" in types:
        return "floor_divide of complex numbers is refused"
    if numpy_agrees and what.startswith("values"):
        return ROUNDING
    return None
