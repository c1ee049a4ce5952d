"""The core beside MLX's: the same results, the same classes of exceptions, the same printed forms."""

from pathlib import Path
from types import SimpleNamespace

import mlx.core
import numpy as np
import pytest
from support import _compare, plain

import olivine.core

LINES = [line.strip() for line in (Path(__file__).parent / "data" / "calls.txt").read_text().splitlines()]
CALLS = [line for line in LINES if line and not line.startswith("#")]

# Where Olivine does better than MLX, on purpose; docs/differences.md has the reasons.
DIFFERENT = {
    line.strip()
    for line in (Path(__file__).parent / "data" / "calls_different.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
}


def at_hand(mx):
    def assign(array, index, values):
        array[index] = values
        return array

    def with_stream(mx, stream):
        with mx.stream(stream):
            return mx.ones((2,)) + 1

    def printed(mx, precision):
        with mx.printoptions(precision=precision):
            return repr(mx.array([1.23456, 12345.678]))

    generator = np.random.default_rng(5)
    square = generator.normal(size=(3, 3)).astype(np.float32)
    return {
        "mx": mx,
        "np": np,
        "a": mx.array(generator.normal(size=(2, 3)).astype(np.float32) * 3),
        "b": mx.array([1.5, -2.0, 0.25]),
        "c": mx.array([1 + 2j, -0.5j, 3 + 0j]),
        "h": mx.array([1.5, -2.0, 0.25], mx.float16),
        "i": mx.arange(4),
        "m": mx.array([[True, False, True], [True, True, True]]),
        "s": mx.array(square @ square.T + 3 * np.eye(3, dtype=np.float32)),
        "x": mx.array(generator.normal(size=(2, 4, 4, 3)).astype(np.float32)),
        "key": mx.random.key(11),
        "assign": assign,
        "with_stream": with_stream,
        "printed": printed,
    }


def outcome(mx, call):
    side = SimpleNamespace(mx=mx)
    names = at_hand(mx)
    try:
        if call.startswith("a += "):
            exec(call, names)
            return plain(side, names["a"])
        value = plain(side, eval(call, names))
    except Exception as error:
        return error
    plainly = (bool, int, float, complex, str, bytes, list, tuple, dict, type(None))
    return value if isinstance(value, plainly) else repr(value).replace("olivine.core", "mlx.core")


@pytest.mark.parametrize("call", CALLS)
def test_call(call):
    theirs = outcome(mlx.core, call)
    ours = outcome(olivine.core, call)
    if call in DIFFERENT:
        assert (
            isinstance(theirs, Exception) or not isinstance(ours, Exception) or type(ours) is not type(theirs)
        )
        return
    _compare(ours, theirs, call, 2e-5, 2e-6)
