"""Functions over trees: nested lists, tuples, named tuples and dictionaries whose leaves are anything else.

Models, gradients and optimizer states are such trees. A module is a dictionary, so it is a tree too. A leaf is
known by its path, the keys and positions that lead to it, joined by dots: ``layers.0.weight``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, overload

__all__ = [
    "tree_flatten",
    "tree_map",
    "tree_map_with_path",
    "tree_merge",
    "tree_reduce",
    "tree_unflatten",
]

IsLeaf: TypeAlias = Callable[[Any], bool]
Leaves: TypeAlias = list[tuple[str, Any]]

# A path such as "layers.99999999999.weight" in a damaged file must not ask for that many list entries.
_MAX_LIST_GAP = 10_000_000


def _rebuild(like: Any, items: Iterable[Any]) -> Any:
    """A list, tuple or named tuple of the same type as `like`."""
    return type(like)(*items) if hasattr(like, "_fields") else type(like)(items)


def _is_empty(tree: Any) -> bool:
    return isinstance(tree, (dict, list, tuple)) and not tree


def _children(tree: Any) -> Iterator[tuple[Any, Any]] | None:
    """The `(key, child)` pairs of a container, `None` for a leaf."""
    if isinstance(tree, dict):
        return iter(tree.items())
    if isinstance(tree, (list, tuple)):
        return iter(enumerate(tree))
    return None


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """Apply a function to every leaf.

    Args:
        fn: called with a leaf of `tree` and the subtrees at the same place in each of `rest`.
        tree: decides the structure of the result.
        rest: trees that hold at least the keys and positions of `tree`.
        is_leaf: what it accepts is a leaf, a container too.

    Returns:
        A tree of the results. Dictionaries of any class become plain ones; named tuples stay what they are.

    Raises:
        KeyError, IndexError: one of `rest` lacks a place of `tree`.

    >>> tree_map(lambda x: x + 1, {"a": [1, 2], "b": (3,)})
    {'a': [2, 3], 'b': (4,)}
    >>> tree_map(lambda x, y: x * y, [1, 2], [10, 20])
    [10, 40]
    """
    if is_leaf is not None and is_leaf(tree):
        return fn(tree, *rest)
    if isinstance(tree, dict):
        return {
            key: tree_map(fn, child, *[other[key] for other in rest], is_leaf=is_leaf)
            for key, child in tree.items()
        }
    if isinstance(tree, (list, tuple)):
        mapped = [
            tree_map(fn, child, *[other[i] for other in rest], is_leaf=is_leaf)
            for i, child in enumerate(tree)
        ]
        return _rebuild(tree, mapped)
    return fn(tree, *rest)


def tree_map_with_path(
    fn: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf | None = None,
    path: Any = None,
) -> Any:
    """Like `tree_map`, with the path of the leaf as the first argument of `fn`.

    Args:
        fn: called with the path, the leaf, and the subtrees of `rest` at the same place.
        tree: decides the structure of the result.
        rest: trees that hold at least the keys and positions of `tree`.
        is_leaf: what it accepts is a leaf.
        path: put before every path. A leaf that is the whole tree has exactly this path (`None` by default).

    >>> tree_map_with_path(lambda path, x: f"{path}={x}", {"a": [1, 2]})
    {'a': ['a.0=1', 'a.1=2']}
    """
    children = None if is_leaf is not None and is_leaf(tree) else _children(tree)
    if children is None:
        return fn(path, tree, *rest)
    prefix = f"{path}." if path else ""
    mapped = {
        key: tree_map_with_path(
            fn, child, *[other[key] for other in rest], is_leaf=is_leaf, path=f"{prefix}{key}"
        )
        for key, child in children
    }
    return mapped if isinstance(tree, dict) else _rebuild(tree, mapped.values())


@overload
def tree_flatten(
    tree: Any, prefix: str = "", is_leaf: IsLeaf | None = None, destination: Leaves | None = None
) -> Leaves: ...
@overload
def tree_flatten(
    tree: Any, prefix: str = "", is_leaf: IsLeaf | None = None, *, destination: dict[str, Any]
) -> dict[str, Any]: ...
@overload
def tree_flatten(
    tree: Any, prefix: str, is_leaf: IsLeaf | None, destination: dict[str, Any]
) -> dict[str, Any]: ...
def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: IsLeaf | None = None,
    destination: Leaves | dict[str, Any] | None = None,
) -> Leaves | dict[str, Any]:
    """The leaves with their paths, in the order of the tree.

    Args:
        tree: what to flatten. Empty containers have no leaf and leave no trace.
        prefix: put before every path; its first character (a dot by convention) is dropped.
        is_leaf: what it accepts is a leaf.
        destination: a list to extend or a dictionary to update. A new list by default.

    Returns:
        `destination`.

    Raises:
        ValueError: `destination` is something else.

    >>> tree_flatten({"a": [1, 2], "b": {"c": 3}})
    [('a.0', 1), ('a.1', 2), ('b.c', 3)]
    >>> tree_flatten([5, 6], prefix=".x", destination={})
    {'x.0': 5, 'x.1': 6}
    """
    if destination is None:
        destination = []
    elif not isinstance(destination, (list, dict)):
        raise ValueError(
            f"[tree_flatten] destination is a list or a dictionary, not {type(destination).__name__}."
        )
    if isinstance(destination, list):
        _collect_leaves(prefix, tree, is_leaf, destination)
        return destination
    leaves: Leaves = []
    _collect_leaves(prefix, tree, is_leaf, leaves)
    destination.update(leaves)
    return destination


# Not a function inside of `tree_flatten`: one that calls itself is a reference cycle, which would hold all leaves
# until the next garbage collection.
def _collect_leaves(path: str, tree: Any, is_leaf: IsLeaf | None, leaves: Leaves) -> None:
    children = None if is_leaf is not None and is_leaf(tree) else _children(tree)
    if children is None:
        leaves.append((path[1:], tree))
        return
    for key, child in children:
        _collect_leaves(f"{path}.{key}", child, is_leaf, leaves)


def tree_unflatten(tree: Leaves | dict[str, Any]) -> Any:
    """The tree whose leaves have the given paths: what `tree_flatten` took apart.

    Args:
        tree: pairs of path and leaf, or a dictionary of them.

    Returns:
        Dictionaries, and lists where all keys of a level are numbers. Missing positions of a list hold ``{}``.
        The only leaf of an empty path is returned itself.

    Raises:
        ValueError: a position is so far beyond the others that it cannot be meant.

    >>> tree_unflatten([("a.0", 1), ("a.2", 2), ("b", 3)])
    {'a': [1, {}, 2], 'b': 3}
    """
    items = list(tree.items() if isinstance(tree, dict) else tree)
    if len(items) == 1 and items[0][0] == "":
        return items[0][1]
    groups: dict[str, Leaves] = {}
    for path, leaf in items:
        key, _, remainder = path.partition(".")
        groups.setdefault(key, []).append((remainder, leaf))
    positions = {int(key): key for key in groups if key.isascii() and key.isdigit()}
    if len(positions) != len(groups):
        return {key: tree_unflatten(group) for key, group in groups.items()}
    length = max(positions, default=-1) + 1
    if length - len(positions) > _MAX_LIST_GAP:
        raise ValueError(f"[tree_unflatten] position {length - 1} in a list of {len(positions)} entries.")
    return [tree_unflatten(groups[positions[i]]) if i in positions else {} for i in range(length)]


def tree_reduce(
    fn: Callable[[Any, Any], Any], tree: Any, initializer: Any = None, is_leaf: IsLeaf | None = None
) -> Any:
    """Fold the leaves, in the order of the tree, into one value.

    Args:
        fn: takes the value so far and a leaf, returns the new value.
        tree: what to fold.
        initializer: the first value. Without it the first leaf is.
        is_leaf: what it accepts is a leaf.

    Returns:
        The last value; `initializer` for a tree without leaves.

    >>> tree_reduce(lambda total, x: total + x, {"a": [1, 2], "b": 3}, 0)
    6
    """
    value = initializer
    for _, leaf in tree_flatten(tree, is_leaf=is_leaf):
        value = leaf if value is None else fn(value, leaf)
    return value


def tree_merge(tree_a: Any, tree_b: Any, merge_fn: Callable[[Any, Any], Any] | None = None) -> Any:
    """The union of two trees.

    Dictionaries are merged by key (those of `tree_a` first), lists and tuples by position, the shorter one
    as if it were filled up. `None` yields to whatever the other tree has there, and an empty container to a leaf or a
    container that is not empty.

    Args:
        tree_a: a tree.
        tree_b: a tree.
        merge_fn: called where both trees have a leaf.

    Raises:
        ValueError: both have a leaf at one place and there is no `merge_fn`, or empty containers of different
            types meet.

    >>> tree_merge({"a": [1, {}]}, {"a": [{}, 2], "b": 3})
    {'a': [1, 2], 'b': 3}
    >>> tree_merge({"a": 1}, {"a": 5}, max)
    {'a': 5}
    """
    if tree_a is None or tree_b is None:
        return tree_b if tree_a is None else tree_a
    if _is_empty(tree_a) and _is_empty(tree_b) and type(tree_a) is not type(tree_b):
        raise ValueError(
            f"[tree_merge] an empty {type(tree_a).__name__} meets an empty {type(tree_b).__name__}."
        )
    if _is_empty(tree_a) or _is_empty(tree_b):
        return tree_b if _is_empty(tree_a) else tree_a
    if isinstance(tree_a, dict) and isinstance(tree_b, dict):
        return {key: tree_merge(tree_a.get(key), tree_b.get(key), merge_fn) for key in {**tree_a, **tree_b}}
    if isinstance(tree_a, (list, tuple)) and isinstance(tree_b, (list, tuple)):
        length = max(len(tree_a), len(tree_b))
        padded_a, padded_b = ([*tree, *[None] * (length - len(tree))] for tree in (tree_a, tree_b))
        return _rebuild(tree_a, [tree_merge(a, b, merge_fn) for a, b in zip(padded_a, padded_b)])
    if merge_fn is None:
        raise ValueError("[tree_merge] both trees have a leaf at the same place: pass merge_fn to join them.")
    return merge_fn(tree_a, tree_b)
