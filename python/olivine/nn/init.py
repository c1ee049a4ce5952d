"""Initialisers: functions that return functions from an array to a new one of the same shape.

>>> import olivine.core as mx, olivine.nn as nn
>>> layer = nn.Linear(4, 4).apply(nn.init.constant(0.5))
>>> layer.bias.tolist()
[0.5, 0.5, 0.5, 0.5]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

import olivine.core as mx

Initializer: TypeAlias = Callable[[mx.array], mx.array]


class GlorotInitializer(Protocol):
    """Takes, beside the array, a factor of the result."""

    def __call__(self, a: mx.array, gain: float = 1.0) -> mx.array: ...


class HeInitializer(Protocol):
    """Takes, beside the array, which of its sizes decides, and a factor of the result."""

    def __call__(
        self, a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0
    ) -> mx.array: ...


def constant(value: float, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser with the same value everywhere.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.init.constant(0.5)(mx.zeros((2,))).tolist()
    [0.5, 0.5]
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.full(a.shape, value, dtype=dtype)

    return initializer


def normal(mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser with normally distributed values.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.init.normal(std=0.1)(mx.zeros((2, 3))).shape
    (2, 3)
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)

    return initializer


def uniform(low: float = 0.0, high: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser with values uniform between two bounds.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> x = nn.init.uniform(2.0, 3.0)(mx.zeros((100,)))
    >>> bool(mx.all((x >= 2) & (x < 3)))
    True
    """

    def initializer(a: mx.array) -> mx.array:
        return mx.random.uniform(low, high, a.shape, dtype=dtype)

    return initializer


def identity(dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser with the identity matrix.

    The initialiser raises `ValueError` for anything but a square matrix.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.init.identity()(mx.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    def initializer(arr: mx.array) -> mx.array:
        if arr.ndim != 2 or arr.shape[0] != arr.shape[1]:
            raise ValueError(f"[init.identity] expected a square matrix, received the shape {arr.shape}.")
        return mx.eye(n=arr.shape[0], dtype=dtype)

    return initializer


def _fans(a: mx.array) -> dict[str, int]:
    """How many inputs an output sees and how many outputs an input reaches, of ``(out, *positions, in)``."""
    if a.ndim < 2:
        raise ValueError(f"[init] expected at least 2 dimensions, received {a.ndim}.")
    window = math.prod(a.shape[1:-1])
    return {"fan_in": a.shape[-1] * window, "fan_out": a.shape[0] * window}


def _fan(a: mx.array, mode: str) -> int:
    fans = _fans(a)
    if mode not in fans:
        raise ValueError(f"[init] Invalid mode: {mode}. Valid modes are: fan_in, fan_out.")
    return fans[mode]


def glorot_normal(dtype: mx.Dtype = mx.float32) -> GlorotInitializer:
    r"""An initialiser with normally distributed values of deviation
    :math:`\text{gain} \sqrt{2 / (\text{fan_in} + \text{fan_out})}`.

    From `Understanding the difficulty of training deep feedforward neural networks
    <https://proceedings.mlr.press/v9/glorot10a.html>`_. It raises `ValueError` below two dimensions.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.init.glorot_normal()(mx.zeros((4, 8)), gain=2.0).shape
    (4, 8)
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        std = gain * math.sqrt(2.0 / sum(_fans(a).values()))
        return mx.random.normal(shape=a.shape, scale=std, dtype=dtype)

    return initializer


def glorot_uniform(dtype: mx.Dtype = mx.float32) -> GlorotInitializer:
    r"""An initialiser with values uniform within
    :math:`\pm \text{gain} \sqrt{6 / (\text{fan_in} + \text{fan_out})}`.

    It raises `ValueError` below two dimensions.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> bool(mx.all(mx.abs(nn.init.glorot_uniform()(mx.zeros((4, 2)))) <= 1.0))
    True
    """

    def initializer(a: mx.array, gain: float = 1.0) -> mx.array:
        limit = gain * math.sqrt(6.0 / sum(_fans(a).values()))
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return initializer


def he_normal(dtype: mx.Dtype = mx.float32) -> HeInitializer:
    r"""An initialiser with normally distributed values of deviation :math:`\text{gain} / \sqrt{\text{fan}}`.

    From `Delving deep into rectifiers <https://arxiv.org/abs/1502.01852>`_. It raises `ValueError` below two
    dimensions and for another `mode`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.init.he_normal()(mx.zeros((4, 8)), mode="fan_out").shape
    (4, 8)
    """

    def initializer(
        a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0
    ) -> mx.array:
        std = gain / math.sqrt(_fan(a, mode))
        return mx.random.normal(shape=a.shape, scale=std, dtype=dtype)

    return initializer


def he_uniform(dtype: mx.Dtype = mx.float32) -> HeInitializer:
    r"""An initialiser with values uniform within :math:`\pm \text{gain} \sqrt{3 / \text{fan}}`.

    It raises `ValueError` below two dimensions and for another `mode`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> bool(mx.all(mx.abs(nn.init.he_uniform()(mx.zeros((4, 3)))) <= 1.0))
    True
    """

    def initializer(
        a: mx.array, mode: Literal["fan_in", "fan_out"] = "fan_in", gain: float = 1.0
    ) -> mx.array:
        limit = gain * math.sqrt(3.0 / _fan(a, mode))
        return mx.random.uniform(-limit, limit, a.shape, dtype=dtype)

    return initializer


def sparse(sparsity: float, mean: float = 0.0, std: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser of matrices with normally distributed values and, in each row, the same number of zeros.

    Args:
        sparsity: the part of a row that is zero, rounded up.
        mean: of the other values.
        std: standard deviation of the other values.
        dtype: of the result.

    The initialiser raises `ValueError` for anything but a matrix.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> (nn.init.sparse(0.5)(mx.zeros((3, 4))) == 0).sum(axis=1).tolist()
    [2, 2, 2]
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"[init.sparse] expected a matrix, received {a.ndim} dimensions.")
        zeros = math.ceil(sparsity * a.shape[1])
        order = mx.argsort(mx.random.uniform(shape=a.shape), axis=1)
        values = mx.random.normal(shape=a.shape, scale=std, loc=mean, dtype=dtype)
        return mx.put_along_axis(values, order[:, :zeros], mx.array(0, dtype=dtype), axis=1)

    return initializer


def orthogonal(gain: float = 1.0, dtype: mx.Dtype = mx.float32) -> Initializer:
    """An initialiser of matrices whose rows, or columns if there are fewer, are orthogonal and of length `gain`.

    From `Exact solutions to the nonlinear dynamics of learning <https://arxiv.org/abs/1312.6120>`_.
    The initialiser raises `ValueError` for anything but a matrix.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> w = nn.init.orthogonal()(mx.zeros((2, 5)))
    >>> bool(mx.allclose(w @ w.T, mx.eye(2), atol=1e-5))
    True
    """

    def initializer(a: mx.array) -> mx.array:
        if a.ndim != 2:
            raise ValueError(f"[init.orthogonal] expected a matrix, received {a.ndim} dimensions.")
        rows, columns = a.shape
        size = max(rows, columns)
        q, r = mx.linalg.qr(mx.random.normal(shape=(size, size)), stream=mx.cpu)
        # The signs make the distribution uniform over all orthogonal matrices.
        q = q * mx.sign(mx.diag(r))
        return (q[:rows, :columns] * gain).astype(dtype)

    return initializer
