//! Hand-written kernels in the specialisations that their launches use, a few of each.

use olivine_core::Dtype;
use olivine_cuda::kernels::{File, Kernel};

const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

/// Kernels of every file.
pub fn kernels() -> Vec<Kernel> {
    let mut all = Vec::new();
    let k = Kernel::new;
    for (d, whole, make) in [
        (Dtype::I32, true, "v"),
        (Dtype::BF16, false, "put<bf16>(before_half(v))"),
        (Dtype::C64, false, "To<c64>::f(v)"),
    ] {
        all.push(k(File::Create, "arange").set("OUT", d).set("WHOLE", whole).set("MAKE(v)", make));
    }
    all.push(k(File::Random, "bits"));
    for (t, v) in [("u8", 4), ("u16", 2), ("u16", 1), ("u32", 1), ("u64", 1)] {
        all.push(k(File::Copy, "turn").set("T", t).set("V", v));
    }
    for (t, acc, op, init, vec) in [
        (Dtype::F32, Dtype::F32, "OpAdd", "((A)0)", 4),
        (Dtype::BF16, Dtype::F32, "OpMax", "((A)-INF)", 8),
        (Dtype::Bool, Dtype::I32, "OpAdd", "((A)0)", 16),
        (Dtype::F16, Dtype::Bool, "OpMax", "false", 8),
        (Dtype::I64, Dtype::I64, "OpMin", "((A)~0ull)", 2),
        (Dtype::C64, Dtype::C64, "OpMul", "(c64{1.0f, 0.0f})", 2),
    ] {
        let base = |e| {
            k(File::Reduce, e).set("T", t).set("ACC", acc).set("RESULT", acc).set("OP", op).set("INIT", init)
        };
        all.push(base("columns"));
        all.push(base("wide_columns").set("VEC", vec.min(8)));
        all.push(base("rows").set("DENSE", true).set("VEC", vec).set("THREADS", 256));
        all.push(base("rows").set("DENSE", false).set("VEC", 1).set("THREADS", 32));
    }
    for t in [Dtype::F32, Dtype::BF16, Dtype::U8, Dtype::I64, Dtype::Bool] {
        for threads in [1, 32, 1024] {
            all.push(k(File::Arg, "extreme").set("T", t).set("LARGEST", true).set("THREADS", threads));
        }
    }
    for t in FLOATS {
        all.push(k(File::Gemv, "dense").set("T", t).set("R", 2));
        for (threads, vec, iters) in [(32, 4, 4), (256, 16 / t.size() as i64, 4), (1024, 1, 0)] {
            let base = |e| {
                k(File::Rows, e)
                    .set("T", t)
                    .set("THREADS", threads)
                    .set("VEC", vec)
                    .set("ITERS", iters)
                    .set("HAS_W", true)
                    .set("HAS_B", true)
                    .set("W", t)
                    .set("B", Dtype::F32)
            };
            all.extend(["softmax", "logsumexp", "rms_norm", "layer_norm"].map(base));
        }
        for traditional in [true, false] {
            let explicit = traditional;
            all.push(
                k(File::Rope, "rope").set("T", t).set("TRADITIONAL", traditional).set("EXPLICIT", explicit),
            );
        }
        for (mask, sinks) in [(0, false), (1, true), (2, false), (3, true)] {
            for d in [64, 80, 256] {
                let base = |e| {
                    k(File::Attention, e)
                        .set("T", t)
                        .set("D", d)
                        .set("DV", d)
                        .set("MASK", mask)
                        .set("SINKS", sinks)
                };
                all.extend(["vector", "combine"].map(base));
            }
        }
        for (bits, group) in [(4, 32), (4, 64), (8, 64), (3, 64), (6, 16)] {
            let base = |e| k(File::Quant, e).set("BITS", bits).set("GROUP", group).set("S", Dtype::F16);
            all.push(base("dequantize").set("OUT", t).set("EACH", 8));
            all.push(base("gemv_any").set("T", t));
            if matches!(bits, 4 | 8) && t != Dtype::F32 {
                let chunk = if bits == 4 && group == 64 { 64 } else { 32 };
                for (columns, aligned, blocks) in [(1, true, 3), (2, false, 1), (4, true, 1)] {
                    all.push(
                        base("few")
                            .set("T", t)
                            .set("CHUNK", chunk)
                            .set("ALIGNED", aligned)
                            .set("NT", columns)
                            .set("WARPS", 8)
                            .set("STAGES", 2)
                            .set("BLOCKS", blocks),
                    );
                }
            }
            if matches!(bits, 4 | 8) {
                for (r, m, aligned) in [(4, 1, true), (1, 4, true), (2, 1, false)] {
                    all.push(base("gemv").set("T", t).set("R", r).set("M", m).set("ALIGNED", aligned));
                }
            }
        }
    }
    for (t, acc, op, init) in [
        (Dtype::F32, Dtype::F32, "OpLse", "((A)-INF)"),
        (Dtype::U8, Dtype::U32, "OpAdd", "((A)0)"),
        (Dtype::Bool, Dtype::Bool, "OpMax", "false"),
        (Dtype::C64, Dtype::C64, "OpAdd", "(c64{0.0f, 0.0f})"),
    ] {
        for entry in ["serial", "totals", "block"] {
            for (reverse, inclusive) in [(false, true), (true, false)] {
                all.push(
                    k(File::Scan, entry)
                        .set("T", t)
                        .set("ACC", acc)
                        .set("OUT", acc)
                        .set("OP", op)
                        .set("INIT", init)
                        .set("REVERSE", reverse)
                        .set("INCLUSIVE", inclusive),
                );
            }
        }
    }
    for (t, key, float, double, signed) in [
        (Dtype::F32, "u32", true, false, false),
        (Dtype::F64, "u64", true, true, false),
        (Dtype::BF16, "u32", true, false, false),
        (Dtype::I8, "u8", false, false, true),
        (Dtype::U64, "u64", false, false, false),
        (Dtype::Bool, "u8", false, false, false),
    ] {
        for entry in ["tiles", "merge", "elements", "indices"] {
            all.push(
                k(File::Sort, entry)
                    .set("T", t)
                    .set("K", key)
                    .set("DESCENDING", true)
                    .set("IS_FLOAT", float)
                    .set("IS_DOUBLE", double)
                    .set("IS_SIGNED", signed),
            );
        }
    }
    for count in [0, 1, 3] {
        all.push(
            k(File::Index, "gather")
                .set("T", "uint4")
                .set("I", Dtype::U32)
                .set("COUNT", count)
                .set("SET", true),
        );
    }
    all.push(k(File::Index, "take").set("T", "u16").set("I", Dtype::I64).set("COUNT", 1).set("SET", true));
    for (t, set, op, native) in [
        ("u32", true, "OpAdd", false),
        ("f32", false, "OpAdd", true),
        ("bf16", false, "OpAdd", false),
        ("b8", false, "OpMax", false),
        ("i64", false, "OpMin", false),
        ("c64", false, "OpMul", false),
    ] {
        for entry in ["claim", "scatter", "claim_along", "put_along"] {
            if set || !entry.starts_with("claim") {
                all.push(
                    k(File::Index, entry)
                        .set("T", t)
                        .set("I", Dtype::I32)
                        .set("COUNT", 1)
                        .set("SET", set)
                        .set("OP", op)
                        .set("NATIVE_ADD", native),
                );
            }
        }
    }
    all
}
