//! Scaled dot-product attention (Vaswani et al. 2017), computed without the matrix of scores.

use super::{Meta, Metas, Op, one};
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Which keys a query sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MaskKind {
    /// All.
    None,
    /// Query `i` of `lq` sees key `j` of `lk` when `j <= lk - lq + i`, and, with a window `w`, when also
    /// `j > lk - lq + i - w`.
    Causal {
        /// Number of newest keys that are seen; all when `None`.
        window: Option<usize>,
    },
    /// An argument says it: `bool` (true is seen) or a float that is added to the scores; it broadcasts to
    /// `[batch, heads, lq, lk]`.
    Array,
}

/// `softmax(scale * q @ k.T + mask) @ v`.
///
/// Arguments: `q [batch, heads, lq, d]`, `k [batch, kv_heads, lk, d]`, `v [batch, kv_heads, lk, dv]` with
/// `heads` a multiple of `kv_heads`; the mask, already of four axes, when [`MaskKind::Array`]; the `f32`
/// logit of one extra key without value per head, shape `[heads]`, when `sinks`. A query that sees no key
/// gives zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Attention {
    /// Bits of the `f32` factor on the scores.
    pub scale: u32,
    /// Which keys a query sees.
    pub mask: MaskKind,
    /// Whether the last argument are sinks.
    pub sinks: bool,
}

