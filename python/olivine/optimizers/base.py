"""`Optimizer`, what all optimizers share, and `MultiOptimizer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import olivine.core as mx
from olivine.nn.layers.base import Module
from olivine.nn.utils import scale_to_norm, squared_sum
from olivine.utils import tree_flatten, tree_map, tree_merge, tree_reduce, tree_unflatten

# A number, or a function from the number of a step to a number.
Scheduled: TypeAlias = "float | mx.array | Callable[[mx.array], Any]"
State: TypeAlias = dict[str, Any]
Slots: TypeAlias = dict[str, mx.array]

_HALVES = (mx.float16, mx.bfloat16)


class Optimizer:
    """The base of all optimizers. Subclasses write `init_single` and `apply_single`.

    Args:
        schedulers: functions from the number of a step to a hyperparameter, by its name in the state.

    The state is a tree: it has the number of steps, the hyperparameters that may change, and for each parameter a
    dictionary in the parameter's place. Flattened, it can be saved; assigned, it resumes the training:

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> from olivine.utils import tree_flatten, tree_unflatten
    >>> grads, params = {"w": mx.array([1.0])}, {"w": mx.array([0.0])}
    >>> first = optim.Adam(0.1)
    >>> params = first.apply_gradients(grads, params)
    >>> second = optim.Adam(0.1)
    >>> second.state = tree_unflatten(tree_flatten(first.state))
    >>> a, b = first.apply_gradients(grads, params), second.apply_gradients(grads, params)
    >>> a["w"].item() == b["w"].item()
    True
    """

    _state: State

    def __init__(self, schedulers: dict[str, Callable[[mx.array], Any]] | None = None) -> None:
        self._initialized = False
        self._state = {"step": mx.array(0, mx.uint64)}
        self._schedulers = dict(schedulers or {})

    def update(self, model: Module, gradients: dict[str, Any]) -> None:
        """Replace the parameters of a model by those after one step.

        Args:
            model: the module.
            gradients: a tree like its trainable parameters, or a part of it.

        >>> import olivine.core as mx, olivine.nn as nn, olivine.optimizers as optim
        >>> layer = nn.Linear(1, 1, bias=False)
        >>> _ = layer.update({"weight": mx.array([[1.0]])})
        >>> optim.SGD(0.5).update(layer, {"weight": mx.array([[1.0]])})
        >>> layer.weight.item()
        0.5
        """
        model.update(self.apply_gradients(gradients, model))

    def init(self, parameters: dict[str, Any]) -> None:
        """Make the state of parameters that have none. Called by the first step, if not before.

        State that is there stays, so that parameters may join in later, for example when a layer is unfrozen.

        Args:
            parameters: a tree of arrays.

        Raises:
            ValueError: a parameter has the name of a hyperparameter.
        """
        taken = [
            name for name, value in self._state.items() if isinstance(value, mx.array) and name in parameters
        ]
        if taken:
            raise ValueError(
                f"[{type(self).__name__}] the parameter {taken[0]!r} has the name of an entry of the state."
            )
        self._grow(self._state, parameters)
        self._initialized = True

    def _grow(self, state: Any, parameters: Any) -> Any:
        """The state with what `parameters` needs. Containers that are there are changed in place."""
        if isinstance(parameters, dict):
            state = state if isinstance(state, dict) else {}
            for key, value in parameters.items():
                state[key] = self._grow(state.get(key), value)
            return state
        if isinstance(parameters, (list, tuple)):
            # Of a saved state, empty dictionaries stand for entries without arrays, or are missing.
            old = [state.get(str(i)) for i in range(len(parameters))] if isinstance(state, dict) else state
            old = list(old or [])
            old += [None] * (len(parameters) - len(old))
            new = [self._grow(entry, value) for entry, value in zip(old, parameters)] + old[len(parameters) :]
            if isinstance(state, list):
                state[:] = new
                return state
            return type(parameters)(*new) if hasattr(parameters, "_fields") else type(parameters)(new)
        slot: State = state or {}
        if not slot and isinstance(parameters, mx.array):
            self.init_single(parameters, slot)
        return slot

    def init_single(self, parameter: mx.array, state: State) -> None:
        """Make the state of one parameter.

        Args:
            parameter: the array, or its gradient.
            state: an empty dictionary to fill with arrays.
        """
        raise NotImplementedError(f"{type(self).__name__}.init_single")

    def apply_gradients(self, gradients: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters after one step; the state moves on.

        Args:
            gradients: a tree of arrays.
            parameters: a tree that has at least the places of `gradients`, such as a module.

        Returns:
            A tree like `gradients`.
        """
        if not self._initialized:
            self.init(gradients)
        for name, scheduler in self._schedulers.items():
            self.state[name] = _as_array(scheduler(self.step))
        self.state["step"] = self.step + 1
        new: dict[str, Any] = tree_map(self.apply_single, gradients, parameters, self.state)
        return new

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        """One parameter after one step.

        Args:
            gradient: its gradient.
            parameter: the array.
            state: the dictionary that `init_single` filled, to be changed.
        """
        raise NotImplementedError(f"{type(self).__name__}.apply_single")

    @property
    def state(self) -> State:
        """The state, by reference."""
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        self._initialized = False
        self._state = state

    @property
    def step(self) -> mx.array:
        """How many steps were made, a scalar of ``uint64``."""
        step: mx.array = self.state["step"]
        return step

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the last step, a scalar array."""
        rate: mx.array = self.state["learning_rate"]
        return rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        self.state["learning_rate"] = _as_array(learning_rate)

    def _maybe_schedule(self, name: str, param: Scheduled) -> None:
        """Put a hyperparameter into the state, and its function among the schedulers if it is one."""
        if callable(param):
            self._schedulers[name] = param
            param = param(self.step)
        self.state[name] = _as_array(param)


def _as_array(value: Any) -> mx.array:
    return value if isinstance(value, mx.array) else mx.array(value)


def _is_half(x: mx.array) -> bool:
    return x.dtype in _HALVES


def widen(x: mx.array) -> mx.array:
    """Half-precision numbers as ``float32``, others as they are."""
    return x.astype(mx.float32) if _is_half(x) else x


class SlotOptimizer(Optimizer):
    """An optimizer that keeps arrays of the parameter's shape and computes in at least ``float32``.

    In ``float16`` the square of a gradient below 2e-4, and constants such as 1e-8, are zero, and a step divides by
    them. So steps are computed in ``float32``, and the arrays kept of ``float16`` parameters are ``float32``. Those of
    ``bfloat16`` parameters, which have the range of ``float32``, are ``bfloat16``.
    """

    _slots: ClassVar[tuple[str, ...]] = ()

    def init_single(self, parameter: mx.array, state: State) -> None:
        for name in self._slots:
            state[name] = mx.zeros_like(parameter).astype(_slot_dtype(parameter))

    def apply_single(self, gradient: mx.array, parameter: mx.array, state: State) -> mx.array:
        if not (_is_half(parameter) or _is_half(gradient)):
            return self._step(gradient, parameter, state)
        before: Slots = {name: widen(value) for name, value in state.items()}
        slots = dict(before)
        new = self._step(widen(gradient), widen(parameter), slots)
        for name, value in slots.items():
            if value is not before[name]:
                state[name] = value.astype(_slot_dtype(parameter))
        return new.astype(parameter.dtype)

    def _step(self, gradient: mx.array, parameter: mx.array, slots: Slots) -> mx.array:
        """The formula: returns the new parameter and replaces the entries of `slots`."""
        raise NotImplementedError(f"{type(self).__name__}._step")

    def _rate(self, like: mx.array) -> mx.array:
        return self.learning_rate.astype(like.dtype)


def _slot_dtype(parameter: mx.array) -> mx.Dtype:
    return mx.float32 if parameter.dtype == mx.float16 else parameter.dtype


class MultiOptimizer(Optimizer):
    """Different optimizers for different parameters.

    Args:
        optimizers: a list.
        filters: for each optimizer but the last a function from the path of a parameter and its gradient that says
            whether the optimizer takes it. The first that says so gets it, the last optimizer the rest.

    Raises:
        ValueError: another number of filters.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> both = optim.MultiOptimizer([optim.SGD(0.5), optim.SGD(1.0)], [lambda path, g: "bias" in path])
    >>> ones = {"bias": mx.array(1.0), "weight": mx.array(1.0)}
    >>> {name: p.item() for name, p in sorted(both.apply_gradients(ones, ones).items())}
    {'bias': 0.5, 'weight': 0.0}
    """

    def __init__(
        self,
        optimizers: list[Optimizer],
        filters: list[Callable[..., bool]] = [],  # noqa: B006 (never changed)
    ) -> None:
        super().__init__()
        if len(filters) != len(optimizers) - 1:
            raise ValueError(
                f"[MultiOptimizer] Given {len(filters)} filters but {len(optimizers) - 1} needed."
            )
        self.optimizers = optimizers
        self.filters: list[Callable[..., bool]] = [*filters, lambda *args, **kwargs: True]

    def _shares(self, gradients: dict[str, Any]) -> list[dict[str, Any]]:
        """For each optimizer the part of the tree that it takes."""
        if len(self.optimizers) == 1:
            return [gradients]
        parts: list[list[tuple[str, Any]]] = [[] for _ in self.optimizers]
        for path, gradient in tree_flatten(gradients):
            chosen = next(i for i, accepts in enumerate(self.filters) if accepts(path, gradient))
            parts[chosen].append((path, gradient))
        return [tree_unflatten(part) if part else {} for part in parts]

    def init(self, parameters: dict[str, Any]) -> None:
        """Make the state of all optimizers."""
        for optimizer, share in zip(self.optimizers, self._shares(parameters)):
            optimizer.init(share)

    def apply_gradients(self, gradients: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
        """The parameters after one step of each optimizer."""
        new: dict[str, Any] = {}
        for optimizer, share in zip(self.optimizers, self._shares(gradients)):
            new = tree_merge(new, optimizer.apply_gradients(share, parameters))
        return new

    @property
    def state(self) -> State:
        """A dictionary with the list of the states of all optimizers."""
        return {"states": [optimizer.state for optimizer in self.optimizers]}

    @state.setter
    def state(self, state: State) -> None:
        states = state.get("states")
        if states is None or len(states) != len(self.optimizers):
            raise ValueError(
                f"[MultiOptimizer] expected the key 'states' with {len(self.optimizers)} states."
            )
        for optimizer, part in zip(self.optimizers, states):
            optimizer.state = part

    @property
    def learning_rate(self) -> mx.array:
        """The learning rate of the first optimizer; assigning sets that of all."""
        return self.optimizers[0].learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate: float | mx.array) -> None:
        for optimizer in self.optimizers:
            optimizer.learning_rate = learning_rate


def clip_grad_norm(grads: Any, max_norm: float) -> tuple[Any, mx.array]:
    """Scale gradients so that the norm of all of them together is not greater than a bound.

    Args:
        grads: a tree of arrays.
        max_norm: the bound.

    Returns:
        The tree with its dtypes, scaled if the norm was greater, and the norm (in at least ``float32``).

    Raises:
        ValueError: `max_norm` is negative.

    >>> import olivine.core as mx, olivine.optimizers as optim
    >>> grads, norm = optim.clip_grad_norm({"w": mx.array([3.0, 4.0])}, 1.0)
    >>> norm.item(), [round(g, 4) for g in grads["w"].tolist()]
    (5.0, [0.6, 0.8])
    """
    if max_norm < 0:
        raise ValueError(f"[clip_grad_norm] max_norm should be >=0, {max_norm} was provided instead.")
    norm = mx.sqrt(tree_reduce(lambda total, g: total + squared_sum(g), grads, 0.0))
    return scale_to_norm(grads, norm, max_norm), norm
