"""Writes what MLX makes of small matrices in its floating-point quantization modes, for the tests of olivine-cpu.

    pip install -r scripts/references/requirements.txt
    python scripts/references/quant.py > crates/cpu/tests/data/quant.json

Bytes are in hexadecimal. Each case gives mode, type and global scale (or null), then the bytes of the packed words
and of the scales, and the bits of the matrix that comes back in float32. Inputs are listed by type, as float32 bits.
"""

import json

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)

ROWS, COLS = 4, 64


def matrix():
    """Normal samples of several sizes, a group of zeros, halves of every step of E2M1, and single numbers."""
    a, b = (np.array(mx.random.normal((ROWS, COLS), key=mx.random.key(k)), np.float64) for k in (7, 8))
    x = a * np.exp(b)
    x[1] *= 1e-3
    x[2, :32] = 0.0
    ties = [6.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    x[3, :16] = ties + [-t for t in ties]
    x[3, 16:32] = 0.0
    x[3, 20] = 1e-3
    return x.astype(np.float32)


def raw(a):
    return np.array(a.view(mx.uint8)).tobytes().hex()


def bits(a):
    return raw(a.astype(mx.float32))


def main():
    x = mx.array(matrix())
    inputs, cases = {}, []
    for name in ("float32", "float16", "bfloat16"):
        w = x.astype(getattr(mx, name))
        inputs[name] = bits(w)
        for mode in ("mxfp4", "mxfp8", "nvfp4"):
            for scale in (None, 3.0, 1000.0) if mode == "nvfp4" else (None,):
                kw = {} if scale is None else {"global_scale": mx.array(scale, mx.float32)}
                q, s = mx.quantize(w, mode=mode, **kw)
                d = mx.dequantize(q, s, mode=mode, dtype=mx.float32, **kw)
                cases.append([mode, name, scale, raw(q), raw(s), bits(d)])
    fp8 = mx.from_fp8(mx.arange(256).astype(mx.uint8), dtype=mx.float32)
    to = mx.to_fp8(x)
    print(json.dumps({"shape": [ROWS, COLS], "inputs": inputs, "cases": cases, "fp8": bits(fp8), "to_fp8": raw(to)}))


main()
