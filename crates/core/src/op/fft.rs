//! Fourier transforms along one axis, and the Walsh-Hadamard transform.

use super::{Meta, Metas, arity, one};
use crate::shape::Shape;
use crate::{Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// What goes in and what comes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FftKind {
    /// Real or complex to complex, `n` to `n` numbers.
    Complex,
    /// Real to the first `n / 2 + 1` numbers of the spectrum.
    RealToHalf,
    /// The first `n / 2 + 1` numbers of a spectrum to `n` real ones.
    HalfToReal,
}

/// Fourier transform of length `n` along one axis: `y[k] = scale * sum over j of x[j] exp(-+ 2 pi i j k / n)`.
///
/// The axis is cut, or filled up with zeros, to what the length asks for. `float32` and `complex64` are
/// transformed in single precision, `float64` in double; complex results are `complex64` in either case, and
/// real ones `float32`, as there is no wider complex type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fft {
    /// Real or complex.
    pub kind: FftKind,
    /// With the plus sign.
    pub inverse: bool,
    /// Along which axis.
    pub axis: usize,
    /// Length of the transform, at least one.
    pub n: usize,
    /// Bits of the factor, an `f64`.
    pub scale: u64,
}

impl Fft {
    pub(super) fn name(&self) -> &'static str {
        match (self.kind, self.inverse) {
            (FftKind::Complex, false) => "fft",
            (FftKind::Complex, true) => "ifft",
            (FftKind::RealToHalf, _) => "rfft",
            (FftKind::HalfToReal, _) => "irfft",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        let [x] = arity(name, inputs)?;
        let fits = match self.kind {
            FftKind::Complex => matches!(x.dtype, Dtype::F32 | Dtype::F64 | Dtype::C64),
            FftKind::RealToHalf => matches!(x.dtype, Dtype::F32 | Dtype::F64),
            FftKind::HalfToReal => matches!(x.dtype, Dtype::C64),
        };
        if !fits {
            return Err(Error::bad_dtype(
                name,
                "float32, float64 or complex64 as the transform asks",
                x.dtype,
            ));
        }
        if self.axis >= x.shape.rank() {
            let msg = format!("axis {} is out of range for shape {}", self.axis, x.shape);
            return Err(Error::shape(name, msg));
        }
        if self.n == 0 {
            return Err(Error::value(name, "a transform of length 0"));
        }
        let (len, dtype) = match self.kind {
            FftKind::Complex => (self.n, Dtype::C64),
            FftKind::RealToHalf => (self.n / 2 + 1, Dtype::C64),
            FftKind::HalfToReal => (self.n, Dtype::F32),
        };
        one(Shape::checked(name, &x.shape.with(self.axis, len))?, dtype)
    }
}

/// Product of the last axis with a Hadamard matrix, `y = scale * (H_m (x) H_2^k) x`, where `H_2^k` is
/// Sylvester's matrix and `H_m` is 1 or one of the matrices of order 12, 20 and 28 that Paley's constructions
/// give. Computed in `f32` at least and rounded once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hadamard {
    /// Bits of the factor, an `f32`.
    pub scale: u32,
}

impl Hadamard {
    /// Splits a size into `(m, 2^k)`; `None` when no transform of this size is known.
    pub fn split(n: usize) -> Option<(usize, usize)> {
        let odd = if n == 0 { 0 } else { n >> n.trailing_zeros() };
        match odd {
            1 => Some((1, n)),
            3 | 5 | 7 if n.is_multiple_of(4) => Some((4 * odd, n / (4 * odd))),
            _ => None,
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let name = "hadamard_transform";
        let [x] = arity(name, inputs)?;
        if !x.dtype.is_float() {
            return Err(Error::bad_dtype(name, "a real float", x.dtype));
        }
        let n = x.shape.last().copied().unwrap_or(0);
        if Hadamard::split(n).is_none() {
            let msg = format!("the last axis of {} is not m * 2^k with m of 1, 12, 20 or 28", x.shape);
            return Err(Error::shape(name, msg));
        }
        one(x.shape.clone(), x.dtype)
    }
}
