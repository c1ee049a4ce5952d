"""Losses. All are computed elementwise or along an axis and then reduced: ``"none"``, ``"mean"`` or ``"sum"``."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import olivine.core as mx

Reduction: TypeAlias = Literal["none", "mean", "sum"]


def _reduce(loss: mx.array, reduction: Reduction) -> mx.array:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return mx.mean(loss)
    if reduction == "sum":
        return mx.sum(loss)
    raise ValueError(f"Invalid reduction {reduction!r}. Must be one of {get_args(Reduction)}.")


def _check_shapes(loss: str, /, **arrays: mx.array) -> None:
    """Raise a `ValueError` unless all arrays have the shape of the first."""
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        text = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"[{loss}] the shapes do not match: {text}.")


def _weigh(name: str, loss: mx.array, weights: mx.array | None) -> mx.array:
    if weights is None:
        return loss
    _check_shapes(name, weights=weights, loss=loss)
    return loss * weights


def cross_entropy(
    logits: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    axis: int = -1,
    label_smoothing: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    r"""The cross entropy of classes: :math:`\log \sum_j e^{x_j} - x_t`, or minus the sum of
    :math:`p_j \log \text{softmax}(x)_j`.

    Args:
        logits: the unnormalised logarithms of probabilities, of any shape.
        targets: the numbers of the classes, with the shape of `logits` without the axis, or probabilities, with the
            shape of `logits`.
        weights: factors of the loss before it is reduced.
        axis: the axis of the classes.
        label_smoothing: the part of the probability that is spread over all classes, at least 0 and below 1.
        reduction: of the result.

    Returns:
        The shape of `logits` without the axis, or a scalar.

    Raises:
        ValueError: the shapes or `label_smoothing` do not fit.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> logits = mx.array([[2.0, -1.0], [-1.0, 2.0]])
    >>> [round(x, 4) for x in nn.losses.cross_entropy(logits, mx.array([0, 1])).tolist()]
    [0.0486, 0.0486]
    """
    if not 0 <= label_smoothing < 1:
        raise ValueError(f"[cross_entropy] label_smoothing must be in [0, 1), got {label_smoothing}.")
    probabilities = targets.ndim == logits.ndim
    expected = list(logits.shape)
    if not probabilities:
        del expected[axis]
    if list(targets.shape) != expected:
        raise ValueError(
            f"[cross_entropy] targets of shape {tuple(targets.shape)} do not match logits of shape "
            f"{tuple(logits.shape)} along axis {axis}."
        )
    last = axis in (-1, logits.ndim - 1)
    if (
        not probabilities
        and last
        and label_smoothing == 0
        and mx.issubdtype(logits.dtype, mx.floating)
        and mx.issubdtype(targets.dtype, mx.integer)
    ):
        # The fused form adds up in float32 whatever the dtype of the logits. It does not count from the end,
        # as programs do that mark padding by -1 and mask the loss.
        if mx.issubdtype(targets.dtype, mx.signedinteger):
            targets = mx.where(targets < 0, targets + logits.shape[-1], targets)
        loss = mx.fast.cross_entropy(logits, targets).astype(logits.dtype)
        return _reduce(_weigh("cross_entropy", loss, weights), reduction)

    # Neither the maximum nor its gradient changes the result; without it exponentials overflow.
    logits = logits - mx.stop_gradient(mx.max(logits, axis=axis, keepdims=True))
    if probabilities:
        score = mx.sum(logits * targets, axis=axis)
    else:
        chosen = mx.take_along_axis(logits, mx.expand_dims(targets, axis), axis)
        score = mx.squeeze(chosen, axis)
    if label_smoothing > 0:
        score = (1 - label_smoothing) * score + label_smoothing * mx.mean(logits, axis=axis)
    loss = mx.logsumexp(logits, axis=axis) - score
    return _reduce(_weigh("cross_entropy", loss, weights), reduction)


def _clamped_log(p: mx.array) -> mx.array:
    """The logarithm of a probability, at least -100, with a finite gradient at zero."""
    zero = p == 0
    return mx.where(zero, -100.0, mx.maximum(mx.log(mx.where(zero, 1.0, p)), -100.0))


def binary_cross_entropy(
    inputs: mx.array,
    targets: mx.array,
    weights: mx.array | None = None,
    with_logits: bool = True,
    reduction: Reduction = "mean",
) -> mx.array:
    r"""The cross entropy of events: :math:`-t \log p - (1 - t) \log(1 - p)`.

    Args:
        inputs: logits of the probabilities, or the probabilities themselves.
        targets: the true probabilities, of the same shape.
        weights: factors of the loss before it is reduced, of the same shape.
        with_logits: whether `inputs` are logits.
        reduction: of the result.

    Raises:
        ValueError: the shapes do not match.

    Logarithms of probabilities are at least -100, so that a wrong certainty has a finite loss.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.losses.binary_cross_entropy(mx.array([0.0]), mx.array([1.0])).item(), 4)
    0.6931
    """
    _check_shapes("binary_cross_entropy", inputs=inputs, targets=targets)
    if with_logits:
        loss = mx.logaddexp(0.0, inputs) - inputs * targets
    else:
        loss = -(targets * _clamped_log(inputs) + (1 - targets) * _clamped_log(1 - inputs))
    return _reduce(_weigh("binary_cross_entropy", loss, weights), reduction)


def l1_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """The absolute difference of two arrays of the same shape.

    Raises:
        ValueError: the shapes differ.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.l1_loss(mx.array([1.0, 2.0]), mx.array([0.0, 4.0])).item()
    1.5
    """
    _check_shapes("l1_loss", predictions=predictions, targets=targets)
    return _reduce(mx.abs(predictions - targets), reduction)


def mse_loss(predictions: mx.array, targets: mx.array, reduction: Reduction = "mean") -> mx.array:
    """The squared difference of two arrays of the same shape.

    Raises:
        ValueError: the shapes differ.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.mse_loss(mx.array([1.0, 2.0]), mx.array([0.0, 4.0])).item()
    2.5
    """
    _check_shapes("mse_loss", predictions=predictions, targets=targets)
    return _reduce(mx.square(predictions - targets), reduction)


def nll_loss(inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none") -> mx.array:
    """Minus the logarithm of the probability of the true class.

    Args:
        inputs: logarithms of probabilities.
        targets: the numbers of the classes, with the shape of `inputs` without the axis.
        axis: the axis of the classes.
        reduction: of the result.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.nll_loss(mx.array([[-1.0, -2.0]]), mx.array([1])).tolist()
    [2.0]
    """
    chosen = mx.take_along_axis(inputs, mx.expand_dims(targets, axis), axis)
    return _reduce(-mx.squeeze(chosen, axis), reduction)


def gaussian_nll_loss(
    inputs: mx.array,
    targets: mx.array,
    vars: mx.array,
    full: bool = False,
    eps: float = 1e-6,
    reduction: Reduction = "mean",
) -> mx.array:
    r"""Minus the logarithm of a normal density: :math:`\frac{1}{2} (\log v + (t - x)^2 / v)`.

    Args:
        inputs: the means.
        targets: what was drawn, of the same shape.
        vars: the variances, of the same shape; at least `eps` is taken.
        full: add the constant :math:`\frac{1}{2} \log 2 \pi`.
        eps: the least variance.
        reduction: of the result.

    Raises:
        ValueError: the shapes differ.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.gaussian_nll_loss(mx.array([1.0]), mx.array([3.0]), mx.array([1.0])).item()
    2.0
    """
    _check_shapes("gaussian_nll_loss", inputs=inputs, targets=targets, vars=vars)
    variance = mx.maximum(vars, eps)
    loss = 0.5 * (mx.log(variance) + mx.square(targets - inputs) / variance)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def kl_div_loss(
    inputs: mx.array, targets: mx.array, axis: int = -1, reduction: Reduction = "none"
) -> mx.array:
    r"""The divergence of Kullback and Leibler, :math:`\sum e^t (t - x)` along an axis.

    Args:
        inputs: logarithms of the predicted probabilities.
        targets: logarithms of the true ones.
        axis: the axis of the classes.
        reduction: of the result.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> p = mx.log(mx.array([0.5, 0.5]))
    >>> nn.losses.kl_div_loss(p, p).item()
    0.0
    """
    return _reduce(mx.sum(mx.exp(targets) * (targets - inputs), axis), reduction)


def smooth_l1_loss(
    predictions: mx.array, targets: mx.array, beta: float = 1.0, reduction: Reduction = "mean"
) -> mx.array:
    r"""The absolute difference, less :math:`\beta / 2`, with a parabola where it is below :math:`\beta`.

    Raises:
        ValueError: the shapes differ.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.smooth_l1_loss(mx.array([0.5, 3.0]), mx.array([0.0, 0.0]), reduction="none").tolist()
    [0.125, 2.5]
    """
    _check_shapes("smooth_l1_loss", predictions=predictions, targets=targets)
    distance = mx.abs(predictions - targets)
    if beta == 0:
        return _reduce(distance, reduction)
    parabola = 0.5 * mx.square(distance) / beta
    return _reduce(mx.where(distance < beta, parabola, distance - 0.5 * beta), reduction)


def triplet_loss(
    anchors: mx.array,
    positives: mx.array,
    negatives: mx.array,
    axis: int = -1,
    p: int = 2,
    margin: float = 1.0,
    eps: float = 1e-6,
    reduction: Reduction = "none",
) -> mx.array:
    r"""By how much the distance to the negative fails to exceed that to the positive by a margin:
    :math:`\max(d(a, p) - d(a, n) + \text{margin}, 0)`.

    Args:
        anchors, positives, negatives: vectors along an axis.
        axis: that axis.
        p: the degree of the norm that is the distance.
        margin: the difference that is enough.
        eps: added before the root is taken, so that its gradient is finite.
        reduction: of the result.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> a, far = mx.zeros((2,)), mx.array([3.0, 4.0])
    >>> round(nn.losses.triplet_loss(a, far, a).item(), 3)
    5.999
    """

    def distance(others: mx.array) -> mx.array:
        return mx.power(mx.power(mx.abs(anchors - others), p).sum(axis) + eps, 1.0 / p)

    loss = mx.maximum(distance(positives) - distance(negatives) + margin, 0)
    return _reduce(loss, reduction)


def hinge_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    r""":math:`\max(1 - x t, 0)` for targets of -1 and 1.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.hinge_loss(mx.array([0.5, 2.0]), mx.array([-1, 1])).tolist()
    [1.5, 0.0]
    """
    return _reduce(mx.maximum(1 - inputs * targets, 0), reduction)


def huber_loss(
    inputs: mx.array, targets: mx.array, delta: float = 1.0, reduction: Reduction = "none"
) -> mx.array:
    r"""Half the squared difference up to :math:`\delta`, and linear beyond.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.huber_loss(mx.array([0.5, 3.0]), mx.array([0.0, 0.0])).tolist()
    [0.125, 2.5]
    """
    distance = mx.abs(inputs - targets)
    within = mx.minimum(distance, delta)
    return _reduce(0.5 * mx.square(within) + delta * (distance - within), reduction)


def log_cosh_loss(inputs: mx.array, targets: mx.array, reduction: Reduction = "none") -> mx.array:
    r"""The logarithm of the hyperbolic cosine of the difference: a parabola near zero and linear far away.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> round(nn.losses.log_cosh_loss(mx.array([101.0]), mx.array([1.0])).item(), 4)
    99.3069
    """
    error = inputs - targets
    return _reduce(mx.logaddexp(error, -error) - math.log(2), reduction)


def _norm(x: mx.array, axis: int) -> mx.array:
    """The length of vectors along an axis, with the gradient zero of a zero vector."""
    zero = mx.all(x == 0, axis=axis, keepdims=True)
    length = mx.linalg.norm(mx.where(zero, 1, x), axis=axis)
    return mx.where(mx.squeeze(zero, axis), 0, length)


def cosine_similarity_loss(
    x1: mx.array, x2: mx.array, axis: int = 1, eps: float = 1e-8, reduction: Reduction = "none"
) -> mx.array:
    r"""The cosine of the angle between vectors along an axis: :math:`x_1 \cdot x_2 / \max(|x_1| |x_2|, \epsilon)`.

    It grows with similarity: it is meant to be maximised, or subtracted from one.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.cosine_similarity_loss(mx.array([[3.0, 4.0]]), mx.array([[6.0, 8.0]])).tolist()
    [1.0]
    """
    lengths = _norm(x1, axis) * _norm(x2, axis)
    return _reduce(mx.sum(x1 * x2, axis=axis) / mx.maximum(lengths, eps), reduction)


def margin_ranking_loss(
    inputs1: mx.array,
    inputs2: mx.array,
    targets: mx.array,
    margin: float = 0.0,
    reduction: Reduction = "none",
) -> mx.array:
    r"""How far a pair is from the right order: :math:`\max(-t (x_1 - x_2) + \text{margin}, 0)`.

    Args:
        inputs1, inputs2: scores.
        targets: 1 where the first score should be greater, -1 where the second one should.
        margin: the difference that is enough.
        reduction: of the result.

    Raises:
        ValueError: the shapes differ.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.losses.margin_ranking_loss(mx.array([1.0]), mx.array([3.0]), mx.array([1])).tolist()
    [2.0]
    """
    _check_shapes("margin_ranking_loss", inputs1=inputs1, inputs2=inputs2, targets=targets)
    return _reduce(mx.maximum(0, -targets * (inputs1 - inputs2) + margin), reduction)
