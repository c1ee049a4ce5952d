"""What divides work among processes: a group of one, and the arithmetic of larger groups, simulated."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import MLX, OLIVINE, array, assert_same, noise

mx, nn, utils = OLIVINE.mx, OLIVINE.nn, OLIVINE.utils
from olivine.nn.layers import distributed


class Ranks:
    """Stands for a group; `rank` says whose part is looked at."""

    def __init__(self, size, rank=0):
        self._size, self._rank = size, rank

    def size(self):
        return self._size

    def rank(self):
        return self._rank


def test_a_group_of_one_changes_nothing():
    def case(side):
        linear = side.nn.Linear(64, 6)
        packed = side.nn.QuantizedLinear(64, 6)
        x = array(side, noise(2, 64))
        shard = side.nn.distributed.shard_linear
        layers = [
            shard(m, s, segments=3) for m in (linear, packed) for s in ("all-to-sharded", "sharded-to-all")
        ]
        grads = {"w": x}
        return [
            [layer(x) for layer in layers],
            [layer.parameters() for layer in layers],
            [layer.trainable_parameters() for layer in layers],
            [repr(layer) for layer in layers],
            side.nn.average_gradients(grads),
            side.nn.utils.clip_grad_norm_sharded(grads, 1.0),
            repr(side.nn.fully_shard(linear)),
        ]

    assert_same(case)


@pytest.mark.parametrize("segments", [1, 3, [4], [0.5], [0.25, 0.75]])
@pytest.mark.parametrize("sharding", ["all-to-sharded", "sharded-to-all"])
def test_parts_of_a_layer(sharding, segments):
    """The parameters of each rank, beside those that MLX gives it."""
    if isinstance(segments, int) and segments == 3 and sharding == "sharded-to-all":
        segments = 2

    def case(side):
        results = []
        for rank in range(2):
            layer = side.nn.Linear(8, 12)
            choose = getattr(side.nn.distributed, "_" + sharding.replace("-", "_"))(segments)
            side.nn.distributed.shard_inplace(layer, choose, group=Ranks(2, rank))
            results.append(layer.parameters())
        return results

    # MLX decides by the first border alone whether borders are positions.
    assert_same(case)


@pytest.mark.parametrize("kind", ["AllToShardedLinear", "ShardedToAllLinear"])
def test_sizes_of_parts(kind):
    def case(side):
        layer = getattr(side.nn, kind)(8, 12, group=Ranks(4))
        return [layer.parameters(), repr(layer)]

    assert_same(case)


@pytest.mark.parametrize("kind", ["AllToShardedLinear", "QuantizedAllToShardedLinear"])
def test_uneven_outputs(kind):
    error = assert_same(lambda side: getattr(side.nn, kind)(64, 7, group=Ranks(2)))
    assert isinstance(error, ValueError)


@pytest.mark.parametrize("kind", ["ShardedToAllLinear", "QuantizedShardedToAllLinear"])
def test_uneven_inputs(kind):
    error = assert_same(lambda side: getattr(side.nn, kind)(63, 7, group=Ranks(2)))
    assert isinstance(error, ValueError)


@pytest.fixture
def messages(monkeypatch):
    """Every rank of a group of two has the same arrays, so a sum is twice the array."""
    sizes = []

    def all_sum(x, *, group=None, stream=None):
        sizes.append(x.size)
        return x * group.size()

    monkeypatch.setattr(mx.distributed, "all_sum", all_sum)
    return sizes


GRADIENTS = {"a": [noise(3, 2), (noise(5, seed=1), noise(seed=2))], "b": {"c": noise(7, seed=3)}}


@pytest.mark.parametrize(("limit", "expected"), [(0, [6, 5, 1, 7]), (1 << 20, [19]), (25, [11, 8])])
def test_average_gradients(messages, limit, expected):
    tree = utils.tree_map(lambda x: array(OLIVINE, x), GRADIENTS)
    mean = nn.average_gradients(tree, Ranks(2), all_reduce_size=limit)
    assert messages == expected
    assert type(mean["a"]) is list and type(mean["a"][1]) is tuple
    for (path, a), (_, b) in zip(utils.tree_flatten(tree), utils.tree_flatten(mean)):
        np.testing.assert_allclose(np.array(a), np.array(b), err_msg=path)
        assert a.shape == b.shape


def test_average_gradients_keeps_dtypes_apart(messages):
    tree = [mx.ones((2,)), mx.ones((3,), mx.float16), mx.ones((4,)), mx.ones((5,), mx.float16)]
    mean = nn.average_gradients(tree, Ranks(2))
    assert sorted(messages) == [6, 8]
    assert [x.dtype for x in mean] == [x.dtype for x in tree] and [x.size for x in mean] == [2, 3, 4, 5]


def test_average_of_no_gradients(messages):
    assert nn.average_gradients({}, Ranks(2)) == {} and messages == []


def test_clip_grad_norm_sharded(messages):
    clipped, norm = nn.utils.clip_grad_norm_sharded({"w": mx.array([3.0, 4.0])}, 1.0, Ranks(2))
    np.testing.assert_allclose(norm.item(), np.sqrt(50), rtol=1e-6)
    np.testing.assert_allclose(np.array(clipped["w"]), np.array([3, 4]) / np.sqrt(50), rtol=1e-5)


@pytest.fixture
def collectives(monkeypatch):
    """A group of two whose other member always has the same part as this one."""

    def all_gather(x, *, group=None, stream=None):
        return mx.concatenate([x] * group.size())

    def sum_scatter(x, *, group=None, stream=None):
        return x.sum(axis=0, keepdims=True)

    monkeypatch.setattr(mx.distributed, "all_gather", all_gather)
    monkeypatch.setattr(mx.distributed, "sum_scatter", sum_scatter)


def test_fully_sharded_module(collectives):
    if nn is MLX.nn:
        pytest.skip("needs Olivine's layers")
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    halves = {
        path: np.concatenate([np.array(p)[: p.shape[0] // 2]] * 2)
        for path, p in utils.tree_flatten(model.parameters())
    }
    x = mx.array(noise(5, 3))
    whole = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    whole.load_weights([(path, mx.array(value)) for path, value in halves.items()])
    sharded = nn.fully_shard(model, group=Ranks(2))
    assert type(sharded) is nn.FullyShardedModule and nn.fully_shard(sharded, group=Ranks(2)) is sharded
    assert repr(sharded).startswith("FullyShardedModule(num_sharded_params=4")
    np.testing.assert_allclose(np.array(sharded(x)), np.array(whole(x)), rtol=1e-5)
    assert sharded.module.layers[0].weight.shape == (2, 3)

    _, grads = nn.value_and_grad(sharded, lambda: sharded(x).sum())()
    _, expected = nn.value_and_grad(whole, lambda: whole(x).sum())()
    for path, gradient in utils.tree_flatten(grads):
        of_whole = dict(utils.tree_flatten(expected))[path.removeprefix("module.")]
        rows = of_whole.shape[0] // 2
        np.testing.assert_allclose(
            np.array(gradient), np.array(of_whole[:rows] + of_whole[rows:]) / 2, rtol=1e-4, atol=1e-6
        )
    assert sharded.module.layers[0].weight.shape == (2, 3)


def test_fully_sharded_embedding(collectives):
    sharded = nn.fully_shard(nn.Embedding(6, 4), group=Ranks(2), compute_dtype=mx.float16)
    assert sharded(mx.array([0, 3])).dtype == mx.float16
    assert sharded.as_linear(mx.ones((1, 4), mx.float16)).shape == (1, 6)


def test_module_without_parameters_is_not_wrapped():
    relu = nn.ReLU()
    assert nn.fully_shard(relu, group=Ranks(2)) is relu


def test_fully_shard_refuses_uneven_axes():
    with pytest.raises(ValueError, match=r"weight of shape \(3, 4\)"):
        nn.fully_shard(nn.Linear(4, 3), group=Ranks(2))


def test_sum_gradients(messages):
    f = distributed.sum_gradients(Ranks(2))
    value, gradient = mx.value_and_grad(lambda x: (f(x) * 3).sum())(mx.ones((2,)))
    assert value.item() == 6.0 and gradient.tolist() == [6.0, 6.0]


TWO_PROCESSES = """
import json
import mlx.core as mx, mlx.nn as nn
from mlx.nn.layers.distributed import shard_linear
from mlx.utils import tree_flatten

