"""Run a program as ``python -m olivine.mlx`` does, with MLX's core in place of one that has not been built.

``python stand_in.py FILE [ARGUMENTS]`` or ``python stand_in.py -m MODULE [ARGUMENTS]``
"""

import importlib
import importlib.util
import sys
from pathlib import Path

ROOT = str(Path(__file__).resolve().parent.parent)


def lend_core() -> None:
    importlib.import_module("mlx.core")

    for name, module in list(sys.modules.items()):
        if name == "mlx" or name.startswith("mlx."):
            del sys.modules[name]
            if name.startswith("mlx.core"):
                sys.modules[name.replace("mlx", "olivine", 1)] = module


if __name__ == "__main__":
    sys.path.insert(1, ROOT)
    if importlib.util.find_spec("olivine.core") is None:
        lend_core()
    from olivine.mlx.__main__ import main

    sys.exit(main(sys.argv[1:]))
