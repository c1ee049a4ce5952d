"""Files of arrays: writes those of NumPy and MLX that tests read, or reads those that Olivine wrote.

    pip install -r scripts/references/requirements.txt
    python scripts/references/files.py write crates/cpu/tests/data/files
    OLIVINE_FILES=/tmp/files cargo nextest run -p olivine-cpu --test files
    python scripts/references/files.py check /tmp/files

Every array of a file holds 0, 1, 2, … in row-major order (1, 1, 0, 1, … as bool; real parts where complex), whatever
its type and layout, so that a file says what it should hold.
"""

import json
import pathlib
import sys

# This folder has a random.py, which NumPy must not find in place of the standard one.
sys.path.pop(0)

import tempfile

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
TYPES = "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64".split()


def counted(shape, dtype):
    n = int(np.prod(shape))
    base = mx.array(np.arange(n, dtype=np.float32)).reshape(shape)
    return base.astype(getattr(mx, dtype))


def write(folder):
    folder.mkdir(parents=True, exist_ok=True)
    x = np.arange(24.0).reshape(2, 3, 4)
    np.save(folder / "fortran.npy", np.asfortranarray(x.astype("<f4")))
    np.save(folder / "big_endian.npy", x.astype(">f8"))
    np.save(folder / "big_fortran.npy", np.asfortranarray(x.astype(">c8")))
    np.save(folder / "numpy_scalar.npy", np.float32(0))
    np.save(folder / "numpy_empty.npy", np.zeros((2, 0, 3), np.int16))
    with open(folder / "version2.npy", "wb") as f:
        np.lib.format.write_array(f, x.astype("<i4"), version=(2, 0))
    np.savez(folder / "numpy.npz", x.astype(np.float16), y=np.asfortranarray(x), z=x.astype(">i2"))
    np.savez_compressed(folder / "numpy_compressed.npz", x.astype(np.float32), y=np.asfortranarray(x), z=x.astype(">i2"))
    for name in TYPES:
        mx.save(str(folder / f"mlx_{name}.npy"), counted((2, 3), name))
    arrays = {name: counted((3, 2), name) for name in TYPES}
    arrays |= {"scalar": mx.array(0.0), "empty": mx.zeros((0, 3)), "transposed": counted((4, 3), "float32").T.T}
    mx.savez(str(folder / "mlx.npz"), **arrays)
    mx.savez_compressed(str(folder / "mlx_compressed.npz"), **arrays)
    # MLX has no float64 there.
    few = {n: a for n, a in arrays.items() if n != "float64"}
    mx.save_safetensors(str(folder / "mlx.safetensors"), few, {"format": "mlx", "empty": ""})
    some = {n: arrays[n] for n in ("float32", "float16", "int8", "int16", "int32")}
    meta = {"general.name": "counted", "list": ["a", "b"], "number": mx.array(7, mx.int32), "row": mx.array([1.5, 2.5])}
    mx.save_gguf(str(folder / "mlx.gguf"), some, meta)


def same(name, a):
    a = np.array(a.astype(mx.float32) if a.dtype == mx.bfloat16 else a)
    want = np.arange(a.size).reshape(a.shape).astype(a.dtype)
    assert np.array_equal(a, want), (name, a)


def without_float64(path):
    """A copy of a safetensors file whose header does not tell of float64, which MLX refuses there."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = {k: v for k, v in json.loads(data[8:end]).items() if v.get("dtype") != "F64"}
    copy = pathlib.Path(tempfile.mkdtemp()) / path.name
    copy.write_bytes(data[:8] + json.dumps(header, separators=(",", ":")).encode().ljust(end - 8) + data[end:])
    return copy


def check(folder):
    seen = 0
    for path in sorted(folder.iterdir()):
        if path.suffix == ".safetensors":
            path = without_float64(path)
        content = mx.load(str(path))
        arrays = content if isinstance(content, dict) else {path.stem: content}
        for name, a in arrays.items():
            same(f"{path.name}: {name}", a)
            seen += 1
        if path.suffix in (".npy", ".npz"):
            content = np.load(path)
            for name in content if path.suffix == ".npz" else [None]:
                a = content if name is None else content[name]
                if a.dtype.kind != "V":
                    want = np.arange(a.size).reshape(a.shape).astype(a.dtype)
                    assert np.array_equal(a, want), (path, name, a)
    _, meta = mx.load(str(without_float64(folder / "ours.safetensors")), return_metadata=True)
    assert meta == {"format": "olivine"}, meta
    _, meta = mx.load(str(folder / "ours.gguf"), return_metadata=True)
    assert meta["general.name"] == "counted" and meta["number"].item() == 7, meta
    print(f"{seen} arrays are right")


{"write": write, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]))
