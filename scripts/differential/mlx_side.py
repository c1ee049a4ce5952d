"""Answers calls with MLX: one line of JSON in, one line of JSON out, like the driver of Olivine.

In a process of its own, since some calls end the process.
"""

import json
import sys

import mlx.core as mx
import numpy as np
from values import SIZES, from_bits, is_array, times

mx.set_default_device(mx.cpu)

# Parameters that MLX takes by position only.
POSITIONAL = {"roll": ["shift", "axis"], "tile": ["reps"]}
# Those that come before the arrays.
FIRST = {"einsum": "subscripts", "full": "shape"}


def to_mlx(v):
    if isinstance(v, dict) and "random" in v:
        low, high = v["random"]
        a = mx.random.uniform(low, high, v["shape"]).astype(getattr(mx, v["dtype"]))
        if v.get("made") == "definite":
            a = a @ a.T + a.shape[0] * mx.eye(a.shape[0])
        a = mx.sort(a) if v.get("made") == "sorted" else a
        mx.eval(a)
        return a
    if is_array(v):
        data, shape = bytes.fromhex(v["data"]), v["shape"]
        if v["dtype"] == "bfloat16":
            host, view = np.frombuffer(data, np.uint16).reshape(shape), mx.bfloat16
        else:
            host, view = from_bits(data, v["dtype"], shape), None
        make = lambda h: finish(mx.array(np.array(h, order="C"), dtype=None if view else getattr(mx, name)), view)
        name = "bool_" if v["dtype"] == "bool" else v["dtype"]
        return placed(host, v.get("placement", "rows"), make)
    if isinstance(v, dict):
        if "float" in v:
            return float(v["float"])
        return getattr(mx, "bool_" if v["dtype"] == "bool" else v["dtype"])
    if isinstance(v, list):
        return [to_mlx(x) for x in v]
    return v


def finish(a, view):
    return a.view(view) if view else a


def placed(host, placement, make):
    """The same elements, lying in memory as the name says."""
    if host.ndim == 0 or host.size == 0 or placement == "rows":
        return make(host)
    if placement == "columns":
        return make(host.T).transpose()
    if placement == "reversed":
        flipped = tuple(slice(None, None, -1) for _ in host.shape)
        return make(host[flipped])[flipped]
    if placement == "stepped":
        wide = np.zeros([2 * n + 1 for n in host.shape], host.dtype)
        inside = tuple(slice(1, 1 + 2 * n, 2) for n in host.shape)
    else:
        wide = np.zeros([n + 2 for n in host.shape], host.dtype)
        inside = tuple(slice(1, 1 + n) for n in host.shape)
    wide[inside] = host
    return make(wide)[inside]


def from_mlx(a):
    if isinstance(a, bool):
        a = mx.array(a)
    if not isinstance(a, mx.array):
        raise TypeError(f"a result of type {type(a).__name__}")
    name = str(a.dtype).removeprefix("mlx.core.").rstrip("_")
    mx.eval(a)
    a = mx.contiguous(a)
    if name == "bfloat16":
        host = np.array(a.view(mx.uint16))
    else:
        host = np.array(a)
    assert host.dtype.itemsize == SIZES[name]
    return {"dtype": name, "shape": list(host.shape), "data": host.tobytes().hex()}


def results(out):
    if isinstance(out, (tuple, list)):
        return [r for o in out for r in results(o)]
    return [from_mlx(out)]


def index_item(v):
    """An item of an index in the form that `crates/spec/src/calls/index.rs` describes."""
    if v == "..." and isinstance(v, str):
        return ...
    if isinstance(v, str):
        return slice(*(int(p) if p else None for p in v.split(":")))
    return v


def getitem(x, index):
    return x[tuple(index_item(v) for v in index)]


def setitem(x, values, index):
    x = mx.array(x)
    x[tuple(index_item(v) for v in index)] = values
    return x


def at(x, values, index, mode):
    return getattr(x.at[tuple(index_item(v) for v in index)], mode)(values)


INDEXING = {"array.__getitem__": getitem, "array.__setitem__": setitem, "array.at": at}


def answer(line):
    call = json.loads(line)
    name = call["call"]
    f = INDEXING.get(name, mx)
    for part in () if name in INDEXING else name.split("."):
        f = getattr(f, part)
    args = [to_mlx(v) for v in call["args"]]
    kwargs = {k: to_mlx(v) for k, v in call["kwargs"].items()}
    if name in FIRST:
        args = [kwargs.pop(FIRST[name])] + [a for a in args if a is not None]
    for key in POSITIONAL.get(name, []):
        if key in kwargs:
            args.append(kwargs.pop(key))
    if "repeat" in call:
        return {"seconds": times(call["repeat"], lambda: mx.eval(f(*args, **kwargs)))}
    return {"ok": results(f(*args, **kwargs))}


for line in sys.stdin:
    try:
        reply = answer(line)
    except Exception as e:  # whatever MLX raises is its answer
        reply = {"error": f"{type(e).__name__}: {e}"[:300]}
    print(json.dumps(reply), flush=True)
