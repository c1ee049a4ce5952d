"""Linear layers whose weights are divided among processes, and modules that gather them when needed.

Of the two ways to divide a matrix, "all-to-sharded" divides the outputs: every process sees the whole input and
computes a part of the output. "Sharded-to-all" divides the inputs: every process computes a summand of the whole
output. One after the other they need one communication. A single process is a group of one, for which all
of this does what the undivided layers do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, ClassVar, TypeAlias, TypeVar, cast

import olivine.core as mx
from olivine.nn.layers.base import Module
from olivine.nn.layers.linear import Linear, init_linear
from olivine.nn.layers.quantized import packed_matmul
from olivine.utils import tree_flatten, tree_map_with_path, tree_unflatten

Group: TypeAlias = mx.distributed.Group
Segments: TypeAlias = "int | list[int] | list[float]"
# From path and weight to the axis to divide, or that and the segments; `None` to keep the weight whole.
Predicate: TypeAlias = "Callable[[str, mx.array], int | tuple[int, Segments] | None]"

_Layer = TypeVar("_Layer", bound="_ShardedLayer")
_Packed = TypeVar("_Packed", bound="_QuantizedShardedLayer")


@lru_cache
def sum_gradients(group: Group) -> Callable[[mx.array], mx.array]:
    """The identity, whose gradient is summed over a group.

    >>> import olivine.core as mx
    >>> from olivine.nn.layers.distributed import sum_gradients
    >>> sum_gradients(mx.distributed.init())(mx.array(2.0)).item()
    2.0
    """
    if group.size() == 1:
        return lambda x: x

    @mx.custom_function
    def identity(x: mx.array) -> mx.array:
        return x

    @identity.vjp
    def summed(x: mx.array, cotangent: mx.array, _: mx.array) -> mx.array:
        return mx.distributed.all_sum(cotangent, group=group)

    return cast(Callable[[mx.array], mx.array], identity)


# Dividing weights


def _segments(weight: mx.array, segments: Segments, axis: int) -> Sequence[mx.array]:
    """Equal parts, parts that end at positions, or parts that end at fractions of the axis."""
    if isinstance(segments, int):
        return list(mx.split(weight, segments, axis=axis))
    size = weight.shape[axis]
    return list(mx.split(weight, [s if isinstance(s, int) else int(s * size) for s in segments], axis=axis))


def _shard(parameters: dict[str, Any], predicate: Predicate, group: Group | None = None) -> Any:
    """This process's part of a tree of parameters: of every segment, the part of its rank."""
    group = group or mx.distributed.init()
    size, rank = group.size(), group.rank()

    def shard(path: str, weight: Any) -> Any:
        if not isinstance(weight, mx.array):
            return weight
        choice = predicate(path, weight)
        if choice is None:
            return weight
        if isinstance(choice, int):
            choice = (choice, 1)
        if not isinstance(choice, tuple):
            raise ValueError(
                f"[shard] {path}: the predicate returns an axis, an axis and segments, or None, not {choice!r}."
            )
        axis, segments = choice
        parts = [mx.split(s, size, axis=axis)[rank] for s in _segments(weight, segments, axis)]
        return mx.contiguous(mx.concatenate(parts, axis=axis))

    return tree_map_with_path(shard, parameters)


def _all_to_sharded(segments: Segments) -> Predicate:
    def choose(path: str, weight: mx.array) -> tuple[int, Segments]:
        # The outputs are the axis before the last, and the only one of a bias.
        return (-1 if path.endswith("bias") else max(weight.ndim - 2, 0)), segments

    return choose


def _sharded_to_all(segments: Segments) -> Predicate:
    def choose(path: str, weight: mx.array) -> tuple[int, Segments] | None:
        return None if path.endswith("bias") else (-1, segments)

    return choose