group = mx.distributed.init(strict=True, backend="ring")
mx.random.seed(0)
x = mx.random.normal((4, 64))
enter, leave = nn.Linear(64, 128), nn.Linear(128, 64)
packed = nn.QuantizedLinear(128, 64)
mine = [shard_linear(enter, "all-to-sharded"), shard_linear(leave, "sharded-to-all")]
both = lambda x, pair: pair[1](nn.relu(pair[0](x))).sum()
largest = lambda a, b: mx.abs(a - b).max().item()
whole = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 8))
y = whole(x)
rank = float(group.rank())
mean = nn.average_gradients({"a": [mx.full((3,), rank), mx.ones((2, 2)) * rank], "b": mx.array(2.0)})
print(json.dumps({
    "output": largest(both(x, mine), both(x, [enter, leave])),
    "gradient": largest(mx.grad(both)(x, mine), mx.grad(both)(x, [enter, leave])),
    "packed": largest(shard_linear(packed, "sharded-to-all")(x @ mx.ones((64, 64))), packed(
        mx.concatenate([x @ mx.ones((64, 64))] * 2, axis=-1))),
    "gathered": largest(nn.fully_shard(whole)(x), y),
    "part": list(whole.layers[0].weight.shape),
    "mean": [g.tolist() for _, g in tree_flatten(mean)],
    "norm": nn.utils.clip_grad_norm_sharded({"w": mx.array([3.0, 4.0])}, 1.0)[1].item(),
}))
"""


@pytest.mark.skipif(not mx.distributed.is_available(), reason="no backend for several processes")
def test_two_processes(tmp_path):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    (tmp_path / "hosts.json").write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports]))
    (tmp_path / "program.py").write_text(TWO_PROCESSES)
    runner = [sys.executable, str(Path(__file__).parent / "stand_in.py"), str(tmp_path / "program.py")]
    environment = {**os.environ, "MLX_HOSTFILE": str(tmp_path / "hosts.json")}
    processes = [
        subprocess.Popen(
            runner,
            env={**environment, "MLX_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    for (out, err), process in zip(outputs, processes):
        assert process.returncode == 0, err
        seen = json.loads(out)
        assert max(seen[name] for name in ("output", "gradient", "packed", "gathered")) < 1e-3
        assert seen["part"] == [16, 64]
        assert seen["mean"] == [[0.5] * 3, [[0.5] * 2] * 2, 2.0]
        assert seen["norm"] == pytest.approx(50**0.5)
