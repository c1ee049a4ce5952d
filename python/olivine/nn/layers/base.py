"""`Module`, the base of everything that has parameters."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, TypeAlias

import olivine.core as mx
from olivine.utils import tree_flatten, tree_unflatten

Filter: TypeAlias = "Callable[[Module, str, Any], bool]"

# Where something is in a tree: the place of what contains it, and its key there. Written out only in errors.
_Place: TypeAlias = "tuple[_Place, Any] | None"
_Accept: TypeAlias = "Callable[[Any, Any, _Place], bool | None]"

_NAMES_SHOWN = 20


class Module(dict[str, Any]):
    """A tree of parameters and of further modules, with a `__call__` that subclasses write.

    A module is a dictionary. Assigning an array, a dictionary, a list, a tuple or a module to an attribute makes
    an entry of it; everything else is an ordinary attribute. Arrays among the entries, at any depth, are
    parameters, except under names that begin with an underscore. Parameters are trainable unless frozen, and
    `olivine.nn.value_and_grad` differentiates with respect to the trainable ones.

    A subclass calls ``super().__init__()`` before it assigns anything.

    >>> import olivine.core as mx, olivine.nn as nn
    >>> class Affine(nn.Module):
    ...     def __init__(self, dims):
    ...         super().__init__()
    ...         self.scale = mx.ones((dims,))
    ...         self.shift = mx.zeros((dims,))
    ...     def __call__(self, x):
    ...         return x * self.scale + self.shift
    >>> sorted(Affine(3).parameters())
    ['scale', 'shift']
    """

    __call__: Callable[..., Any]
    _no_grad: set[str]
    _training: bool

    def __init__(self) -> None:
        self._no_grad = set()
        self._training = True

    # Attributes and entries

    def __getattr__(self, key: str) -> Any:
        value = self.get(key)
        if value is not None:
            return value
        if key in ("_no_grad", "_training"):
            raise AttributeError(f"{type(self).__name__}.__init__ must call super().__init__() first")
        # Raises. Where a property failed with an AttributeError of its own, it is that error.
        return super().__getattribute__(key)

    def __setattr__(self, key: str, val: Any) -> None:
        if not isinstance(val, (mx.array, dict, list, tuple)):
            super().__setattr__(key, val)
            self.pop(key, None)
            return
        on_class = getattr(type(self), key, None)
        if hasattr(on_class, "__set__"):
            super().__setattr__(key, val)
            return
        if hasattr(type(self), key):
            # The lookup would find the class's attribute first and never the entry.
            raise AttributeError(
                f"{type(self).__name__!r} has a class attribute {key!r}, which would hide an entry of this name"
            )
        self.__dict__.pop(key, None)
        self[key] = val

    def __delattr__(self, name: str) -> None:
        if name in self:
            del self[name]
        else:
            super().__delattr__(name)

    @property
    def training(self) -> bool:
        """Whether the module is in training mode, which decides what dropout and batch normalisation do.

        >>> import olivine.nn as nn
        >>> nn.Linear(2, 2).training
        True
        """
        return self._training

    @property
    def state(self) -> Module:
        """The module itself: all of its entries, not only the parameters, by reference.

        Pass it to `olivine.core.compile` as captured input and output.

        >>> import olivine.nn as nn
        >>> layer = nn.Linear(2, 2)
        >>> layer.state is layer
        True
        """
        return self

    # Printing

    def _extra_repr(self) -> str:
        """What a layer says of itself between the parentheses of its `repr`."""
        return ""

    def __repr__(self) -> str:
        head = f"{type(self).__name__}({self._extra_repr()}"
        lines = [
            textwrap.indent(f"({path}): {child!r}", "  ")
            for path, child in tree_flatten(self.children(), is_leaf=self.is_module)
        ]
        return "\n".join([head, *lines, ")"]) if lines else head + ")"

    # Files

    def load_weights(
        self,
        file_or_weights: str | os.PathLike[str] | list[tuple[str, mx.array]] | dict[str, mx.array],
        strict: bool = True,
    ) -> Module:
        """Replace parameters by those of a file or a list.

        Args:
            file_or_weights: the path of an ``.npz`` or ``.safetensors`` file, or pairs of parameter path and array.
            strict: the weights must be those of the module, none more, none fewer, with the same shapes.
                Otherwise what the module lacks is ignored and shapes are not looked at.

        Returns:
            The module.

        Raises:
            ValueError: strict, and the weights do not fit. The message lists everything that is wrong, and no
                parameter has been touched.

        >>> import olivine.core as mx, olivine.nn as nn
        >>> layer = nn.Linear(2, 1, bias=False).load_weights([("weight", mx.array([[1.0, 2.0]]))])
        >>> layer(mx.array([3.0, 4.0])).item()
        11.0
        """
        if isinstance(file_or_weights, (str, os.PathLike)):
            file_or_weights = _load_arrays(os.fspath(file_or_weights))
        weights = dict(file_or_weights)
        if strict:
            _check_fit(weights, tree_flatten(self.parameters(), destination={}))
        if weights:
            self.update(tree_unflatten(weights), strict=False)
        return self

    def save_weights(self, file: str | os.PathLike[str]) -> None:
        """Write all parameters to an ``.npz`` or ``.safetensors`` file, by the ending of its name.

        Raises:
            ValueError: another ending.

        >>> import os, tempfile, olivine.nn as nn
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "weights.safetensors")
        ...     nn.Linear(2, 2).save_weights(path)
        ...     _ = nn.Linear(2, 2).load_weights(path)
        """
        path = os.fspath(file)
        arrays: dict[str, mx.array] = tree_flatten(self.parameters(), destination={})
        if path.endswith(".npz"):
            mx.savez(path, **arrays)
        elif path.endswith(".safetensors"):
            mx.save_safetensors(path, arrays)
        else:
            raise ValueError(f"[save_weights] the name of {path} ends neither in .npz nor in .safetensors.")

    # Selecting

    @staticmethod
    def is_module(value: Any) -> bool:
        """Whether a value is a module.

        >>> import olivine.nn as nn
        >>> nn.Module.is_module(nn.ReLU()), nn.Module.is_module(nn.relu)
        (True, False)
        """
        return isinstance(value, Module)

    @staticmethod
    def valid_child_filter(module: Module, key: str, value: Any) -> bool:
        """A filter that keeps modules and the containers that may hold them.

        >>> import olivine.nn as nn
        >>> nn.Linear(2, 2).filter_and_map(nn.Module.valid_child_filter)
        {}
        """
        return isinstance(value, (dict, list))

    @staticmethod
    def valid_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter that keeps parameters, frozen ones too, and what may contain them.

        >>> import olivine.nn as nn
        >>> list(nn.BatchNorm(2, affine=False).filter_and_map(nn.Module.valid_parameter_filter))
        ['running_mean', 'running_var']
        """
        return isinstance(value, (dict, list, mx.array)) and not key.startswith("_")

    @staticmethod
    def trainable_parameter_filter(module: Module, key: str, value: Any) -> bool:
        """A filter that keeps the parameters that are not frozen and what may contain them.

        >>> import olivine.nn as nn
        >>> nn.BatchNorm(2, affine=False).filter_and_map(nn.Module.trainable_parameter_filter)
        {}
        """
        return Module.valid_parameter_filter(module, key, value) and key not in module._no_grad

    def filter_and_map(
        self,
        filter_fn: Filter,
        map_fn: Callable[[Any], Any] | None = None,
        is_leaf_fn: Filter | None = None,
    ) -> dict[str, Any]:
        """A part of the tree of entries, its leaves transformed.

        All three functions see entries of modules; inside a list or dictionary the key is its path from the
        module, such as ``layers.0``.

        Args:
            filter_fn: called with the module, the key and the value; what it refuses is left out (and is ``{}``
                inside a list or dictionary, so that positions stay).
            map_fn: applied to each leaf.
            is_leaf_fn: says which values are leaves. By default all but modules, dictionaries and lists.

        Raises:
            RuntimeError: a value is no leaf by `is_leaf_fn` and no container either.

        >>> import olivine.nn as nn
        >>> nn.Linear(3, 2).filter_and_map(nn.Module.valid_parameter_filter, lambda p: p.shape)
        {'weight': (2, 3), 'bias': (2,)}
        """
        return _members(self, filter_fn, map_fn or _unchanged, is_leaf_fn or _is_no_container)

    def parameters(self) -> dict[str, Any]:
        """All parameters, as dictionaries and lists of arrays.

        >>> import olivine.nn as nn
        >>> nn.Sequential(nn.Linear(2, 3, bias=False), nn.ReLU()).parameters()["layers"][1]
        {}
        """
        return self.filter_and_map(self.valid_parameter_filter)

    def trainable_parameters(self) -> dict[str, Any]:
        """The parameters that are not frozen, as dictionaries and lists of arrays.

        >>> import olivine.nn as nn
        >>> nn.Linear(2, 2).freeze().trainable_parameters()
        {}
        """
        return self.filter_and_map(self.trainable_parameter_filter)

    def children(self) -> dict[str, Any]:
        """The modules directly below this one, in their lists and dictionaries.

        >>> import olivine.nn as nn
        >>> nn.Sequential(nn.ReLU(), nn.Tanh()).children()
        {'layers': [ReLU(), Tanh()]}
        """
        return self.filter_and_map(
            self.valid_child_filter, is_leaf_fn=lambda _, key, value: isinstance(value, Module)
        )

    def leaf_modules(self) -> dict[str, Any]:
        """The modules at any depth that contain no others.

        >>> import olivine.nn as nn
        >>> nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())).leaf_modules()
        {'layers': [ReLU(), {'layers': [Tanh()]}]}
        """

        def is_leaf(_: Module, key: str, value: Any) -> bool:
            return isinstance(value, Module) and not tree_flatten(value.children(), is_leaf=self.is_module)

        return self.filter_and_map(self.valid_child_filter, is_leaf_fn=is_leaf)

    # Replacing

    def update(self, parameters: dict[str, Any], strict: bool = True) -> Module:  # type: ignore[override]
        """Replace parameters.

        Args:
            parameters: a tree like `parameters`, or a part of it.
            strict: names, positions and types that do not fit are errors. Otherwise they are passed over.

        Returns:
            The module. After an error nothing has changed.

        Raises:
            ValueError: strict, and something does not fit.

        >>> import olivine.core as mx, olivine.nn as nn
        >>> nn.Linear(1, 1).update({"weight": mx.array([[5.0]])}).weight.item()
        5.0
        """

        def accept(current: Any, new: Any, place: _Place) -> bool | None:
            if not isinstance(current, mx.array):
                return None
            if strict and not isinstance(new, mx.array):
                raise ValueError(
                    f"[update] {_path(place)} is an array; {type(new).__name__} cannot replace it."
                )
            return True

        _replace(self, parameters, strict, "parameter", accept)
        return self

    def apply(self, map_fn: Callable[[mx.array], mx.array], filter_fn: Filter | None = None) -> Module:
        """Replace each parameter by a function of it.

        Args:
            map_fn: takes a parameter, returns its replacement.
            filter_fn: chooses the parameters, as in `filter_and_map`. All by default.

        >>> import olivine.core as mx, olivine.nn as nn
        >>> nn.Linear(2, 2).apply(lambda p: p.astype(mx.float16)).weight.dtype == mx.float16
        True
        """
        return self.update(self.filter_and_map(filter_fn or Module.valid_parameter_filter, map_fn))

    def update_modules(self, modules: dict[str, Any], strict: bool = True) -> Module:
        """Replace modules by modules.

        Args:
            modules: a tree like `children` or `leaf_modules`, or a part of it.
            strict: names, positions and types that do not fit are errors.

        Raises:
            ValueError: strict, and something does not fit. Nothing has changed then.

        >>> import olivine.nn as nn
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> model.update_modules({"layers": [{}, nn.Tanh()]}).layers[1]
        Tanh()
        """

        def accept(current: Any, new: Any, place: _Place) -> bool | None:
            if isinstance(current, Module) and isinstance(new, Module):
                return True
            if isinstance(current, (dict, list)):
                return None
            if strict and not _is_empty_dict(new):
                raise ValueError(
                    f"[update_modules] {_path(place)} is no module: {type(new).__name__} cannot replace it."
                )
            return False

        _replace(self, modules, strict, "sub-module", accept)
        return self

    # Walking

    def apply_to_modules(self, apply_fn: Callable[[str, Module], Any]) -> Module:
        """Call a function with the path of every module, this one included (its path is empty), and the module.

        A module comes before those that it contains; of several children the last comes first.

        >>> import olivine.nn as nn
        >>> _ = nn.Sequential(nn.ReLU(), nn.Tanh()).apply_to_modules(lambda path, module: print(repr(path)))
        ''
        'layers.1'
        'layers.0'
        """
        pending: list[tuple[str, Module]] = [("", self)]
        while pending:
            path, module = pending.pop()
            apply_fn(path, module)
            below = tree_flatten(module.children(), prefix=f".{path}" if path else "", is_leaf=self.is_module)
            pending.extend(below)
        return self

    def modules(self) -> list[Module]:
        """This module and all below it.

        >>> import olivine.nn as nn
        >>> len(nn.Sequential(nn.ReLU(), nn.Tanh()).modules())
        3
        """
        return [module for _, module in self.named_modules()]

    def named_modules(self) -> list[tuple[str, Module]]:
        """This module and all below it, with their paths.

        >>> import olivine.nn as nn
        >>> [path for path, _ in nn.Sequential(nn.Linear(2, 2), nn.ReLU()).named_modules()]
        ['', 'layers.1', 'layers.0']
        """
        found: list[tuple[str, Module]] = []
        self.apply_to_modules(lambda path, module: found.append((path, module)))
        return found

    # Modes

    def freeze(
        self, *, recurse: bool = True, keys: str | list[str] | None = None, strict: bool = False
    ) -> Module:
        """Exclude parameters from training.

        Args:
            recurse: in all modules below this one, too.
            keys: the names to freeze, in each module that has them. All by default.
            strict: a key that no module has is an error.

        Raises:
            KeyError: strict, and nothing has a name of `keys`.

        >>> import olivine.nn as nn
        >>> nn.Linear(2, 2).freeze(keys="bias").trainable_parameters().keys()
        dict_keys(['weight'])
        """

        def freeze(module: Module, names: list[str] | None) -> None:
            module._no_grad.update(_own_parameters(module) if names is None else names)

        return self._mark(freeze, recurse, keys, strict)

    def unfreeze(
        self, *, recurse: bool = True, keys: str | list[str] | None = None, strict: bool = False
    ) -> Module:
        """Make parameters trainable. The arguments are those of `freeze`.

        >>> import olivine.nn as nn
        >>> nn.Linear(2, 2).freeze().unfreeze(keys="bias").trainable_parameters().keys()
        dict_keys(['bias'])
        """

        def unfreeze(module: Module, names: list[str] | None) -> None:
            if names is None:
                module._no_grad.clear()
            else:
                module._no_grad.difference_update(names)

        return self._mark(unfreeze, recurse, keys, strict)

    def _mark(
        self,
        mark: Callable[[Module, list[str] | None], None],
        recurse: bool,
        keys: str | list[str] | None,
        strict: bool,
    ) -> Module:
        names = [keys] if isinstance(keys, str) else None if keys is None else list(keys)
        targets = self.modules() if recurse else [self]
        if strict:
            for name in names or ():
                if not any(name in module for module in targets):
                    raise KeyError(f"No module here has a member {name!r}.")
        for module in targets:
            mark(module, names)
        return self

    def _set_training_mode(self, mode: bool) -> None:
        """Called on every module by `train`; subclasses with work to do on the change extend it."""
        self._training = mode

    def train(self, mode: bool = True) -> Module:
        """Switch this module and all below it to training mode, or out of it.

        >>> import olivine.nn as nn
        >>> nn.Dropout(0.5).eval().train().training
        True
        """
        return self.apply_to_modules(lambda _, module: module._set_training_mode(mode))

    def eval(self) -> Module:
        """Switch this module and all below it out of training mode.

        >>> import olivine.nn as nn
        >>> nn.Dropout(0.5).eval().training
        False
        """
        return self.train(False)

    def set_dtype(
        self,
        dtype: mx.Dtype,
        predicate: Callable[[mx.Dtype], bool] | None = lambda dtype: mx.issubdtype(dtype, mx.floating),
    ) -> None:
        """Convert parameters to a dtype.

        Args:
            dtype: the new dtype.
            predicate: says by the current dtype which parameters to convert: those of floating point by default,
                all if `None`.

        >>> import olivine.core as mx, olivine.nn as nn
        >>> layer = nn.Linear(2, 2)
        >>> layer.set_dtype(mx.bfloat16)
        >>> layer.weight.dtype == mx.bfloat16
        True
        """
        self.apply(lambda p: p.astype(dtype) if predicate is None or predicate(p.dtype) else p)


