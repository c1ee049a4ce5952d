//! Random numbers from explicit keys, or from a default key that advances.
//!
//! The generator is counter-based (Threefry-2x32), so the same key gives the same numbers on every device
//! and in every order of evaluation.

use crate::dtype::Dtype;
use crate::op::{Op, Random};
use crate::shape::Shape;
use crate::{Array, Error, Result};
use std::sync::Mutex;

/// The key of a seed: its high and low half.
pub fn key(seed: u64) -> Result<Array> {
    Array::from_slice(&[(seed >> 32) as u32, seed as u32], &[2])
}

static DEFAULT: Mutex<Option<Array>> = Mutex::new(None);

/// Sets the default key from a seed.
pub fn seed(seed: u64) -> Result<()> {
    let k = key(seed)?;
    *DEFAULT.lock().unwrap_or_else(|e| e.into_inner()) = Some(k);
    Ok(())
}

/// `n` independent keys from one, as `u32[n, 2]`.
pub fn split(key: &Array, n: usize) -> Result<Array> {
    bits(&[n, 2], 4, Some(key))
}

/// A fresh key from the default one, which advances. Seeded from the clock and address space when
/// [`seed`] was never called, so that two processes differ.
pub fn next_key() -> Result<Array> {
    use std::hash::{BuildHasher, Hasher};
    let mut guard = DEFAULT.lock().unwrap_or_else(|e| e.into_inner());
    let current = match guard.take() {
        Some(k) => k,
        None => key(std::hash::RandomState::new().build_hasher().finish())?,
    };
    let both = split(&current, 2)?;
    let row = |i| both.slice_axis(0, i, i + 1)?.reshape(&[2]);
    *guard = Some(row(0)?);
    row(1)
}

fn key_or_next(key: Option<&Array>) -> Result<Array> {
    match key {
        Some(k) => Ok(k.clone()),
        None => next_key(),
    }
}

/// Uniform bits in unsigned elements of `width` bytes (1, 2 or 4).
pub fn bits(shape: &[usize], width: u8, key: Option<&Array>) -> Result<Array> {
    let k = key_or_next(key)?;
    Array::from_op(Op::Random(Random::Bits { shape: Shape::checked("bits", shape)?, width }), &[k])
}

/// Uniform floats in `low..high`.
pub fn uniform(low: f64, high: f64, shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    if !matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32) {
        return Err(Error::bad_dtype("uniform", "float16, bfloat16 or float32", dtype));
    }
    // The largest float of the type below 1 keeps the upper end open after rounding.
    let (most, below_one) = match dtype {
        Dtype::F16 => (u16::MAX as f64, 1.0 - 2f64.powi(-11)),
        Dtype::BF16 => (u16::MAX as f64, 1.0 - 2f64.powi(-8)),
        _ => (u32::MAX as f64, 1.0 - 2f64.powi(-24)),
    };
    let width = if dtype == Dtype::F32 { 4 } else { 2 };
    let u = bits(shape, width, key)?.astype(Dtype::F32)?;
    let u = u.divide(&u.scalar_like(most))?;
    let u = u.astype(dtype)?;
    let u = u.minimum(&u.scalar_like(below_one))?;
    if low == 0.0 && high == 1.0 {
        return Ok(u);
    }
    u.multiply(&u.scalar_like(high - low))?.add(&u.scalar_like(low))
}

/// Normally distributed floats of mean `loc` and standard deviation `scale`.
pub fn normal(shape: &[usize], dtype: Dtype, loc: f64, scale: f64, key: Option<&Array>) -> Result<Array> {
    // By inversion: sqrt(2) * erfinv(u) for u uniform in the open interval (-1, 1).
    let low = match dtype {
        Dtype::F16 => -1.0 + 2f64.powi(-11),
        Dtype::BF16 => -1.0 + 2f64.powi(-8),
        _ => -1.0 + 2f64.powi(-24),
    };
    let u = uniform(low, 1.0, shape, dtype, key)?;
    let z = u.erfinv()?.scale(std::f64::consts::SQRT_2 * scale)?;
    if loc == 0.0 { Ok(z) } else { z.add(&z.scalar_like(loc)) }
}

/// Samples of the Gumbel distribution: `-log(-log(u))`.
pub fn gumbel(shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    let u = uniform(0.0, 1.0, shape, dtype, key)?;
    u.log()?.negative()?.log()?.negative()
}

/// One index for every row of unnormalised log-probabilities along the last axis, as `u32` (the Gumbel-max
/// trick).
pub fn categorical(logits: &Array, key: Option<&Array>) -> Result<Array> {
    if logits.rank() == 0 {
        return Err(Error::shape("categorical", "a scalar has no axis to choose from"));
    }
    let x = logits.astype(Dtype::F32)?;
    let noise = gumbel(x.shape(), Dtype::F32, key)?;
    x.add(&noise)?.argmax(-1, false)
}
