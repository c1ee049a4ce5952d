"""Transposed convolutions over one, two and three axes: the shapes of a convolution the other way round."""

from __future__ import annotations

import olivine.core as mx
from olivine.nn.layers.base import Module
from olivine.nn.layers.convolution import add_bias, describe_convolution, init_convolution, per_axis

_OPTIONS = ("stride", "padding", "dilation", "output_padding")


class ConvTranspose1d(Module):
    """A transposed convolution over sequences of shape ``(N, L, in_channels)``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: positions that an input reaches.
        stride: positions between the windows of neighbouring inputs.
        padding: positions cut off before and after the output.
        dilation: distance of the positions within a window.
        output_padding: further positions after the output.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(out_channels, kernel_size, in_channels)``, and `bias`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ConvTranspose1d(4, 8, kernel_size=3, stride=2)(mx.ones((1, 5, 4))).shape
    (1, 11, 8)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        output_padding: int = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        init_convolution(self, in_channels, out_channels, (kernel_size,), bias)
        self.padding = padding
        self.dilation = dilation
        self.stride = stride
        self.output_padding = output_padding

    def _extra_repr(self) -> str:
        return describe_convolution(self, *_OPTIONS)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose1d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return add_bias(self, y)


class ConvTranspose2d(Module):
    """A transposed convolution over images of shape ``(N, H, W, in_channels)``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of a window, or one number for both, as for the following.
        stride: distance of the windows of neighbouring inputs.
        padding: positions cut off on each side of the output.
        dilation: distance of the positions within a window.
        output_padding: further positions at the end of each axis of the output.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(out_channels, *kernel_size, in_channels)``, and `bias`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ConvTranspose2d(4, 2, kernel_size=2, stride=2)(mx.ones((1, 3, 3, 4))).shape
    (1, 6, 6, 2)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int],
        stride: int | tuple[int, int] = 1,
        padding: int | tuple[int, int] = 0,
        dilation: int | tuple[int, int] = 1,
        output_padding: int | tuple[int, int] = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        init_convolution(self, in_channels, out_channels, per_axis(kernel_size, 2), bias)
        self.padding = per_axis(padding, 2)
        self.stride = per_axis(stride, 2)
        self.dilation = dilation
        self.output_padding = per_axis(output_padding, 2)

    def _extra_repr(self) -> str:
        return describe_convolution(self, *_OPTIONS)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose2d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return add_bias(self, y)


class ConvTranspose3d(Module):
    """A transposed convolution over volumes of shape ``(N, D, H, W, in_channels)``.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: depth, height and width of a window, or one number for all, as for the following.
        stride: distance of the windows of neighbouring inputs.
        padding: positions cut off on each side of the output.
        dilation: distance of the positions within a window.
        output_padding: further positions at the end of each axis of the output.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(out_channels, *kernel_size, in_channels)``, and `bias`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ConvTranspose3d(2, 4, kernel_size=2)(mx.ones((1, 3, 4, 5, 2))).shape
    (1, 4, 5, 6, 4)
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int, int],
        stride: int | tuple[int, int, int] = 1,
        padding: int | tuple[int, int, int] = 0,
        dilation: int | tuple[int, int, int] = 1,
        output_padding: int | tuple[int, int, int] = 0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        init_convolution(self, in_channels, out_channels, per_axis(kernel_size, 3), bias)
        self.padding = per_axis(padding, 3)
        self.stride = per_axis(stride, 3)
        self.dilation = dilation
        self.output_padding = per_axis(output_padding, 3)

    def _extra_repr(self) -> str:
        return describe_convolution(self, *_OPTIONS)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.conv_transpose3d(x, self.weight, self.stride, self.padding, self.dilation, self.output_padding)
        return add_bias(self, y)
