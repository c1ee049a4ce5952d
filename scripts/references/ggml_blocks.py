#!/usr/bin/env python3
"""Writes crates/core/tests/data/ggml_blocks.gguf: random blocks of each format beside the values
that llama.cpp's own decoder gives them, and one metadata value of each kind.

    pip install gguf numpy
    python scripts/references/ggml_blocks.py
"""

from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

OUT = Path(__file__).parents[2] / "crates/core/tests/data/ggml_blocks.gguf"
ROWS, COLS = 2, 512
# Byte offsets of the half-precision scales in a block.
HALVES = {
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
}


def blocks(rng, ty):
    size, width = gguf.GGML_QUANT_SIZES[ty]
    data = rng.integers(0, 256, (ROWS, COLS // size, width), dtype=np.uint8)
    if ty in HALVES:
        for at in HALVES[ty]:
            # Scales as models have them: log-uniform magnitudes, both signs.
            shape = data.shape[:2]
            scale = np.exp(rng.uniform(np.log(1e-3), np.log(0.5), shape)) * rng.choice([-1, 1], shape)
            data[..., at : at + 2] = scale.astype("<f2")[..., None].view(np.uint8)
    elif ty == T.F16:
        data = rng.normal(size=(ROWS, COLS)).astype("<f2").view(np.uint8)
    elif ty == T.BF16:
        bits = rng.normal(size=(ROWS, COLS)).astype("<f4").view("<u4") >> 16
        data = bits.astype("<u2").view(np.uint8)
    elif ty == T.F32:
        data = rng.normal(size=(ROWS, COLS)).astype("<f4").view(np.uint8)
    return data.reshape(ROWS, -1)


def main():
    rng = np.random.default_rng(0)
    w = gguf.GGUFWriter(OUT, "test")
    w.add_uint8("k.u8", 200)
    w.add_int8("k.i8", -100)
    w.add_uint16("k.u16", 60000)
    w.add_int16("k.i16", -30000)
    w.add_uint32("k.u32", 4_000_000_000)
    w.add_int32("k.i32", -2_000_000_000)
    w.add_float32("k.f32", 0.1)
    w.add_bool("k.bool", True)
    w.add_string("k.string", "naïve 😀")
    w.add_uint64("k.u64", 2**63 + 1)
    w.add_int64("k.i64", -(2**62))
    w.add_float64("k.f64", 0.1)
    w.add_array("k.strings", ["", "a", "日本"])
    w.add_array("k.ints", [1, -2, 3])
    w.add_array("k.floats", [0.5, -1.5])
    w.add_array("k.bools", [True, False])
    for ty in [T.F32, T.F16, T.BF16, *HALVES]:
        data = blocks(rng, ty)
        w.add_tensor(ty.name, data, raw_dtype=ty)
        w.add_tensor(ty.name + ".f32", gguf.quants.dequantize(data, ty).astype(np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    print(OUT, OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
