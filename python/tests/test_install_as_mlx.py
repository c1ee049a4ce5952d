"""Programs that import ``mlx``, in processes of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import MLX, OLIVINE

HERE = Path(__file__).resolve().parent


def run(*arguments, code=0, cwd=None):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(
        [sys.executable, str(HERE / "stand_in.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
    )
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def program(tmp_path):
    def write(text, name="program.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


IMPORTS = """
import importlib, importlib.metadata, sys
import mlx
import mlx.core as mx
import mlx.core.fast
import mlx.nn as nn
import mlx.optimizers as optim
import mlx.nn.layers.distributed, mlx.optimizers.schedulers
from mlx.core import array, float32, linalg
from mlx.core.random import normal
from mlx.nn import init, losses, Module
from mlx.nn.layers.base import Module as Base
from mlx.nn.losses import cross_entropy
from mlx.nn.utils import average_gradients
from mlx.optimizers import Adam
from mlx.utils import tree_flatten, tree_map, tree_unflatten
import olivine, olivine.core, olivine.nn, olivine.optimizers, olivine.utils

assert mx is olivine.core and nn is olivine.nn and optim is olivine.optimizers and mlx.utils is olivine.utils
assert mlx.core.fast is mx.fast and sys.modules["mlx.nn.layers.base"] is olivine.nn.layers.base
assert Base is Module is olivine.nn.Module and array is mx.array
assert nn.__name__ == "olivine.nn" and nn.__spec__.name == "olivine.nn"
assert importlib.import_module("mlx.nn") is nn
assert importlib.metadata.version("mlx") == importlib.metadata.version("MLX") == olivine.mlx.MLX_VERSION
assert importlib.metadata.version("pytest")
assert [d.metadata["Name"] for d in importlib.metadata.distributions()].count("mlx") >= 1
for missing in ("mlx.extension", "mlx.nn.layers.nothing", "mlx.core.nothing"):
    try:
        importlib.import_module(missing)
    except ModuleNotFoundError as error:
        assert error.name == missing, error.name
    else:
        raise AssertionError(missing)
olivine.install_as_mlx()
assert sum(type(finder).__name__ == "_Finder" for finder in sys.meta_path) == 1
print("done", *sys.argv[1:])
"""


def test_imports(program):
    assert run(program(IMPORTS), "a", "--b").stdout == "done a --b\n"


def test_file_is_run_as_by_python(program):
    program("VALUE = 42\n", "neighbour.py")
    path = program(
        "import sys, pickle, neighbour, mlx.core\n"
        "class Local: pass\n"
        "pickle.loads(pickle.dumps(Local()))\n"
        "print(__name__, __file__ == sys.argv[0], neighbour.VALUE, sys.argv[1:])\n"
        "sys.exit(3)\n"
    )
    assert run(path, "-m", "x", code=3).stdout == "__main__ True 42 ['-m', 'x']\n"


def test_module_is_run_as_by_python(program, tmp_path):
    program("import sys, mlx.nn\nprint(__name__, __package__, sys.argv[1:])\n", "tool.py")
    assert run("-m", "tool", "--flag", cwd=tmp_path).stdout == "__main__  ['--flag']\n"


def test_globals_live_until_the_end(program):
    path = program(
        "import atexit, threading, time\n"
        "NAME = 'kept'\n"
        "def late():\n"
        "    time.sleep(0.2)\n"
        "    print(NAME)\n"
        "atexit.register(lambda: print('exit', NAME))\n"
        "threading.Thread(target=late).start()\n"
    )
    assert run(path).stdout == "kept\nexit kept\n"


def test_relative_path(program, tmp_path):
    program("import sys\nprint(sys.argv[0], __file__ == sys.path[0] + '/program.py')\n")
    assert run("program.py", cwd=tmp_path).stdout == "program.py True\n"


def test_missing_file(tmp_path):
    assert "nothing.py" in run("nothing.py", code=2, cwd=tmp_path).stderr


def test_errors_keep_their_traceback(program):
    done = run(program("import mlx.core\nraise KeyError('lost')\n"), code=1)
    assert "program.py" in done.stderr and "KeyError: 'lost'" in done.stderr


def test_usage():
    assert "usage" in run("--help").stdout
    assert "usage" in run(code=2).stderr and "usage" in run("-m", code=2).stderr
    assert "usage" in run("--unknown", code=2).stderr


def test_modules_of_other_distributions_in_the_package_are_found(program, tmp_path):
    (tmp_path / "mlx").mkdir()
    (tmp_path / "mlx" / "guest.py").write_text("import mlx.core as mx\nVALUE = mx.array(3).item()\n")
    path = program("import mlx.guest\nprint(mlx.guest.VALUE)\n")
    assert run(path).stdout == "3\n"


def test_too_late_is_an_error():
    if OLIVINE.mx is not MLX.mx:
        pytest.skip("the message is the same, but MLX may not be installed beside Olivine")
    from olivine.mlx import install_as_mlx

    with pytest.raises(RuntimeError, match=r"mlx\.\w+ has been imported already"):
        install_as_mlx()


TRAINING = """
from functools import partial
import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim
from mlx.utils import tree_flatten

class Classifier(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.enter = nn.Linear(features, hidden)
        self.dropout = nn.Dropout(0.1)
        self.leave = nn.Linear(hidden, classes)

    def __call__(self, x):
        return self.leave(self.dropout(nn.gelu(self.enter(x))))

mx.random.seed(0)
model, optimizer = Classifier(12, 16, 3), optim.AdamW(learning_rate=1e-2, weight_decay=0.01)
data = [(mx.random.normal((8, 12)), mx.random.randint(0, 3, (8,))) for _ in range(4)]
state = [model.state, optimizer.state, mx.random.state]

@partial(mx.compile, inputs=state, outputs=state)
def step(x, y):
    loss, grads = nn.value_and_grad(model, lambda m, x, y: nn.losses.cross_entropy(m(x), y).mean())(model, x, y)
    optimizer.update(model, grads)
    return loss

for x, y in data:
    loss = step(x, y)
    mx.eval(state)
    print(f"{loss.item():.5f}")
nn.quantize(model, group_size=32, bits=8, class_predicate=lambda path, m: path == "none")
print(sum(p.size for _, p in tree_flatten(model.parameters())), f"{optimizer.state['step'].item()}")
"""


def test_training_gives_the_losses_of_mlx(program):
    path = program(TRAINING)
    on_mlx = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert run(path).stdout == on_mlx.stdout
