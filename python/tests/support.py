"""The same calls on Olivine and on MLX, and the comparison of what comes out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


def _side(root: str) -> SimpleNamespace:
    names = {"mx": "core", "nn": "nn", "optim": "optimizers", "utils": "utils"}
    modules = {short: importlib.import_module(f"{root}.{name}") for short, name in names.items()}
    return SimpleNamespace(root=root, **modules)


OLIVINE, MLX = _side("olivine"), _side("mlx")


def plain(side: SimpleNamespace, value: Any) -> Any:
    """Arrays as pairs of dtype and NumPy array, in trees of plain dictionaries and lists."""
    if isinstance(value, side.mx.array):
        dtype = str(value.dtype).rpartition(".")[2]
        if dtype == "bfloat16":
            value = value.astype(side.mx.float32)
        return dtype, np.array(value)
    if isinstance(value, dict):
        return {key: plain(side, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(side, item) for item in value]
    return value


def outcome(side: SimpleNamespace, case: Callable[[SimpleNamespace], Any]) -> Any:
    side.mx.random.seed(7)
    try:
        return plain(side, case(side))
    except Exception as error:
        return error


def assert_same(case: Callable[[SimpleNamespace], Any], rtol: float = 1e-5, atol: float = 1e-6) -> Any:
    """Run a case on both sides: equal trees, dtypes and values, or errors of the same class.

    Returns what came out on Olivine's side.
    """
    ours, theirs = outcome(OLIVINE, case), outcome(MLX, case)
    _compare(ours, theirs, "result", rtol, atol)
    return ours


def _compare(ours: Any, theirs: Any, path: str, rtol: float, atol: float) -> None:
    if isinstance(ours, Exception) or isinstance(theirs, Exception):
        assert type(ours) is type(theirs), f"{path}: {ours!r}, MLX: {theirs!r}"
        return
    assert type(ours) is type(theirs), f"{path}: {type(ours)}, MLX: {type(theirs)}"
    if isinstance(ours, dict):
        assert list(ours) == list(theirs), f"{path}: keys {list(ours)}, MLX: {list(theirs)}"
        for key in ours:
            _compare(ours[key], theirs[key], f"{path}.{key}", rtol, atol)
    elif isinstance(ours, tuple) and len(ours) == 2 and isinstance(ours[1], np.ndarray):
        assert ours[0] == theirs[0], f"{path}: dtype {ours[0]}, MLX: {theirs[0]}"
        np.testing.assert_allclose(ours[1], theirs[1], rtol=rtol, atol=atol, err_msg=path)
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs), f"{path}: {len(ours)} entries, MLX: {len(theirs)}"
        for i, (a, b) in enumerate(zip(ours, theirs)):
            _compare(a, b, f"{path}.{i}", rtol, atol)
    elif callable(ours):
        return
    else:
        assert ours == theirs, f"{path}: {ours!r}, MLX: {theirs!r}"


def noise(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) * scale).astype(np.float32)


def array(side: SimpleNamespace, values: Any, dtype: str | None = None) -> Any:
    result = side.mx.array(np.asarray(values))
    return result if dtype is None else result.astype(getattr(side.mx, dtype))
