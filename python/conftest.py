"""Where the tests find Olivine's core, and what they share.

Tests compare with MLX, which has to be installed. They run on Olivine's extension module if that has been built;
before that MLX's own core stands in for it, so that what is written in Python can be tested by itself.
"""

import importlib.util
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

import mlx.core

import olivine

STAND_IN = importlib.util.find_spec("olivine.core") is None
if STAND_IN:
    sys.modules["olivine.core"] = mlx.core
    olivine.core = mlx.core


def pytest_report_header() -> str:
    return f"olivine.core: {'mlx.core stands in for it' if STAND_IN else 'the extension module'}"
