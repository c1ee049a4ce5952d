"""Multi-head attention, and the encoder and decoder made of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import olivine.core as mx
from olivine.nn import utils
from olivine.nn.layers.activations import relu
from olivine.nn.layers.base import Module
from olivine.nn.layers.dropout import Dropout
from olivine.nn.layers.linear import Linear
from olivine.nn.layers.normalization import LayerNorm


class MultiHeadAttention(Module):
    """Scaled dot-product attention of several heads, with a projection before and after.

    Args:
        dims: features of all heads together.
        num_heads: the number of heads.
        query_input_dims: features of the queries, `dims` by default.
        key_input_dims: features of the keys, `dims` by default.
        value_input_dims: features of the values, those of the keys by default.
        value_dims: features of the projected values, `dims` by default.
        value_output_dims: features of the output, `dims` by default.
        bias: whether the projections add a bias.

    Raises:
        ValueError: `num_heads` does not divide `dims`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> x = mx.ones((1, 5, 8))
    >>> nn.MultiHeadAttention(8, num_heads=2)(x, x, x, mask="causal").shape
    (1, 5, 8)
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        query_input_dims: int | None = None,
        key_input_dims: int | None = None,
        value_input_dims: int | None = None,
        value_dims: int | None = None,
        value_output_dims: int | None = None,
        bias: bool = False,
    ) -> None:
        super().__init__()
        if dims % num_heads != 0:
            raise ValueError(f"[MultiHeadAttention] {num_heads} heads do not divide {dims} features evenly.")
        key_input_dims = key_input_dims or dims
        value_dims = value_dims or dims
        self.num_heads = num_heads
        self.query_proj = Linear(query_input_dims or dims, dims, bias=bias)
        self.key_proj = Linear(key_input_dims, dims, bias=bias)
        self.value_proj = Linear(value_input_dims or key_input_dims, value_dims, bias=bias)
        self.out_proj = Linear(value_dims, value_output_dims or dims, bias=bias)

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array, mask: Any = None) -> mx.array:
        """Attend from queries ``(N, L, Dq)`` to keys ``(N, S, Dk)`` and values ``(N, S, Dv)``.

        Args:
            mask: as of `olivine.core.fast.scaled_dot_product_attention`: added to the scores, or boolean, or
                ``"causal"``.
        """
        q = self._heads(self.query_proj(queries))
        k = self._heads(self.key_proj(keys))
        v = self._heads(self.value_proj(values))
        scale = math.sqrt(1 / q.shape[-1])
        output = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
        projected: mx.array = self.out_proj(output.transpose(0, 2, 1, 3).flatten(-2, -1))
        return projected

    def _heads(self, x: mx.array) -> mx.array:
        """``(N, L, D)`` as ``(N, heads, L, D / heads)``."""
        split: mx.array = mx.unflatten(x, -1, (self.num_heads, -1))
        return split.transpose(0, 2, 1, 3)

    @staticmethod
    def create_additive_causal_mask(N: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """The mask ``(N, N)`` to add to scores: zero up to the diagonal, the least finite number beyond it."""
        positions = mx.arange(N)
        later = positions[:, None] < positions[None]
        return later.astype(dtype) * mx.finfo(dtype).min


class _TransformerLayer(Module):
    """What encoder and decoder layers share: residual branches, normalised before or after."""

    activation: Callable[[Any], Any]
    norm_first: bool

    def _mlp(self, x: mx.array, dropout: Dropout) -> mx.array:
        y: mx.array = self.linear2(dropout(self.activation(self.linear1(x))))
        return y

    def _add(self, x: mx.array, norm: LayerNorm, branch: Callable[[mx.array], mx.array]) -> mx.array:
        return x + branch(norm(x)) if self.norm_first else norm(x + branch(x))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a two-layer perceptron, each a normalised residual branch.

    Args:
        dims: features of input and output.
        num_heads: heads of the attention.
        mlp_dims: hidden features of the perceptron, four times `dims` by default.
        dropout: probability of dropout in both branches.
        activation: of the perceptron.
        norm_first: normalise the input of a branch, not the sum.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.TransformerEncoderLayer(8, num_heads=2)(mx.ones((1, 5, 8)), None).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def __call__(self, x: mx.array, mask: Any) -> mx.array:
        x = self._add(x, self.ln1, lambda y: self.dropout1(self.attention(y, y, y, mask)))
        return self._add(x, self.ln2, lambda y: self._mlp(y, self.dropout2))


class TransformerEncoder(Module):
    """A stack of `TransformerEncoderLayer`, with a normalisation at the end.

    Args:
        num_layers: how many layers.
        dims, num_heads, mlp_dims, dropout, activation, norm_first: of each layer.
        checkpoint: recompute the layers in the backward pass, instead of keeping what is inside them.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.TransformerEncoder(2, 8, num_heads=2)(mx.ones((1, 5, 8)), None).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        options = (dims, num_heads, mlp_dims, dropout, activation, norm_first)
        self.layers = [TransformerEncoderLayer(*options) for _ in range(num_layers)]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x: mx.array, mask: Any) -> mx.array:
        return _run_stack(self, x, mask)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to the encoder's output, and a two-layer perceptron.

    Args:
        dims: features of input and output.
        num_heads: heads of both attentions.
        mlp_dims: hidden features of the perceptron, four times `dims` by default.
        dropout: probability of dropout in all branches.
        activation: of the perceptron.
        norm_first: normalise the input of a branch, not the sum.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> x, memory = mx.ones((1, 3, 8)), mx.ones((1, 5, 8))
    >>> nn.TransformerDecoderLayer(8, num_heads=2)(x, memory, "causal", None).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
    ) -> None:
        super().__init__()
        mlp_dims = mlp_dims or dims * 4
        self.self_attention = MultiHeadAttention(dims, num_heads)
        self.cross_attention = MultiHeadAttention(dims, num_heads)
        self.ln1 = LayerNorm(dims)
        self.ln2 = LayerNorm(dims)
        self.ln3 = LayerNorm(dims)
        self.linear1 = Linear(dims, mlp_dims)
        self.linear2 = Linear(mlp_dims, dims)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = activation
        self.norm_first = norm_first

    def __call__(self, x: mx.array, memory: mx.array, x_mask: Any, memory_mask: Any) -> mx.array:
        def to_itself(y: mx.array) -> mx.array:
            return self.dropout1(self.self_attention(y, y, y, x_mask))

        def to_memory(y: mx.array) -> mx.array:
            return self.dropout2(self.cross_attention(y, memory, memory, memory_mask))

        x = self._add(x, self.ln1, to_itself)
        x = self._add(x, self.ln2, to_memory)
        return self._add(x, self.ln3, lambda y: self._mlp(y, self.dropout3))


class TransformerDecoder(Module):
    """A stack of `TransformerDecoderLayer`, with a normalisation at the end.

    Args:
        num_layers: how many layers.
        dims, num_heads, mlp_dims, dropout, activation, norm_first: of each layer.
        checkpoint: recompute the layers in the backward pass, instead of keeping what is inside them.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> x, memory = mx.ones((1, 3, 8)), mx.ones((1, 5, 8))
    >>> nn.TransformerDecoder(2, 8, num_heads=2)(x, memory, "causal", None).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        num_layers: int,
        dims: int,
        num_heads: int,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        options = (dims, num_heads, mlp_dims, dropout, activation, norm_first)
        self.layers = [TransformerDecoderLayer(*options) for _ in range(num_layers)]
        self.ln = LayerNorm(dims)
        self.checkpoint = checkpoint

    def __call__(self, x: mx.array, memory: mx.array, x_mask: Any, memory_mask: Any) -> mx.array:
        return _run_stack(self, x, memory, x_mask, memory_mask)


def _run_stack(stack: Module, x: mx.array, *context: Any) -> mx.array:
    for layer in stack.layers:
        run = utils.checkpoint(layer) if stack.checkpoint else layer
        x = run(x, *context)
    normal: mx.array = stack.ln(x)
    return normal


class Transformer(Module):
    """An encoder and a decoder, as in `Attention is all you need <https://arxiv.org/abs/1706.03762>`_.

    Args:
        dims: features of source and target.
        num_heads: heads of every attention.
        num_encoder_layers: layers of the encoder.
        num_decoder_layers: layers of the decoder.
        mlp_dims: hidden features of the perceptrons, four times `dims` by default.
        dropout: probability of dropout.
        activation: of the perceptrons.
        custom_encoder: used in place of the encoder.
        custom_decoder: used in place of the decoder.
        norm_first: normalise the input of a branch, not the sum.
        checkpoint: recompute the layers in the backward pass, instead of keeping what is inside them.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> model = nn.Transformer(8, 2, num_encoder_layers=1, num_decoder_layers=1)
    >>> model(mx.ones((1, 5, 8)), mx.ones((1, 3, 8)), None, "causal", None).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        dims: int = 512,
        num_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        mlp_dims: int | None = None,
        dropout: float = 0.0,
        activation: Callable[[Any], Any] = relu,
        custom_encoder: Any | None = None,
        custom_decoder: Any | None = None,
        norm_first: bool = True,
        checkpoint: bool = False,
    ) -> None:
        super().__init__()
        self.encoder: Any
        self.decoder: Any
        options = (dims, num_heads, mlp_dims, dropout, activation, norm_first, checkpoint)
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(num_encoder_layers, *options)
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(num_decoder_layers, *options)

    def __call__(
        self, src: mx.array, tgt: mx.array, src_mask: Any, tgt_mask: Any, memory_mask: Any
    ) -> mx.array:
        """Decode the target ``(N, T, dims)`` with attention to the encoded source ``(N, S, dims)``."""
        decoded: mx.array = self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)
        return decoded
