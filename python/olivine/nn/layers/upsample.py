"""`Upsample`: images and other signals made larger or smaller.

Every mode but the simplest case of "nearest" is, per axis, a list of *taps*: for each output position an input
position and a weight. Positions are real numbers; ``align_corners`` says whether the centres of the first and last
element of input and output coincide, or their outer borders do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import olivine.core as mx
from olivine.nn.layers.base import Module

Kernel: TypeAlias = Callable[[mx.array], mx.array]
Taps: TypeAlias = list[tuple[mx.array, mx.array]]


def _triangle(distance: mx.array) -> mx.array:
    return mx.maximum(1.0 - distance, 0.0)


def _keys_cubic(a: float) -> Kernel:
    """The cubic convolution kernel of Keys (1981) with the given slope at distance one."""

    def kernel(distance: mx.array) -> mx.array:
        d = distance
        near = ((a + 2.0) * d - (a + 3.0)) * d * d + 1
        far = (((d - 5) * d + 8) * d - 4) * a
        return mx.where(d <= 1.0, near, mx.where(d <= 2.0, far, 0.0))

    return kernel


# Kernel and its radius. Antialiased cubic interpolation uses another slope, as in Pillow and PyTorch.
_KERNELS: dict[tuple[str, bool], tuple[Kernel, int]] = {
    ("linear", False): (_triangle, 1),
    ("linear", True): (_triangle, 1),
    ("cubic", False): (_keys_cubic(-0.75), 2),
    ("cubic", True): (_keys_cubic(-0.5), 2),
}


def _positions(size: int, scale: float, align_corners: bool) -> mx.array:
    """Where in the input the elements of the output lie."""
    length = int(scale * size)
    if align_corners:
        return mx.arange(length, dtype=mx.float32) * ((size - 1) / max(length - 1, 1))
    step = 1 / scale
    start = ((length - 1) * step - size + 1) / 2
    return mx.arange(length, dtype=mx.float32) * step - start


def _nearest(size: int, scale: float) -> mx.array:
    length = int(scale * size)
    index = mx.arange(length, dtype=mx.float32)
    if length > size:
        index = mx.round((index + 0.5) * (size / length) - 0.5)
    else:
        index = index * (size / length)
    return index.astype(mx.uint32)


def _taps(size: int, scale: float, mode: str, align_corners: bool, antialias: bool) -> Taps:
    kernel, radius = _KERNELS[mode, antialias]
    position = _positions(size, scale, align_corners)
    if mode == "linear" and not antialias:
        position = mx.clip(position, 0, size - 1)
    base = mx.floor(position)
    # When shrinking, antialiasing widens the kernel so that no input is skipped.
    stretch = 1.0 / scale if antialias and scale < 1 else 1.0
    if antialias:
        count = math.ceil(radius * stretch) + 1
        offsets = range(1 - count, count)
    else:
        offsets = range(1 - radius, radius + 1)
    indices = [base + offset for offset in offsets]
    weights = [kernel(mx.abs(position - index) / stretch) for index in indices]
    if antialias:
        inside = [(index >= 0) & (index < size) for index in indices]
        weights = [mx.where(ok, weight, 0.0) for ok, weight in zip(inside, weights)]
        total = sum(weights[1:], weights[0])
        total = mx.where(total > 0, total, 1.0)
        weights = [weight / total for weight in weights]
    clamped = [mx.clip(index, 0, size - 1).astype(mx.uint32) for index in indices]
    return list(zip(clamped, weights))


def _check_scales(x: mx.array, scale_factor: tuple[float, ...]) -> None:
    if x.ndim - 2 != len(scale_factor):
        raise ValueError(
            f"[Upsample] one scale per spatial dimension is required: {x.ndim - 2} dimensions, "
            f"scale_factor={scale_factor}."
        )


def _check_antialias(align_corners: bool, antialias: bool) -> None:
    if antialias and align_corners:
        raise ValueError("[Upsample] antialias=True with align_corners=True is not supported.")


def _interpolate(
    x: mx.array, scale_factor: tuple[float, ...], mode: str, align_corners: bool, antialias: bool
) -> mx.array:
    """Weighted sums of taps, one axis after the other."""
    _check_scales(x, scale_factor)
    _check_antialias(align_corners, antialias)
    for axis, scale in enumerate(scale_factor, start=1):
        weight_shape = (-1, *(1,) * (x.ndim - axis - 1))
        taps = _taps(x.shape[axis], scale, mode, align_corners, antialias)
        parts = [mx.take(x, index, axis=axis) * weight.reshape(weight_shape) for index, weight in taps]
        x = sum(parts[1:], parts[0])
    return x


def upsample_nearest(x: mx.array, scale_factor: tuple[float, ...]) -> mx.array:
    """Resize ``(N, *positions, C)`` by taking the nearest element."""
    _check_scales(x, scale_factor)
    if all(float(scale).is_integer() for scale in scale_factor):
        pairs = [part for size in x.shape[1:-1] for part in (size, 1)]
        wide = [part for size, scale in zip(x.shape[1:-1], scale_factor) for part in (size, int(scale))]
        sizes = [size * int(scale) for size, scale in zip(x.shape[1:-1], scale_factor)]
        samples, channels = x.shape[0], x.shape[-1]
        spread = mx.broadcast_to(x.reshape(samples, *pairs, channels), (samples, *wide, channels))
        return spread.reshape(samples, *sizes, channels)
    for axis, scale in enumerate(scale_factor, start=1):
        x = mx.take(x, _nearest(x.shape[axis], scale), axis=axis)
    return x


def upsample_linear(
    x: mx.array, scale_factor: tuple[float, ...], align_corners: bool = False, antialias: bool = False
) -> mx.array:
    """Resize ``(N, *positions, C)`` by linear interpolation along each axis."""
    return _interpolate(x, scale_factor, "linear", align_corners, antialias)


def upsample_cubic(
    x: mx.array, scale_factor: tuple[float, ...], align_corners: bool = False, antialias: bool = False
) -> mx.array:
    """Resize ``(N, *positions, C)`` by cubic interpolation along each axis."""
    return _interpolate(x, scale_factor, "cubic", align_corners, antialias)


class Upsample(Module):
    """Resizes the spatial axes of ``(N, *positions, C)``, between one and any number of them.

    Args:
        scale_factor: by how much each axis grows, or one number for all. The new size is rounded down.
        mode: ``"nearest"``, ``"linear"`` or ``"cubic"``.
        align_corners: the first and last element of input and output lie at the same place, instead of the
            borders around them.
        antialias: when shrinking, average over all that an output element covers.

    Raises:
        ValueError: an unknown mode, antialiasing of ``"nearest"`` or together with `align_corners`, an input
            without spatial axes, or another number of them than of scales.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> x = mx.array([1.0, 3.0]).reshape(1, 2, 1)
    >>> nn.Upsample(2)(x).flatten().tolist()
    [1.0, 1.0, 3.0, 3.0]
    >>> nn.Upsample(2, mode="linear")(x).flatten().tolist()
    [1.0, 1.5, 2.5, 3.0]
    """

    def __init__(
        self,
        scale_factor: float | tuple[float, ...],
        mode: Literal["nearest", "linear", "cubic"] = "nearest",
        align_corners: bool = False,
        antialias: bool = False,
    ) -> None:
        super().__init__()
        if mode not in ("nearest", "linear", "cubic"):
            raise ValueError(f"[Upsample] Got unsupported upsampling algorithm: {mode}.")
        if antialias and mode == "nearest":
            raise ValueError("[Upsample] Antialiasing is not supported for nearest neighbor upsampling.")
        _check_antialias(align_corners, antialias)
        self.scale_factor: Any = (
            tuple(map(float, scale_factor))
            if isinstance(scale_factor, (list, tuple))
            else float(scale_factor)
        )
        self.mode = mode
        self.align_corners = align_corners
        self.antialias = antialias

    def _extra_repr(self) -> str:
        text = f"scale_factor={self.scale_factor}, mode={self.mode!r}, align_corners={self.align_corners}"
        return text + ", antialias=True" if self.antialias else text

    def __call__(self, x: mx.array) -> mx.array:
        axes = x.ndim - 2
        if axes <= 0:
            raise ValueError(f"[Upsample] expected at least 3 dimensions (N, ..., C), received {x.ndim}.")
        scales = self.scale_factor
        if not isinstance(scales, tuple):
            scales = (scales,) * axes
        if self.mode == "nearest":
            return upsample_nearest(x, scales)
        return _interpolate(x, scales, self.mode, self.align_corners, self.antialias)
