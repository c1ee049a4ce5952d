"""Recurrent layers. Sequences have the shape ``(..., L, D)``; states are given and returned as arrays."""

from __future__ import annotations

import math
from collections.abc import Callable

import olivine.core as mx
from olivine.nn.layers.activations import tanh
from olivine.nn.layers.base import Module


def _project(x: mx.array, weight: mx.array, bias: mx.array | None) -> mx.array:
    """The part of all steps that depends on the input only, as one product."""
    return x @ weight.T if bias is None else mx.addmm(bias, x, weight.T)


class _Recurrent(Module):
    """Draws all weights uniformly within ``1 / sqrt(hidden_size)``, in the order of the names."""

    hidden_size: int

    def _draw(self, hidden_size: int, **shapes: tuple[int, ...] | None) -> None:
        self.hidden_size = hidden_size
        bound = 1.0 / math.sqrt(hidden_size)
        for name, shape in shapes.items():
            value = None if shape is None else mx.random.uniform(low=-bound, high=bound, shape=shape)
            setattr(self, name, value)


class RNN(_Recurrent):
    r"""Elman's network: :math:`h_t = f(W_{xh} x_t + W_{hh} h_{t-1} + b)`.

    Args:
        input_size: features of the input, ``D``.
        hidden_size: features of the state, ``H``.
        bias: whether to add a bias.
        nonlinearity: the function ``f``, `olivine.nn.tanh` by default.

    Its parameters are `Wxh` of shape ``(H, D)``, `Whh` of shape ``(H, H)``, and `bias` of shape ``(H,)``.

    Raises:
        ValueError: `nonlinearity` cannot be called.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.RNN(3, 5)(mx.ones((2, 7, 3))).shape
    (2, 7, 5)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: Callable[[mx.array], mx.array] | None = None,
    ) -> None:
        super().__init__()
        self.nonlinearity = nonlinearity or tanh
        if not callable(self.nonlinearity):
            raise ValueError(f"[RNN] nonlinearity must be callable, not {nonlinearity!r}.")
        self._draw(
            hidden_size,
            Wxh=(hidden_size, input_size),
            Whh=(hidden_size, hidden_size),
            bias=(hidden_size,) if bias else None,
        )

    def _extra_repr(self) -> str:
        return (
            f"input_dims={self.Wxh.shape[1]}, hidden_size={self.hidden_size}, "
            f"nonlinearity={self.nonlinearity}, bias={self.bias is not None}"
        )

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """The states after every step, of shape ``(..., L, H)``, from the state `hidden` of shape ``(..., H)``."""
        inputs = _project(x, self.Wxh, self.bias)
        states = []
        for t in range(inputs.shape[-2]):
            now = inputs[..., t, :]
            hidden = self.nonlinearity(now if hidden is None else mx.addmm(now, hidden, self.Whh.T))
            states.append(hidden)
        return mx.stack(states, axis=-2)


class GRU(_Recurrent):
    r"""A layer of gated recurrent units.

    .. math::
        r_t &= \sigma(W_{xr} x_t + W_{hr} h_{t-1} + b_r) \\
        z_t &= \sigma(W_{xz} x_t + W_{hz} h_{t-1} + b_z) \\
        n_t &= \tanh(W_{xn} x_t + b_n + r_t \odot (W_{hn} h_{t-1} + b_{hn})) \\
        h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    Args:
        input_size: features of the input, ``D``.
        hidden_size: features of the state, ``H``.
        bias: whether to add biases.

    Its parameters are `Wx` of shape ``(3 * H, D)`` and `Wh` of shape ``(3 * H, H)``, for r, z and n from top to
    bottom, `b` of shape ``(3 * H,)`` and `bhn` of shape ``(H,)``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.GRU(3, 5)(mx.ones((2, 7, 3))).shape
    (2, 7, 5)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self._draw(
            hidden_size,
            Wx=(3 * hidden_size, input_size),
            Wh=(3 * hidden_size, hidden_size),
            b=(3 * hidden_size,) if bias else None,
            bhn=(hidden_size,) if bias else None,
        )

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={self.b is not None}"

    def __call__(self, x: mx.array, hidden: mx.array | None = None) -> mx.array:
        """The states after every step, of shape ``(..., L, H)``, from the state `hidden` of shape ``(..., H)``."""
        inputs = _project(x, self.Wx, self.b)
        border = 2 * self.hidden_size
        states = []
        for t in range(inputs.shape[-2]):
            gates, candidate = inputs[..., t, :border], inputs[..., t, border:]
            recurrent = self.bhn
            if hidden is not None:
                projected = hidden @ self.Wh.T
                gates = gates + projected[..., :border]
                recurrent = projected[..., border:]
                if self.bhn is not None:
                    recurrent = recurrent + self.bhn
            reset, keep = mx.split(mx.sigmoid(gates), 2, axis=-1)
            if recurrent is not None:
                candidate = candidate + reset * recurrent
            fresh = (1 - keep) * mx.tanh(candidate)
            hidden = fresh if hidden is None else fresh + keep * hidden
            states.append(hidden)
        return mx.stack(states, axis=-2)


