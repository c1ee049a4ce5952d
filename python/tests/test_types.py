"""The package is typed: `mypy --strict`, with the stubs of MLX's core in place of those of Olivine's."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def test_mypy_strict(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    package = tmp_path / "olivine"
    shutil.copytree(ROOT / "olivine", package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "core"))
    stubs = Path(importlib.util.find_spec("mlx.core").origin).parent / "core"
    (package / "core").mkdir()
    for stub in stubs.glob("*.pyi"):
        (package / "core" / stub.name).write_text(stub.read_text().replace("mlx.core", "olivine.core"))
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path / "cache", "-p", "olivine"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    lines = [line for line in checked.stdout.splitlines() if not line.startswith("olivine/core/")]
    errors = [line for line in lines if ": error:" in line]
    assert not errors, "\n".join(errors)
