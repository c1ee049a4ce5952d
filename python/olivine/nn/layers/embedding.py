"""`Embedding`."""

from __future__ import annotations

import math

import olivine.core as mx
from olivine.nn.layers.base import Module
from olivine.nn.layers.quantized import QuantizedEmbedding


class Embedding(Module):
    """A table of vectors, looked up by number.

    Args:
        num_embeddings: how many vectors.
        dims: their length.

    Its parameter is `weight`, of shape ``(num_embeddings, dims)``, drawn from a normal distribution of
    variance ``1 / dims``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Embedding(10, 4)(mx.array([[1, 2, 3]])).shape
    (1, 3, 4)
    """

    def __init__(self, num_embeddings: int, dims: int) -> None:
        super().__init__()
        self.weight = mx.random.normal(shape=(num_embeddings, dims), scale=math.sqrt(1 / dims))

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, {self.weight.shape[1]}"

    def __call__(self, x: mx.array) -> mx.array:
        return self.weight[x]

    def as_linear(self, x: mx.array) -> mx.array:
        """The scalar products of ``x``, of shape ``(..., dims)``, with all vectors: shape ``(..., num_embeddings)``.

        This is the output layer of language models that share their table of tokens.
        """
        return x @ self.weight.T

    def to_quantized(
        self,
        group_size: int | None = None,
        bits: int | None = None,
        mode: str = "affine",
        quantize_input: bool = False,
    ) -> QuantizedEmbedding:
        """A `QuantizedEmbedding` of the same vectors.

        Raises:
            ValueError: `quantize_input` is asked for; the input is a number.
        """
        if quantize_input:
            raise ValueError("[Embedding] there is no input to quantize.")
        return QuantizedEmbedding.from_embedding(self, group_size, bits, mode)
