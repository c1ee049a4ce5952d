"""The optimizers. `g` is the gradient, `p` the parameter, and `lr` the learning rate in the formulas."""

from __future__ import annotations

import math
from collections.abc import Sequence

import olivine.core as mx
from olivine.optimizers.base import (
    MultiOptimizer,
    Optimizer,
    Scheduled,
    SlotOptimizer,
    Slots,
    State,
    clip_grad_norm,
)


def _check_betas(optimizer: str, betas: Sequence[float]) -> None:
    for i, beta in enumerate(betas, start=1):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"[{optimizer}] beta{i} should be in [0, 1), {beta} was provided instead.")


def _check_at_least_zero(optimizer: str, **values: float) -> None:
    for name, value in values.items():
        if not value >= 0.0:
            raise ValueError(f"[{optimizer}] {name} should be >=0, {value} was provided instead.")


def _check_positive(optimizer: str, **values: float) -> None:
    for name, value in values.items():
        if not value > 0.0:
            raise ValueError(f"[{optimizer}] {name} should be >0, {value} was provided instead.")


def _mean(old: mx.array, new: mx.array, keep: float | mx.array) -> mx.array:
    """One step of a moving average that keeps the given part of the old value."""
    return keep * old + (1 - keep) * new


class SGD(SlotOptimizer):
    r"""Stochastic gradient descent with momentum: :math:`v = \mu v + (1 - \tau) g`, :math:`p = p - lr \, v`.

    Args:
        learning_rate: a number or a schedule.
        momentum: :math:`\mu`.
        weight_decay: how much of the parameter is added to its gradient.
        dampening: :math:`\tau`.
        nesterov: look ahead: step by :math:`g + \mu v`.

    Raises:
        ValueError: `nesterov` without momentum or with dampening.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> optim.SGD(0.1).apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})["w"].item()
    0.800000011920929
    """

    _slots = ("v",)

    def __init__(
        self,
        learning_rate: Scheduled,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        dampening: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("[SGD] Nesterov momentum requires a momentum and zero dampening.")
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.dampening = dampening
        self.nesterov = nesterov

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        g = gradient
        if self.weight_decay != 0:
            g = g + self.weight_decay * parameter
        if self.momentum <= 0:
            return parameter - self._rate(g) * g
        v = self.momentum * slots["v"]
        v = v + ((1 - self.dampening) * g if self.dampening > 0 else g)
        slots["v"] = v
        return parameter - self._rate(g) * (g + self.momentum * v if self.nesterov else v)


class RMSprop(SlotOptimizer):
    r"""Gradients divided by the root of their mean square:
    :math:`v = \alpha v + (1 - \alpha) g^2`, :math:`p = p - lr \, g / (\sqrt{v} + \epsilon)`.

    Args:
        learning_rate: a number or a schedule.
        alpha: the part of the mean that is kept.
        eps: keeps the quotient finite.

    Raises:
        ValueError: `alpha` is negative or `eps` not positive.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> optim.RMSprop(0.1).apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})["w"].round(3).item()
    0.0
    """

    _slots = ("v",)

    def __init__(self, learning_rate: Scheduled, alpha: float = 0.99, eps: float = 1e-8) -> None:
        super().__init__()
        _check_at_least_zero("RMSprop", alpha=alpha)
        _check_positive("RMSprop", eps=eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.alpha = alpha
        self.eps = eps

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        slots["v"] = _mean(slots["v"], mx.square(gradient), self.alpha)
        return parameter - self._rate(gradient) * gradient / (mx.sqrt(slots["v"]) + self.eps)


class Adagrad(SlotOptimizer):
    r"""Gradients divided by the root of the sum of their squares:
    :math:`v = v + g^2`, :math:`p = p - lr \, g / (\sqrt{v} + \epsilon)`.

    From `Adaptive subgradient methods <https://jmlr.org/papers/v12/duchi11a.html>`_.

    Args:
        learning_rate: a number or a schedule.
        eps: keeps the quotient finite.

    Raises:
        ValueError: `eps` is not positive.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> optim.Adagrad(0.5).apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})["w"].item()
    0.5
    """

    _slots = ("v",)

    def __init__(self, learning_rate: Scheduled, eps: float = 1e-8) -> None:
        super().__init__()
        _check_positive("Adagrad", eps=eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        slots["v"] = slots["v"] + mx.square(gradient)
        return parameter - self._rate(gradient) * gradient / (mx.sqrt(slots["v"]) + self.eps)


class AdaDelta(SlotOptimizer):
    r"""Gradients scaled by the ratio of the mean squares of past steps and past gradients.

    .. math::
        v &= \rho v + (1 - \rho) g^2, \quad d = \sqrt{u + \epsilon} / \sqrt{v + \epsilon} \, g \\
        u &= \rho u + (1 - \rho) d^2, \quad p = p - lr \, d

    From `ADADELTA <https://arxiv.org/abs/1212.5701>`_.

    Args:
        learning_rate: a number or a schedule.
        rho: the part of the means that is kept.
        eps: keeps the quotient finite.

    Raises:
        ValueError: `rho` is negative or `eps` not positive.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> new = optim.AdaDelta(1.0).apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})
    >>> round(new["w"].item(), 4)
    0.9968
    """

    _slots = ("v", "u")

    def __init__(self, learning_rate: Scheduled, rho: float = 0.9, eps: float = 1e-6) -> None:
        super().__init__()
        _check_at_least_zero("AdaDelta", rho=rho)
        _check_positive("AdaDelta", eps=eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.rho = rho
        self.eps = eps

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        slots["v"] = _mean(slots["v"], mx.square(gradient), self.rho)
        change = mx.sqrt(slots["u"] + self.eps) / mx.sqrt(slots["v"] + self.eps) * gradient
        slots["u"] = _mean(slots["u"], mx.square(change), self.rho)
        return parameter - self._rate(gradient) * change


class Adam(SlotOptimizer):
    r"""Moving averages of the gradient, divided by the root of those of its square.

    .. math::
        m &= \beta_1 m + (1 - \beta_1) g, \quad v = \beta_2 v + (1 - \beta_2) g^2 \\
        p &= p - lr \, m / (\sqrt{v} + \epsilon)

    From `Adam <https://arxiv.org/abs/1412.6980>`_.

    Args:
        learning_rate: a number or a schedule.
        betas: :math:`\beta_1` and :math:`\beta_2`.
        eps: keeps the quotient finite.
        bias_correction: divide the averages by :math:`1 - \beta^t`, as the paper does.

    Raises:
        ValueError: a beta outside of [0, 1), or a negative `eps`.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> adam = optim.Adam(0.5, bias_correction=True)
    >>> adam.apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})["w"].round(4).item()
    0.5
    """

    _slots = ("m", "v")

    def __init__(
        self,
        learning_rate: Scheduled,
        betas: list[float] = [0.9, 0.999],  # noqa: B006 (never changed; the value is part of the interface)
        eps: float = 1e-8,
        bias_correction: bool = False,
    ) -> None:
        super().__init__()
        _check_betas(type(self).__name__, betas)
        _check_at_least_zero(type(self).__name__, eps=eps)
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = list(betas)
        self.eps = eps
        self.bias_correction = bias_correction

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        beta1, beta2 = self.betas
        slots["m"] = m = _mean(slots["m"], gradient, beta1)
        slots["v"] = v = _mean(slots["v"], mx.square(gradient), beta2)
        rate = self._rate(gradient)
        if not self.bias_correction:
            return parameter - rate * m / (mx.sqrt(v) + self.eps)
        scale = (rate / (1 - beta1**self.step)).astype(gradient.dtype)
        root = mx.rsqrt(1 - beta2**self.step).astype(gradient.dtype)
        return parameter - scale * m / (mx.sqrt(v) * root + self.eps)


class AdamW(Adam):
    r"""`Adam` whose parameters also shrink by :math:`lr \, \lambda` in each step.

    From `Decoupled weight decay regularization <https://arxiv.org/abs/1711.05101>`_.

    Args:
        learning_rate: a number or a schedule.
        betas: :math:`\beta_1` and :math:`\beta_2`.
        eps: keeps the quotient finite.
        weight_decay: :math:`\lambda`.
        bias_correction: divide the averages by :math:`1 - \beta^t`.

    Raises:
        ValueError: a beta outside of [0, 1), or a negative `eps`.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> adam = optim.AdamW(0.5, weight_decay=0.5)
    >>> adam.apply_gradients({"w": mx.array(0.0)}, {"w": mx.array(1.0)})["w"].item()
    0.75
    """

    def __init__(
        self,
        learning_rate: Scheduled,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        super().__init__(learning_rate, betas, eps, bias_correction)
        self.weight_decay = weight_decay

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        decayed = parameter * (1 - self._rate(gradient) * self.weight_decay)
        return super()._step(gradient, decayed, slots)


class Adamax(Adam):
    r"""`Adam` with a decaying maximum in place of the mean square:
    :math:`v = \max(\beta_2 v, |g|)`, :math:`p = p - lr \, m / (v + \epsilon)`.

    Args:
        learning_rate: a number or a schedule.
        betas: :math:`\beta_1` and :math:`\beta_2`.
        eps: keeps the quotient finite.

    Raises:
        ValueError: a beta outside of [0, 1), or a negative `eps`.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> optim.Adamax(1.0).apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})["w"].round(4).item()
    0.8999999761581421
    """

    def __init__(
        self,
        learning_rate: Scheduled,
        betas: list[float] = [0.9, 0.999],  # noqa: B006
        eps: float = 1e-8,
    ) -> None:
        super().__init__(learning_rate, betas, eps)

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        beta1, beta2 = self.betas
        slots["m"] = _mean(slots["m"], gradient, beta1)
        slots["v"] = mx.maximum(beta2 * slots["v"], mx.abs(gradient))
        return parameter - self._rate(gradient) * slots["m"] / (slots["v"] + self.eps)


class Lion(SlotOptimizer):
    r"""Steps by the sign of an average: :math:`c = \beta_1 m + (1 - \beta_1) g`,
    :math:`m = \beta_2 m + (1 - \beta_2) g`, :math:`p = (1 - lr \, \lambda) p - lr \, \text{sign}(c)`.

    From `Symbolic discovery of optimization algorithms <https://arxiv.org/abs/2302.06675>`_. Learning rates are
    3 to 10 times smaller than for `AdamW`, weight decay 3 to 10 times larger.

    Args:
        learning_rate: a number or a schedule.
        betas: :math:`\beta_1` and :math:`\beta_2`.
        weight_decay: :math:`\lambda`.

    Raises:
        ValueError: a beta outside of [0, 1).

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> optim.Lion(0.25).apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})["w"].item()
    0.75
    """

    _slots = ("m",)

    def __init__(
        self,
        learning_rate: Scheduled,
        betas: list[float] = [0.9, 0.99],  # noqa: B006
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        _check_betas("Lion", betas)
        self._maybe_schedule("learning_rate", learning_rate)
        self.betas = list(betas)
        self.weight_decay = weight_decay

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        rate = self._rate(gradient)
        beta1, beta2 = self.betas
        direction = mx.sign(_mean(slots["m"], gradient, beta1))
        slots["m"] = _mean(slots["m"], gradient, beta2)
        if self.weight_decay > 0:
            parameter = (1 - rate * self.weight_decay) * parameter
        return parameter - rate * direction


class Adafactor(SlotOptimizer):
    """Adam's mean squares, kept only as sums over the rows and columns of matrices.

    From `Adafactor <https://arxiv.org/abs/1804.04235>`_.

    Args:
        learning_rate: a number or a schedule; used if `relative_step` is off.
        eps: added to squared gradients, and the least scale of a parameter.
        clip_threshold: the greatest root mean square of an update.
        decay_rate: the exponent with which the kept part of the means grows.
        beta_1: if given, the kept part of an average of the updates.
        weight_decay: how much parameters shrink in a step, relative to the learning rate.
        scale_parameter: scale the learning rate by the root mean square of the parameter.
        relative_step: derive the learning rate from the number of steps.
        warmup_init: let the derived learning rate grow from zero.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> adafactor = optim.Adafactor()
    >>> new = adafactor.apply_gradients({"w": mx.ones((2, 3))}, {"w": mx.ones((2, 3))})
    >>> adafactor.state["w"]["exp_avg_sq_row"].shape, adafactor.state["w"]["exp_avg_sq_col"].shape
    ((2,), (3,))
    """

    def __init__(
        self,
        learning_rate: Scheduled | None = None,
        eps: tuple[float, float] = (1e-30, 1e-3),
        clip_threshold: float = 1.0,
        decay_rate: float = -0.8,
        beta_1: float | None = None,
        weight_decay: float = 0.0,
        scale_parameter: bool = True,
        relative_step: bool = True,
        warmup_init: bool = False,
    ) -> None:
        super().__init__()
        if learning_rate is not None:
            self._maybe_schedule("learning_rate", learning_rate)
        self.eps = eps
        self.clip_threshold = clip_threshold
        self.decay_rate = decay_rate
        self.beta_1 = beta_1
        self.weight_decay = weight_decay
        self.scale_parameter = scale_parameter
        self.relative_step = relative_step
        self.warmup_init = warmup_init

    def init_single(self, parameter: mx.array, state: State) -> None:
        dtype = mx.float32 if parameter.dtype == mx.float16 else parameter.dtype
        shape = tuple(parameter.shape)
        if len(shape) >= 2:
            state["exp_avg_sq_row"] = mx.zeros(shape[:-1], dtype=dtype)
            state["exp_avg_sq_col"] = mx.zeros((*shape[:-2], shape[-1]), dtype=dtype)
        else:
            state["exp_avg_sq"] = mx.zeros(shape, dtype=dtype)
        if self.beta_1 is not None:
            state["exp_avg"] = mx.zeros(shape, dtype=dtype)

    def _relative_rate(self, parameter: mx.array) -> mx.array:
        if self.relative_step:
            longest = 1e-6 * self.step if self.warmup_init else 1e-2
            rate = mx.minimum(longest, mx.rsqrt(self.step)).astype(parameter.dtype)
        else:
            rate = self._rate(parameter)
        if self.scale_parameter:
            rate = mx.maximum(self.eps[1], _root_mean_square(parameter)) * rate
        return rate

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        rate = self._relative_rate(parameter)
        keep = 1.0 - (self.step**self.decay_rate).astype(parameter.dtype)
        square = mx.square(gradient) + self.eps[0]
        if gradient.ndim >= 2:
            slots["exp_avg_sq_row"] = row = _mean(slots["exp_avg_sq_row"], mx.mean(square, axis=-1), keep)
            slots["exp_avg_sq_col"] = column = _mean(slots["exp_avg_sq_col"], mx.mean(square, axis=-2), keep)
            of_row = mx.rsqrt(row / mx.mean(row, axis=-1, keepdims=True))
            update = of_row[..., :, None] * mx.rsqrt(column)[..., None, :] * gradient
        else:
            slots["exp_avg_sq"] = _mean(slots["exp_avg_sq"], square, keep)
            update = mx.rsqrt(slots["exp_avg_sq"]) * gradient
        update = update / mx.maximum(1.0, _root_mean_square(update) / self.clip_threshold)
        update = rate * update
        if self.beta_1 is not None:
            slots["exp_avg"] = update = _mean(slots["exp_avg"], update, self.beta_1)
        if self.weight_decay != 0:
            parameter = parameter * (1 - self.weight_decay * rate)
        return parameter - update


def _root_mean_square(x: mx.array) -> mx.array:
    return mx.sqrt(mx.mean(mx.square(x)))


class Muon(SlotOptimizer):
    """Momentum whose matrices are replaced by nearly orthogonal ones: all singular values become about 1.

    From `Muon <https://kellerjordan.github.io/posts/muon/>`_. It is meant for the matrices inside a network: use
    another optimizer, by `MultiOptimizer`, for embeddings, the output layer, and everything with one axis. Of
    arrays with more than two axes all but the first are taken as one.

    Args:
        learning_rate: a number or a schedule.
        momentum: the part of the average of gradients that is kept.
        weight_decay: how much of the parameter is added to its gradient.
        nesterov: look ahead by one more averaging.
        ns_steps: iterations of Newton and Schulz.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> muon = optim.Muon(1.0, weight_decay=0.0)
    >>> new = muon.apply_gradients({"w": 5 * mx.eye(2)}, {"w": mx.zeros((2, 2))})
    >>> bool(mx.all(mx.abs(new["w"] + mx.eye(2)) < 0.35))
    True
    """

    _slots = ("v",)

    def __init__(
        self,
        learning_rate: Scheduled,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        nesterov: bool = True,
        ns_steps: int = 5,
    ) -> None:
        super().__init__()
        self._maybe_schedule("learning_rate", learning_rate)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.nesterov = nesterov
        self.ns_steps = ns_steps

    def _orthogonal(self, x: mx.array) -> mx.array:
        """An odd polynomial of a matrix, applied again and again: it drives singular values towards 1."""
        linear, cubic, quintic = 3.4445, -4.7750, 2.0315
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        x = x / (mx.linalg.norm(x, keepdims=True) + 1e-7)
        for _ in range(self.ns_steps):
            square = x @ x.T
            factor = mx.addmm(cubic * square, square, square, alpha=quintic)
            x = mx.addmm(linear * x, factor, x)
        return x.T if tall else x

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        g = gradient
        if self.weight_decay != 0:
            g = g + self.weight_decay * parameter
        slots["v"] = update = _mean(slots["v"], g, self.momentum)
        if self.nesterov:
            update = _mean(update, g, self.momentum)
        rate = self._rate(g)
        if update.ndim >= 2:
            shape = update.shape
            update = self._orthogonal(update.reshape(shape[0], -1)).reshape(shape)
            rate = rate * math.sqrt(max(1, shape[-2] / shape[-1]))
        return parameter - rate * update


__all__ = [
    "SGD",
    "AdaDelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lion",
    "MultiOptimizer",
    "Muon",
    "Optimizer",
    "RMSprop",
    "clip_grad_norm",
]
