#!/usr/bin/env python3
"""Writes fuzz/corpus: small files of each format, good and bad, from which fuzzing starts.

    python scripts/references/fuzz_corpus.py
"""

import io
import json
import struct
import zipfile
from pathlib import Path

OUT = Path(__file__).parents[2] / "fuzz/corpus"


def text(s):
    data = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(data)) + data


def entry(key, kind, payload):
    return text(key) + struct.pack("<I", kind) + payload


def array(kind, items):
    return struct.pack("<IQ", kind, len(items)) + b"".join(items)


def tensor(name, dims, ty, offset):
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, ty, offset)


def file(metadata=(), tensors=(), data=b"", version=3, counts=None):
    n_tensors, n_metadata = counts or (len(tensors), len(metadata))
    out = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_metadata) + b"".join(metadata) + b"".join(tensors)
    return out + b"\0" * (-len(out) % 32) + data


SCALARS = [
    entry("u8", 0, b"\1"), entry("i8", 1, b"\xff"), entry("u16", 2, b"\1\2"), entry("i16", 3, b"\1\2"),
    entry("u32", 4, b"\1\2\3\4"), entry("i32", 5, b"\1\2\3\4"), entry("f32", 6, b"\0\0\x80\x3f"), entry("bool", 7, b"\1"),
    entry("string", 8, text("naïve")), entry("u64", 10, b"\1" * 8), entry("i64", 11, b"\xff" * 8), entry("f64", 12, b"\0" * 8),
]
QUANTIZED = {"q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34),
             "q4_k": (12, 256, 144), "q5_k": (13, 256, 176), "q6_k": (14, 256, 210)}
FILES = {
    "empty": file(),
    "version2": file(version=2),
    "scalars": file(SCALARS),
    "arrays": file([entry("s", 9, array(8, [text("a"), text("")])), entry("i", 9, array(5, [b"\0" * 4] * 3)),
                    entry("n", 9, array(9, [array(0, [b"\1"]), array(7, [b"\0", b"\1"])]))]),
    "alignment": file([entry("general.alignment", 4, struct.pack("<I", 8))], [tensor("t", [2], 0, 8)], b"\0" * 32),
    "dense": file(tensors=[tensor("a", [2, 3], 0, 0), tensor("b", [5], 1, 32), tensor("c", [5], 30, 64)], data=b"\x3c" * 96),
    "scalar_tensor": file(tensors=[tensor("s", [], 0, 0), tensor("z", [0, 4], 0, 0)], data=b"\0" * 32),
    **{name: file(tensors=[tensor(name, [n], ty, 0)], data=bytes(range(7, 7 + size)) if size < 200 else b"\x21" * size)
       for name, (ty, n, size) in QUANTIZED.items()},
    "huge_counts": file(counts=(1 << 60, 1 << 60)),
    "huge_array": file([entry("k", 9, struct.pack("<IQ", 8, 1 << 60))]),
    "deep": file([entry("k", 9, struct.pack("<IQ", 9, 1) * 40)]),
    "overflow": file(tensors=[tensor("t", [1 << 32, 1 << 32], 0, 0)]),
    "overlap": file(tensors=[tensor("a", [16], 0, 0), tensor("b", [16], 0, 32)], data=b"\0" * 128),
    "outside": file(tensors=[tensor("t", [16], 0, 1 << 40)], data=b"\0" * 64),
    "duplicate": file([entry("k", 0, b"\1"), entry("k", 0, b"\1")]),
    "bad_utf8": file([entry("k", 8, text(b"\xff\xfe"))]),
    "truncated": file(SCALARS)[:100],
    "big_endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
}



