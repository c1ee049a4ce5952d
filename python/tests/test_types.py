"""The package is typed, and so are programs that use it: `mypy --strict`.

The stubs of MLX's core stand in for those of Olivine's.
"""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

PROGRAM = """
import olivine
import olivine.core as mx
import olivine.nn as nn
import olivine.optimizers as optim
from olivine.utils import tree_flatten, tree_map, tree_unflatten


class Block(nn.Module):
    def __init__(self, dims: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(dims)
        self.layers = [nn.Linear(dims, dims) for _ in range(2)]
        self.gain = mx.ones((dims,))

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = x + nn.gelu(layer(self.norm(x)))
        return x * self.gain


def train(model: Block, x: mx.array, y: mx.array, steps: int) -> list[float]:
    optimizer = optim.AdamW(optim.cosine_decay(1e-3, steps), weight_decay=0.1)
    step = nn.value_and_grad(model, lambda x, y: nn.losses.mse_loss(model(x), y))
    losses: list[float] = []
    for _ in range(steps):
        loss, grads = step(x, y)
        grads, norm = optim.clip_grad_norm(grads, 1.0)
        optimizer.update(model, grads)
        losses.append(float(loss.item()))
    state = dict(tree_flatten(optimizer.state))
    optimizer.state = tree_unflatten(list(state.items()))
    return losses


model = Block(8)
train(model, mx.ones((2, 8)), mx.zeros((2, 8)), 3)
model.apply(nn.init.normal(std=0.02)).freeze(keys="gain").eval()
size = sum(p.size for _, p in tree_flatten(model.parameters()))
doubled = tree_map(lambda p: p * 2, model.parameters())
nn.quantize(model, group_size=32, bits=4, class_predicate=lambda path, m: isinstance(m, nn.Linear))
olivine.install_as_mlx()
"""


def test_mypy_strict(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    package = tmp_path / "olivine"
    shutil.copytree(ROOT / "olivine", package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "core"))
    stubs = Path(importlib.util.find_spec("mlx.core").origin).parent / "core"
    (package / "core").mkdir()
    for stub in stubs.glob("*.pyi"):
        (package / "core" / stub.name).write_text(stub.read_text().replace("mlx.core", "olivine.core"))
    (tmp_path / "program.py").write_text(PROGRAM)
    checked = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--cache-dir",
            tmp_path / "cache",
            "-p",
            "olivine",
            "-m",
            "program",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert "Success" in checked.stdout or ": error:" in checked.stdout, checked.stdout + checked.stderr
    errors = [
        line
        for line in checked.stdout.splitlines()
        if ": error:" in line and not line.startswith("olivine/core/")
    ]
    assert not errors, "\n".join(errors)
