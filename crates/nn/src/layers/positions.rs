//! Encodings of positions beside [`Rope`](crate::Rope): sines, and linear biases of attention scores.

use crate::Module;
use olivine_core::{Array, Dtype, Error, Result};
use std::f64::consts::TAU;

/// Sines and cosines of positions at frequencies between two bounds (Vaswani et al. 2017).
#[derive(Debug, Clone, Module)]
pub struct SinusoidalEncoding {
    /// Radians per position, falling geometrically.
    sigmas: Array,
    /// Factor of the encoding.
    pub scale: f64,
    /// Cosines before sines.
    pub cos_first: bool,
}

impl SinusoidalEncoding {
    /// `dims` features, half of them sines, of frequencies from `max` down to `min`; the encoding has length one.
    ///
    /// # Errors
    /// `Value` when `dims` is odd or zero, or a frequency is not positive.
    pub fn new(dims: usize, min: f64, max: f64) -> Result<SinusoidalEncoding> {
        if dims == 0 || !dims.is_multiple_of(2) || !(min > 0.0 && max > 0.0) {
            let msg = format!("{dims} features of frequencies from {min} to {max}");
            return Err(Error::value("sinusoidal_encoding", msg));
        }
        let count = dims / 2;
        let index = Array::arange(0.0, count as f64, 1.0, Dtype::F32)?;
        let last = index.scalar_like(count.saturating_sub(1).max(1) as f64);
        let falling = index.scalar_like(1.0).subtract(&index.divide(&last)?)?;
        let (low, high) = (min.ln(), max.ln());
        let sigmas = falling.scale(high - low)?.add(&falling.scalar_like(low))?.exp()?;
        Ok(SinusoidalEncoding { sigmas, scale: (2.0 / dims as f64).sqrt(), cos_first: false })
    }

    /// With frequencies that count turns, not radians.
    pub fn in_turns(mut self) -> Result<SinusoidalEncoding> {
        self.sigmas = self.sigmas.scale(TAU)?;
        Ok(self)
    }

    /// Encodes positions of any shape: the features are a new last axis.
    pub fn forward(&self, x: &Array) -> Result<Array> {
        let angles = x.expand_dims(&[-1])?.multiply(&self.sigmas)?;
        let (sin, cos) = (angles.sin()?, angles.cos()?);
        let parts = if self.cos_first { [cos, sin] } else { [sin, cos] };
        let encoding = Array::concatenate(&parts, -1)?;
        if self.scale == 1.0 { Ok(encoding) } else { encoding.scale(self.scale) }
    }
}

/// The slopes of the heads of [`alibi`], `[heads, 1, 1]`.
///
/// Of `n` heads, a power of two, head `i` has the slope `2^(-8 (i + 1) / n)`. Further heads take every other slope of
/// twice as many.
///
/// # Errors
/// `Value` for no heads.
pub fn alibi_slopes(heads: usize) -> Result<Array> {
    if heads == 0 {
        return Err(Error::value("alibi", "there are no heads"));
    }
    let base = 1usize << heads.ilog2();
    let slope = |x: f64| x.exp2() as f32;
    let first = (0..base).map(|i| slope(-8.0 * (i + 1) as f64 / base as f64));
    let rest = (0..heads - base).map(|i| slope(-4.0 * (2 * i + 1) as f64 / base as f64));
    let all: Vec<f32> = first.chain(rest).collect();
    Array::from_slice(&all, &[heads, 1, 1])
}

/// Attention scores `[batch, heads, queries, keys]` less a penalty that grows with the distance of query and key
/// (Press et al. 2021). The first query is number `offset`; `mask` is added.
///
/// # Errors
/// `Shape` for another number of axes.
pub fn alibi(scores: &Array, offset: usize, mask: Option<&Array>) -> Result<Array> {
    let &[_, heads, queries, keys] = &scores.shape()[..] else {
        return Err(Error::shape(
            "alibi",
            format!("takes [batch, heads, queries, keys], got {}", scores.shape()),
        ));
    };
    let positions = |from: usize, n: usize| Array::arange(from as f64, (from + n) as f64, 1.0, Dtype::F32);
    let (q, k) = (positions(offset, queries)?.expand_dims(&[-1])?, positions(0, keys)?);
    let distance = q.subtract(&k)?.abs()?.negative()?;
    let mut penalty = distance.multiply(&alibi_slopes(heads)?)?.expand_dims(&[0])?.astype(scores.dtype())?;
    if let Some(m) = mask {
        penalty = penalty.add(m)?;
    }
    scores.add(&penalty)
}
