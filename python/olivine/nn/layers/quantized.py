"""Layers with quantized weights, and `quantize`, which puts them into a model."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import olivine.core as mx
from olivine.nn.layers.base import Module
from olivine.utils import tree_map_with_path

# Group size and bits of each mode.
_DEFAULTS = {"affine": (64, 4), "mxfp4": (32, 4), "nvfp4": (16, 4), "mxfp8": (32, 8)}


def _defaults_for_mode(mode: str, group_size: int | None, bits: int | None) -> tuple[int, int]:
    if mode not in _DEFAULTS:
        raise ValueError(f"Invalid quantization mode {mode!r}. Valid modes are: {', '.join(_DEFAULTS)}.")
    default_group_size, default_bits = _DEFAULTS[mode]
    return group_size or default_group_size, bits or default_bits


def quantize(
    model: Module,
    group_size: int | None = None,
    bits: int | None = None,
    *,
    mode: str = "affine",
    quantize_input: bool = False,
    class_predicate: Callable[[str, Module], bool | dict[str, Any]] | None = None,
) -> None:
    """Replace layers by quantized ones, in place.

    Args:
        model: whose leaf modules are looked at.
        group_size: how many weights share a scale; by default 64, 32, 16 or 32 for the four modes.
        bits: per weight; by default 4, or 8 for ``mxfp8``.
        mode: ``affine``, ``mxfp4``, ``nvfp4`` or ``mxfp8``.
        quantize_input: quantize the input of each product too (``nvfp4`` and ``mxfp8``).
        class_predicate: called with path and module, says whether to quantize it: a bool, or the arguments for
            its ``to_quantized``. By default all modules that have a ``to_quantized``.

    Raises:
        ValueError: a layer cannot be quantized as asked for (the message gives its path), or the predicate returned
            something else. The model is unchanged then.

    >>> import olivine.nn as nn
    >>> model = nn.Sequential(nn.Linear(64, 8), nn.ReLU())
    >>> nn.quantize(model, group_size=32, bits=8)
    >>> model.layers[0]
    QuantizedLinear(input_dims=64, output_dims=8, bias=True, group_size=32, bits=8, mode=affine)
    """

    def convert(path: str, module: Any) -> Any:
        chosen = class_predicate(path, module) if class_predicate else hasattr(module, "to_quantized")
        if not chosen:
            return module
        if not hasattr(module, "to_quantized"):
            raise ValueError(f"[quantize] {path}: a {type(module).__name__} cannot be quantized.")
        if isinstance(chosen, dict):
            options = dict(chosen)
        elif isinstance(chosen, bool):
            options = {
                "group_size": group_size,
                "bits": bits,
                "mode": mode,
                "quantize_input": quantize_input,
            }
        else:
            raise ValueError(
                f"[quantize] {path}: class_predicate returns a bool or a dictionary, not {type(chosen).__name__}."
            )
        # Modules of other packages need not know this option.
        if not options.get("quantize_input", True):
            del options["quantize_input"]
        try:
            return module.to_quantized(**options)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    leaves = tree_map_with_path(convert, model.leaf_modules(), is_leaf=Module.is_module)
    model.update_modules(leaves)


def _pack(module: Module, weight: mx.array, group_size: int | None, bits: int | None) -> None:
    """Give a module the quantized form of a weight. Modes other than affine have no `biases`."""
    packed, scales, *biases = mx.quantize(weight, group_size, bits, mode=module.mode)
    module.weight = packed
    module.scales = scales
    module.biases = biases[0] if biases else None


def packed_matmul(module: Module, x: mx.array) -> mx.array:
    """``x`` times the transposed quantized weight of a module."""
    return mx.quantized_matmul(
        x,
        module["weight"],
        scales=module["scales"],
        biases=module.get("biases"),
        transpose=True,
        group_size=module.group_size,
        bits=module.bits,
        mode=module.mode,
    )


class QuantizedEmbedding(Module):
    """An `olivine.nn.Embedding` whose vectors are quantized.

    Args:
        num_embeddings: how many vectors.
        dims: their length, a multiple of the group size.
        group_size: how many weights share a scale.
        bits: per weight.
        mode: ``affine``, ``mxfp4``, ``nvfp4`` or ``mxfp8``.

    It is frozen. Its parameters are `weight` (packed into ``uint32``), `scales` and, in mode ``affine``, `biases`.

    Raises:
        ValueError: an unknown mode, or sizes that do not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.QuantizedEmbedding(10, 64)(mx.array([1, 2])).shape
    (2, 64)
    """

    def __init__(
        self,
        num_embeddings: int,
        dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        self.group_size, self.bits = _defaults_for_mode(mode, group_size, bits)
        self.mode = mode
        weight = mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims))
        _pack(self, weight, group_size, bits)
        self.num_embeddings = num_embeddings
        self.dims = dims
        self.freeze()

    def __call__(self, x: mx.array) -> mx.array:
        biases = self.get("biases")
        return mx.dequantize(
            self["weight"][x],
            scales=self["scales"][x],
            biases=None if biases is None else biases[x],
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    def as_linear(self, x: mx.array) -> mx.array:
        """The scalar products of ``x``, of shape ``(..., dims)``, with all vectors."""
        return packed_matmul(self, x)

    def _extra_repr(self) -> str:
        return (
            f"{self.num_embeddings}, {self.dims}, group_size={self.group_size}, "
            f"bits={self.bits}, mode={self.mode}"
        )

    @classmethod
    def from_embedding(
        cls,
        embedding_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> QuantizedEmbedding:
        """Quantize the vectors of an `olivine.nn.Embedding`."""
        num_embeddings, dims = embedding_layer.weight.shape
        quantized = cls(num_embeddings, dims, group_size, bits, mode=mode)
        _pack(quantized, embedding_layer.weight, group_size, bits)
        return quantized


class QuantizedLinear(Module):
    """An `olivine.nn.Linear` whose weights are quantized.

    Args:
        input_dims: size of the last axis of the input, a multiple of the group size.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.
        group_size: how many weights share a scale.
        bits: per weight.
        mode: ``affine``, ``mxfp4``, ``nvfp4`` or ``mxfp8``.

    It is frozen. Its parameters are `weight` (packed into ``uint32``), `scales`, in mode ``affine`` `biases`, and
    `bias`.

    Raises:
        ValueError: an unknown mode, or sizes that do not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.QuantizedLinear(64, 8, mode="mxfp4")(mx.ones((2, 64))).shape
    (2, 8)
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> None:
        super().__init__()
        self.group_size, self.bits = _defaults_for_mode(mode, group_size, bits)
        self.mode = mode
        bound = math.sqrt(1 / input_dims)
        weight = mx.random.uniform(low=-bound, high=bound, shape=(output_dims, input_dims))
        _pack(self, weight, group_size, bits)
        if bias:
            self.bias = mx.zeros((output_dims,))
        self.freeze()

    def _extra_repr(self) -> str:
        output_dims, words = self.weight.shape
        return (
            f"input_dims={words * 32 // self.bits}, output_dims={output_dims}, bias={'bias' in self}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        y = packed_matmul(self, x)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
    ) -> QuantizedLinear:
        """Quantize the weights of an `olivine.nn.Linear`. Its bias stays as it is."""
        output_dims, input_dims = linear_layer.weight.shape
        quantized = cls(input_dims, output_dims, False, group_size, bits, mode=mode)
        _pack(quantized, linear_layer.weight, group_size, bits)
        if "bias" in linear_layer:
            quantized.bias = linear_layer.bias
        return quantized


