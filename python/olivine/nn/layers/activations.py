"""Activation functions, and the layers that apply them.

All functions are elementwise unless they take an axis. They take arrays of any shape and keep it; floating-point
dtypes are kept, integers become ``float32`` where the result has fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import olivine.core as mx
from olivine.nn.layers.base import Module


def sigmoid(x: mx.array) -> mx.array:
    r"""The logistic function :math:`1 / (1 + e^{-x})`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.sigmoid(mx.array(0.0)).item()
    0.5
    """
    return mx.sigmoid(x)


def relu(x: mx.array) -> mx.array:
    r""":math:`\max(x, 0)`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.relu(mx.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return mx.maximum(x, 0)


def relu2(x: mx.array) -> mx.array:
    r""":math:`\max(x, 0)^2`, from `Primer <https://arxiv.org/abs/2109.08668>`_.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.relu2(mx.array([-1.0, 3.0])).tolist()
    [0.0, 9.0]
    """
    return mx.square(mx.maximum(x, 0))


def relu6(x: mx.array) -> mx.array:
    r""":math:`\min(\max(x, 0), 6)`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.relu6(mx.array([-1.0, 3.0, 8.0])).tolist()
    [0.0, 3.0, 6.0]
    """
    return mx.minimum(mx.maximum(x, 0), 6.0)


def leaky_relu(x: mx.array, negative_slope: float = 0.01) -> mx.array:
    """``x`` where positive, `negative_slope` times ``x`` elsewhere (for slopes up to 1).

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.leaky_relu(mx.array([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    return mx.maximum(negative_slope * x, x)


def log_softmax(x: mx.array, axis: int = -1) -> mx.array:
    r""":math:`x - \log \sum e^x` along an axis, without overflow.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> [round(p, 4) for p in nn.log_softmax(mx.array([1000.0, 1000.0])).tolist()]
    [-0.6931, -0.6931]
    """
    shifted = x - mx.stop_gradient(mx.max(x, axis=axis, keepdims=True))
    return shifted - mx.logsumexp(shifted, axis=axis, keepdims=True)


def elu(x: mx.array, alpha: float = 1.0) -> mx.array:
    r"""``x`` where positive, :math:`\alpha (e^x - 1)` elsewhere.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> [round(y, 4) for y in nn.elu(mx.array([-1.0, 2.0])).tolist()]
    [-0.6321, 2.0]
    """
    # The minimum keeps the branch that is not taken, and its gradient, from overflowing.
    return mx.where(x > 0, x, alpha * mx.expm1(mx.minimum(x, 0)))


def softmax(x: mx.array, axis: int = -1) -> mx.array:
    r""":math:`e^x / \sum e^x` along an axis.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.softmax(mx.array([3.0, 3.0])).tolist()
    [0.5, 0.5]
    """
    return mx.softmax(x, axis=axis)


def softplus(x: mx.array) -> mx.array:
    r""":math:`\log(1 + e^x)`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.softplus(mx.array(0.0)).item(), 4)
    0.6931
    """
    return mx.logaddexp(x, 0)


def softsign(x: mx.array) -> mx.array:
    r""":math:`x / (1 + |x|)`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.softsign(mx.array([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    return mx.divide(x, 1 + mx.abs(x))


def softshrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """``x`` moved towards zero by `lambd`, zero within that distance.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.softshrink(mx.array([-2.0, 0.25, 1.0])).tolist()
    [-1.5, 0.0, 0.5]
    """
    return mx.where(mx.abs(x) > lambd, x - mx.sign(x) * lambd, 0)


def celu(x: mx.array, alpha: float = 1.0) -> mx.array:
    r""":math:`\max(x, 0) + \alpha (e^{\min(x, 0) / \alpha} - 1)`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> [round(y, 4) for y in nn.celu(mx.array([-1.0, 2.0])).tolist()]
    [-0.6321, 2.0]
    """
    return mx.maximum(x, 0.0) + alpha * mx.expm1(mx.minimum(x, 0.0) / alpha)


def silu(x: mx.array) -> mx.array:
    r"""``x`` times its sigmoid, also called Swish.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.silu(mx.array(1.0)).item(), 4)
    0.7311
    """
    return x * mx.sigmoid(x)


def log_sigmoid(x: mx.array) -> mx.array:
    r""":math:`\log(1 / (1 + e^{-x}))`, without overflow.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.log_sigmoid(mx.array(-200.0)).item()
    -200.0
    """
    return -softplus(-x)


def gelu(x: mx.array) -> mx.array:
    r"""``x`` times the probability that a standard normal number is below it: the exact GELU.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.gelu(mx.array(1.0)).item(), 4)
    0.8413
    """
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def gelu_approx(x: mx.array) -> mx.array:
    r"""GELU with the normal distribution replaced by
    :math:`\frac{1}{2} (1 + \tanh(\sqrt{2 / \pi} (x + 0.044715 x^3)))`; the error is below 0.0005.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.gelu_approx(mx.array(1.0)).item(), 4)
    0.8412
    """
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return 0.5 * x * (1 + mx.tanh(inner))


def gelu_fast_approx(x: mx.array) -> mx.array:
    r"""GELU with the normal distribution replaced by :math:`\sigma(1.702 x)`; the error is below 0.021.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.gelu_fast_approx(mx.array(1.0)).item(), 4)
    0.8458
    """
    return x * mx.sigmoid(1.702 * x)


def glu(x: mx.array, axis: int = -1) -> mx.array:
    r"""The first half along an axis times the sigmoid of the second half.

    Raises:
        ValueError: the axis cannot be halved.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.glu(mx.array([6.0, 0.0])).tolist()
    [3.0]
    """
    values, gates = mx.split(x, 2, axis=axis)
    return values * mx.sigmoid(gates)


def step(x: mx.array, threshold: float = 0.0) -> mx.array:
    """1 where ``x`` reaches the threshold and 0 elsewhere, as ``int32``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.step(mx.array([-1.0, 0.0, 2.0])).tolist()
    [0, 1, 1]
    """
    return mx.where(x >= threshold, 1, 0)


def selu(x: mx.array) -> mx.array:
    r"""`elu` with the two constants that keep mean and variance, from
    `Self-normalizing networks <https://arxiv.org/abs/1706.02515>`_.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.selu(mx.array(1.0)).item(), 4)
    1.0507
    """
    return elu(x, 1.67326) * 1.0507


def prelu(x: mx.array, alpha: mx.array) -> mx.array:
    """``x`` where positive, `alpha` times ``x`` elsewhere; `alpha` is broadcast against ``x``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.prelu(mx.array([-2.0, 2.0]), mx.array([0.25])).tolist()
    [-0.5, 2.0]
    """
    return mx.maximum(0, x) + alpha * mx.minimum(0, x)


def mish(x: mx.array) -> mx.array:
    r""":math:`x \tanh(\log(1 + e^x))`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.mish(mx.array(1.0)).item(), 4)
    0.8651
    """
    return x * mx.tanh(softplus(x))


def hardswish(x: mx.array) -> mx.array:
    r""":math:`x \min(\max(x + 3, 0), 6) / 6`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.hardswish(mx.array([-4.0, 3.0])).tolist()
    [-0.0, 3.0]
    """
    return x * mx.minimum(mx.maximum(x + 3, 0), 6) / 6


def hard_tanh(x: mx.array, min_val: float = -1.0, max_val: float = 1.0) -> mx.array:
    """``x`` within bounds.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.hard_tanh(mx.array([-2.0, 0.5, 2.0])).tolist()
    [-1.0, 0.5, 1.0]
    """
    return mx.minimum(mx.maximum(x, min_val), max_val)


def hard_shrink(x: mx.array, lambd: float = 0.5) -> mx.array:
    """``x``, but zero within `lambd` of zero.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.hard_shrink(mx.array([-2.0, 0.25, 1.0])).tolist()
    [-2.0, 0.0, 1.0]
    """
    return mx.where(mx.abs(x) > lambd, x, 0)


def softmin(x: mx.array, axis: int = -1) -> mx.array:
    r""":math:`e^{-x} / \sum e^{-x}` along an axis.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.softmin(mx.array([3.0, 3.0])).tolist()
    [0.5, 0.5]
    """
    return mx.softmax(-x, axis=axis)


def tanh(x: mx.array) -> mx.array:
    """The hyperbolic tangent.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.tanh(mx.array(0.0)).item()
    0.0
    """
    return mx.tanh(x)


class _Activation(Module):
    """A layer without parameters that applies the function given with the class."""

    _function: ClassVar[staticmethod[[mx.array], mx.array]]

    def __init_subclass__(cls, function: Callable[[mx.array], mx.array] | None = None) -> None:
        super().__init_subclass__()
        if function is not None:
            cls._function = staticmethod(function)

    def __call__(self, x: mx.array) -> mx.array:
        return self._function(x)


class Sigmoid(_Activation, function=sigmoid):
    """Applies `sigmoid`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Sigmoid()(mx.array([0.0])).tolist()
    [0.5]
    """


class Mish(_Activation, function=mish):
    """Applies `mish`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Mish()(mx.array([0.0])).tolist()
    [0.0]
    """


class ReLU(_Activation, function=relu):
    """Applies `relu`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ReLU()(mx.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """


class ReLU2(_Activation, function=relu2):
    """Applies `relu2`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ReLU2()(mx.array([-1.0, 3.0])).tolist()
    [0.0, 9.0]
    """


class ReLU6(_Activation, function=relu6):
    """Applies `relu6`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ReLU6()(mx.array([-1.0, 8.0])).tolist()
    [0.0, 6.0]
    """


class Softmax(_Activation, function=softmax):
    """Applies `softmax` along the last axis.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Softmax()(mx.array([3.0, 3.0])).tolist()
    [0.5, 0.5]
    """


class Softplus(_Activation, function=softplus):
    """Applies `softplus`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Softplus()(mx.array([50.0])).tolist()
    [50.0]
    """


class Softsign(_Activation, function=softsign):
    """Applies `softsign`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Softsign()(mx.array([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """


class SiLU(_Activation, function=silu):
    """Applies `silu`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.SiLU()(mx.array([0.0, 50.0])).tolist()
    [0.0, 50.0]
    """


class LogSoftmax(_Activation, function=log_softmax):
    """Applies `log_softmax` along the last axis.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.LogSoftmax()(mx.array([0.0])).tolist()
    [0.0]
    """


class LogSigmoid(_Activation, function=log_sigmoid):
    """Applies `log_sigmoid`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.LogSigmoid()(mx.array([-200.0])).tolist()
    [-200.0]
    """


class Tanh(_Activation, function=tanh):
    """Applies `tanh`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Tanh()(mx.array([0.0])).tolist()
    [0.0]
    """


class Hardswish(_Activation, function=hardswish):
    """Applies `hardswish`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Hardswish()(mx.array([0.0, 6.0])).tolist()
    [0.0, 6.0]
    """


class SELU(_Activation, function=selu):
    """Applies `selu`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.SELU()(mx.array([0.0])).tolist()
    [0.0]
    """


class HardTanh(_Activation, function=hard_tanh):
    """Applies `hard_tanh` with the bounds -1 and 1.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.HardTanh()(mx.array([-2.0, 0.5])).tolist()
    [-1.0, 0.5]
    """


class Softmin(_Activation, function=softmin):
    """Applies `softmin` along the last axis.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Softmin()(mx.array([3.0, 3.0])).tolist()
    [0.5, 0.5]
    """


class GLU(Module):
    """Applies `glu`.

    Args:
        axis: the axis to halve.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.GLU()(mx.array([6.0, 0.0])).tolist()
    [3.0]
    """

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def __call__(self, x: mx.array) -> Any:
        return glu(x, self.axis)


class LeakyReLU(Module):
    """Applies `leaky_relu`.

    Args:
        negative_slope: the factor of negative values.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.LeakyReLU(0.5)(mx.array([-2.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, negative_slope: float = 0.01) -> None:
        super().__init__()
        self._negative_slope = negative_slope

    def __call__(self, x: mx.array) -> mx.array:
        return leaky_relu(x, self._negative_slope)


class ELU(Module):
    """Applies `elu`.

    Args:
        alpha: minus the limit for large negative values.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ELU(2.0)(mx.array([-100.0, 2.0])).tolist()
    [-2.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return elu(x, self._alpha)


class CELU(Module):
    """Applies `celu`.

    Args:
        alpha: minus the limit for large negative values, and the scale of the exponent.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.CELU(2.0)(mx.array([-100.0, 2.0])).tolist()
    [-2.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0) -> None:
        super().__init__()
        self._alpha = alpha

    def __call__(self, x: mx.array) -> mx.array:
        return celu(x, self._alpha)


class Softshrink(Module):
    """Applies `softshrink`.

    Args:
        lambd: how far values move towards zero.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Softshrink(1.0)(mx.array([-3.0, 0.5])).tolist()
    [-2.0, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return softshrink(x, self.lambd)


class HardShrink(Module):
    """Applies `hard_shrink`.

    Args:
        lambd: up to which distance from zero values become zero.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.HardShrink(1.0)(mx.array([-3.0, 0.5])).tolist()
    [-3.0, 0.0]
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def __call__(self, x: mx.array) -> mx.array:
        return hard_shrink(x, self.lambd)


class Step(Module):
    """Applies `step`.

    Args:
        threshold: the smallest value that gives 1.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.Step(1.0)(mx.array([0.5, 1.0])).tolist()
    [0, 1]
    """

    def __init__(self, threshold: float = 0.0) -> None:
        super().__init__()
        self.threshold = threshold

    def __call__(self, x: mx.array) -> mx.array:
        return step(x, self.threshold)


class PReLU(Module):
    """Applies `prelu` with a slope that is learnt.

    Args:
        num_parameters: 1, or the size of the last axis for a slope per feature.
        init: the first value of the slope.

    Its parameter is `weight`, of shape ``(num_parameters,)``.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.PReLU()(mx.array([-2.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        super().__init__()
        self.weight = mx.full([num_parameters], init)

    def __call__(self, x: mx.array) -> mx.array:
        return prelu(x, self.weight)


class GELU(Module):
    """Applies a form of GELU.

    Args:
        approx: ``"none"`` for `gelu`, ``"precise"`` or ``"tanh"`` for `gelu_approx`, ``"fast"`` for
            `gelu_fast_approx`.

    Raises:
        ValueError: another `approx`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.GELU("tanh")(mx.array(1.0)).item(), 4)
    0.8412
    """

    _forms: ClassVar[dict[str, Callable[[mx.array], mx.array]]] = {
        "none": gelu,
        "precise": gelu_approx,
        "tanh": gelu_approx,
        "fast": gelu_fast_approx,
    }

    def __init__(self, approx: str = "none") -> None:
        super().__init__()
        if approx not in self._forms:
            raise ValueError(f"[GELU] approx is one of {', '.join(self._forms)}, not {approx!r}.")
        self._approx = approx

    def __call__(self, x: mx.array) -> mx.array:
        return self._forms[self._approx](x)
