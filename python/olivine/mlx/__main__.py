"""``python -m olivine.mlx FILE [ARGUMENTS]`` and ``python -m olivine.mlx -m MODULE [ARGUMENTS]``.

Run a program written for MLX on Olivine, as ``python FILE`` and ``python -m MODULE`` would run it.
"""

from __future__ import annotations

import os
import runpy
import sys

from olivine.mlx import install_as_mlx

_USAGE = """usage: python -m olivine.mlx FILE [ARGUMENTS]
       python -m olivine.mlx -m MODULE [ARGUMENTS]

Run a program that imports mlx on Olivine.
"""


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["-h"], ["--help"]):
        print(_USAGE, end="")
        return 0
    as_module = arguments[:1] == ["-m"]
    rest = arguments[1:] if as_module else arguments
    if not rest or (not as_module and rest[0].startswith("-")):
        print(_USAGE, end="", file=sys.stderr)
        return 2
    install_as_mlx()
    sys.argv = list(rest)
    # The first entry of the path is what Python would have put there.
    if as_module:
        sys.path[0] = os.getcwd()
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(rest[0]))
        runpy.run_path(rest[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
