"""Writes what MLX draws in one seeded stream of calls, for the tests of Olivine's random numbers.

    python scripts/references/random_calls.py

A call is its name, shape, type and parameters, and what came of it: floats as bits of float32. The calls use the default
state after `seed(2026)`, one after the other, so that an advance too many or too few shows in all that follow.
"""

import json
import pathlib
import sys

# This folder has a random.py, which NumPy must not find in place of the standard one.
sys.path.pop(0)

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
PATH = pathlib.Path(__file__).resolve().parents[2] / "crates/cpu/tests/data/random_calls.json"
FLOATS = ("float32", "float16", "bfloat16")
SHAPES = ([], [5], [2, 3], [3, 0], [2, 1, 4])


def stored(a):
    if a.dtype in (mx.float32, mx.float16, mx.bfloat16):
        return np.array(a.astype(mx.float32)).view(np.uint32).ravel().tolist()
    return np.array(a).astype(np.int64).ravel().tolist()


def main():
    r = mx.random
    calls = []

    def call(name, shape, dtype, parameters, a):
        calls.append([name, shape, dtype, parameters, list(a.shape), stored(a)])

    r.seed(2026)
    for shape in SHAPES:
        for d in FLOATS:
            t = getattr(mx, d)
            call("uniform", shape, d, [-1.5, 2.5], r.uniform(-1.5, 2.5, shape, t))
            call("normal", shape, d, [0.5, 2.0], r.normal(shape, t, 0.5, 2.0))
        call("randint", shape, "int32", [-7, 1000], r.randint(-7, 1000, shape))
        call("bernoulli", shape, "bool", [0.3], r.bernoulli(0.3, shape))
        call("gumbel", shape, "float32", [], r.gumbel(shape))
        call("laplace", shape, "float32", [1.0, 3.0], r.laplace(shape, loc=1.0, scale=3.0))
        call("truncated_normal", shape, "float32", [-0.5, 1.5], r.truncated_normal(-0.5, 1.5, shape))
    for d in ("int8", "uint8", "int16", "uint32", "int64"):
        call("randint", [9], d, [3, 100], r.randint(3, 100, [9], getattr(mx, d)))
    low, high = mx.array([0, 5, -9]), mx.array([3, 9, 100])
    call("randint_between", [4, 3], "int32", [[0, 5, -9], [3, 9, 100]], r.randint(low, high, [4, 3]))
    loc, scale = mx.array([1.0, 2.0, 3.0]), mx.array([0.5, 1.0, 4.0])
    call("normal_around", [2, 3], "float32", [[1, 2, 3], [0.5, 1, 4]], r.normal([2, 3], mx.float32, loc, scale))
    for n in (1, 2, 41):
        call("permutation", [], "uint32", [n], r.permutation(n))
    x = mx.arange(12).reshape(3, 4)
    for axis in (0, 1, -1):
        call("permutation_of", [3, 4], "int32", [axis], r.permutation(x, axis=axis))
    logits = mx.array([[0.0, 1.0, 2.0, -1.0], [3.0, 0.0, 0.0, 0.0]])
    call("categorical", [], "uint32", [-1], r.categorical(logits))
    call("categorical", [], "uint32", [0], r.categorical(logits, axis=0))
    call("categorical_many", [], "uint32", [-1, 6], r.categorical(logits, num_samples=6))
    call("categorical_shaped", [5, 2], "uint32", [-1], r.categorical(logits, shape=[5, 2]))
    PATH.write_text("[\n" + ",\n".join(json.dumps(c) for c in calls) + "\n]\n")
    print(len(calls), "calls")


main()