def _predicate_of(sharding: str, segments: Segments) -> Predicate:
    if sharding == "all-to-sharded":
        return _all_to_sharded(segments)
    if sharding == "sharded-to-all":
        return _sharded_to_all(segments)
    raise ValueError(
        f"[shard] sharding is 'all-to-sharded' or 'sharded-to-all', or a function, not {sharding!r}."
    )


def shard_inplace(
    module: Module,
    sharding: str | Predicate,
    *,
    segments: Segments = 1,
    group: Group | None = None,
) -> None:
    """Keep only this process's part of the parameters of a module, which has to communicate by itself.

    Args:
        module: any module.
        sharding: ``"all-to-sharded"``, ``"sharded-to-all"``, or a function from path and weight to the axis to
            divide, to that and the segments, or to `None`.
        segments: divide each of these parts of the axis among the processes: a number of equal parts, the
            positions between the parts, or these as fractions. For layers that join several projections.
        group: the processes; all of them by default.

    Raises:
        ValueError: another `sharding`, or an axis that cannot be divided.

    >>> import olivine.nn as nn
    >>> from olivine.nn.layers.distributed import shard_inplace
    >>> layer = nn.Linear(4, 6)
    >>> shard_inplace(layer, "all-to-sharded", segments=3)
    >>> layer.weight.shape
    (6, 4)
    """
    predicate = _predicate_of(sharding, segments) if isinstance(sharding, str) else sharding
    module.update(_shard(module.parameters(), predicate, group))


def shard_linear(
    module: Module, sharding: str, *, segments: Segments = 1, group: Group | None = None
) -> Module:
    """A layer with this process's part of an `olivine.nn.Linear` or `olivine.nn.QuantizedLinear`.

    Args:
        module: the whole layer.
        sharding: ``"all-to-sharded"`` or ``"sharded-to-all"``.
        segments: as of `shard_inplace`.
        group: the processes; all of them by default.

    Raises:
        ValueError: another `sharding`, or an axis that cannot be divided.

    >>> import olivine.nn as nn
    >>> from olivine.nn.layers.distributed import shard_linear
    >>> shard_linear(nn.Linear(4, 6), "sharded-to-all")
    ShardedToAllLinear(input_dims=4, output_dims=6, bias=True)
    """
    _predicate_of(sharding, segments)
    outputs = sharding == "all-to-sharded"
    if isinstance(module, Linear):
        dense = AllToShardedLinear if outputs else ShardedToAllLinear
        return dense.from_linear(module, segments=segments, group=group)
    packed = QuantizedAllToShardedLinear if outputs else QuantizedShardedToAllLinear
    return packed.from_quantized_linear(module, segments=segments, group=group)


# The layers


class _ShardedLayer(Module):
    """What the four layers share: which sizes are divided, and when to communicate."""

    _divides_outputs: ClassVar[bool]
    group: Group

    def _join(self, group: Group | None, input_dims: int, output_dims: int) -> tuple[int, int]:
        """Become a member of a group. Returns this process's input and output size."""
        self.group = group or mx.distributed.init()
        size = self.group.size()
        if self._divides_outputs:
            divided, noun = output_dims, "output"
        else:
            divided, noun = input_dims, "input"
        if divided % size != 0:
            raise ValueError(
                f"[{type(self).__name__}] Cannot shard the {noun} of size {divided} across {size} devices."
            )
        if self._divides_outputs:
            return input_dims, output_dims // size
        return input_dims // size, output_dims

    def _whole(self, input_dims: int, output_dims: int) -> tuple[int, int]:
        """The sizes of the whole layer from those of this process."""
        size = self.group.size()
        if self._divides_outputs:
            return input_dims, output_dims * size
        return input_dims * size, output_dims

    def _take_part(self: _Layer, whole: Module, segments: Segments, group: Group) -> _Layer:
        divide = _all_to_sharded if self._divides_outputs else _sharded_to_all
        self.update(_shard(whole.parameters(), divide(segments), group))
        return self


