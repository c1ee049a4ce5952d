"""Writes affine.txt: what MLX makes of small matrices, for every width, group size and type.

    pip install 'mlx[cpu]==0.32.4' numpy && python make.py > affine.txt

A line is: bits, group, type, then in hexadecimal the bytes of the packed words, scales and biases, and the
64-bit FNV-1a hash of the bytes of the dequantized matrix. The matrix is 2 x 128; see `weight` for its values,
which are exact in float32.
"""

import mlx.core as mx
import numpy as np


def weight(i):
    """Spread over (-1, 1), with a group of zeros, and one of a single sign."""
    h = (i * 2654435761) % (1 << 32)
    x = (h >> 8) / float(1 << 23) - 1.0
    if i < 32:
        return 0.0
    if i >= 224:
        return abs(x) + 1.0
    return x * abs(x)


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = ((h ^ b) * 0x100000001B3) % (1 << 64)
    return h


def raw(a):
    return np.array(a.view(mx.uint8)).tobytes()


mx.set_default_device(mx.cpu)
w32 = mx.array(np.array([np.float32(weight(i)) for i in range(256)], np.float32).reshape(2, 128))
for bits in (1, 2, 3, 4, 5, 6, 8):
    for group in (32, 64, 128):
        for name in ("float32", "float16", "bfloat16"):
            q, s, b = mx.quantize(w32.astype(getattr(mx, name)), group_size=group, bits=bits)
            d = mx.dequantize(q, s, b, group_size=group, bits=bits)
            print(bits, group, name, raw(q).hex(), raw(s).hex(), raw(b).hex(), f"{fnv(raw(d)):016x}")
