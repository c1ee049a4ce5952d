"""``python -m olivine.mlx FILE [ARGUMENTS]`` and ``python -m olivine.mlx -m MODULE [ARGUMENTS]``.

Run a program written for MLX on Olivine, as ``python FILE`` and ``python -m MODULE`` would run it.
"""

from __future__ import annotations

import builtins
import io
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType

from olivine.mlx import install_as_mlx

_USAGE = """usage: python -m olivine.mlx FILE [ARGUMENTS]
       python -m olivine.mlx -m MODULE [ARGUMENTS]

Run a program that imports mlx on Olivine.
"""


def run_file(path: str) -> None:
    """Run a script in a module `__main__` of its own that stays, as Python does.

    `runpy.run_path` would take the module away at the end, while threads and exit handlers still need it.
    """
    absolute = os.path.abspath(path)
    if os.path.isdir(absolute):
        runpy.run_path(absolute, run_name="__main__")
        return
    with io.open_code(absolute) as file:
        code = compile(file.read(), absolute, "exec")
    module = ModuleType("__main__")
    module.__dict__.update(
        __file__=absolute,
        __builtins__=builtins,
        __loader__=SourceFileLoader("__main__", absolute),
        __cached__=None,
    )
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(_USAGE, end="")
        return 0
    as_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if as_module else arguments
    if not rest or (not as_module and rest[0].startswith("-")):
        print(_USAGE, end="", file=sys.stderr)
        return 2
    if not as_module and not os.path.exists(rest[0]):
        print(f"python -m olivine.mlx: can't open file {os.path.abspath(rest[0])!r}", file=sys.stderr)
        return 2
    install_as_mlx()
    sys.argv = list(rest)
    # The first entry of the path is what Python would have put there.
    if as_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        run_file(rest[0])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
