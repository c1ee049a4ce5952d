"""Random calls of Olivine, MLX and, where these disagree, NumPy.

    python run.py --driver PATH [--calls 200] [--family NAME] [--seed 0]

Calls go as lines of JSON to the driver of Olivine and to MLX in a process of its own. Equal answers, also two
refusals, agree. Where they disagree, a rule of `docs/differences.md` has to explain it; what no rule explains is
printed and makes the run fail.
"""

import argparse
import json
import selectors
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from arbiter import arbitrate
from generate import FAMILIES, Maker
from generate_more import MORE
from rules import explain
from values import to_numpy

HERE = Path(__file__).parent
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "complex64": 2.0**-23, "float64": 2.0**-52}


class Side:
    """A process that answers lines; started anew when it ends or hangs."""

    def __init__(self, command):
        self.command = command
        self.process = None

    def ask(self, line, seconds=60):
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        waiting = selectors.DefaultSelector()
        waiting.register(self.process.stdout, selectors.EVENT_READ)
        if not waiting.select(seconds):
            self.process.kill()
            self.process.wait()
            return {"died": "no answer in time"}
        answer = self.process.stdout.readline()
        if not answer:
            return {"died": f"the process ended with {self.process.wait()}"}
        return json.loads(answer)


def close(a, b, dtype, loose, family=None):
    """Whether two arrays are equal up to rounding; `loose` counts roundings relative to the largest element."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape:
        return False
    if dtype not in EPS:
        return bool(np.array_equal(a, b))
    with np.errstate(all="ignore"):
        if dtype == "complex64":
            # Parts one by one, each against the size of the whole.
            a, b = (np.stack([x.real, x.imag], -1) for x in (a.astype(np.complex128), b.astype(np.complex128)))
        a, b = a.astype(np.float64), b.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        finite = np.isfinite(a) & np.isfinite(b)
        size = np.maximum(np.abs(a), np.abs(b))
        if dtype == "complex64":
            size = np.max(np.where(finite, size, 0.0), -1, keepdims=True, initial=0.0) * np.ones(2)
        # Samples are differences of numbers about 1.
        most = np.max(size[finite], initial=1.0 if family == "draws" else 0.0)
        tiny = 6e-8 if dtype == "float16" else 2e-38
        near = finite & (np.abs(a - b) <= EPS[dtype] * (8 * size + loose * most) + tiny)
    return bool(np.all(same | near))


# Names whose results have an order that is only partly promised.
PARTLY = {"partition", "argpartition"}

LOOSE = {"reduce": 4, "scan": 16, "products": 8, "fourier": 16, "convolution": 16, "matrices": 400, "fused": 8,
         "draws": 8, "order": 4, "create": 4, "packed": 8, "factorizations": 4000,
         "spectra": 32, "eights": 8, "choices": 8, "networks": 32, "beyond": 64, "products_of_parts": 8}


def in_order(answer, call):
    """The values of an answer; those of `topk`, which have no promised order, sorted, and those of a partition on
    either side of its place."""
    values = to_numpy(answer)
    if call["call"] == "topk":
        return np.sort(values, call["kwargs"]["axis"])
    if call["call"] in PARTLY:
        axis, k = call["kwargs"]["axis"], call["kwargs"]["kth"]
        if call["call"] == "argpartition":
            values = np.take_along_axis(to_numpy(call["args"][0]), values.astype(np.int64), axis)
        low, place, high = np.split(values, [k, k + 1], axis)
        return np.concatenate([np.sort(low, axis), place, np.sort(high, axis)], axis)
    return values


def turned(vectors):
    """Columns with the sign, or the angle, that makes their largest element positive."""
    at = np.argmax(np.abs(vectors), axis=-2, keepdims=True)
    largest = np.take_along_axis(vectors, at, axis=-2)
    return vectors * (np.abs(largest) / largest)


def determined(parts, call):
    """Results without what a function leaves open: signs of vectors, the order of eigenvalues."""
    name = call["call"]
    if name == "linalg.qr":
        q, r = parts
        sign = np.sign(np.diagonal(r, axis1=-2, axis2=-1))
        return [q * sign[..., None, :], r * sign[..., :, None]]
    if name == "linalg.eigh":
        return [parts[0], turned(parts[1])]
    if name == "linalg.svd" and len(parts) == 3:
        u, s, v = parts
        return [s, (u[..., : s.shape[-1]] * s[..., None, :]) @ v[..., : s.shape[-1], :]]
    if name in ("linalg.eig", "linalg.eigvals"):
        # Neighbours in the plane may change places by a rounding.
        order = np.argsort(np.round(parts[0], 3), axis=-1)
        values = np.take_along_axis(parts[0], order, -1)
        return [values] + [turned(np.take_along_axis(v, order[..., None, :], -1)) for v in parts[1:]]
    return parts


def difference(call, ours, theirs, family):
    """In words how two answers differ; None when they agree."""
    if "panic" in ours or "died" in ours:
        return f"Olivine: {ours}"
    if "error" in ours and "ok" not in theirs:
        return None
    if "error" in ours:
        return f"Olivine refuses: {ours['error']}"
    if "ok" not in theirs:
        return f"MLX refuses: {theirs}"
    ours, theirs = ours["ok"], theirs["ok"]
    if len(ours) != len(theirs):
        return f"{len(ours)} results, MLX has {len(theirs)}"
    for a, b in zip(ours, theirs):
        if a["dtype"] != b["dtype"]:
            return f"type {a['dtype']}, MLX has {b['dtype']}"
        if a["shape"] != b["shape"]:
            return f"shape {a['shape']}, MLX has {b['shape']}"
    first, second = (determined([in_order(a, call) for a in answers], call) for answers in (ours, theirs))
    for a, x, y in zip(ours, first, second):
        if not close(x, y, a["dtype"], LOOSE.get(family, 0), family):
            return f"values {x.ravel()[:6]}, MLX has {y.ravel()[:6]}"
    return None


def numpy_agrees(call, ours, family):
    """Whether NumPy, computing in float64, has the values of an answer."""
    said = arbitrate(call)
    if said is None or "ok" not in ours or len(ours["ok"]) != len(said):
        return False
    for a, b in zip(ours["ok"], said):
        rounded = b
        if a["dtype"] in ("float16", "float32", "bfloat16") and b.dtype.kind != "c":
            with np.errstate(all="ignore"):
                rounded = b.astype("float32" if a["dtype"] == "bfloat16" else a["dtype"])
        if not close(to_numpy(a), rounded, a["dtype"], LOOSE.get(family, 0)):
            return False
    return True


def shown(call):
    def short(v):
        if isinstance(v, dict) and "data" in v:
            return f"{v['dtype']}{v['shape']} {v['placement']} {to_numpy(v).ravel()[:6]}"
        return [short(x) for x in v] if isinstance(v, list) else v

    kwargs = ", ".join(f"{k}={short(v)}" for k, v in call["kwargs"].items())
    return f"{call['call']}({', '.join(str(short(v)) for v in call['args'])}{', ' if kwargs else ''}{kwargs})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--driver", required=True)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--family")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    olivine, mlx = Side([options.driver]), Side([sys.executable, str(HERE / "mlx_side.py")])
    unexplained = 0
    explained = Counter()
    for family, make in (FAMILIES | MORE).items():
        if options.family not in (None, family):
            continue
        agreed = differed = skipped = 0
        for n in range(options.calls):
            call = make(Maker([options.seed, sum(family.encode()), n]))
            line = json.dumps(call)
            ours = olivine.ask(line)
            if "no function is called" in ours.get("error", ""):
                skipped += 1
                continue
            theirs = mlx.ask(line)
            what = difference(call, ours, theirs, family)
            if what is None:
                agreed += 1
                continue
            differed += 1
            rule = explain(call, ours, theirs, what, numpy_agrees(call, ours, family))
            if rule:
                explained[rule] += 1
                continue
            unexplained += 1
            if unexplained <= 200:
                print(f"{family} {n}: {shown(call)}\n    {what}")
        print(f"{family}: {agreed} agree, {differed} differ, {skipped} are not registered", flush=True)
    for rule, count in sorted(explained.items()):
        print(f"explained {count:4} times: {rule}")
    print(f"{unexplained} differences without explanation")
    sys.exit(unexplained != 0)


main()
