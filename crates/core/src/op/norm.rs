//! Normalisation over the last axis, computed in `f32` at least.

use super::{Meta, Metas, Op, one};
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Normalisation over the last axis. Floats are kept as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Norm {
    /// `x / sqrt(mean(x^2) + eps)`, times a weight when there is a second argument (Zhang and Sennrich
    /// 2019).
    Rms {
        /// Bits of the `f32` eps.
        eps: u32,
    },
    /// `(x - mean) / sqrt(var + eps)`, times a weight and plus a bias when given (Ba et al. 2016).
    Layer {
        /// Bits of the `f32` eps.
        eps: u32,
        /// Whether an argument after `x` is the weight.
        weight: bool,
        /// Whether the last argument is the bias.
        bias: bool,
    },
}

impl Norm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Norm::Rms { .. } => "rms_norm",
            Norm::Layer { .. } => "layer_norm",
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        let wanted = match self {
            Norm::Rms { .. } => inputs.len().clamp(1, 2),
            Norm::Layer { weight, bias, .. } => 1 + weight as usize + bias as usize,
        };
        let (Some(x), true) = (inputs.first(), inputs.len() == wanted) else {
            return Err(Error::value(name, format!("takes {wanted} arrays, got {}", inputs.len())));
        };
        if !x.dtype.is_float() {
            return Err(Error::bad_dtype(name, "real floats", x.dtype));
        }
        let Some(&n) = x.shape.last() else {
            return Err(Error::shape(name, "a scalar has no axis to normalise"));
        };
        for w in &inputs[1..] {
            if w.shape[..] != [n] || !w.dtype.is_float() {
                let msg = format!("weight and bias are floats of shape ({n},), got {} {}", w.dtype, w.shape);
                return Err(Error::shape(name, msg));
            }
        }
        one(x.shape.clone(), x.dtype)
    }

    pub(super) fn fallback(self, inputs: &[Array]) -> Result<Vec<Array>> {
        let x = &inputs[0];
        let wide = if x.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let h = x.astype(wide)?;
        let y = match self {
            Norm::Rms { eps } => {
                let ms = h.square()?.mean(&[-1], true)?;
                h.multiply(&ms.add(&ms.scalar_like(f32::from_bits(eps) as f64))?.rsqrt()?)?
            }
            Norm::Layer { eps, .. } => {
                let c = h.subtract(&h.mean(&[-1], true)?)?;
                let var = c.square()?.mean(&[-1], true)?;
                c.multiply(&var.add(&var.scalar_like(f32::from_bits(eps) as f64))?.rsqrt()?)?
            }
        };
        let (weight, bias) = match self {
            Norm::Rms { .. } => (inputs.get(1), None),
            Norm::Layer { weight, bias, .. } => {
                (weight.then(|| &inputs[1]), bias.then(|| &inputs[1 + weight as usize]))
            }
        };
        let mut y = y;
        if let Some(w) = weight {
            y = y.multiply(&w.astype(wide)?)?;
        }
        if let Some(b) = bias {
            y = y.add(&b.astype(wide)?)?;
        }
        Ok(vec![y.astype(x.dtype())?])
    }
}

/// Leading axes are a batch already; a weight or bias that differs between elements is applied afterwards.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let x = if flags[0] {
        inputs[0].clone()
    } else {
        inputs[0].broadcast_to(&crate::transforms::prefixed(n, inputs[0].shape()))?
    };
    if !flags[1..].contains(&true) {
        let all: Vec<Array> = std::iter::once(x).chain(inputs[1..].iter().cloned()).collect();
        return Ok(vec![Array::from_op(op.clone(), &all)?]);
    }
    let Op::Norm(norm) = op else { return Ok(Vec::new()) };
    let wide = if x.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let (plain, weight, bias) = match *norm {
        Norm::Rms { eps } => (Norm::Rms { eps }, inputs.len() > 1, false),
        Norm::Layer { eps, weight, bias } => (Norm::Layer { eps, weight: false, bias: false }, weight, bias),
    };
    let mut y = Array::from_op(Op::Norm(plain), &[x.astype(wide)?])?;
    let along = |i: usize| -> Result<Array> {
        let w = inputs[i].astype(wide)?;
        if !flags[i] {
            return Ok(w);
        }
        let mut dims = vec![1; x.rank()];
        dims[0] = n;
        dims[x.rank() - 1] = w.shape()[1];
        w.reshape(&dims)
    };
    if weight {
        y = y.multiply(&along(1)?)?;
    }
    if bias {
        y = y.add(&along(1 + weight as usize)?)?;
    }
    Ok(vec![y.astype(x.dtype())?])
}