def safetensors(header, data=b"", length=None):
    header = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def entry_of(dtype, shape, start, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


SAFETENSORS = {
    "empty": safetensors({}),
    "metadata": safetensors({"__metadata__": {"format": "pt", "n\u00e4me": "\u65e5\u672c"}}),
    "several": safetensors({"a.weight": entry_of("F32", [2, 3], 0, 24), "b": entry_of("BF16", [5], 24, 34),
                            "c": entry_of("I64", [], 34, 42), "z": entry_of("U8", [0, 7], 42, 42)}, bytes(42)),
    "small_floats": safetensors({"a": entry_of("F8_E4M3", [4], 0, 4), "b": entry_of("F4", [4], 4, 6)}, bytes(6)),
    "spaces": safetensors(b'{"a": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]}}   ', b"\1"),
    "huge_length": safetensors(b"{}", length=1 << 63),
    "length_beyond_end": safetensors(b"{}", length=3),
    "twice": safetensors(b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"\0"),
    "overlap": safetensors({"a": entry_of("U8", [4], 0, 4), "b": entry_of("U8", [4], 2, 6)}, bytes(6)),
    "gap": safetensors({"a": entry_of("U8", [4], 0, 4), "b": entry_of("U8", [4], 6, 10)}, bytes(10)),
    "outside": safetensors({"a": entry_of("U8", [4], 0, 4)}, bytes(3)),
    "rest": safetensors({"a": entry_of("U8", [4], 0, 4)}, bytes(5)),
    "overflow": safetensors({"a": entry_of("F64", [1 << 62], 0, 0)}),
    "wraps": safetensors({"a": entry_of("U8", [(1 << 64) - 16], 0, (1 << 64) - 16)}),
    "backwards": safetensors({"a": entry_of("U8", [4], 4, 0)}, bytes(4)),
    "unknown_type": safetensors({"a": entry_of("Q4", [4], 0, 4)}, bytes(4)),
    "deep": safetensors(b'{"a":' + b"[" * 500),
    "bad_utf8": safetensors(b'{"\xff":1}'),
    "truncated": safetensors({"a": entry_of("U8", [4], 0, 4)}, bytes(4))[:30],
}


def npy(descr="<f4", shape="(3,)", data=bytes(12), order="False", version=1, text=None):
    head = (text or f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}").encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(head)) + head + data


def npz(method, **members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members.items():
            z.writestr(zipfile.ZipInfo(name.replace("_npy", ".npy")), data, compress_type=method)
    return out.getvalue()


# Good ones first; the test knows the bad ones by the prefix of their name.
NPY = {
    "plain": npy(), "scalar": npy("<f8", "()", bytes(8)), "empty": npy("|u1", "(0, 5)", b""), "bool": npy("|b1", "(2,)", b"\0\1"),
    "half": npy("<f2", "(2, 3)"), "bfloat16": npy("<V2", "(2, 3)"), "complex": npy("<c8", "(1,)", bytes(8)),
    "big_endian": npy(">i4"), "fortran": npy("<i2", "(2, 3)", order="True"), "version2": npy(version=2),
    "long_sizes": npy(text="{\"descr\":\"<i4\",\"fortran_order\":False,\"shape\":(3L,)}"), "rest": npy(data=bytes(20)),
    "stored.npz": npz(zipfile.ZIP_STORED, a_npy=npy(), b_npy=npy(">i4")),
    "deflated.npz": npz(zipfile.ZIP_DEFLATED, a_npy=npy("<f8", "(100,)", bytes(800)), b_npy=npy()),
    "nothing.npz": npz(zipfile.ZIP_STORED),
    "bad_magic": b"PK\3\4" + bytes(30), "bad_short": npy(data=bytes(11)), "bad_huge": npy(shape="(9223372036854775807, 9)"),
    "bad_size": npy(shape="(99999999999999999999999,)"), "bad_negative": npy(shape="(-1,)"), "bad_object": npy("|O"),
    "bad_records": npy(text="{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,), }"),
    "bad_twice": npy(text="{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,), }"),
    "bad_axes": npy(shape="(" + "1," * 65 + ")"), "bad_version": npy(version=9),
    "bad_cut.npz": npz(zipfile.ZIP_STORED, a_npy=npy())[:-10],
    "bad_member.npz": npz(zipfile.ZIP_STORED, a_txt=b"hello"),
    "bad_bomb.npz": npz(zipfile.ZIP_DEFLATED, a_npy=npy("|u1", "(1000000000000,)", bytes(100000))),
}


def main():
    for folder, files in {"gguf": FILES, "safetensors": SAFETENSORS, "npy": NPY}.items():
        (OUT / folder).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            (OUT / folder / name).write_bytes(data)
        print(len(files), "files in", OUT / folder)


if __name__ == "__main__":
    main()