class QQLinear(Module):
    """A linear layer without bias that quantizes its input too.

    Out of training mode the weights are stored quantized. In training mode they are stored as they are, and
    quantized in every call, so that gradients reach them.

    Args:
        input_dims: size of the last axis of the input, a multiple of the group size.
        output_dims: size of the last axis of the output.
        group_size: how many values share a scale.
        bits: per value.
        mode: ``nvfp4`` or ``mxfp8``.

    >>> import olivine.nn as nn
    >>> nn.QQLinear(32, 8).eval()
    QQLinear(input_dims=32, output_dims=8, group_size=16, bits=4, mode=nvfp4)
    """

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> None:
        super().__init__()
        self.group_size, self.bits = _defaults_for_mode(mode, group_size, bits)
        self.mode = mode
        bound = math.sqrt(1 / input_dims)
        self.weight = mx.random.uniform(low=-bound, high=bound, shape=(output_dims, input_dims))
        self._quantized = False

    def _extra_repr(self) -> str:
        output_dims, columns = self.weight.shape
        if self.weight.dtype == mx.uint32:
            columns = columns * 32 // self.bits
        return (
            f"input_dims={columns}, output_dims={output_dims}, group_size={self.group_size}, "
            f"bits={self.bits}, mode={self.mode}"
        )

    def quantize(self) -> None:
        """Store the weights quantized."""
        if self._quantized:
            return
        if self.mode == "affine":
            raise ValueError("[QQLinear] inputs are not quantized in the mode affine.")
        _pack(self, self.weight, self.group_size, self.bits)
        self._quantized = True

    def dequantize(self) -> None:
        """Store the weights as numbers again: those that the quantized ones stand for."""
        if not self._quantized:
            return
        self.weight = mx.dequantize(
            self.weight, scales=self.scales, group_size=self.group_size, bits=self.bits, mode=self.mode
        )
        del self.scales
        self._quantized = False

    def _set_training_mode(self, mode: bool) -> None:
        super()._set_training_mode(mode)
        if mode:
            self.dequantize()
        else:
            self.quantize()

    def __call__(self, x: mx.array) -> mx.array:
        return mx.qqmm(
            x,
            self["weight"],
            scales=self.get("scales"),
            group_size=self.group_size,
            bits=self.bits,
            mode=self.mode,
        )

    @classmethod
    def from_linear(
        cls,
        linear_layer: Module,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "nvfp4",
    ) -> QQLinear:
        """Take over the weights and the mode of training of an `olivine.nn.Linear`.

        Raises:
            NotImplementedError: it has a bias.
        """
        if linear_layer.get("bias") is not None:
            raise NotImplementedError("[QQLinear] layers with a bias are not supported.")
        output_dims, input_dims = linear_layer.weight.shape
        quantized = cls(input_dims, output_dims, group_size, bits, mode=mode)
        quantized.weight = linear_layer.weight
        quantized.train(linear_layer.training)
        return quantized
