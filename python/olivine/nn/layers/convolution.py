"""Convolutions over one, two and three axes. Channels are the last axis."""

from __future__ import annotations

import math
from typing import Any

import olivine.core as mx
from olivine.nn.layers.base import Module


def per_axis(value: Any, axes: int) -> Any:
    """An integer repeated for each axis; everything else as it is."""
    return (value,) * axes if isinstance(value, int) else value


def init_convolution(
    module: Module, in_channels: int, out_channels: int, kernel: tuple[int, ...], bias: bool
) -> None:
    """Draw `weight`, of shape ``(out, *kernel, in)``, uniformly within the root of its fan-in; zero `bias`."""
    bound = math.sqrt(1 / (in_channels * math.prod(kernel)))
    shape = (out_channels, *kernel, in_channels)
    module.weight = mx.random.uniform(low=-bound, high=bound, shape=shape)
    if bias:
        module.bias = mx.zeros((out_channels,))


def describe_convolution(module: Module, *options: str) -> str:
    """The text between the parentheses: sizes read off the weight, then the named attributes, then the bias."""
    out_channels, *kernel, in_channels = module.weight.shape
    in_channels *= getattr(module, "groups", 1)
    size = kernel[0] if len(kernel) == 1 else tuple(kernel)
    parts = [str(in_channels), str(out_channels), f"kernel_size={size}"]
    parts += [f"{name}={getattr(module, name)}" for name in options]
    return ", ".join([*parts, f"bias={'bias' in module}"])


def add_bias(module: Module, y: mx.array) -> mx.array:
    return y + module.bias if "bias" in module else y


def _channels_per_group(layer: str, in_channels: int, groups: int) -> int:
    if groups <= 0:
        raise ValueError(f"[{layer}] The number of groups ({groups}) must be positive.")
    if in_channels % groups != 0:
        raise ValueError(
            f"[{layer}] The number of input channels ({in_channels}) must be divisible by the number of "
            f"groups ({groups})."
        )
    return in_channels // groups


class Conv1d(Module):
    """A convolution over sequences of shape ``(N, L, in_channels)``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: positions that an output sees.
        stride: positions between the windows of neighbouring outputs.
        padding: zeros before and after the input.
        dilation: distance of the positions within a window.
        groups: into how many independent parts the channels are divided.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(out_channels, kernel_size, in_channels // groups)``, and `bias`.

    Raises:
        ValueError: `groups` does not divide `in_channels`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Conv1d(4, 8, kernel_size=3)(mx.ones((1, 10, 4))).shape
    (1, 8, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = _channels_per_group("Conv1d", in_channels, groups)
        init_convolution(self, channels, out_channels, (kernel_size,), bias)
        self.padding = padding
        self.dilation = dilation
        self.stride = stride
        self.groups = groups

    def _extra_repr(self) -> str:
        return describe_convolution(self, "stride", "padding", "dilation", "groups")

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv1d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return add_bias(self, y)


class Conv2d(Module):
    """A convolution over images of shape ``(N, H, W, in_channels)``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of a window, or one number for both, as for the following.
        stride: distance of the windows of neighbouring outputs.
        padding: zeros on each side of the input.
        dilation: distance of the positions within a window.
        groups: into how many independent parts the channels are divided.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(out_channels, *kernel_size, in_channels // groups)``, and `bias`.

    Raises:
        ValueError: `groups` does not divide `in_channels`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Conv2d(3, 8, kernel_size=3, padding=1)(mx.ones((1, 6, 6, 3))).shape
    (1, 6, 6, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        groups: int = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        channels = _channels_per_group("Conv2d", in_channels, groups)
        init_convolution(self, channels, out_channels, per_axis(kernel_size, 2), bias)
        self.padding = per_axis(padding, 2)
        self.stride = per_axis(stride, 2)
        self.dilation = dilation
        self.groups = groups

    def _extra_repr(self) -> str:
        return describe_convolution(self, "stride", "padding", "dilation", "groups")

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv2d(x, self.weight, self.stride, self.padding, self.dilation, self.groups)
        return add_bias(self, y)


class Conv3d(Module):
    """A convolution over volumes of shape ``(N, D, H, W, in_channels)``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: depth, height and width of a window, or one number for all, as for the following.
        stride: distance of the windows of neighbouring outputs.
        padding: zeros on each side of the input.
        dilation: distance of the positions within a window.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(out_channels, *kernel_size, in_channels)``, and `bias`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Conv3d(2, 4, kernel_size=2)(mx.ones((1, 3, 4, 5, 2))).shape
    (1, 2, 3, 4, 4)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        bias: bool = True,
    ) -> None:
        super().__init__()
        init_convolution(self, in_channels, out_channels, per_axis(kernel_size, 3), bias)
        self.padding = per_axis(padding, 3)
        self.stride = per_axis(stride, 3)
        self.dilation = dilation

    def _extra_repr(self) -> str:
        return describe_convolution(self, "stride", "padding", "dilation")

    def __call__(self, x: mx.array) -> mx.array:
        return add_bias(self, mx.conv3d(x, self.weight, self.stride, self.padding, self.dilation))
