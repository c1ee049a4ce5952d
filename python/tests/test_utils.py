"""Tree functions beside MLX's, and deep and damaged trees."""

from collections import namedtuple

import pytest
from support import OLIVINE, assert_same

utils = OLIVINE.utils
Pair = namedtuple("Pair", "first second")
TREE = {"a": [1, (2, 3), {"b": 4}], "c": Pair(5, [6]), "d": {}, "e": None, 7: 8}
is_pair = lambda x: isinstance(x, Pair)

CASES = {
    "map": lambda u: u.tree_map(lambda x: (x, "leaf"), TREE),
    "map of a leaf": lambda u: u.tree_map(lambda x: x + 1, 3),
    "map of several": lambda u: u.tree_map(
        lambda *xs: xs, [1, {"a": 2}], [3, {"a": [4]}], ([5], {"a": 6, "b": 0})
    ),
    "map with leaves": lambda u: u.tree_map(str, TREE, is_leaf=is_pair),
    "map keeps types": lambda u: type(u.tree_map(str, Pair(1, 2))).__name__,
    "map misfit": lambda u: u.tree_map(lambda *xs: xs, [1, 2], [3]),
    "map misfit key": lambda u: u.tree_map(lambda *xs: xs, {"a": 1}, {}),
    "path": lambda u: u.tree_map_with_path(lambda p, x: (p, x), TREE),
    "path of a leaf": lambda u: u.tree_map_with_path(lambda p, x: (p, x), 1),
    "path with a prefix": lambda u: u.tree_map_with_path(lambda p, x: (p, x), [1, {"a": 2}], path="root"),
    "path of several": lambda u: u.tree_map_with_path(lambda *xs: xs, [1, 2], [3, 4]),
    "path with leaves": lambda u: u.tree_map_with_path(lambda p, x: p, TREE, is_leaf=is_pair),
    "flatten": lambda u: u.tree_flatten(TREE),
    "flatten a leaf": lambda u: u.tree_flatten(1),
    "flatten nothing": lambda u: u.tree_flatten({}),
    "flatten with a prefix": lambda u: u.tree_flatten([1, [2]], ".x"),
    "flatten with leaves": lambda u: u.tree_flatten(TREE, is_leaf=is_pair),
    "flatten into a dict": lambda u: u.tree_flatten(TREE, destination={"z": 0}),
    "flatten into a list": lambda u: u.tree_flatten([1], destination=[("z", 0)]),
    "flatten into a tuple": lambda u: u.tree_flatten([1], destination=()),
    "unflatten": lambda u: u.tree_unflatten(u.tree_flatten(TREE)),
    "unflatten a leaf": lambda u: u.tree_unflatten([("", 1)]),
    "unflatten nothing": lambda u: u.tree_unflatten([]),
    "unflatten no dict": lambda u: u.tree_unflatten({}),
    "unflatten a dict": lambda u: u.tree_unflatten({"a.b": 1, "a.c.1": 2, "d": 3}),
    "unflatten gaps": lambda u: u.tree_unflatten([("2", 1), ("0.a", 2)]),
    "unflatten mixed keys": lambda u: u.tree_unflatten([("0", 1), ("a", 2)]),
    "unflatten twice the key": lambda u: u.tree_unflatten([("0", 1), ("00", 2)]),
    "unflatten leaf and tree": lambda u: u.tree_unflatten([("a", 1), ("a.b", 2)]),
    "reduce": lambda u: u.tree_reduce(lambda a, x: a + x, [1, {"a": 2, "b": (3,)}], 10),
    "reduce without a start": lambda u: u.tree_reduce(lambda a, x: a + x, [1, {"a": 2}]),
    "reduce nothing": lambda u: u.tree_reduce(lambda a, x: a + x, {}, 4),
    "reduce a leaf": lambda u: u.tree_reduce(lambda a, x: a + x, 5, 4),
    "reduce with leaves": lambda u: u.tree_reduce(lambda a, x: [*a, x], [1, [2]], [], lambda x: x == [2]),
    "merge": lambda u: sorted_dict(
        u.tree_merge({"a": [1, {}], "b": {"c": 1}}, {"a": [{}, 2, 3], "b": {"d": 2}})
    ),
    "merge leaves": lambda u: u.tree_merge({"a": 1}, {"a": 5}, max),
    "merge conflict": lambda u: u.tree_merge({"a": 1}, {"a": 5}),
    "merge types": lambda u: u.tree_merge([1], {"a": 5}),
    "merge empties": lambda u: u.tree_merge({"a": []}, {"a": []}),
    "merge different empties": lambda u: u.tree_merge([], {}),
    "merge none": lambda u: u.tree_merge({"a": None}, {"a": 2}),
    "merge tuples": lambda u: type(u.tree_merge(Pair(1, {}), Pair({}, 2))).__name__,
}


def sorted_dict(tree):
    """MLX leaves the order of keys to chance."""
    return {key: sorted_dict(tree[key]) for key in sorted(tree)} if isinstance(tree, dict) else tree


@pytest.mark.parametrize("name", CASES)
def test_tree_function(name):
    assert_same(lambda side: CASES[name](side.utils))


def test_named_tuples_stay():
    mapped = utils.tree_map(lambda x: x + 1, Pair(1, (2,)))
    assert type(mapped) is Pair and mapped == (2, (3,))
    assert type(utils.tree_merge(Pair(1, {}), Pair({}, 2))) is Pair


def test_merged_keys_keep_their_order():
    merged = utils.tree_merge({"z": 1, "a": 2}, {"m": 3, "b": 4})
    assert list(merged) == ["z", "a", "m", "b"]


def test_an_absurd_position_is_an_error():
    with pytest.raises(ValueError, match="999999999999"):
        utils.tree_unflatten([("layers.999999999999.weight", 1)])


def test_numbers_of_other_scripts_are_keys():
    assert utils.tree_unflatten([("²", 1)]) == {"²": 1}
    assert utils.tree_unflatten([("-1", 1)]) == {"-1": 1}


def test_an_empty_container_meets_nothing():
    assert utils.tree_merge({"a": 1, "b": {}}, {"c": []}) == {"a": 1, "b": {}, "c": []}
    assert utils.tree_merge([1], [{}, {}, 3]) == [1, {}, 3]
