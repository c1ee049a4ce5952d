"""Dropout of values, and of whole channels."""

from __future__ import annotations

from typing import ClassVar

import olivine.core as mx
from olivine.nn.layers.base import Module


class _Dropout(Module):
    # The axes, counted from the end, that share one decision, and the numbers of axes that an input may have.
    _shared: ClassVar[tuple[int, ...]] = ()
    _ranks: ClassVar[tuple[int, ...]] = ()

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"[{type(self).__name__}] The dropout probability {p} is not in [0, 1).")
        self._p_1 = 1 - p

    def _extra_repr(self) -> str:
        return f"p={1 - self._p_1}"

    def __call__(self, x: mx.array) -> mx.array:
        if self._ranks and x.ndim not in self._ranks:
            expected = " or ".join(map(str, self._ranks))
            raise ValueError(f"[{type(self).__name__}] expected {expected} dimensions, received {x.ndim}.")
        if self._p_1 == 1 or not self.training:
            return x
        shape = list(x.shape)
        for axis in self._shared:
            shape[axis] = 1
        keep = mx.random.bernoulli(self._p_1, shape)
        # Not a product with the mask: an infinity that is dropped has to become zero too.
        return mx.where(keep, x * (1 / self._p_1), 0)


class Dropout(_Dropout):
    """Sets values to zero at random while training, and multiplies the others by ``1 / (1 - p)``.

    Args:
        p: the probability of zero, at least 0 and below 1.

    Raises:
        ValueError: `p` is outside of that range.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> sorted(set(nn.Dropout(0.5)(mx.ones((1000,))).tolist()))
    [0.0, 2.0]
    >>> nn.Dropout(0.5).eval()(mx.ones((2,))).tolist()
    [1.0, 1.0]
    """


class Dropout2d(_Dropout):
    """Sets whole channels of images to zero at random while training.

    Neighbouring pixels are correlated, so dropping single ones would drop little information.

    The input has the shape ``(N, H, W, C)`` or ``(H, W, C)``.

    Args:
        p: the probability that a channel becomes zero, at least 0 and below 1.

    Raises:
        ValueError: `p` is outside of that range, or the input has another number of axes.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> y = nn.Dropout2d(0.5)(mx.ones((4, 4, 100)))
    >>> bool(mx.all(y == y[0, 0]))
    True
    """

    _shared = (-3, -2)
    _ranks = (3, 4)


class Dropout3d(_Dropout):
    """Sets whole channels of volumes to zero at random while training.

    The input has the shape ``(N, D, H, W, C)`` or ``(D, H, W, C)``.

    Args:
        p: the probability that a channel becomes zero, at least 0 and below 1.

    Raises:
        ValueError: `p` is outside of that range, or the input has another number of axes.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Dropout3d(0.25)(mx.ones((2, 4, 4, 4, 8))).shape
    (2, 4, 4, 4, 8)
    """

    _shared = (-4, -3, -2)
    _ranks = (4, 5)