class _DenseShardedLayer(_ShardedLayer):
    def _extra_repr(self) -> str:
        rows, columns = self.weight.shape
        input_dims, output_dims = self._whole(columns, rows)
        return f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}"


class AllToShardedLinear(_DenseShardedLayer):
    """A linear layer of which each process computes a part of the output from the whole input.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the outputs of all processes together.
        bias: whether to add a bias.
        group: the processes; all of them by default.

    Raises:
        ValueError: the output cannot be divided evenly.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.AllToShardedLinear(4, 6)(mx.ones((2, 4))).shape
    (2, 6)
    """

    _divides_outputs = True

    def __init__(
        self, input_dims: int, output_dims: int, bias: bool = True, group: Group | None = None
    ) -> None:
        super().__init__()
        columns, rows = self._join(group, input_dims, output_dims)
        init_linear(self, (rows, columns), input_dims, rows if bias else None)

    def __call__(self, x: mx.array) -> mx.array:
        x = sum_gradients(self.group)(x)
        transposed = self["weight"].T
        return mx.addmm(self["bias"], x, transposed) if "bias" in self else x @ transposed

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: Segments = 1, group: Group | None = None
    ) -> AllToShardedLinear:
        """This process's part of an `olivine.nn.Linear`."""
        group = group or mx.distributed.init()
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        return layer._take_part(linear_layer, segments, group)


class ShardedToAllLinear(_DenseShardedLayer):
    """A linear layer of which each process has a part of the input, and all get the whole output.

    Args:
        input_dims: size of the last axis of the inputs of all processes together.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.
        group: the processes; all of them by default.

    Raises:
        ValueError: the input cannot be divided evenly.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.ShardedToAllLinear(4, 6)(mx.ones((2, 4))).shape
    (2, 6)
    """

    _divides_outputs = False

    def __init__(
        self, input_dims: int, output_dims: int, bias: bool = True, group: Group | None = None
    ) -> None:
        super().__init__()
        columns, rows = self._join(group, input_dims, output_dims)
        init_linear(self, (rows, columns), input_dims, rows if bias else None)

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(x @ self["weight"].T, group=self.group)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_linear(
        cls, linear_layer: Module, *, segments: Segments = 1, group: Group | None = None
    ) -> ShardedToAllLinear:
        """This process's part of an `olivine.nn.Linear`."""
        group = group or mx.distributed.init()
        output_dims, input_dims = linear_layer.weight.shape
        layer = cls(input_dims, output_dims, "bias" in linear_layer, group)
        return layer._take_part(linear_layer, segments, group)


