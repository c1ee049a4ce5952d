//! The activation that learns.

use crate::{Module, Param, activations};
use olivine_core::{Array, Result};

/// `x` where positive, `weight x` elsewhere (He et al. 2015).
#[derive(Debug, Clone, Module)]
pub struct Prelu {
    /// `[1]`, or `[features]` for a slope per feature.
    pub weight: Param,
}

impl Prelu {
    /// So many slopes, all `slope` at first.
    pub fn new(slopes: usize, slope: f64) -> Result<Prelu> {
        Ok(Prelu { weight: Array::full(&[slopes], slope as f32)?.into() })
    }

    /// `[..., features]` to the same.
    ///
    /// # Errors
    /// `Shape` when the slopes do not broadcast.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        activations::prelu(x, &self.weight)
    }
}
