//! Dropout of values, and of whole channels.

use crate::{Module, Training};
use olivine_core::{Array, Error, Result, random};

/// Sets values to zero at random in training, and multiplies the others by `1 / (1 - p)` (Srivastava et al. 2014).
#[derive(Debug, Clone, Module)]
pub struct Dropout {
    p: f64,
    /// Axes of positions that share a decision.
    positions: usize,
    /// Whether it does anything.
    pub training: Training,
}

impl Dropout {
    fn sharing(p: f64, positions: usize) -> Result<Dropout> {
        if !(0.0..1.0).contains(&p) {
            return Err(Error::value("dropout", format!("the probability is in 0..1, got {p}")));
        }
        Ok(Dropout { p, positions, training: Training::default() })
    }

    /// Single values, each zero with probability `p`.
    ///
    /// # Errors
    /// `Value` when `p` is outside of `0..1`.
    pub fn new(p: f64) -> Result<Dropout> {
        Dropout::sharing(p, 0)
    }

    /// Whole channels of images `[batch, height, width, channels]` or one of them: neighbouring pixels are correlated,
    /// so dropping single ones would drop little.
    ///
    /// # Errors
    /// `Value` when `p` is outside of `0..1`.
    pub fn channels2d(p: f64) -> Result<Dropout> {
        Dropout::sharing(p, 2)
    }

    /// Whole channels of volumes `[batch, depth, height, width, channels]` or one of them.
    ///
    /// # Errors
    /// `Value` when `p` is outside of `0..1`.
    pub fn channels3d(p: f64) -> Result<Dropout> {
        Dropout::sharing(p, 3)
    }

    /// The probability of zero.
    pub fn p(&self) -> f64 {
        self.p
    }

    /// `x` with zeros drawn from the default random key.
    ///
    /// # Errors
    /// `Shape` when whole channels are dropped and `x` has another number of axes.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        self.apply(x, None)
    }

    /// `x` with zeros drawn from `key`.
    ///
    /// # Errors
    /// As [`Dropout::forward`].
    pub fn forward_with(&self, x: &Array, key: &Array) -> Result<Array> {
        self.apply(x, Some(key))
    }

    fn apply(&self, x: &Array, key: Option<&Array>) -> Result<Array> {
        let (rank, shared) = (x.rank(), self.positions);
        if shared > 0 && rank != shared + 1 && rank != shared + 2 {
            let msg = format!("takes {} or {} axes, got {}", shared + 1, shared + 2, x.shape());
            return Err(Error::shape("dropout", msg));
        }
        if self.p == 0.0 || !self.training.0 {
            return Ok(x.clone());
        }
        let mut shape = x.shape().to_vec();
        if shared > 0 {
            shape[rank - 1 - shared..rank - 1].fill(1);
        }
        let kept = 1.0 - self.p;
        let keep = random::bernoulli(&Array::from_scalar(kept as f32), &shape, key)?;
        // Not a product with the mask: an infinity that is dropped has to become zero too.
        Array::select(&keep, &x.scale(1.0 / kept)?, &x.scalar_like(0.0))
    }
}