def _unchanged(value: Any) -> Any:
    return value


def _is_no_container(_: Module, key: str, value: Any) -> bool:
    return not isinstance(value, (dict, list))


def _is_empty_dict(value: Any) -> bool:
    return isinstance(value, dict) and not value


# The functions that follow call themselves, so they stand here and not inside of methods: there they would be
# reference cycles that hold arrays until the next garbage collection.


def _members(module: Module, keep: Filter, convert: Callable[[Any], Any], is_leaf: Filter) -> dict[str, Any]:
    """The entries of a module that a filter keeps, transformed."""
    return {
        key: _select(module, key, value, keep, convert, is_leaf)
        for key, value in module.items()
        if keep(module, key, value)
    }


def _select(
    owner: Module, path: str, value: Any, keep: Filter, convert: Callable[[Any], Any], is_leaf: Filter
) -> Any:
    """One entry of a module, or of a container in it."""
    if is_leaf(owner, path, value):
        return convert(value)
    if isinstance(value, Module):
        return _members(value, keep, convert, is_leaf)
    kept = [
        (key, _select(owner, at, part, keep, convert, is_leaf) if keep(owner, at, part) else {})
        for key, at, part in _entries(path, value)
    ]
    return dict(kept) if isinstance(value, dict) else [part for _, part in kept]


