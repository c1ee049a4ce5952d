//! Fused operations of neural networks, with MLX's parameters.
//!
//! Each runs as one kernel where the device has it, and as a composite of simpler operations otherwise; sums are
//! formed in `f32` at least, and in `f64` for `f64` arguments.

use crate::ops::Mask;
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};

/// `x / sqrt(mean(x^2) + eps)` over the last axis, times `weight`; see [`Array::rms_norm`].
pub fn rms_norm(x: &Array, weight: Option<&Array>, eps: f32) -> Result<Array> {
    x.rms_norm(weight, eps)
}

/// `(x - mean) / sqrt(var + eps)` over the last axis, times `weight`, plus `bias`; see [`Array::layer_norm`].
pub fn layer_norm(x: &Array, weight: Option<&Array>, bias: Option<&Array>, eps: f32) -> Result<Array> {
    x.layer_norm(weight, bias, eps)
}

/// Rotary position embedding of `x [batch, .., length, features]`: the first `dims` features are rotated in pairs
/// by `scale * position / freqs`, where `freqs [dims / 2]` is `base^(2i / dims)` unless given. `offset` is the
/// position of the first row, a scalar or one for each of the batch.
///
/// # Errors
/// `Value` unless exactly one of `base` and `freqs` is given; `Shape`, `Dtype` for what does not fit.
pub fn rope(
    x: &Array,
    dims: usize,
    traditional: bool,
    base: Option<f32>,
    scale: f32,
    offset: &Array,
    freqs: Option<&Array>,
) -> Result<Array> {
    if base.is_some() == freqs.is_some() {
        return Err(Error::value("rope", "takes either base or freqs"));
    }
    if !offset.dtype().is_integer() {
        return Err(Error::bad_dtype("rope", "an integer offset", offset.dtype()));
    }
    // One offset for a batch of one is that of all.
    let offset = if offset.size() == 1 { offset.reshape::<usize>(&[])? } else { offset.clone() };
    let freqs = freqs.map(|f| f.astype(Dtype::F32)?.reciprocal()).transpose()?;
    x.rope(dims, traditional, base.unwrap_or(1.0), scale, &offset, freqs.as_ref())
}

/// `softmax(scale * q @ k.T + mask) @ v` for `q [batch, heads, lq, d]`, `k [batch, kv_heads, lk, d]` and
/// `v [batch, kv_heads, lk, dv]`, in the type that they promote to; `heads` is a multiple of `kv_heads`. A query
/// that sees no key gives zeros. `sinks [heads]` are the logits of one more key for each head, without value.
pub fn scaled_dot_product_attention(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: f32,
    mask: &Mask,
    sinks: Option<&Array>,
) -> Result<Array> {
    let dtype = q.dtype().promote(k.dtype()).promote(v.dtype());
    let (q, k, v) = (q.astype(dtype)?, k.astype(dtype)?, v.astype(dtype)?);
    Array::scaled_dot_product_attention(&q, &k, &v, scale, mask, sinks)
}

/// `logsumexp(logits) - logits[target]` over the last axis of `logits`, for integer `targets` of the shape of the
/// other axes: `f32`, or `f64` for `f64` logits.
///
/// # Errors
/// `Index` at evaluation when a target is no index of the last axis.
pub fn cross_entropy(logits: &Array, targets: &Array) -> Result<Array> {
    const OP: &str = "cross_entropy";
    if !logits.dtype().is_float() {
        return Err(Error::bad_dtype(OP, "logits of a float type", logits.dtype()));
    }
    if !targets.dtype().is_integer() {
        return Err(Error::bad_dtype(OP, "integer targets", targets.dtype()));
    }
    let r = logits.rank();
    if r == 0 || targets.shape()[..] != logits.shape()[..r - 1] {
        let msg = format!("targets {} for logits {}", targets.shape(), logits.shape());
        return Err(Error::shape(OP, msg));
    }
    let wide = if logits.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let x = logits.astype(wide)?;
    let chosen = x.take_along_axis(&targets.expand_dims(&[-1])?, -1)?.squeeze(&[-1])?;
    x.logsumexp(-1, false)?.subtract(&chosen)
}

