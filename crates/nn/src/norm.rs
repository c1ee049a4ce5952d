//! Normalisation.

use crate::{Module, Visitor, join};
use olivine_core::{Array, Dtype, Error, Result};

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis (Zhang and Sennrich 2019).
///
/// `weight` is the factor itself. Checkpoints that store the factor minus one are set right when they are
/// loaded, once, rather than at each step.
#[derive(Debug, Clone)]
pub struct RmsNorm {
    /// `[features]`.
    pub weight: Array,
    /// Added to the mean square.
    pub eps: f32,
}

impl RmsNorm {
    /// A factor of one.
    ///
    /// # Errors
    /// `Value` when `eps` is negative or not finite.
    pub fn new(features: usize, eps: f32) -> Result<RmsNorm> {
        if !(eps.is_finite() && eps >= 0.0) {
            return Err(Error::value("rms_norm", format!("eps is finite and 0 or more, got {eps}")));
        }
        Ok(RmsNorm { weight: Array::ones(&[features], Dtype::F32)?, eps })
    }

    /// `[..., features]` to the same, in the type of `x`.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        x.rms_norm(Some(&self.weight), self.eps)
    }
}

impl Module for RmsNorm {
    fn visit(&mut self, path: &str, visitor: &mut dyn Visitor) -> Result<()> {
        visitor.param(&join(path, "weight"), &mut self.weight)
    }
}
