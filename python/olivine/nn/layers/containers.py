"""Modules made of modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from olivine.nn.layers.base import Module


class Sequential(Module):
    """Calls its parts one after the other, each with the result of the one before.

    Args:
        modules: modules or plain functions. They are kept in the list `layers`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> model = nn.Sequential(nn.Linear(4, 3), nn.relu, nn.Linear(3, 2))
    >>> model(mx.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(self, *modules: Callable[..., Any]) -> None:
        super().__init__()
        self.layers = list(modules)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x
