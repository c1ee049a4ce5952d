"""Every public name of MLX's Python parts exists, with the same parameters and defaults."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

NAMES = json.loads((Path(__file__).parent / "data" / "mlx_names.json").read_text())
CASES = [
    (module, name)
    for module, names in NAMES.items()
    if not module.startswith("_")
    for name in names
    # Submodules of this kind import what they use, which is no part of their interface.
    if (module, name) != ("mlx.nn.utils", "reduce")
]


def olivine_of(module: str):
    return importlib.import_module(module.replace("mlx", "olivine", 1))


@pytest.mark.parametrize(("module", "name"), CASES)
def test_name_exists(module, name):
    ours = getattr(olivine_of(module), name)
    theirs = getattr(importlib.import_module(module), name)
    assert inspect.ismodule(ours) == inspect.ismodule(theirs)
    assert inspect.isclass(ours) == inspect.isclass(theirs)
    assert callable(ours) == callable(theirs)
    if callable(ours) and name != "Reduction":
        assert ">>> " in inspect.getdoc(ours)


def parameters(function):
    """Name, kind and default of each parameter. The default `inspect` sees of a function may be another object."""
    found = []
    for parameter in inspect.signature(function).parameters.values():
        default = parameter.default
        if callable(default):
            default = getattr(default, "__name__", "function")
        elif type(default).__name__ == "Dtype":
            default = str(default)
        found.append((parameter.name, parameter.kind, default))
    return found


def comparable(ours, theirs):
    try:
        inspect.signature(theirs)
    except ValueError:
        return []
    if not inspect.isclass(theirs):
        return [(ours, theirs)]
    pairs = [(ours, theirs)] if inspect.isfunction(theirs.__init__) else []
    for name, member in vars(theirs).items():
        if not name.startswith("_") and (
            inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod))
        ):
            pairs.append((getattr(ours, name), getattr(theirs, name)))
    return pairs


@pytest.mark.parametrize(("module", "name"), CASES)
def test_parameters_and_defaults(module, name):
    ours, theirs = getattr(olivine_of(module), name), getattr(importlib.import_module(module), name)
    if inspect.ismodule(theirs) or not callable(theirs):
        return
    for mine, its in comparable(ours, theirs):
        expected = parameters(its)
        assert parameters(mine) == expected, getattr(its, "__qualname__", its)


SUBMODULES = [
    "mlx.nn.layers.activations",
    "mlx.nn.layers.base",
    "mlx.nn.layers.containers",
    "mlx.nn.layers.convolution",
    "mlx.nn.layers.convolution_transpose",
    "mlx.nn.layers.distributed",
    "mlx.nn.layers.dropout",
    "mlx.nn.layers.embedding",
    "mlx.nn.layers.linear",
    "mlx.nn.layers.normalization",
    "mlx.nn.layers.pooling",
    "mlx.nn.layers.positional_encoding",
    "mlx.nn.layers.quantized",
    "mlx.nn.layers.recurrent",
    "mlx.nn.layers.transformer",
    "mlx.nn.layers.upsample",
    "mlx.optimizers.optimizers",
    "mlx.optimizers.schedulers",
]


@pytest.mark.parametrize("module", SUBMODULES)
def test_names_of_submodules(module):
    ours, theirs = olivine_of(module), importlib.import_module(module)
    for name, value in vars(theirs).items():
        if not name.startswith("_") and getattr(value, "__module__", None) == module:
            assert hasattr(ours, name), name


@pytest.mark.parametrize(
    "name", [name for name in vars(olivine_of("mlx.nn").Module) if not name.startswith("_")]
)
def test_methods_of_modules_have_examples(name):
    assert ">>> " in inspect.getdoc(getattr(olivine_of("mlx.nn").Module, name))
