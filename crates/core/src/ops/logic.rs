//! What numbers are: finite, equal, close, and what takes the place of those that are not finite.

use crate::dtype::{Dtype, Kind, Scalar};
use crate::op::{Op, Unary};
use crate::shape::Shape;
use crate::{Array, Complex64, Result};

impl Array {
    /// Real part; real arrays are their own.
    pub fn real(&self) -> Result<Array> {
        self.part(Unary::Real, Ok)
    }

    /// Imaginary part; zeros of the same type for real arrays.
    pub fn imag(&self) -> Result<Array> {
        self.part(Unary::Imag, |x| Array::zeros(x.shape(), x.dtype()))
    }

    /// Complex conjugate; real arrays are their own.
    pub fn conjugate(&self) -> Result<Array> {
        self.part(Unary::Conj, Ok)
    }

    fn part(&self, op: Unary, of_real: impl Fn(Array) -> Result<Array>) -> Result<Array> {
        if self.dtype() != Dtype::C64 {
            return of_real(self.clone());
        }
        Array::from_op(Op::Unary(op), std::slice::from_ref(self))
    }

    fn nowhere(&self) -> Result<Array> {
        Array::zeros(self.shape(), Dtype::Bool)
    }

    /// True where the element is infinite, of either sign and in either part.
    pub fn isinf(&self) -> Result<Array> {
        match self.dtype().kind() {
            Kind::Float => self.abs()?.equal(&self.scalar_like(f64::INFINITY)),
            Kind::Complex => self.real()?.isinf()?.logical_or(&self.imag()?.isinf()?),
            Kind::Bool | Kind::Signed | Kind::Unsigned => self.nowhere(),
        }
    }

    /// True where the element is neither infinite nor NaN.
    pub fn isfinite(&self) -> Result<Array> {
        match self.dtype().kind() {
            Kind::Float => self.abs()?.less(&self.scalar_like(f64::INFINITY)),
            Kind::Complex => self.real()?.isfinite()?.logical_and(&self.imag()?.isfinite()?),
            Kind::Bool | Kind::Signed | Kind::Unsigned => Array::ones(self.shape(), Dtype::Bool),
        }
    }

    /// True where the element is positive infinity; a complex one with an imaginary part of 0.
    pub fn isposinf(&self) -> Result<Array> {
        if self.dtype().is_inexact() { self.equal(&self.scalar_like(f64::INFINITY)) } else { self.nowhere() }
    }

    /// True where the element is negative infinity; a complex one with an imaginary part of 0.
    pub fn isneginf(&self) -> Result<Array> {
        let inf = f64::NEG_INFINITY;
        if self.dtype().is_inexact() { self.equal(&self.scalar_like(inf)) } else { self.nowhere() }
    }

    /// NaN replaced by `nan`, infinities by `posinf` and `neginf`, by default the largest and the least finite number
    /// of the type. Integers stay; the parts of complex numbers are replaced each by itself.
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Result<Array> {
        match self.dtype().kind() {
            Kind::Bool | Kind::Signed | Kind::Unsigned => return Ok(self.clone()),
            Kind::Complex => {
                let re = self.real()?.nan_to_num(nan, posinf, neginf)?;
                let im = self.imag()?.nan_to_num(nan, posinf, neginf)?;
                return Array::complex(&re, &im);
            }
            Kind::Float => {}
        }
        let most = crate::dtype::FloatInfo::of(self.dtype()).map_or(f64::MAX, |i| i.max);
        let (high, low) = (posinf.unwrap_or(most), neginf.unwrap_or(-most));
        let x = Array::select(&self.isnan()?, &self.scalar_like(nan), self)?;
        let x = Array::select(&self.isposinf()?, &self.scalar_like(high), &x)?;
        Array::select(&self.isneginf()?, &self.scalar_like(low), &x)
    }

    /// Complex numbers of real and imaginary parts, as `complex64`.
    pub fn complex(re: &Array, im: &Array) -> Result<Array> {
        let i = Array::constant(Scalar::new(Complex64 { re: 0.0, im: 1.0 }), Shape::scalar());
        // A product with i would turn an infinite imaginary part into NaN, so the parts are laid side by side.
        let shape = Shape::broadcast("complex", re.shape(), im.shape())?;
        let part = |x: &Array| x.astype(Dtype::F32)?.broadcast_to(&shape)?.expand_dims(&[-1]);
        let both = super::concatenate(&[part(re)?, part(im)?], -1)?;
        both.view_as(i.dtype())?.squeeze(&[-1])
    }

    /// One of both is true, but not the other.
    pub fn logical_xor(&self, other: &Array) -> Result<Array> {
        self.astype(Dtype::Bool)?.not_equal(&other.astype(Dtype::Bool)?)
    }

    /// Where `|a - b| <= atol + rtol * |b|`, or both are the same infinity, or both are NaN when `equal_nan`. Computed
    /// in `float32` at least, wide integers in `float64`.
    pub fn isclose(&self, other: &Array, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
        let common = self.dtype().promote(other.dtype());
        let dtype = match common.kind() {
            Kind::Signed | Kind::Unsigned if common.size() > 2 => Dtype::F64,
            Kind::Float if common.size() == 2 => Dtype::F32,
            Kind::Bool | Kind::Signed | Kind::Unsigned | Kind::Float | Kind::Complex => common.to_inexact(),
        };
        let (a, b) = (self.astype(dtype)?, other.astype(dtype)?);
        let size = b.abs()?;
        let bound = size.scale(rtol)?.add(&size.scalar_like(atol))?;
        let near = a.subtract(&b)?.abs()?.less_equal(&bound)?;
        // An infinite bound would hold everything.
        let finite = a.isfinite()?.logical_and(&b.isfinite()?)?;
        let mut close = near.logical_and(&finite)?.logical_or(&a.equal(&b)?)?;
        if equal_nan && dtype.is_inexact() {
            close = close.logical_or(&a.isnan()?.logical_and(&b.isnan()?)?)?;
        }
        Ok(close)
    }

    /// Whether all elements are close; see [`Array::isclose`].
    pub fn allclose(&self, other: &Array, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
        self.isclose(other, rtol, atol, equal_nan)?.all(&[], false)
    }

    /// Whether both have one shape and equal elements, NaN counting as equal to NaN when `equal_nan`.
    pub fn array_equal(&self, other: &Array, equal_nan: bool) -> Result<Array> {
        if self.shape() != other.shape() {
            return Ok(Array::from_scalar(false));
        }
        let mut same = self.equal(other)?;
        if equal_nan {
            same = same.logical_or(&self.isnan()?.logical_and(&other.isnan()?)?)?;
        }
        same.all(&[], false)
    }
}
