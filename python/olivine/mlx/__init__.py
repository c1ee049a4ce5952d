"""Programs and packages written for MLX, run on Olivine.

`install_as_mlx` makes ``mlx`` and everything below it names of Olivine's own modules: the same objects, so that
``mlx.core.array is olivine.core.array``. Packages that ask for the installed version of the distribution ``mlx`` are
told the one whose interface Olivine has.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from types import ModuleType
from typing import Any

#: The version of MLX whose interface Olivine has.
MLX_VERSION = "0.32.4"

_ALIAS = "mlx"
_TARGET = "olivine"
# What the distribution `mlx` contains. Other distributions may add modules to the package `mlx`; those are found
# where they are installed.
_OF_MLX = frozenset(
    {
        "__array_api_info",
        "__main__",
        "_distributed_utils",
        "_reprlib_fix",
        "core",
        "extension",
        "nn",
        "optimizers",
        "utils",
    }
)


class _Alias(Loader):
    """Loads a module under another name, by putting the module itself there."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        target = _load(self.target)
        sys.modules[module.__name__] = target
        if not hasattr(target, "__path__"):
            # An extension module is no package, so its parts have to be there before anyone imports them.
            for name, part in vars(target).items():
                if isinstance(part, ModuleType):
                    sys.modules.setdefault(f"{module.__name__}.{name}", part)


class _Root(Loader):
    """Makes the package `mlx`. It has the attributes of a namespace package and a way to other distributions."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        found = PathFinder.find_spec(_ALIAS)
        module.__path__ = list(found.submodule_search_locations or []) if found else []


class _MlxDistribution(Distribution):
    """What `importlib.metadata` is told of the distribution `mlx`."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: mlx\nVersion: {MLX_VERSION}\nSummary: Olivine, under the name of MLX\n"

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(f"{path}: the distribution mlx is Olivine and has no files of its own")


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _ALIAS:
            return ModuleSpec(fullname, _Root(), is_package=True)
        root, _, rest = fullname.partition(".")
        if root != _ALIAS:
            return None
        first = rest.partition(".")[0]
        if first not in _OF_MLX:
            return None
        name = f"{_TARGET}.{rest}"
        if first in ("core", "nn", "optimizers", "utils") and _exists(name):
            return ModuleSpec(fullname, _Alias(name))
        raise ModuleNotFoundError(f"No module named {fullname!r}: Olivine has no {name!r}", name=fullname)

    def find_distributions(
        self,
        context: DistributionFinder.Context = DistributionFinder.Context(),  # noqa: B008
    ) -> Iterator[Distribution]:
        if context.name is None or re.sub(r"[-_.]+", "-", context.name).lower() == _ALIAS:
            yield _MlxDistribution()


def _load(name: str) -> ModuleType:
    """Import a module. The parts of an extension module are modules without files: attributes of it."""
    parent, _, last = name.rpartition(".")
    part = getattr(importlib.import_module(parent), last, None)
    return part if isinstance(part, ModuleType) else importlib.import_module(name)


def _exists(name: str) -> bool:
    try:
        _load(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        return False
    return True


def install_as_mlx() -> None:
    """Let ``import mlx`` and everything below it give Olivine's modules, in this process from now on.

    Call it before anything imports ``mlx``. Calling it again does nothing.

    Raises:
        RuntimeError: MLX itself has been imported already: its arrays and Olivine's would meet.

    >>> import olivine
    >>> olivine.install_as_mlx()
    >>> import mlx.core, olivine.core
    >>> mlx.core.array is olivine.core.array
    True
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    foreign = _foreign(sys.modules)
    if foreign:
        raise RuntimeError(
            f"[install_as_mlx] {foreign} has been imported already. Call install_as_mlx before anything imports mlx."
        )
    sys.modules.pop(_ALIAS, None)
    # First, so that an MLX that is installed is not found.
    sys.meta_path.insert(0, _Finder())
    importlib.invalidate_caches()


def _foreign(names: Iterable[str]) -> str | None:
    """A module of MLX itself among those that are loaded."""
    for name in names:
        root, _, rest = name.partition(".")
        if root == _ALIAS and rest.partition(".")[0] in _OF_MLX:
            return name
    return None