class _QuantizedShardedLayer(_ShardedLayer):
    group_size: int
    bits: int
    mode: str

    def __init__(
        self,
        input_dims: int,
        output_dims: int,
        bias: bool = True,
        group_size: int = 64,
        bits: int = 4,
        mode: str = "affine",
        group: Group | None = None,
    ) -> None:
        super().__init__()
        self.group_size = group_size
        self.bits = bits
        self.mode = mode
        columns, rows = self._join(group, input_dims, output_dims)
        bound = math.sqrt(1.0 / input_dims)
        weight = mx.random.uniform(low=-bound, high=bound, shape=(rows, columns))
        self.weight, self.scales, *biases = mx.quantize(weight, group_size, bits, mode=mode)
        self.biases = biases[0] if biases else None
        if bias:
            self.bias = mx.zeros((rows,))
        self.freeze()

    def unfreeze(self, *args: Any, **kwargs: Any) -> Module:
        """As `Module.unfreeze`; the layer itself stays frozen."""
        super().unfreeze(*args, **kwargs)
        return self.freeze(recurse=False)

    def _extra_repr(self) -> str:
        rows, words = self.weight.shape
        input_dims, output_dims = self._whole(words * 32 // self.bits, rows)
        return (
            f"input_dims={input_dims}, output_dims={output_dims}, bias={'bias' in self}, "
            f"group_size={self.group_size}, bits={self.bits}, mode={self.mode}"
        )

    @classmethod
    def _from(cls: type[_Packed], whole: Module, segments: Segments, group: Group | None) -> _Packed:
        group = group or mx.distributed.init()
        output_dims, words = whole.weight.shape
        layer = cls(
            words * 32 // whole.bits,
            output_dims,
            "bias" in whole,
            group_size=whole.group_size,
            bits=whole.bits,
            mode=getattr(whole, "mode", "affine"),
            group=group,
        )
        return layer._take_part(whole, segments, group)


class QuantizedAllToShardedLinear(_QuantizedShardedLayer):
    """The form of `AllToShardedLinear` with quantized weights. It is frozen.

    Args:
        input_dims: size of the last axis of the input.
        output_dims: size of the last axis of the outputs of all processes together.
        bias: whether to add a bias.
        group_size: how many weights share a scale.
        bits: per weight.
        mode: of the quantization.
        group: the processes; all of them by default.

    Raises:
        ValueError: the output cannot be divided evenly, or sizes that cannot be quantized.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.QuantizedAllToShardedLinear(64, 8)(mx.ones((2, 64))).shape
    (2, 8)
    """

    _divides_outputs = True

    def __call__(self, x: mx.array) -> mx.array:
        y = packed_matmul(self, sum_gradients(self.group)(x))
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls, quantized_linear_layer: Module, *, segments: Segments = 1, group: Group | None = None
    ) -> QuantizedAllToShardedLinear:
        """This process's part of an `olivine.nn.QuantizedLinear`."""
        return cls._from(quantized_linear_layer, segments, group)


class QuantizedShardedToAllLinear(_QuantizedShardedLayer):
    """The form of `ShardedToAllLinear` with quantized weights. It is frozen.

    Args:
        input_dims: size of the last axis of the inputs of all processes together.
        output_dims: size of the last axis of the output.
        bias: whether to add a bias.
        group_size: how many weights share a scale.
        bits: per weight.
        mode: of the quantization.
        group: the processes; all of them by default.

    Raises:
        ValueError: the input cannot be divided evenly, or sizes that cannot be quantized.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.QuantizedShardedToAllLinear(64, 8)(mx.ones((2, 64))).shape
    (2, 8)
    """

    _divides_outputs = False

    def __call__(self, x: mx.array) -> mx.array:
        y = mx.distributed.all_sum(packed_matmul(self, x), group=self.group)
        return y + self["bias"] if "bias" in self else y

    @classmethod
    def from_quantized_linear(
        cls, quantized_linear_layer: Module, *, segments: Segments = 1, group: Group | None = None
    ) -> QuantizedShardedToAllLinear:
        """This process's part of an `olivine.nn.QuantizedLinear`."""
        return cls._from(quantized_linear_layer, segments, group)


# Fully sharded modules


