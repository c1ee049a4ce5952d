"""Olivine: lazy arrays, transforms, neural networks and optimizers, with the interface of MLX.

``import olivine.core as mx`` is what ``import mlx.core as mx`` is there, and so are `olivine.nn`,
`olivine.optimizers` and `olivine.utils`. `install_as_mlx` lets programs that import ``mlx`` run on Olivine unchanged;
``python -m olivine.mlx program.py`` does the same from the command line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olivine.mlx import install_as_mlx as install_as_mlx

_MODULES = ("core", "mlx", "nn", "optimizers", "utils")

__all__ = ["install_as_mlx"]


def __getattr__(name: str) -> Any:
    """Import modules when they are first looked at: `olivine` itself costs nothing."""
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name == "install_as_mlx":
        return importlib.import_module(f"{__name__}.mlx").install_as_mlx
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *__all__})
