//! Fourier transforms, with NumPy's conventions for sizes, axes and norms.
//!
//! Inputs of any type are taken: integers and half-precision floats are transformed as `float32`, `float64` in
//! double precision. Complex results are `complex64`, as there is no wider complex type. A transform of length
//! 0 is a `Value` error.

mod short_time;

pub use short_time::{Frames, istft, stft};

use crate::op::{Fft, FftKind, Op};
use crate::shape::axis;
use crate::{Array, Dtype, Error, Result};

/// Which direction of a transform is divided by its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Norm {
    /// The inverse one.
    #[default]
    Backward,
    /// Both, by its square root.
    Ortho,
    /// The forward one.
    Forward,
}

impl Norm {
    fn scale(self, n: usize, inverse: bool) -> f64 {
        match (self, inverse) {
            (Norm::Backward, true) | (Norm::Forward, false) => 1.0 / n as f64,
            (Norm::Backward, false) | (Norm::Forward, true) => 1.0,
            (Norm::Ortho, _) => 1.0 / (n as f64).sqrt(),
        }
    }
}

/// The argument as a type that the kind of transform takes.
fn prepared(a: &Array, kind: FftKind) -> Result<Array> {
    match (kind, a.dtype()) {
        (FftKind::HalfToReal, _) => a.astype(Dtype::C64),
        (FftKind::Complex, Dtype::C64) | (FftKind::Complex | FftKind::RealToHalf, Dtype::F64) => {
            Ok(a.clone())
        }
        // The imaginary part of a complex argument is dropped, as in MLX.
        (FftKind::RealToHalf, Dtype::C64) => a.real(),
        (FftKind::Complex | FftKind::RealToHalf, _) => a.astype(Dtype::F32),
    }
}

fn one(a: &Array, kind: FftKind, inverse: bool, n: usize, along: usize, norm: Norm) -> Result<Array> {
    let scale = norm.scale(n, inverse).to_bits();
    Array::from_op(Op::Fft(Fft { kind, inverse, axis: along, n, scale }), &[prepared(a, kind)?])
}

fn line(
    op: &'static str,
    a: &Array,
    kind: FftKind,
    inverse: bool,
    n: Option<usize>,
    along: i32,
    norm: Norm,
) -> Result<Array> {
    let along = axis(op, along, a.rank())?;
    let have = a.shape()[along];
    let n = n.unwrap_or(match kind {
        FftKind::HalfToReal => 2 * have.saturating_sub(1),
        FftKind::Complex | FftKind::RealToHalf => have,
    });
    if n == 0 {
        return Err(Error::value(op, format!("a transform of length 0 along axis {along} of {}", a.shape())));
    }
    one(a, kind, inverse, n, along, norm)
}

/// Axes and lengths of a transform over several axes. Without axes: the last ones, as many as there are sizes,
/// or all. The last axis of a half spectrum has twice its size less two, unless told otherwise.
fn plan(
    op: &'static str,
    a: &Array,
    s: Option<&[usize]>,
    axes: Option<&[i32]>,
    half: bool,
) -> Result<Vec<(usize, usize)>> {
    let rank = a.rank();
    let along: Vec<usize> = match (axes, s) {
        (Some(axes), _) => axes.iter().map(|&x| axis(op, x, rank)).collect::<Result<_>>()?,
        (None, Some(s)) if s.len() > rank => {
            return Err(Error::value(op, format!("{} sizes for an array of shape {}", s.len(), a.shape())));
        }
        (None, Some(s)) => (rank - s.len()..rank).collect(),
        (None, None) => (0..rank).collect(),
    };
    if let Some(s) = s
        && s.len() != along.len()
    {
        return Err(Error::value(op, format!("{} sizes for {} axes", s.len(), along.len())));
    }
    let count = along.len();
    let sizes = along.iter().enumerate().map(|(i, &x)| {
        let have = a.shape()[x];
        let own = if half && i + 1 == count { 2 * have.saturating_sub(1) } else { have };
        let n = s.map_or(own, |s| s[i]);
        if n == 0 {
            let msg = format!("a transform of length 0 along axis {x} of {}", a.shape());
            return Err(Error::value(op, msg));
        }
        Ok((x, n))
    });
    sizes.collect()
}

fn many(
    op: &'static str,
    a: &Array,
    s: Option<&[usize]>,
    axes: Option<&[i32]>,
    inverse: bool,
    norm: Norm,
) -> Result<Array> {
    let plan = plan(op, a, s, axes, false)?;
    if plan.is_empty() {
        return a.astype(Dtype::C64);
    }
    plan.iter().rev().try_fold(a.clone(), |y, &(x, n)| one(&y, FftKind::Complex, inverse, n, x, norm))
}

fn real_many(
    op: &'static str,
    a: &Array,
    s: Option<&[usize]>,
    axes: Option<&[i32]>,
    norm: Norm,
) -> Result<Array> {
    let plan = plan(op, a, s, axes, false)?;
    let Some((&(last, n), rest)) = plan.split_last() else {
        return Err(Error::value(op, "a real transform over no axes"));
    };
    let y = one(a, FftKind::RealToHalf, false, n, last, norm)?;
    rest.iter().rev().try_fold(y, |y, &(x, n)| one(&y, FftKind::Complex, false, n, x, norm))
}

fn half_many(
    op: &'static str,
    a: &Array,
    s: Option<&[usize]>,
    axes: Option<&[i32]>,
    norm: Norm,
) -> Result<Array> {
    let plan = plan(op, a, s, axes, true)?;
    let Some((&(last, n), rest)) = plan.split_last() else {
        return Err(Error::value(op, "a real transform over no axes"));
    };
    let y = rest.iter().try_fold(a.clone(), |y, &(x, n)| one(&y, FftKind::Complex, true, n, x, norm))?;
    one(&y, FftKind::HalfToReal, true, n, last, norm)
}