class LSTM(_Recurrent):
    r"""A layer of long short-term memory.

    .. math::
        i_t &= \sigma(W_{xi} x_t + W_{hi} h_{t-1} + b_i) \\
        f_t &= \sigma(W_{xf} x_t + W_{hf} h_{t-1} + b_f) \\
        g_t &= \tanh(W_{xg} x_t + W_{hg} h_{t-1} + b_g) \\
        o_t &= \sigma(W_{xo} x_t + W_{ho} h_{t-1} + b_o) \\
        c_t &= f_t \odot c_{t-1} + i_t \odot g_t \\
        h_t &= o_t \odot \tanh(c_t)

    Args:
        input_size: features of the input, ``D``.
        hidden_size: features of the states, ``H``.
        bias: whether to add a bias.

    Its parameters are `Wx` of shape ``(4 * H, D)`` and `Wh` of shape ``(4 * H, H)``, for i, f, g and o from top to
    bottom, and `bias` of shape ``(4 * H,)``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> hidden, cell = nn.LSTM(3, 5)(mx.ones((2, 7, 3)))
    >>> hidden.shape, cell.shape
    ((2, 7, 5), (2, 7, 5))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        super().__init__()
        self._draw(
            hidden_size,
            Wx=(4 * hidden_size, input_size),
            Wh=(4 * hidden_size, hidden_size),
            bias=(4 * hidden_size,) if bias else None,
        )

    def _extra_repr(self) -> str:
        return f"input_dims={self.Wx.shape[1]}, hidden_size={self.hidden_size}, bias={self.bias is not None}"

    def __call__(
        self, x: mx.array, hidden: mx.array | None = None, cell: mx.array | None = None
    ) -> tuple[mx.array, mx.array]:
        """The hidden and the cell states after every step, both of shape ``(..., L, H)``.

        `hidden` and `cell` are the states before the first step, of shape ``(..., H)``.
        """
        inputs = _project(x, self.Wx, self.bias)
        hidden_states, cell_states = [], []
        for t in range(inputs.shape[-2]):
            gates = inputs[..., t, :]
            if hidden is not None:
                gates = mx.addmm(gates, hidden, self.Wh.T)
            enter, forget, fresh, leave = mx.split(gates, 4, axis=-1)
            entering = mx.sigmoid(enter) * mx.tanh(fresh)
            cell = entering if cell is None else mx.sigmoid(forget) * cell + entering
            hidden = mx.sigmoid(leave) * mx.tanh(cell)
            hidden_states.append(hidden)
            cell_states.append(cell)
        return mx.stack(hidden_states, axis=-2), mx.stack(cell_states, axis=-2)
