//! Attention.

use super::{Args, Launch, blocks};
use crate::kernels::{File, Kernel};
use olivine_core::backend::{Input, Support};
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Attention, MaskKind};
use olivine_core::{Dtype, Meta, Result};

/// Queries up to which each reads the keys by itself; more go through products of matrices.
const FEW: usize = 16;
/// Widest head that fits a warp's registers.
const WIDEST: usize = 512;
/// Fewest keys of a part.
const PART: usize = 128;

pub(super) fn supports(_op: &Attention, inputs: &[Meta]) -> Support {
    let [q, _, v, ..] = inputs else { return Support::Fallback };
    let (&[_, _, lq, d], &[.., dv]) = (&q.shape[..], &v.shape[..]) else { return Support::Fallback };
    if lq <= FEW && d <= WIDEST && dv <= WIDEST { Support::Native } else { Support::Fallback }
}

/// Address and strides of batch, head and position of an argument whose last axis lies dense.
fn rows(l: &mut Launch<'_>, input: &Input) -> Result<(u64, [isize; 3])> {
    let layout = &input.view.layout;
    let (s, shape) = (layout.strides(), layout.shape());
    if s[3] == 1 || shape[3] == 1 {
        let at = input.mem.ptr + (layout.offset() * input.view.dtype.size()) as u64;
        return Ok((at, [s[0], s[1], s[2]]));
    }
    let (row, head) = (shape[3] as isize, (shape[2] * shape[3]) as isize);
    Ok((l.dense(input)?, [shape[1] as isize * head, head, row]))
}

pub(super) fn attention(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>, op: Attention) -> Result<()> {
    let (q, k, v) = (rows(l, &ctx.inputs[0])?, rows(l, &ctx.inputs[1])?, rows(l, &ctx.inputs[2])?);
    let shape = |i: usize| ctx.inputs[i].view.layout.shape().clone();
    let (qs, ks, vs) = (shape(0), shape(1), shape(2));
    let (batch, heads, lq, lk) = (qs[0], qs[1], qs[2], ks[2]);
    let (mask, kind, window) = match op.mask {
        MaskKind::None => ((0, [0; 4]), 0, 0),
        MaskKind::Causal { window } => ((0, [0; 4]), 1, window.unwrap_or(0)),
        MaskKind::Array => {
            let m = &ctx.inputs[3].view;
            let mut s = [0isize; 4];
            for (i, s) in s.iter_mut().enumerate() {
                // An axis of size 1 is broadcast, whatever its stride says.
                *s = if m.layout.shape()[i] == 1 { 0 } else { m.layout.strides()[i] };
            }
            let at = ctx.inputs[3].mem.ptr + (m.layout.offset() * m.dtype.size()) as u64;
            ((at, s), if m.dtype == Dtype::Bool { 2 } else { 3 }, 0)
        }
    };
    let sinks = if op.sinks { l.dense(&ctx.inputs[ctx.inputs.len() - 1])? } else { 0 };
    let (d, out) = (ctx.outs[0].dtype, ctx.alloc(0)?.ptr);
    let queries = batch * heads * lq;
    let wanted = (l.gpu.properties.processors as usize * 4).div_ceil(queries.max(1));
    let parts = wanted.min(lk / PART).clamp(1, 64);
    let chunk = lk.div_ceil(parts).next_multiple_of(16).max(1);
    let parts = lk.div_ceil(chunk).max(1);
    let partial = if parts > 1 { l.temporary(queries * parts * (vs[3] + 2) * 4)? } else { 0 };
    let mut w = vec![heads as u64, (heads / ks[1]) as u64, lq as u64, lk as u64];
    w.extend([q.1, k.1, v.1].iter().flatten().map(|&s| s as u64));
    w.extend(mask.1.iter().map(|&s| s as u64));
    w.extend([window as u64, parts as u64, chunk as u64]);
    let set = |entry| {
        Kernel::new(File::Attention, entry)
            .set("T", d)
            .set("D", qs[3] as i64)
            .set("DV", vs[3] as i64)
            .set("MASK", i64::from(kind))
            .set("SINKS", op.sinks)
    };
    let mut args = Args::default();
    args.u64(q.0).u64(k.0).u64(v.0).u64(mask.0).u64(sinks).words(&w).f32(op.scale).u64(out).u64(partial);
    let grid = [blocks(l, queries, 1)?, parts as u32, 1];
    l.run(l.kernel(set("vector"))?, grid, [128, 1], 0, args)?;
    if parts > 1 {
        let mut args = Args::default();
        args.u64(partial).size(parts).u64(out);
        l.run(l.kernel(set("combine"))?, [blocks(l, queries, 1)?, 1, 1], [128, 1], 0, args)?;
    }
    Ok(())
}
