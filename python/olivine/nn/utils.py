"""Gradients of functions of modules, checkpointing, and gradients of groups of processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps  # `reduce` is a public name of this module
from typing import Any

import olivine.core as mx
from olivine.nn.layers.base import Module
from olivine.utils import tree_flatten, tree_map, tree_reduce

__all__ = ["average_gradients", "checkpoint", "clip_grad_norm_sharded", "reduce", "value_and_grad"]


def _with_parameters(module: Module, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` as a function whose first argument are the trainable parameters of a module.

    Transforms call it with marked arrays, which the module holds only as long as `fn` runs. What `fn` itself
    puts into the module stays.
    """

    def call(parameters: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        own = module.trainable_parameters()
        module.update(parameters)
        try:
            return fn(*args, **kwargs)
        finally:
            _put_back(module, parameters, own)

    return call


def _put_back(target: Any, marked: Any, own: Any) -> None:
    """Replace the arrays of `marked` that are still in `target` by those of `own`."""
    for key in own if isinstance(own, dict) else range(len(own)):
        if isinstance(own[key], mx.array):
            if target[key] is marked[key]:
                target[key] = own[key]
        else:
            _put_back(target[key], marked[key], own[key])


def value_and_grad(model: Module, fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns what `fn` returns and the gradient by the trainable parameters of a model.

    Args:
        model: whose parameters `fn` uses.
        fn: returns a scalar, or a tuple whose first entry is one.

    Returns:
        A function with the arguments of `fn`. It returns the value and a tree like
        ``model.trainable_parameters()``.

    Raises:
        ValueError: (from the returned function) the value is not a scalar.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> model = nn.Linear(2, 1, bias=False)
    >>> loss, grads = nn.value_and_grad(model, lambda x: model(x).sum())(mx.array([[1.0, 2.0]]))
    >>> grads["weight"].tolist()
    [[1.0, 2.0]]
    """
    value_and_grad_fn = mx.value_and_grad(_with_parameters(model, fn))

    @wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, grads = value_and_grad_fn(model.trainable_parameters(), *args, **kwargs)
        return value, grads

    return wrapped


def checkpoint(module: Module, fn: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function that recomputes its inside in the backward pass, instead of keeping it in memory.

    Gradients flow to the trainable parameters of the module and to the arguments.

    Args:
        module: whose parameters `fn` uses.
        fn: the module itself by default.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> layer = nn.Linear(2, 2)
    >>> bool(mx.allclose(nn.utils.checkpoint(layer)(mx.ones((1, 2))), layer(mx.ones((1, 2)))))
    True
    """
    function = module if fn is None else fn
    checkpointed = mx.checkpoint(_with_parameters(module, function))

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return checkpointed(module.trainable_parameters(), *args, **kwargs)

    return wrapped


def _batches(arrays: list[mx.array], limit: int) -> list[list[int]]:
    """The numbers of the arrays, in batches of one dtype that each reach the limit of bytes or are the last."""
    finished: list[list[int]] = []
    open_batches: dict[Any, tuple[list[int], int]] = {}
    for number, array in enumerate(arrays):
        batch, size = open_batches.pop(str(array.dtype), ([], 0))
        batch.append(number)
        size += array.nbytes
        if size >= limit:
            finished.append(batch)
        else:
            open_batches[str(array.dtype)] = (batch, size)
    return finished + [batch for batch, _ in open_batches.values()]


def average_gradients(
    gradients: Any,
    group: mx.distributed.Group | None = None,
    all_reduce_size: int = 32 * 1024**2,
    communication_stream: mx.Stream | None = None,
) -> Any:
    """The mean of gradients over the processes of a group.

    Small arrays of one dtype travel together. With a single process the gradients are returned as they are.

    Args:
        gradients: a tree of arrays, of the same structure in every process.
        group: the processes; all of them by default.
        all_reduce_size: arrays are joined until they reach this many bytes. Not positive: every array travels
            alone.
        communication_stream: where to communicate.

    Returns:
        A tree like `gradients`.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.average_gradients({"w": mx.ones((2,))})["w"].tolist()
    [1.0, 1.0]
    """
    group = group or mx.distributed.init()
    size = group.size()
    if size == 1:
        return gradients

    def mean(x: mx.array) -> mx.array:
        return mx.distributed.all_sum(x, group=group, stream=communication_stream) / size

    if all_reduce_size <= 0:
        return tree_map(mean, gradients)
    arrays: list[mx.array] = [array for _, array in tree_flatten(gradients)]
    averaged: dict[int, mx.array] = {}
    for batch in _batches(arrays, all_reduce_size):
        joined = mean(mx.concatenate([arrays[i].reshape(-1) for i in batch]))
        start = 0
        for i in batch:
            averaged[i] = joined[start : start + arrays[i].size].reshape(arrays[i].shape)
            start += arrays[i].size
    in_order = iter([averaged[i] for i in range(len(arrays))])
    return tree_map(lambda _: next(in_order), gradients)


def clip_grad_norm_sharded(
    gradients: Any, max_norm: float, group: mx.distributed.Group | None = None
) -> tuple[Any, mx.array]:
    """Clip the norm of gradients of which every process of a group holds a part.

    The counterpart of `olivine.optimizers.clip_grad_norm` for modules of `olivine.nn.fully_shard`.

    Args:
        gradients: a tree of this process's parts.
        max_norm: the greatest norm that all parts together may have.
        group: the processes; all of them by default.

    Returns:
        The parts, scaled if the norm was greater, and the norm.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> grads, norm = nn.utils.clip_grad_norm_sharded({"w": mx.array([3.0, 4.0])}, 1.0)
    >>> norm.item(), [round(g, 4) for g in grads["w"].tolist()]
    (5.0, [0.6, 0.8])
    """
    local = tree_reduce(lambda total, g: total + squared_sum(g), gradients, mx.array(0.0))
    norm = mx.sqrt(mx.distributed.all_sum(local, group=group))
    return scale_to_norm(gradients, norm, max_norm), norm


def squared_sum(x: mx.array) -> mx.array:
    """The sum of squares; of half-precision numbers in ``float32``, since the square of 256 is too much for one."""
    wide = x.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else x
    return mx.square(wide).sum()


def scale_to_norm(tree: Any, norm: mx.array, max_norm: float) -> Any:
    """A tree of the given norm, scaled down to `max_norm` where that is less. Floating-point dtypes stay."""
    factor = mx.minimum(max_norm / (norm + 1e-6), 1.0)

    def scale(x: mx.array) -> mx.array:
        scaled = x * factor
        return scaled.astype(x.dtype) if mx.issubdtype(x.dtype, mx.floating) else scaled

    return tree_map(scale, tree)
