//! Attention.

use super::args::{Arg, Copies, floats_mut, refused};
use crate::kernels::attention::{ArrayMask, Attention, Operand, scaled_dot_product_attention};
use olivine_core::eval::EvalCtx;
use olivine_core::op::{self, MaskKind};
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Result};
use std::sync::Arc;

/// Batch, head and length strides.
fn strides(a: &Arg) -> Result<[usize; 3]> {
    match a.row_strides().as_deref() {
        Some(&[b, h, l, _]) => Ok([b, h, l]),
        Some(_) | None => Err(Error::shape("scaled_dot_product_attention", "four axes expected")),
    }
}

pub(super) fn attention(ctx: &mut EvalCtx<'_>, queue: &Arc<HostQueue>, op: op::Attention) -> Result<()> {
    let mut copies = Copies::default();
    let (q, k, v) = (copies.rows(ctx, queue, 0)?, copies.rows(ctx, queue, 1)?, copies.rows(ctx, queue, 2)?);
    let (mask, causal, window) = match op.mask {
        MaskKind::None => (None, false, None),
        MaskKind::Causal { window } => (None, true, window),
        MaskKind::Array => {
            let a = Arg::of(&ctx.inputs[3]);
            let forward = a.layout.strides().iter().all(|&s| s >= 0);
            (Some(if forward { a } else { copies.dense(ctx, queue, 3)? }), false, None)
        }
    };
    let sinks = if op.sinks { Some(copies.dense(ctx, queue, ctx.inputs.len() - 1)?) } else { None };
    let (out, n) = (ctx.alloc(0)?, ctx.outs[0].elements());
    let sent = queue.send("scaled_dot_product_attention", move || {
        let (qs, ks, vs) = (q.layout.shape(), k.layout.shape(), v.layout.shape());
        let (batch, q_heads, q_len) = (qs[0], qs[1], qs[2]);
        // SAFETY: the task of this launch; offsets lie inside the buffers.
        unsafe {
            let operand = |a: &Arg| Ok(Operand { data: a.floats_on()?, strides: strides(a)? });
            let mask = mask.as_ref().map(|m| {
                let mut s = [0; 4];
                for (i, s) in s.iter_mut().enumerate() {
                    // An axis of size 1 is broadcast, whatever its stride says.
                    *s = if m.layout.shape()[i] == 1 { 0 } else { m.layout.strides()[i] as usize };
                }
                let at = m.layout.offset();
                if m.dtype == Dtype::Bool {
                    ArrayMask::Boolean { data: &m.buffer::<u8>()[at..], strides: s }
                } else {
                    ArrayMask::Additive { data: &m.buffer::<f32>()[at..], strides: s }
                }
            });
            let a = Attention {
                batch,
                q_heads,
                kv_heads: ks[1],
                q_len,
                k_len: ks[2],
                dim: qs[3],
                v_dim: vs[3],
                scale: f32::from_bits(op.scale),
                causal,
                window,
                mask,
                sinks: sinks.as_ref().map(|s| s.dense::<f32>()),
                key_ranges: None,
            };
            let out = floats_mut(out, q.dtype, n)?;
            scaled_dot_product_attention(operand(&q)?, operand(&k)?, operand(&v)?, &a, out).map_err(refused)
        }
    })?;
    ctx.sent(sent);
    Ok(())
}
