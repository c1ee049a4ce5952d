"""Encodings of positions: rotary, sinusoidal, and linear biases of attention scores."""

from __future__ import annotations

import math

import olivine.core as mx
from olivine.nn.layers.base import Module


class RoPE(Module):
    """Rotary position embedding: pairs of features are rotated by angles that grow with the position.

    From `RoFormer <https://arxiv.org/abs/2104.09864>`_. Positions are the axis before the last.

    Args:
        dims: how many of the features to rotate; the others stay.
        traditional: pairs are neighbouring features. Otherwise a feature of the first half goes with one of the
            second, which is what most models do, and faster.
        base: the angles are powers of this number.
        scale: factor of all positions.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> x = mx.ones((1, 2, 4, 8))
    >>> y = nn.RoPE(8)(x, offset=3)
    >>> y.shape, bool(mx.allclose((y * y).sum(axis=-1), mx.full((1, 2, 4), 8.0)))
    ((1, 2, 4, 8), True)
    """

    def __init__(self, dims: int, traditional: bool = False, base: float = 10000, scale: float = 1.0) -> None:
        super().__init__()
        self.dims = dims
        self.traditional = traditional
        self.base = base
        self.scale = scale

    def _extra_repr(self) -> str:
        return f"{self.dims}, traditional={self.traditional}"

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """Rotate ``x``, whose first position is number `offset`."""
        return mx.fast.rope(
            x,
            self.dims,
            traditional=self.traditional,
            base=self.base,
            scale=self.scale,
            offset=offset,
        )


class SinusoidalPositionalEncoding(Module):
    r"""Sines and cosines of positions at frequencies between two bounds.

    From `Attention is all you need <https://arxiv.org/abs/1706.03762>`_. The frequencies fall geometrically from
    `max_freq` to `min_freq`.

    Args:
        dims: features of an encoding, half of them sines; even.
        min_freq: the lowest frequency.
        max_freq: the highest frequency.
        scale: factor of the encoding, by default :math:`\sqrt{2 / dims}`.
        cos_first: cosines before sines.
        full_turns: frequencies count turns, not radians.

    Raises:
        ValueError: `dims` is odd or not positive.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.SinusoidalPositionalEncoding(8)(mx.arange(5)).shape
    (5, 8)
    """

    def __init__(
        self,
        dims: int,
        min_freq: float = 0.0001,
        max_freq: float = 1,
        scale: float | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ) -> None:
        super().__init__()
        if dims <= 0 or dims % 2 != 0:
            raise ValueError(f"[SinusoidalPositionalEncoding] dims must be positive and even but got {dims}.")
        count = dims // 2
        falling = 1 - mx.arange(0, count) / max(count - 1, 1)
        low, high = math.log(min_freq), math.log(max_freq)
        frequencies = mx.exp(falling * (high - low) + low)
        self._sigmas = frequencies * (2 * math.pi) if full_turns else frequencies
        self.scale = (2 / dims) ** 0.5 if scale is None else scale
        self.cos_first = cos_first

    def __call__(self, x: mx.array) -> mx.array:
        """Encode positions of any shape: the features are a new last axis."""
        angles = x[..., None] * self._sigmas
        parts = [mx.sin(angles), mx.cos(angles)]
        encoding = mx.concatenate(parts[::-1] if self.cos_first else parts, axis=-1)
        return encoding if self.scale == 1 else encoding * self.scale


class ALiBi(Module):
    """Adds to attention scores a penalty that grows linearly with the distance of query and key.

    From `Train short, test long <https://arxiv.org/abs/2108.12409>`_. Every head has a slope of its own.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ALiBi()(mx.zeros((1, 8, 2, 2)))[0, 0].tolist()
    [[0.0, -0.5], [-0.5, 0.0]]
    """

    @staticmethod
    def create_alibi_matrix(
        q_sequence_length: int,
        k_sequence_length: int,
        num_heads: int,
        offset: int = 0,
        dtype: mx.Dtype = mx.float32,
    ) -> mx.array:
        """The penalties of queries `offset` to `q_sequence_length` and all keys.

        Returns:
            Shape ``(1, num_heads, q_sequence_length - offset, k_sequence_length)``.
        """
        queries = mx.arange(offset, q_sequence_length)[:, None]
        keys = mx.arange(0, k_sequence_length)[None, :]
        slopes = ALiBi.create_alibi_slope(num_heads, dtype)
        return (-mx.abs(queries - keys)[None, None] * slopes).astype(dtype)

    @staticmethod
    def create_alibi_slope(num_heads: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """The slopes of the heads, of shape ``(num_heads, 1, 1)``.

        Of ``n`` heads, a power of two, head ``i`` has the slope ``2 ** (-8 * (i + 1) / n)``. Further heads take
        every other slope of twice as many.
        """
        base = 2 ** math.floor(math.log2(num_heads))
        slopes = [2.0 ** (-8 * (i + 1) / base) for i in range(base)]
        slopes += [2.0 ** (-4 * (2 * i + 1) / base) for i in range(num_heads - base)]
        return mx.array(slopes, dtype=dtype).reshape(num_heads, 1, 1)

    def __call__(self, attention_scores: mx.array, offset: int = 0, mask: mx.array | None = None) -> mx.array:
        """Penalise scores of shape ``(N, num_heads, queries, keys)``; the first query is number `offset`.

        `mask` is added to the penalties.
        """
        _, heads, queries, keys = attention_scores.shape
        penalty = self.create_alibi_matrix(
            queries + offset, keys, heads, offset=offset, dtype=attention_scores.dtype
        )
        if mask is not None:
            penalty = penalty + mask
        return attention_scores + penalty
