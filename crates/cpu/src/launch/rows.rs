//! Operations along the last axis: normalisation, softmax, rotary positions.

use super::args::{Arg, Copies, floats_mut, refused};
use crate::kernels::{norm, rope, softmax};
use olivine_core::eval::EvalCtx;
use olivine_core::op::{Norm, Rope, Softmax};
use olivine_core::queue::HostQueue;
use olivine_core::{Error, Result};
use std::sync::Arc;

pub(super) fn norm(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Norm) -> Result<()> {
    let mut copies = Copies::default();
    let x = copies.dense(ctx, queue, 0)?;
    let mut rest: Vec<Arg> =
        (1..ctx.inputs.len()).map(|k| copies.dense(ctx, queue, k)).collect::<Result<_>>()?;
    let (weight, bias) = match op {
        Norm::Rms { .. } => (rest.pop(), None),
        Norm::Layer { weight, bias, .. } => {
            let bias = if bias { rest.pop() } else { None };
            (if weight { rest.pop() } else { None }, bias)
        }
    };
    let (n, total) = (x.layout.shape().last().copied().unwrap_or(0), ctx.outs[0].elements());
    let out = ctx.alloc(0)?;
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch; arguments lie row-major and the result has as many elements as x.
        unsafe {
            let weight = weight.as_ref().map(|w| w.floats()).transpose()?;
            let bias = bias.as_ref().map(|b| b.floats()).transpose()?;
            let (x, y) = (x.floats()?, floats_mut(out, x.dtype, total)?);
            match op {
                Norm::Rms { eps } => norm::rms_norm(x, weight, f32::from_bits(eps), n, y),
                Norm::Layer { eps, .. } => norm::layer_norm(x, weight, bias, f32::from_bits(eps), n, y),
            }
        }
        .map_err(refused)
    })?;
    ctx.sent(sent);
    Ok(())
}

pub(super) fn softmax(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Softmax) -> Result<()> {
    let mut copies = Copies::default();
    let x = copies.dense(ctx, queue, 0)?;
    let (n, total) = (x.layout.shape().last().copied().unwrap_or(0), ctx.outs[0].elements());
    let out = ctx.alloc(0)?;
    let sent = queue.send(ctx.op.name(), move || {
        // SAFETY: the task of this launch; the argument lies row-major and the result has this many elements.
        unsafe {
            let (x, y) = (x.floats()?, floats_mut(out, x.dtype, total)?);
            match op {
                Softmax::Softmax => softmax::softmax(x, n, y),
                Softmax::LogSumExp => softmax::logsumexp(x, n, y),
            }
        }
        .map_err(refused)
    })?;
    ctx.sent(sent);
    Ok(())
}

pub(super) fn rope(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: Rope) -> Result<()> {
    let mut copies = Copies::default();
    let rank = ctx.outs[0].shape.rank();
    // Axes between batch and length count as heads; more than one has to lie dense.
    let x =
        if (3..=4).contains(&rank) { copies.rows(ctx, queue, 0)? } else { copies.dense(ctx, queue, 0)? };
    let offset = copies.dense(ctx, queue, 1)?;
    let frequencies = if ctx.inputs.len() > 2 { Some(copies.dense(ctx, queue, 2)?) } else { None };
    let (out, total) = (ctx.alloc(0)?, ctx.outs[0].elements());
    let sent = queue.send("rope", move || {
        let shape = x.layout.shape();
        let (len, dim) = (shape[rank - 2], shape[rank - 1]);
        let batch = if rank > 2 { shape[0] } else { 1 };
        let heads = shape[..rank - 2].iter().skip(1).product();
        let s = x.row_strides().ok_or_else(|| Error::shape("rope", "the last axis is not dense"))?;
        let strides = match rank {
            2 => [0, 0, s[0]],
            3 => [s[0], 0, s[1]],
            4 => [s[0], s[1], s[2]],
            _ => [heads * len * dim, len * dim, dim],
        };
        // SAFETY: the task of this launch; offsets and frequencies lie row-major.
        unsafe {
            let offsets: Vec<i64> = offset.dense::<i32>().iter().map(|&o| o as i64).collect();
            let r = rope::Rope {
                batch,
                heads,
                len,
                dim,
                dims: op.dims,
                traditional: op.traditional,
                frequencies: match &frequencies {
                    Some(f) => rope::Frequencies::Explicit(f.dense()),
                    None => rope::Frequencies::Base(f32::from_bits(op.base)),
                },
                scale: f32::from_bits(op.scale),
                offsets: &offsets,
            };
            rope::rope(x.floats_on()?, strides, &r, floats_mut(out, x.dtype, total)?).map_err(refused)
        }
    })?;
    ctx.sent(sent);
    Ok(())
}