def _entries(path: str, value: Any) -> Iterator[tuple[Any, str, Any]]:
    """Key, path and value of each part of a dictionary or list."""
    if isinstance(value, dict):
        parts: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        raise RuntimeError(
            f"[filter_and_map] {path} is neither a leaf nor a container: {type(value).__name__}."
        )
    for key, part in parts:
        yield key, f"{path}.{key}", part


def _own_parameters(module: Module) -> list[str]:
    """The paths of the parameters of a module itself, not of those below it."""

    def own(owner: Module, key: str, value: Any) -> bool:
        return not isinstance(value, Module) and owner.valid_parameter_filter(owner, key, value)

    return [path for path, _ in tree_flatten(module.filter_and_map(own))]


def _path(place: _Place) -> str:
    keys: list[str] = []
    while place is not None:
        place, key = place
        keys.append(str(key))
    return ".".join(reversed(keys)) or "the root"


def _replace(target: Any, source: Any, strict: bool, noun: str, accept: _Accept) -> None:
    """Put the leaves of `source` in the places that they have in `target`, all or none.

    `accept(current, new, place)` says whether to replace (true), to leave (false) or to descend (`None`).
    """
    changes: list[tuple[Any, Any, Any]] = []
    _find_changes(target, source, None, strict, noun, accept, changes)
    for container, key, value in changes:
        container[key] = value


