//! Gradients of a bounded norm.

use super::state::widened;
use crate::Gradients;
use olivine_core::{Array, Error, Result};

/// Gradients, scaled if need be so that the norm of all of them together is not greater than `max_norm`; and their norm
/// before, in `f32` at least.
///
/// # Errors
/// `Value` when `max_norm` is negative or NaN.
pub fn clip_grad_norm(gradients: &Gradients, max_norm: f64) -> Result<(Gradients, Array)> {
    if max_norm.is_nan() || max_norm < 0.0 {
        return Err(Error::value("clip_grad_norm", format!("the norm is at least 0, got {max_norm}")));
    }
    let mut total = Array::from_scalar(0.0f32);
    for g in gradients.values() {
        // Half-precision numbers are widened: the square of 256 is too much for one.
        total = total.add(&widened(g)?.square()?.sum(&[], false)?)?;
    }
    let norm = total.sqrt()?;
    let quotient = norm.scalar_like(max_norm).divide(&norm.add(&norm.scalar_like(1e-6))?)?;
    let factor = quotient.minimum(&quotient.scalar_like(1.0))?;
    let scaled = |(name, g): (&String, &Array)| Ok((name.clone(), g.multiply(&factor)?.astype(g.dtype())?));
    Ok((gradients.iter().map(scaled).collect::<Result<_>>()?, norm))
}