/// The gated delta rule (Yang et al. 2024, "Gated Delta Networks") along the axis of time, for queries and keys
/// `[batch, time, k_heads, dk]`, values `[batch, time, v_heads, dv]`, and decays `gamma` and rates `beta`, both
/// `[batch, time, v_heads]` (`gamma` also with an axis of `dk` at the end). For each head, with state `s [dv, dk]`:
///
/// ```text
/// s = gamma s;  s = s + beta (v - s k) k^T;  y = s q
/// ```
///
/// Gives the outputs, of the shape and type of the values, and the last state `[batch, v_heads, dv, dk]` in
/// `f32` (`f64` for `f64`). `state` is the first one, zeros by default. Where `mask [batch, time]` is false the
/// state stays and the output is zero.
///
/// # Errors
/// `Shape` when the arguments do not fit, among them `v_heads` that are no multiple of `k_heads`.
pub fn gated_delta_update(
    q: &Array,
    k: &Array,
    v: &Array,
    gamma: &Array,
    beta: &Array,
    state: Option<&Array>,
    mask: Option<&Array>,
) -> Result<(Array, Array)> {
    const OP: &str = "gated_delta_update";
    for x in [q, k, v, gamma, beta].into_iter().chain(state) {
        if !x.dtype().is_float() {
            return Err(Error::bad_dtype(OP, "real floats", x.dtype()));
        }
    }
    let (&[b, t, hk, dk], &[_, _, hv, dv]) = (&q.shape()[..], &v.shape()[..]) else {
        let msg = format!("q and v have four axes, got {} and {}", q.shape(), v.shape());
        return Err(Error::shape(OP, msg));
    };
    let wide_gate = gamma.rank() == 4;
    let gates = if wide_gate { Shape::new(&[b, t, hv, dk]) } else { Shape::new(&[b, t, hv]) };
    let fits = q.shape() == k.shape()
        && v.shape()[..2] == [b, t]
        && hk > 0
        && hv % hk == 0
        && *gamma.shape() == gates
        && beta.shape()[..] == [b, t, hv]
        && state.is_none_or(|s| s.shape()[..] == [b, hv, dv, dk])
        && mask.is_none_or(|m| m.shape()[..] == [b, t]);
    if !fits {
        let msg = format!(
            "q {}, k {}, v {}, gamma {}, beta {}, state {:?}, mask {:?} do not fit",
            q.shape(),
            k.shape(),
            v.shape(),
            gamma.shape(),
            beta.shape(),
            state.map(|s| s.shape().to_string()),
            mask.map(|m| m.shape().to_string())
        );
        return Err(Error::shape(OP, msg));
    }
    let wide = if v.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    // [batch, time, k_heads, d] to [batch, time, v_heads, 1, d]: value heads that share a key are neighbours.
    let spread = |x: &Array| {
        x.astype(wide)?.expand_dims(&[3])?.broadcast_to(&[b, t, hk, hv / hk, dk])?.reshape(&[b, t, hv, 1, dk])
    };
    let (q, k) = (spread(q)?, spread(k)?);
    let values = v.astype(wide)?.expand_dims(&[-1])?;
    let gamma = gamma.astype(wide)?;
    let gamma = if wide_gate { gamma.expand_dims(&[-2])? } else { gamma.expand_dims(&[-1, -2])? };
    let beta = beta.astype(wide)?.expand_dims(&[-1, -2])?;
    let mask = mask.map(|m| m.astype(Dtype::Bool)?.reshape(&[b, t, 1, 1, 1])).transpose()?;
    let at = |x: &Array, i: usize| x.slice_axis(1, i, i + 1)?.squeeze(&[1]);
    let mut s = match state {
        Some(s) => s.astype(wide)?,
        None => Array::zeros(&[b, hv, dv, dk], wide)?,
    };
    let mut outputs = Vec::with_capacity(t);
    for i in 0..t {
        let (k, q) = (at(&k, i)?, at(&q, i)?);
        let decayed = s.multiply(&at(&gamma, i)?)?;
        let known = decayed.multiply(&k)?.sum(&[-1], true)?;
        let delta = at(&values, i)?.subtract(&known)?.multiply(&at(&beta, i)?)?;
        let next = decayed.add(&delta.multiply(&k)?)?;
        let y = next.multiply(&q)?.sum(&[-1], false)?;
        match &mask {
            None => {
                s = next;
                outputs.push(y);
            }
            Some(m) => {
                let m = at(m, i)?;
                s = Array::select(&m, &next, &s)?;
                outputs.push(Array::select(&m.squeeze(&[-1])?, &y, &y.scalar_like(0.0))?);
            }
        }
    }
    let y = if t == 0 { Array::zeros(&[b, 0, hv, dv], wide)? } else { crate::ops::stack(&outputs, 1)? };
    Ok((y.astype(v.dtype())?, s))
}
