"""Maximum and average over windows. Channels are the last axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import olivine.core as mx
from olivine.nn.layers.base import Module


def _per_axis(layer: str, name: str, value: Any, axes: int) -> list[int]:
    """One integer per axis from an integer or a sequence of them."""
    if isinstance(value, int):
        return [value] * axes
    if isinstance(value, (list, tuple)) and len(value) == axes:
        return list(value)
    noun = "1 integer" if axes == 1 else f"{axes} integers"
    raise ValueError(f"[{layer}] '{name}' must be an integer or a tuple containing {noun}, not {value!r}.")


def _windows(x: mx.array, size: Sequence[int], stride: Sequence[int], counts: Sequence[int]) -> mx.array:
    """All windows of ``(N, *positions, C)``, so many of them per axis, as ``(N, *windows, *size, C)``."""
    samples, *positions, channels = x.shape
    if all(k == s and n % k == 0 for n, k, s in zip(positions, size, stride)):
        # Windows that tile the input are only another way to look at it, and cheaper to differentiate.
        axes = len(size)
        pairs = [part for pair in zip(counts, size) for part in pair]
        order = [0, *range(1, 2 * axes, 2), *range(2, 2 * axes + 1, 2), 2 * axes + 1]
        return x.reshape(samples, *pairs, channels).transpose(order)
    steps = [math.prod(x.shape[axis + 1 :]) for axis in range(x.ndim)]
    strides = [steps[0], *(step * s for step, s in zip(steps[1:-1], stride)), *steps[1:-1], steps[-1]]
    return mx.as_strided(x, [samples, *counts, *size, channels], strides)


def _least(dtype: mx.Dtype) -> Any:
    """What a maximum ignores."""
    if mx.issubdtype(dtype, mx.integer):
        return mx.iinfo(dtype).min
    return False if dtype == mx.bool_ else -math.inf


class _Pool(Module):
    """Applies a reduction to windows.

    Windows and strides are positive, padding is not negative; the input has one axis more than there are
    window axes on either side.
    """

    _axes: ClassVar[int]
    _reduce: ClassVar[staticmethod[..., mx.array]]
    _fill: ClassVar[staticmethod[[mx.Dtype], Any]]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        name, axes = type(self).__name__, self._axes
        self._kernel_size = _per_axis(name, "kernel_size", kernel_size, axes)
        self._stride = self._kernel_size if stride is None else _per_axis(name, "stride", stride, axes)
        self._padding = _per_axis(name, "padding", padding, axes)
        for option, values in (("kernel_size", self._kernel_size), ("stride", self._stride)):
            if min(values) <= 0:
                raise ValueError(f"[{name}] '{option}' must be positive but got {tuple(values)}.")
        if min(self._padding) < 0:
            raise ValueError(f"[{name}] 'padding' must be non-negative but got {tuple(self._padding)}.")

    def _extra_repr(self) -> str:
        return (
            f"kernel_size={tuple(self._kernel_size)}, stride={tuple(self._stride)}, "
            f"padding={tuple(self._padding)}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        name = type(self).__name__
        if x.ndim != self._axes + 2:
            raise ValueError(f"[{name}] expected {self._axes + 2} dimensions, received {x.ndim}.")
        if any(self._padding):
            sides = [(0, 0), *((p, p) for p in self._padding), (0, 0)]
            x = mx.pad(x, sides, constant_values=self._fill(x.dtype))
        counts = [(n - k) // s + 1 for n, k, s in zip(x.shape[1:-1], self._kernel_size, self._stride)]
        if min(counts) < 0:
            raise ValueError(
                f"[{name}] a window of {tuple(self._kernel_size)} does not fit into an input of "
                f"{tuple(x.shape[1:-1])} with its padding."
            )
        windows = _windows(x, self._kernel_size, self._stride, counts)
        return self._reduce(windows, axis=tuple(range(-self._axes - 1, -1)))


class _MaxPool(_Pool):
    _reduce = staticmethod(mx.max)
    _fill = staticmethod(_least)


class _AvgPool(_Pool):
    _reduce = staticmethod(mx.mean)
    _fill = staticmethod(lambda _: 0)


class MaxPool1d(_MaxPool):
    """The maximum of windows of sequences of shape ``(N, L, C)``.

    Args:
        kernel_size: length of a window.
        stride: distance of the windows, by default their length.
        padding: positions to add on either side; they never are the maximum.

    Raises:
        ValueError: a window or stride that is not positive, negative padding, an input that does not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.MaxPool1d(2)(mx.array([1.0, 5.0, 2.0, 3.0]).reshape(1, 4, 1)).flatten().tolist()
    [5.0, 3.0]
    """

    _axes = 1

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class AvgPool1d(_AvgPool):
    """The mean of windows of sequences of shape ``(N, L, C)``.

    Args:
        kernel_size: length of a window.
        stride: distance of the windows, by default their length.
        padding: zeros to add on either side; they count in the mean.

    Raises:
        ValueError: a window or stride that is not positive, negative padding, an input that does not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.AvgPool1d(2, stride=1)(mx.array([1.0, 5.0, 2.0]).reshape(1, 3, 1)).flatten().tolist()
    [3.0, 3.5]
    """

    _axes = 1

    def __init__(
        self,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] | None = None,
        padding: int | tuple[int] = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class MaxPool2d(_MaxPool):
    """The maximum of windows of images of shape ``(N, H, W, C)``.

    Args:
        kernel_size: height and width of a window, or one number for both, as for the following.
        stride: distance of the windows, by default their size.
        padding: positions to add on each side; they never are the maximum.

    Raises:
        ValueError: a window or stride that is not positive, negative padding, an input that does not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.MaxPool2d(2)(mx.arange(16.0).reshape(1, 4, 4, 1)).flatten().tolist()
    [5.0, 7.0, 13.0, 15.0]
    """

    _axes = 2

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class AvgPool2d(_AvgPool):
    """The mean of windows of images of shape ``(N, H, W, C)``.

    Args:
        kernel_size: height and width of a window, or one number for both, as for the following.
        stride: distance of the windows, by default their size.
        padding: zeros to add on each side; they count in the mean.

    Raises:
        ValueError: a window or stride that is not positive, negative padding, an input that does not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.AvgPool2d(2)(mx.arange(16.0).reshape(1, 4, 4, 1)).flatten().tolist()
    [2.5, 4.5, 10.5, 12.5]
    """

    _axes = 2

    def __init__(
        self,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] | None = None,
        padding: int | tuple[int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class MaxPool3d(_MaxPool):
    """The maximum of windows of volumes of shape ``(N, D, H, W, C)``.

    Args:
        kernel_size: depth, height and width of a window, or one number for all, as for the following.
        stride: distance of the windows, by default their size.
        padding: positions to add on each side; they never are the maximum.

    Raises:
        ValueError: a window or stride that is not positive, negative padding, an input that does not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.MaxPool3d(2)(mx.arange(8.0).reshape(1, 2, 2, 2, 1)).item()
    7.0
    """

    _axes = 3

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)


class AvgPool3d(_AvgPool):
    """The mean of windows of volumes of shape ``(N, D, H, W, C)``.

    Args:
        kernel_size: depth, height and width of a window, or one number for all, as for the following.
        stride: distance of the windows, by default their size.
        padding: zeros to add on each side; they count in the mean.

    Raises:
        ValueError: a window or stride that is not positive, negative padding, an input that does not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.AvgPool3d(2)(mx.arange(8.0).reshape(1, 2, 2, 2, 1)).item()
    3.5
    """

    _axes = 3

    def __init__(
        self,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] | None = None,
        padding: int | tuple[int, int, int] | None = 0,
    ) -> None:
        super().__init__(kernel_size, stride, padding)
