//! Fused operations of neural networks.

use crate::op::{Attention, MaskKind, Norm, Op, Rope};
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};

/// Which keys a query sees; see [`MaskKind`].
#[derive(Debug, Clone, Default)]
pub enum Mask {
    /// All.
    #[default]
    None,
    /// Those up to its own position, the last query standing at the last key.
    Causal,
    /// Of those, the given number of newest ones.
    Window(usize),
    /// What an array says: `bool` or a float that is added; it broadcasts to `[batch, heads, lq, lk]`.
    Array(Array),
}

impl Array {
    /// `x / sqrt(mean(x^2) + eps)` over the last axis, times `weight`.
    pub fn rms_norm(&self, weight: Option<&Array>, eps: f32) -> Result<Array> {
        let mut inputs = vec![self.clone()];
        inputs.extend(weight.cloned());
        Array::from_op(Op::Norm(Norm::Rms { eps: eps.to_bits() }), &inputs)
    }

    /// `(x - mean) / sqrt(var + eps)` over the last axis, times `weight`, plus `bias`.
    pub fn layer_norm(&self, weight: Option<&Array>, bias: Option<&Array>, eps: f32) -> Result<Array> {
        let op = Norm::Layer { eps: eps.to_bits(), weight: weight.is_some(), bias: bias.is_some() };
        let mut inputs = vec![self.clone()];
        inputs.extend(weight.cloned());
        inputs.extend(bias.cloned());
        Array::from_op(Op::Norm(op), &inputs)
    }

    /// Rotary position embedding of the first `dims` features; see [`Rope`]. `offset` is the position of the
    /// first row, a scalar or one for each of the batch; `freqs` replaces `base`.
    pub fn rope(
        &self,
        dims: usize,
        traditional: bool,
        base: f32,
        scale: f32,
        offset: &Array,
        freqs: Option<&Array>,
    ) -> Result<Array> {
        let op = Op::Rope(Rope { dims, traditional, base: base.to_bits(), scale: scale.to_bits() });
        let mut inputs = vec![self.clone(), offset.astype(Dtype::I32)?];
        inputs.extend(freqs.cloned());
        Array::from_op(op, &inputs)
    }

    /// `softmax(scale * q @ k.T + mask) @ v`; see [`Attention`]. `sinks` are one extra logit per head.
    pub fn scaled_dot_product_attention(
        q: &Array,
        k: &Array,
        v: &Array,
        scale: f32,
        mask: &Mask,
        sinks: Option<&Array>,
    ) -> Result<Array> {
        let name = "scaled_dot_product_attention";
        let mut inputs = vec![q.clone(), k.clone(), v.clone()];
        let mask = match mask {
            Mask::None => MaskKind::None,
            Mask::Causal => MaskKind::Causal { window: None },
            Mask::Window(w) => MaskKind::Causal { window: Some(*w) },
            Mask::Array(m) => {
                if m.rank() > 4 {
                    return Err(Error::shape(name, format!("mask {} has more than four axes", m.shape())));
                }
                let ones = Shape::new(&[1; 4][m.rank()..]);
                let dims: Shape = ones.iter().chain(m.shape().iter()).copied().collect();
                let m = if m.dtype() == Dtype::Bool { m.clone() } else { m.astype(Dtype::F32)? };
                inputs.push(m.reshape(&dims)?);
                MaskKind::Array
            }
        };
        if let Some(s) = sinks {
            inputs.push(s.astype(Dtype::F32)?);
        }
        let op = Attention { scale: scale.to_bits(), mask, sinks: sinks.is_some() };
        Array::from_op(Op::Attention(op), &inputs)
    }
}