/// Discrete Fourier transform along an axis, cut or filled with zeros to `n` elements.
pub fn fft(a: &Array, n: Option<usize>, axis: i32, norm: Norm) -> Result<Array> {
    line("fft", a, FftKind::Complex, false, n, axis, norm)
}

/// Inverse of [`fft()`].
pub fn ifft(a: &Array, n: Option<usize>, axis: i32, norm: Norm) -> Result<Array> {
    line("ifft", a, FftKind::Complex, true, n, axis, norm)
}

/// The first `n / 2 + 1` elements of the [`fft()`] of real numbers; imaginary parts of the input are dropped.
pub fn rfft(a: &Array, n: Option<usize>, axis: i32, norm: Norm) -> Result<Array> {
    line("rfft", a, FftKind::RealToHalf, false, n, axis, norm)
}

/// Inverse of [`rfft`], to `n` real numbers (by default twice the size of the axis less two), as `float32`.
pub fn irfft(a: &Array, n: Option<usize>, axis: i32, norm: Norm) -> Result<Array> {
    line("irfft", a, FftKind::HalfToReal, true, n, axis, norm)
}

/// [`fft()`] over several axes: `axes`, or the last ones as many as `s` has, or all.
pub fn fftn(a: &Array, s: Option<&[usize]>, axes: Option<&[i32]>, norm: Norm) -> Result<Array> {
    many("fftn", a, s, axes, false, norm)
}

/// Inverse of [`fftn`].
pub fn ifftn(a: &Array, s: Option<&[usize]>, axes: Option<&[i32]>, norm: Norm) -> Result<Array> {
    many("ifftn", a, s, axes, true, norm)
}

/// [`rfft`] over the last of several axes, [`fft()`] over the others; see [`fftn`] for the axes.
pub fn rfftn(a: &Array, s: Option<&[usize]>, axes: Option<&[i32]>, norm: Norm) -> Result<Array> {
    real_many("rfftn", a, s, axes, norm)
}

/// Inverse of [`rfftn`].
pub fn irfftn(a: &Array, s: Option<&[usize]>, axes: Option<&[i32]>, norm: Norm) -> Result<Array> {
    half_many("irfftn", a, s, axes, norm)
}

/// [`fftn`] over two axes, by default the last two.
pub fn fft2(a: &Array, s: Option<&[usize]>, axes: [i32; 2], norm: Norm) -> Result<Array> {
    many("fft2", a, s, Some(&axes), false, norm)
}

/// Inverse of [`fft2`].
pub fn ifft2(a: &Array, s: Option<&[usize]>, axes: [i32; 2], norm: Norm) -> Result<Array> {
    many("ifft2", a, s, Some(&axes), true, norm)
}

/// [`rfftn`] over two axes.
pub fn rfft2(a: &Array, s: Option<&[usize]>, axes: [i32; 2], norm: Norm) -> Result<Array> {
    real_many("rfft2", a, s, Some(&axes), norm)
}

/// Inverse of [`rfft2`].
pub fn irfft2(a: &Array, s: Option<&[usize]>, axes: [i32; 2], norm: Norm) -> Result<Array> {
    half_many("irfft2", a, s, Some(&axes), norm)
}

/// `0, 1, …` as `float64`, those from `split` on less `n`, over `n * d`, as `float32`.
fn frequencies(op: &'static str, n: usize, d: f64, count: usize, split: usize) -> Result<Array> {
    if n == 0 || d == 0.0 || !d.is_finite() {
        return Err(Error::value(op, format!("{n} samples at a distance of {d}")));
    }
    let at = Array::arange(0.0, count as f64, 1.0, Dtype::F64)?;
    let wrapped = at.subtract(&at.scalar_like(n as f64))?;
    let at = Array::select(&at.less(&at.scalar_like(split as f64))?, &at, &wrapped)?;
    at.divide(&at.scalar_like(n as f64 * d))?.astype(Dtype::F32)
}

/// Frequencies of the elements of [`fft()`] of `n` samples `d` apart, as `float32`.
pub fn fftfreq(n: usize, d: f64) -> Result<Array> {
    frequencies("fftfreq", n, d, n, n.div_ceil(2))
}

/// Frequencies of the elements of [`rfft`] of `n` samples `d` apart, as `float32`.
pub fn rfftfreq(n: usize, d: f64) -> Result<Array> {
    frequencies("rfftfreq", n, d, n / 2 + 1, n)
}

/// Rotates axes (all when `None`) by half their size, rounded down, or up for the inverse.
fn shift(op: &'static str, a: &Array, axes: Option<&[i32]>, up: bool) -> Result<Array> {
    let all: Vec<usize> = match axes {
        None => (0..a.rank()).collect(),
        Some(axes) => axes.iter().map(|&x| axis(op, x, a.rank())).collect::<Result<_>>()?,
    };
    let mut y = a.clone();
    for x in all {
        let n = a.shape()[x];
        // What comes first in the result.
        let split = if up { n / 2 } else { n.div_ceil(2) };
        let (low, high) = (y.slice_axis(x as i32, 0, split)?, y.slice_axis(x as i32, split, n)?);
        y = Array::concatenate(&[high, low], x as i32)?;
    }
    Ok(y)
}

/// Frequency zero moved to the middle of the axes (all when `None`).
pub fn fftshift(a: &Array, axes: Option<&[i32]>) -> Result<Array> {
    shift("fftshift", a, axes, false)
}

/// Inverse of [`fftshift`].
pub fn ifftshift(a: &Array, axes: Option<&[i32]>) -> Result<Array> {
    shift("ifftshift", a, axes, true)
}
