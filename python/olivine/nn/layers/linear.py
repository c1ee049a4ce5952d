"""`Identity`, `Linear` and `Bilinear`."""

from __future__ import annotations

import math
from typing import Any

import olivine.core as mx
from olivine.nn.layers.base import Module
from olivine.nn.layers.quantized import QQLinear, QuantizedLinear


def init_linear(module: Module, weight_shape: tuple[int, ...], fan_in: int, bias: int | None) -> None:
    """Draw `weight` and then, of `bias` entries, `bias`, both uniformly within ``1 / sqrt(fan_in)``."""
    bound = math.sqrt(1.0 / fan_in)
    module.weight = mx.random.uniform(low=-bound, high=bound, shape=weight_shape)
    if bias is not None:
        module.bias = mx.random.uniform(low=-bound, high=bound, shape=(bias,))


class Identity(Module):
    """Returns its input.

    Args:
        args, kwargs: ignored, so that it can stand in for any layer.

    >>> import olivine.nn as nn
    >>> nn.Identity(3, bias=False)(7)
    7
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def __call__(self, x: mx.array) -> mx.array:
        return x


class Linear(Module):
    r"""The affine map :math:`y = x W^\top + b` of the last axis.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(output_dims, input_dims)``, and `bias`, of shape ``(output_dims,)``,
    drawn uniformly within ``1 / sqrt(input_dims)``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Linear(4, 2)(mx.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(self, input_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        init_linear(self, (output_dims, input_dims), input_dims, output_dims if bias else None)

    def _extra_repr(self) -> str:
        output_dims, input_dims = self.weight.shape
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        transposed = self["weight"].T
        return mx.addmm(self["bias"], x, transposed) if "bias" in self else x @ transposed

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedLinear | QQLinear:
        """A `QuantizedLinear` with the same weights, or a `QQLinear` if `quantize_input`.

        Raises:
            ValueError: `quantize_input` with another mode than ``nvfp4`` and ``mxfp8``, or `input_dims` is no
                multiple of the group size.
        """
        if not quantize_input:
            return QuantizedLinear.from_linear(self, group_size, bits, mode)
        if mode not in ("nvfp4", "mxfp8"):
            raise ValueError(f"[Linear] inputs are quantized in the modes nvfp4 and mxfp8, not in {mode}.")
        return QQLinear.from_linear(self, group_size, bits, mode)


class Bilinear(Module):
    r"""The map :math:`y_k = \sum_{ij} x_{1i} W_{kji} x_{2j} + b_k` of the last axes of two inputs.

    Args:
        input1_dims: size of the last axis of the first input.
        input2_dims: size of the last axis of the second input.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.

    Its parameters are `weight`, of shape ``(output_dims, input2_dims, input1_dims)``, and `bias`, of shape
    ``(output_dims,)``, drawn uniformly within ``1 / sqrt(input1_dims)``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Bilinear(3, 4, 2)(mx.ones((5, 3)), mx.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(self, input1_dims: int, input2_dims: int, output_dims: int, bias: bool = True) -> None:
        super().__init__()
        shape = (output_dims, input2_dims, input1_dims)
        init_linear(self, shape, input1_dims, output_dims if bias else None)

    def _extra_repr(self) -> str:
        out, second, first = self.weight.shape
        return f"input1_dims={first}, input2_dims={second}, output_dims={out}, bias={'bias' in self}"

    def __call__(self, x1: mx.array, x2: mx.array) -> mx.array:
        out, second, first = self.weight.shape
        # One product with all matrices at once; what it gives is a matrix per row, to be met by x2.
        partial = x1.reshape(-1, first) @ self.weight.reshape(out * second, first).T
        y: mx.array = partial.reshape(-1, out, second) @ x2.reshape(-1, second, 1)
        y = y.reshape(*x1.shape[:-1], out)
        return y + self["bias"] if "bias" in self else y
