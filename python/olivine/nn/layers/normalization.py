"""Normalisation over features, groups, positions or the batch."""

from __future__ import annotations

from typing import Any

import olivine.core as mx
from olivine.nn.layers.base import Module


def _check_eps(module: Module, eps: float) -> None:
    if not eps > 0:
        raise ValueError(f"[{type(module).__name__}] 'eps' must be positive but got {eps}.")


def _scale_and_shift(module: Module, x: mx.array) -> mx.array:
    return module.weight * x + module.bias if "weight" in module else x


class InstanceNorm(Module):
    r"""Normalises each channel of each sample over its positions: :math:`(x - E[x]) / \sqrt{Var[x] + \epsilon}`.

    The input has the shape ``(N, ..., dims)`` with at least one axis of positions.
    From `Instance normalization <https://arxiv.org/abs/1607.08022>`_.

    Args:
        dims: the number of channels.
        eps: added to the variance.
        affine: whether a scale `weight` and a shift `bias` of shape ``(dims,)`` are learnt.

    Raises:
        ValueError: `eps` is not positive, or the input has fewer than three axes.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> y = nn.InstanceNorm(4)(mx.random.normal((2, 100, 4)))
    >>> bool(mx.allclose(y.mean(axis=1), mx.zeros((2, 4)), atol=1e-5))
    True
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = False) -> None:
        super().__init__()
        _check_eps(self, eps)
        if affine:
            self.weight = mx.ones((dims,))
            self.bias = mx.zeros((dims,))
        self.dims = dims
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        if x.ndim < 3:
            raise ValueError(f"[InstanceNorm] expected at least 3 dimensions (N, ..., C), received {x.ndim}.")
        samples, *_, channels = x.shape
        rows = mx.swapaxes(x.reshape(samples, -1, channels), 1, 2)
        rows = mx.fast.layer_norm(rows, None, None, self.eps)
        return _scale_and_shift(self, mx.swapaxes(rows, 1, 2).reshape(x.shape))


class LayerNorm(Module):
    r"""Normalises the last axis: :math:`(x - E[x]) / \sqrt{Var[x] + \epsilon} \, w + b`.

    From `Layer normalization <https://arxiv.org/abs/1607.06450>`_.

    Args:
        dims: size of the last axis.
        eps: added to the variance.
        affine: whether a scale `weight` of shape ``(dims,)`` is learnt.
        bias: whether, with `affine`, a shift `bias` of shape ``(dims,)`` is learnt too.

    Raises:
        ValueError: `eps` is not positive.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> [round(y, 3) for y in nn.LayerNorm(2)(mx.array([1.0, 3.0])).tolist()]
    [-1.0, 1.0]
    """

    def __init__(self, dims: int, eps: float = 1e-5, affine: bool = True, bias: bool = True) -> None:
        super().__init__()
        _check_eps(self, eps)
        if affine:
            self.weight = mx.ones((dims,))
            if bias:
                self.bias = mx.zeros((dims,))
        self.eps = eps
        self.dims = dims

    def _extra_repr(self) -> str:
        return f"{self.dims}, eps={self.eps}, affine={'weight' in self}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.layer_norm(x, self.get("weight"), self.get("bias"), self.eps)


class RMSNorm(Module):
    r"""Divides the last axis by its root mean square: :math:`x / \sqrt{E[x^2] + \epsilon} \, w`.

    From `Root mean square layer normalization <https://arxiv.org/abs/1910.07467>`_. Sums are taken in at least
    ``float32``.

    Args:
        dims: size of the last axis, and of the parameter `weight`.
        eps: added to the mean square.

    Raises:
        ValueError: `eps` is not positive.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> [round(y, 3) for y in nn.RMSNorm(2)(mx.array([5.0, -5.0])).tolist()]
    [1.0, -1.0]
    """

    def __init__(self, dims: int, eps: float = 1e-5) -> None:
        super().__init__()
        _check_eps(self, eps)
        self.weight = mx.ones((dims,))
        self.eps = eps

    def _extra_repr(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"

    def __call__(self, x: mx.array) -> mx.array:
        return mx.fast.rms_norm(x, self["weight"], self.eps)


class GroupNorm(Module):
    """Normalises groups of channels over all positions of a sample.

    The input has the shape ``(N, ..., dims)``. From `Group normalization <https://arxiv.org/abs/1803.08494>`_.

    Args:
        num_groups: into how many groups the channels are divided.
        dims: the number of channels.
        eps: added to the variance.
        affine: whether a scale `weight` and a shift `bias` of shape ``(dims,)`` are learnt.
        pytorch_compatible: a group is a run of neighbouring channels, as in PyTorch. Otherwise channels
            are dealt out to the groups in turn.

    Raises:
        ValueError: `eps`, `num_groups` or `dims` is not positive, or the groups do not divide the channels.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.GroupNorm(2, 8)(mx.random.normal((1, 5, 5, 8))).shape
    (1, 5, 5, 8)
    """

    def __init__(
        self,
        num_groups: int,
        dims: int,
        eps: float = 1e-5,
        affine: bool = True,
        pytorch_compatible: bool = False,
    ) -> None:
        super().__init__()
        _check_eps(self, eps)
        for noun, value in (("groups", num_groups), ("features", dims)):
            if value <= 0:
                raise ValueError(f"[GroupNorm] The number of {noun} ({value}) must be a positive integer.")
        if dims % num_groups != 0:
            raise ValueError(
                f"[GroupNorm] The number of features ({dims}) must be divisible by the number of groups "
                f"({num_groups})."
            )
        if affine:
            self.bias = mx.zeros((dims,))
            self.weight = mx.ones((dims,))
        self.num_groups = num_groups
        self.dims = dims
        self.eps = eps
        self.pytorch_compatible = pytorch_compatible

    def _extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.dims}, eps={self.eps}, affine={'weight' in self}, "
            f"pytorch_compatible={self.pytorch_compatible}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        samples, groups = x.shape[0], self.num_groups
        if self.pytorch_compatible:
            split = x.reshape(samples, -1, groups, self.dims // groups)
            rows = mx.swapaxes(split, 1, 2)
            normal = mx.fast.layer_norm(rows.reshape(samples, groups, -1), None, None, self.eps)
            y = mx.swapaxes(normal.reshape(rows.shape), 1, 2)
        else:
            split = x.reshape(samples, -1, groups)
            mean = mx.mean(split, axis=1, keepdims=True)
            variance = mx.var(split, axis=1, keepdims=True)
            y = (split - mean) * mx.rsqrt(variance + self.eps)
        return _scale_and_shift(self, y.reshape(x.shape))


class BatchNorm(Module):
    r"""Normalises each feature over batch and positions.

    The input has the shape ``(N, C)``, ``(N, L, C)`` or ``(N, H, W, C)``. From
    `Batch normalization <https://arxiv.org/abs/1502.03167>`_.

    In training mode mean and variance are those of the batch; otherwise, if `track_running_stats`, the running
    ones are taken.

    Args:
        num_features: the number of features.
        eps: added to the variance.
        momentum: the weight of a new batch in the running mean and variance.
        affine: whether a scale `weight` and a shift `bias` of shape ``(num_features,)`` are learnt.
        track_running_stats: whether to keep `running_mean` and `running_var` (of the unbiased variance). They are
            parameters that are saved and never trained.

    Raises:
        ValueError: `eps` is not positive, the input has another number of axes, or a batch to train on has
            one value per feature.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> norm = nn.BatchNorm(4)
    >>> norm(mx.random.normal((8, 4))).shape
    (8, 4)
    >>> sorted(norm.trainable_parameters())
    ['bias', 'weight']
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        _check_eps(self, eps)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = mx.ones((num_features,))
            self.bias = mx.zeros((num_features,))
        if track_running_stats:
            self.running_mean = mx.zeros((num_features,))
            self.running_var = mx.ones((num_features,))
            self._freeze_running_stats()

    def _freeze_running_stats(self) -> None:
        self.freeze(keys=["running_mean", "running_var"], recurse=False)

    def unfreeze(self, *args: Any, **kwargs: Any) -> Module:
        """As `Module.unfreeze`; the running mean and variance stay frozen."""
        super().unfreeze(*args, **kwargs)
        self._freeze_running_stats()
        return self

    def _extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={'weight' in self}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def __call__(self, x: mx.array) -> mx.array:
        if not 2 <= x.ndim <= 4:
            raise ValueError(f"[BatchNorm] expected 2, 3 or 4 dimensions, received {x.ndim}.")
        mean, variance = self._statistics(x)
        y = (x - mean) * mx.rsqrt(variance + self.eps)
        return _scale_and_shift(self, y)

    def _statistics(self, x: mx.array) -> tuple[mx.array, mx.array]:
        """The mean and variance to use; in training the running ones move."""
        if not self.training and self.track_running_stats:
            return self.running_mean, self.running_var
        axes = tuple(range(x.ndim - 1))
        count = x.size // x.shape[-1] if x.size else 0
        if self.training and count == 1:
            raise ValueError("[BatchNorm] training requires more than one value per feature.")
        mean, variance = mx.mean(x, axis=axes), mx.var(x, axis=axes)
        if self.training and self.track_running_stats:
            unbiased = mx.var(x, axis=axes, ddof=1)
            self.running_mean = self._move(self.running_mean, mean)
            self.running_var = self._move(self.running_var, unbiased)
        return mean, variance

    def _move(self, running: mx.array, new: mx.array) -> mx.array:
        return (1 - self.momentum) * running + self.momentum * new
