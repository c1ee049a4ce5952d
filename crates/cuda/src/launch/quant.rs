//! Packed weights.

use super::{Args, Launch, blocks};
use crate::kernels::{File, Kernel};
use olivine_core::backend::Support;
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Affine, Packing, Quant};
use olivine_core::{Dtype, Error, Meta, Result};

/// Rows of `x` up to which weights are read packed; more go through unpacked weights and a dense product.
const FEW: usize = 8;
/// The same where tensor cores take them.
const FEW_HALVES: usize = 32;

pub(super) fn supports(op: &Quant, inputs: &[Meta]) -> Support {
    match op {
        // Floats of few bits are unpacked on the CPU for now.
        Quant::Dequantize { packing: Packing::Affine(_), .. } => Support::Native,
        Quant::Quantize(_) | Quant::GatherMatmul { .. } | Quant::Dequantize { .. } => Support::Host,
        Quant::Matmul { packing: Packing::Mxfp4 | Packing::Mxfp8 | Packing::Nvfp4, .. } => Support::Host,
        Quant::Matmul { packing: Packing::Affine(spec), transpose } => {
            let [x, w, ..] = inputs else { return Support::Fallback };
            let rows = x.elements() / x.shape.last().copied().unwrap_or(1).max(1);
            let most = if few_halves(*spec, x) { FEW_HALVES } else { FEW };
            if *transpose && w.shape.rank() == 2 && rows <= most {
                Support::Native
            } else {
                Support::Fallback
            }
        }
    }
}

/// Whether the kernel for few rows of halves takes the product, given that addresses are aligned.
fn few_halves(spec: Affine, x: &Meta) -> bool {
    matches!(spec.bits, 4 | 8) && spec.group.is_multiple_of(32) && matches!(x.dtype, Dtype::F16 | Dtype::BF16)
}

fn set(k: Kernel, spec: Affine, scales: Dtype) -> Kernel {
    k.set("BITS", i64::from(spec.bits)).set("GROUP", spec.group as i64).set("S", scales)
}

pub(super) fn quant(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Quant) -> Result<()> {
    match op {
        Quant::Dequantize { packing: Packing::Affine(spec), dtype } => dequantize(ctx, l, spec, dtype),
        Quant::Matmul { packing: Packing::Affine(spec), .. } => product(ctx, l, spec),
        Quant::Quantize(_) | Quant::GatherMatmul { .. } | Quant::Dequantize { .. } | Quant::Matmul { .. } => {
            l.unsupported("core runs it on the host")
        }
    }
}

fn dequantize(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, spec: Affine, dtype: Dtype) -> Result<()> {
    let (w, s, b) = (l.dense(&ctx.inputs[0])?, l.dense(&ctx.inputs[1])?, l.dense(&ctx.inputs[2])?);
    let n = ctx.outs[0].shape.last().copied().unwrap_or(0);
    let total = ctx.outs[0].elements();
    let out = ctx.alloc(0)?.ptr;
    let each = if spec.group.is_multiple_of(8) { 8 } else { 1 };
    let k = set(Kernel::new(File::Quant, "dequantize"), spec, ctx.inputs[1].view.dtype)
        .set("OUT", dtype)
        .set("EACH", each as i64);
    let mut args = Args::default();
    args.u64(w).u64(s).u64(b).u64(out).size(n).size(total);
    l.run(l.kernel(k)?, [blocks(l, total / each, 256)?, 1, 1], [256, 1], 0, args)
}

fn processors(l: &Launch<'_>) -> usize {
    l.gpu.properties.processors as usize
}

fn product(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, spec: Affine) -> Result<()> {
    let x = l.dense(&ctx.inputs[0])?;
    let (w, s, b) = (l.dense(&ctx.inputs[1])?, l.dense(&ctx.inputs[2])?, l.dense(&ctx.inputs[3])?);
    let n = ctx.inputs[0].view.layout.shape().last().copied().unwrap_or(0);
    let outs = ctx.outs[0].shape.last().copied().unwrap_or(0);
    let rows = ctx.outs[0].elements() / outs.max(1);
    let (d, out) = (ctx.outs[0].dtype, ctx.alloc(0)?.ptr);
    let piece = 128 / usize::from(spec.bits).max(1);
    let quick = matches!(spec.bits, 4 | 8)
        && spec.group.is_multiple_of(piece)
        && n.is_multiple_of(piece)
        && w.is_multiple_of(16);
    let mut args = Args::default();
    args.u64(x).u64(w).u64(s).u64(b).u64(out).size(n).size(outs).size(rows);
    let scales = ctx.inputs[2].view.dtype;
    let meta = Meta::new(ctx.inputs[0].view.layout.shape().clone(), d);
    // One row is faster without tensor cores.
    if rows > 1 && few_halves(spec, &meta) && x.is_multiple_of(16) && w.is_multiple_of(16) {
        // A quad of threads takes one piece, which has one scale.
        let chunk = if spec.bits == 4 && spec.group.is_multiple_of(64) { 64 } else { 32 };
        let columns = rows.div_ceil(8).next_power_of_two();
        let blocks_needed = blocks(l, outs, 16)?;
        let warps = 8;
        let together = (1024 / usize::from(spec.bits) / spec.group).max(1);
        let aligned =
            (n / spec.group).is_multiple_of(together) && s.is_multiple_of(32) && b.is_multiple_of(32);
        let k = set(Kernel::new(File::Quant, "few"), spec, scales)
            .set("T", d)
            .set("CHUNK", chunk)
            .set("ALIGNED", aligned)
            .set("NT", columns as i64)
            .set("WARPS", warps)
            .set("STAGES", 2)
            .set("BLOCKS", if columns == 1 { 3 } else { 1 });
        return l.run(l.kernel(k)?, [blocks_needed, 1, 1], [32 * warps as u32, 1], 0, args);
    }
    if !quick {
        let k = set(Kernel::new(File::Quant, "gemv_any"), spec, scales).set("T", d);
        let rows = u32::try_from(rows).map_err(|_| Error::shape(l.op, format!("{rows} rows")))?;
        return l.run(l.kernel(k)?, [blocks(l, outs, 4)?, rows, 1], [32, 4], 0, args);
    }
    let m = rows.next_power_of_two().min(4);
    // More rows of a warp share what it loads of `x`; fewer warps then hide less of the memory's delay.
    let warps = processors(l) * 16;
    let r = if m > 1 || outs / 2 < warps { 1 } else { if outs / 4 < warps { 2 } else { 4 } };
    let per_word = 32 / usize::from(spec.bits);
    let aligned = x.is_multiple_of((per_word * d.size()).min(32) as u64);
    let k = set(Kernel::new(File::Quant, "gemv"), spec, scales)
        .set("T", d)
        .set("R", r as i64)
        .set("M", m as i64)
        .set("ALIGNED", aligned);
    let grid = [blocks(l, outs, 4 * r as u32)?, rows.div_ceil(m) as u32, 1];
    l.run(l.kernel(k)?, grid, [32, 4], 0, args)
}
