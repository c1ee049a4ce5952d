//! Elementwise functions made of others.

use crate::dtype::{Dtype, Kind};
use crate::{Array, Result};

impl Array {
    /// To `decimals` places after the point, ties to even; negative counts round to tens, hundreds and so on, also
    /// integers. Halves are computed in `float32`, integers in `float64`.
    pub fn round_to(&self, decimals: i32) -> Result<Array> {
        let dtype = self.dtype();
        if decimals == 0 || (decimals > 0 && !dtype.is_inexact()) || dtype == Dtype::Bool {
            return self.round();
        }
        let wide = match dtype.kind() {
            Kind::Bool | Kind::Signed | Kind::Unsigned => Dtype::F64,
            Kind::Float if dtype.size() == 2 => Dtype::F32,
            Kind::Float | Kind::Complex => dtype,
        };
        let x = self.astype(wide)?;
        let scale = x.scalar_like(10f64.powi(decimals.abs()));
        let (up, down) = if decimals > 0 {
            (x.multiply(&scale)?.round()?, true)
        } else {
            (x.divide(&scale)?.round()?, false)
        };
        let y = if down { up.divide(&scale)? } else { up.multiply(&scale)? };
        // What the scale carries out of range has no such decimals.
        Array::select(&y.isfinite()?, &y, &x)?.astype(dtype)
    }

    /// Quotient rounded down and remainder: see [`Array::floor_divide`] and [`Array::remainder`].
    pub fn divmod(&self, other: &Array) -> Result<(Array, Array)> {
        Ok((self.floor_divide(other)?, self.remainder(other)?))
    }

    /// Radians as degrees.
    pub fn degrees(&self) -> Result<Array> {
        self.astype(self.dtype().to_inexact())?.scale(180.0 / std::f64::consts::PI)
    }

    /// Degrees as radians.
    pub fn radians(&self) -> Result<Array> {
        self.astype(self.dtype().to_inexact())?.scale(std::f64::consts::PI / 180.0)
    }
}

/// Second derivative of `lgamma`: the asymptotic series (Abramowitz and Stegun, 6.4.12) after eight steps of the
/// recurrence (6.4.6), the reflection (6.4.7) for arguments below one half.
pub(crate) fn trigamma(x: &Array) -> Result<Array> {
    let wide = if x.dtype().size() < 4 { Dtype::F32 } else { x.dtype() };
    let x0 = x.astype(wide)?;
    let c = |v: f64| x0.scalar_like(v);
    let reflect = x0.less(&c(0.5))?;
    let mut y = Array::select(&reflect, &c(1.0).subtract(&x0)?, &x0)?;
    let mut sum = y.square()?.reciprocal()?;
    for _ in 0..7 {
        y = y.add(&c(1.0))?;
        sum = sum.add(&y.square()?.reciprocal()?)?;
    }
    y = y.add(&c(1.0))?;
    let r = y.square()?.reciprocal()?;
    // 1/x + 1/(2x^2) + 1/(6x^3) - 1/(30x^5) + 1/(42x^7) - 1/(30x^9)
    let mut tail = c(-1.0 / 30.0);
    for b in [1.0 / 42.0, -1.0 / 30.0, 1.0 / 6.0] {
        tail = tail.multiply(&r)?.add(&c(b))?;
    }
    let inverse = y.reciprocal()?;
    let series = inverse.add(&r.scale(0.5)?)?.add(&tail.multiply(&r)?.multiply(&inverse)?)?;
    let direct = sum.add(&series)?;
    let pi = std::f64::consts::PI;
    // Elements that take the other branch are kept from poles, whose derivatives would be NaN times zero.
    let x1 = Array::select(&reflect, &x0, &c(0.25))?;
    let mirrored = x1.scale(pi)?.sin()?.square()?.reciprocal()?.scale(pi * pi)?.subtract(&direct)?;
    Array::select(&reflect, &mirrored, &direct)?.astype(x.dtype())
}