impl Attention {
    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let name = "scaled_dot_product_attention";
        let masked = matches!(self.mask, MaskKind::Array);
        let wanted = 3 + masked as usize + self.sinks as usize;
        let &[q, k, v, ..] = inputs else {
            return Err(Error::value(name, format!("takes {wanted} arrays, got {}", inputs.len())));
        };
        if inputs.len() != wanted {
            return Err(Error::value(name, format!("takes {wanted} arrays, got {}", inputs.len())));
        }
        if !q.dtype.is_float() || q.dtype != k.dtype || k.dtype != v.dtype {
            let msg =
                format!("q, k, v are real floats of one type, got {}, {}, {}", q.dtype, k.dtype, v.dtype);
            return Err(Error::dtype(name, msg));
        }
        let (&[b, h, lq, d], &[kb, kh, lk, kd], &[vb, vh, vl, dv]) =
            (&q.shape[..], &k.shape[..], &v.shape[..])
        else {
            let msg = format!("q, k, v have four axes, got {}, {}, {}", q.shape, k.shape, v.shape);
            return Err(Error::shape(name, msg));
        };
        let fits = b == kb && kb == vb && kh == vh && kh > 0 && h % kh == 0 && lk == vl && d == kd;
        if !fits {
            return Err(Error::shape(
                name,
                format!("q {}, k {} and v {} do not fit", q.shape, k.shape, v.shape),
            ));
        }
        if masked {
            let m = inputs[3];
            let full = [b, h, lq, lk];
            let broadcasts =
                m.shape.rank() == 4 && m.shape.iter().zip(&full).all(|(&s, &f)| s == f || s == 1);
            if !broadcasts || !(m.dtype == Dtype::Bool || m.dtype == Dtype::F32) {
                let msg = format!("mask {} {} does not fit {full:?} as bool or float32", m.dtype, m.shape);
                return Err(Error::shape(name, msg));
            }
        }
        if self.sinks {
            let s = inputs[wanted - 1];
            if s.shape[..] != [h] || s.dtype != Dtype::F32 {
                return Err(Error::shape(
                    name,
                    format!("sinks are float32 ({h},), got {} {}", s.dtype, s.shape),
                ));
            }
        }
        if let MaskKind::Causal { window: Some(0) } = self.mask {
            return Err(Error::value(name, "a window of 0 keys"));
        }
        one(crate::Shape::new(&[b, h, lq, dv]), q.dtype)
    }

    pub(super) fn fallback(self, inputs: &[Array]) -> Result<Vec<Array>> {
        let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
        let (&[b, h, lq, d], &[_, kh, lk, dv]) = (&q.shape()[..], &v.shape()[..]) else {
            return Err(Error::shape("scaled_dot_product_attention", "four axes expected"));
        };
        let rep = h / kh;
        let wide = if q.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let q5 = q.astype(wide)?.scale(f32::from_bits(self.scale) as f64)?.reshape(&[b, kh, rep, lq, d])?;
        let (k5, v5) = (k.astype(wide)?.expand_dims(&[2])?, v.astype(wide)?.expand_dims(&[2])?);
        let scores = q5.matmul(&k5.swapaxes(-1, -2)?)?.reshape(&[b, h, lq, lk])?;
        let hidden = scores.full_like(f64::NEG_INFINITY)?;
        let scores = match self.mask {
            MaskKind::None => scores,
            MaskKind::Causal { window } => {
                let at = Array::arange_i32(lq)?
                    .reshape(&[lq, 1])?
                    .add(&Array::from_scalar(lk as i32 - lq as i32))?;
                let keys = Array::arange_i32(lk)?;
                let mut seen = keys.less_equal(&at)?;
                if let Some(w) = window {
                    let newest = at.subtract(&Array::from_scalar(w.min(i32::MAX as usize) as i32))?;
                    seen = seen.logical_and(&keys.greater(&newest)?)?;
                }
                Array::select(&seen, &scores, &hidden)?
            }
            MaskKind::Array if inputs[3].dtype() == Dtype::Bool => {
                Array::select(&inputs[3], &scores, &hidden)?
            }
            MaskKind::Array => scores.add(&inputs[3])?,
        };
        let scores = if self.sinks {
            let sinks = inputs[inputs.len() - 1]
                .astype(wide)?
                .reshape(&[1, h, 1, 1])?
                .broadcast_to(&[b, h, lq, 1])?;
            Array::concatenate(&[scores, sinks], -1)?
        } else {
            scores
        };
        let max = scores.max(&[-1], true)?;
        let blind = max.equal(&max.full_like(f64::NEG_INFINITY)?)?;
        let weights = scores.subtract(&Array::select(&blind, &max.full_like(0.0)?, &max)?)?.exp()?;
        let sum = weights.sum(&[-1], true)?;
        let sum = Array::select(&blind, &sum.full_like(1.0)?, &sum)?;
        let weights = weights.divide(&sum)?.slice_axis(-1, 0, lk)?;
        let out = weights.reshape(&[b, kh, rep, lq, lk])?.matmul(&v5)?.reshape(&[b, h, lq, dv])?;
        Ok(vec![out.astype(q.dtype())?])
    }
}

/// The batch joins the batch axis of the operation.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let Op::Attention(o) = op else { return Ok(Vec::new()) };
    if o.sinks && flags.last() == Some(&true) {
        return crate::transforms::batch_function(|x| o.fallback(x), inputs, flags, n);
    }
    let mut b = 1;
    let mut all = Vec::with_capacity(inputs.len());
    for (i, (x, &flag)) in inputs.iter().zip(flags).enumerate() {
        if i == inputs.len() - 1 && o.sinks {
            all.push(x.clone());
            continue;
        }
        let x = if flag { x.clone() } else { x.broadcast_to(&crate::transforms::prefixed(n, x.shape()))? };
        let mut shape = x.shape().clone();
        if i == 0 {
            b = shape[1];
        }
        // A mask may be the same for all sequences of a batch.
        shape.dims_mut()[1] = b;
        let x = x.broadcast_to(&shape)?;
        let joined: Vec<usize> = std::iter::once(n * b).chain(shape[2..].iter().copied()).collect();
        all.push(x.reshape(&joined)?);
    }
    let y = Array::from_op(op.clone(), &all)?;
    let parted: Vec<usize> = [n, b].into_iter().chain(y.shape()[1..].iter().copied()).collect();
    Ok(vec![y.reshape(&parted)?])
}