def _gatherer(
    group: Group, shapes: list[tuple[int, ...]], compute_dtype: mx.Dtype | None
) -> Callable[[list[mx.array]], list[mx.array]]:
    """A function from the parts of arrays, divided along their first axis, to the whole arrays.

    All travel in one message. Its gradient is averaged over the group and divided again.
    """
    size = group.size()
    part_shapes = [(shape[0] // size, *shape[1:]) for shape in shapes]
    borders = list(accumulate(math.prod(shape) for shape in part_shapes))[:-1]

    def convert(x: mx.array, dtype: mx.Dtype | None) -> mx.array:
        return x if dtype is None or x.dtype == dtype else x.astype(dtype)

    @mx.custom_function
    def gather(parts: list[mx.array]) -> list[mx.array]:
        message = mx.concatenate([convert(part.reshape(1, -1), compute_dtype) for part in parts], axis=1)
        whole = mx.distributed.all_gather(message, group=group)
        return [x.reshape(shape) for x, shape in zip(mx.split(whole, borders, axis=1), shapes)]

    @gather.vjp
    def scatter(parts: list[mx.array], cotangents: list[mx.array], _: list[mx.array]) -> list[mx.array]:
        message = mx.concatenate([c.reshape(size, -1) for c in cotangents], axis=1)
        mean = mx.distributed.sum_scatter(message, group=group) / size
        split = mx.split(mean, borders, axis=1)
        return [convert(x.reshape(s), part.dtype) for x, s, part in zip(split, part_shapes, parts)]

    return cast(Callable[[list[mx.array]], list[mx.array]], gather)


def _outside_of_sharded(module: Module, key: str, value: Any) -> bool:
    return not isinstance(value, FullyShardedModule) and Module.valid_parameter_filter(module, key, value)


class FullyShardedModule(Module):
    """A module whose parameters are divided among processes and gathered for each call.

    Usually made by `fully_shard`. Modules within that are fully sharded themselves are left to themselves.

    Args:
        module: is changed: it keeps this process's part of its parameters.
        group: the processes; all of them by default.
        compute_dtype: to convert the gathered parameters to.

    Raises:
        ValueError: a parameter is a scalar, or its first axis cannot be divided evenly.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> nn.FullyShardedModule(nn.Linear(4, 2))(mx.ones((1, 4))).shape
    (1, 2)
    """

    def __init__(
        self,
        module: Module,
        group: Group | None = None,
        compute_dtype: mx.Dtype | None = None,
    ) -> None:
        super().__init__()
        group = group or mx.distributed.init()
        size = group.size()
        parameters = module.filter_and_map(_outside_of_sharded)
        leaves = tree_flatten(parameters)
        for path, parameter in leaves:
            if parameter.ndim == 0:
                raise ValueError(f"[fully_shard] {path} is a scalar and cannot be divided.")
            if parameter.shape[0] % size != 0:
                raise ValueError(
                    f"[fully_shard] {path} of shape {tuple(parameter.shape)} cannot be divided across {size} "
                    "devices: its first axis must be a multiple."
                )
        # A plain attribute, not an entry of the tree.
        self.__dict__["_paths"] = [path for path, _ in leaves]
        shapes = [tuple(parameter.shape) for _, parameter in leaves]
        module.update(_shard(parameters, lambda path, weight: 0, group))
        self.module = module
        self._gather = _gatherer(group, shapes, compute_dtype)

    def _extra_repr(self) -> str:
        return f"num_sharded_params={len(self._paths)}"

    def _with_whole_parameters(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        parts = self.module.filter_and_map(_outside_of_sharded)
        if self._paths:
            whole = self._gather([part for _, part in tree_flatten(parts)])
            self.module.update(tree_unflatten(list(zip(self._paths, whole))))
        try:
            return fn(*args, **kwargs)
        finally:
            self.module.update(parts)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._with_whole_parameters(self.module, *args, **kwargs)

    def as_linear(self, *args: Any, **kwargs: Any) -> Any:
        """Call ``as_linear`` of the module, an `olivine.nn.Embedding`, with its whole parameters."""
        return self._with_whole_parameters(self.module.as_linear, *args, **kwargs)


def fully_shard(
    module: Module, *, group: Group | None = None, compute_dtype: mx.Dtype | None = None
) -> Module:
    """Divide the parameters of a module among processes, to be gathered for each call.

    Args:
        module: is changed: it keeps this process's part of its parameters.
        group: the processes; all of them by default.
        compute_dtype: to convert the gathered parameters to.

    Returns:
        A `FullyShardedModule`; the module itself if there is one process, if it is divided already, or if it has no
        parameters.

    Raises:
        ValueError: a parameter cannot be divided.

    >>> import olivine.nn as nn
    >>> nn.fully_shard(nn.Linear(4, 2))
    Linear(input_dims=4, output_dims=2, bias=True)
    """
    group = group or mx.distributed.init()
    if group.size() == 1 or isinstance(module, FullyShardedModule):
        return module
    sharded = FullyShardedModule(module, group=group, compute_dtype=compute_dtype)
    return sharded if sharded._paths else module