def _find_changes(
    container: Any,
    new: Any,
    place: _Place,
    strict: bool,
    noun: str,
    accept: _Accept,
    changes: list[tuple[Any, Any, Any]],
) -> None:
    present: Container[Any] = ()
    if isinstance(new, dict):
        present = container if isinstance(container, dict) else ()
        parts: Iterable[tuple[Any, Any]] = new.items()
    elif isinstance(new, list):
        present = range(len(container)) if isinstance(container, list) else ()
        parts = enumerate(new)
    elif strict:
        raise ValueError(f"{type(new).__name__} cannot replace what is at {_path(place)}.")
    else:
        return
    for key, value in parts:
        at = (place, key)
        if key not in present:
            if strict:
                raise ValueError(f"The module has no {noun} {_path(at)!r}.")
            continue
        current = container[key]
        verdict = accept(current, value, at)
        if verdict:
            changes.append((container, key, value))
        elif verdict is None:
            _find_changes(current, value, at, strict, noun, accept, changes)


def _load_arrays(path: str) -> dict[str, mx.array]:
    loaded = mx.load(path)
    if not isinstance(loaded, dict):
        raise ValueError(f"[load_weights] {path} holds no named arrays.")
    return loaded


def _check_fit(given: dict[str, Any], expected: dict[str, mx.array]) -> None:
    """Raise a `ValueError` that lists every difference."""
    faults: list[str] = []
    extra = sorted(given.keys() - expected.keys())
    if extra:
        faults.append(f"Received {len(extra)} parameters not in model:\n{_listing(extra)}")
    missing = sorted(expected.keys() - given.keys())
    if missing:
        faults.append(f"Missing {len(missing)} parameters:\n{_listing(missing)}")
    for name in (name for name in expected if name in given):
        new, shape = given[name], tuple(expected[name].shape)
        if not isinstance(new, mx.array):
            faults.append(f"Expected an array but received {type(new).__name__} for parameter {name}")
        elif tuple(new.shape) != shape:
            faults.append(
                f"Expected shape {shape} but received shape {tuple(new.shape)} for parameter {name}"
            )
    if faults:
        shown = faults[:_NAMES_SHOWN]
        if len(faults) > len(shown):
            shown.append(f"and {len(faults) - len(shown)} more")
        raise ValueError("[load_weights] " + ".\n".join(shown) + ".")


def _listing(names: list[str]) -> str:
    shown = names[:_NAMES_SHOWN]
    rest = len(names) - len(shown)
    return ",\n".join(shown) + (f",\nand {rest} more" if rest else "")
