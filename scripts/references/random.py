"""Writes what MLX draws from fixed keys, for the tests of Olivine's random numbers.

    python3 -m venv venv && venv/bin/pip install 'mlx[cpu]==0.32.4' numpy
    venv/bin/python scripts/references/random.py

Floats are stored as the bits of float32, to which every sample converts exactly.
"""

import json
import pathlib

import mlx.core as mx
import numpy

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PATH = REPOSITORY / "crates" / "cpu" / "tests" / "data" / "random.json"
SEEDS = [0, 7, 2**40 + 12345]
SIZES = [1, 2, 3, 8, 9, 257]
TYPES = {"float32": mx.float32, "float16": mx.float16, "bfloat16": mx.bfloat16}


def bits(a):
    """The bits of the elements as float32."""
    return numpy.array(a.astype(mx.float32)).view(numpy.uint32).ravel().tolist()


def main():
    rows = []
    for seed in SEEDS:
        key = mx.random.key(seed)
        row = {
            "seed": seed,
            "key": key.tolist(),
            "split": mx.random.split(key).tolist(),
            "split5": mx.random.split(key, 5).tolist(),
            "uniform": [bits(mx.random.uniform(shape=(n,), key=key)) for n in SIZES],
            "batch": bits(mx.vmap(lambda k: mx.random.uniform(shape=(3,), key=k))(mx.random.split(key, 4))),
            "randint": mx.random.randint(-5, 9, shape=(40,), key=key).tolist(),
            "bernoulli": mx.random.bernoulli(mx.array([0.0, 0.1, 0.5, 0.9, 1.0]), key=key).tolist(),
            "permutation": mx.random.permutation(41, key=key).tolist(),
        }
        logits = mx.random.normal((3, 5), key=mx.random.key(1))
        row["logits"] = bits(logits)
        row["categorical"] = mx.random.categorical(logits, key=key).tolist()
        row["categorical_many"] = mx.random.categorical(logits, axis=0, num_samples=4, key=key).tolist()
        row["categorical_shaped"] = mx.random.categorical(logits, shape=(4, 3), key=key).tolist()
        for name, dtype in TYPES.items():
            low, high = mx.array(-1.0, dtype), mx.array(2.0, dtype)
            row[name] = {
                "uniform": bits(mx.random.uniform(shape=(9,), dtype=dtype, key=key)),
                "between": bits(mx.random.uniform(-3.0, 7.0, shape=(9,), dtype=dtype, key=key)),
                "normal": bits(mx.random.normal((9,), dtype=dtype, key=key)),
                "normal_moved": bits(mx.random.normal((9,), dtype=dtype, loc=0.5, scale=2.5, key=key)),
                "gumbel": bits(mx.random.gumbel((9,), dtype=dtype, key=key)),
                "laplace": bits(mx.random.laplace((9,), dtype=dtype, key=key)),
                "truncated": bits(mx.random.truncated_normal(low, high, (9,), dtype=dtype, key=key)),
            }
        rows.append(row)
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(json.dumps({"mlx": "0.32.4", "sizes": SIZES, "rows": rows}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
