//! Statistics: spread, order statistics, histograms, interpolation.

use super::values::known;
use crate::dtype::{Dtype, Kind};
use crate::op::{Op, Softmax};
use crate::shape::{AxisSet, Shape, axis};
use crate::{Array, Error, Result};

/// How a quantile between two elements is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Interpolation {
    /// On the line between them.
    #[default]
    Linear,
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The mean of both.
    Midpoint,
    /// The nearer one, of two equally near that with the even index.
    Nearest,
}

/// Reduced axes brought to the end as one.
pub(super) struct Collapsed {
    /// `[kept axes, all reduced ones]`.
    pub(super) x: Array,
    order: Vec<i32>,
    /// Shape before the reduced axes became one.
    apart: Shape,
    keepdims: Shape,
}

impl Collapsed {
    /// A result for each position of the kept axes, with the reduced ones of size 1 when asked for.
    fn reduced(&self, y: Array, keepdims: bool) -> Result<Array> {
        if keepdims { y.reshape(&self.keepdims) } else { Ok(y) }
    }

    /// A result of the shape of `x` with its axes where they were.
    fn restored(&self, y: &Array) -> Result<Array> {
        let mut back = vec![0; self.order.len()];
        for (i, &a) in self.order.iter().enumerate() {
            back[a as usize] = i as i32;
        }
        y.reshape(&self.apart)?.transpose(&back)
    }
}

impl Array {
    fn collapse(&self, op: &'static str, axes: &[i32]) -> Result<Collapsed> {
        let set = self.axes_or_all(op, axes)?;
        let order: Vec<i32> = (0..self.rank())
            .filter(|&i| !set.contains(i))
            .chain(set.iter().take_while(|&i| i < self.rank()))
            .map(|i| i as i32)
            .collect();
        let x = self.transpose(&order)?;
        let kept = self.rank() - set.len();
        let n: usize = x.shape()[kept..].iter().product();
        let merged: Shape = x.shape()[..kept].iter().copied().chain([n]).collect();
        let keepdims = crate::op::reduced(self.shape(), set, true);
        Ok(Collapsed { apart: x.shape().clone(), x: x.reshape(&merged)?, order, keepdims })
    }

    /// Number of elements that a reduction of these axes takes together.
    fn count(&self, set: AxisSet) -> usize {
        set.iter().filter_map(|a| self.shape().get(a)).product()
    }

    /// Mean of the squared distances from the mean, divided by `n - ddof` instead of `n`; of complex numbers real.
    /// Computed in `float32` at least with the rounding of the mean corrected (Chan, Golub and LeVeque 1983, equation
    /// 1.7); integers give `float32`.
    pub fn var(&self, axes: &[i32], keepdims: bool, ddof: i64) -> Result<Array> {
        self.spread("var", axes, keepdims, ddof, false)
    }

    /// Square root of [`Array::var`].
    pub fn std(&self, axes: &[i32], keepdims: bool, ddof: i64) -> Result<Array> {
        self.spread("std", axes, keepdims, ddof, true)
    }

    fn spread(&self, op: &'static str, axes: &[i32], keepdims: bool, ddof: i64, root: bool) -> Result<Array> {
        let set = self.axes_or_all(op, axes)?;
        let n = self.count(set) as f64;
        let dtype = self.dtype().to_inexact();
        let x = self.astype(if dtype.size() < 4 { Dtype::F32 } else { dtype })?;
        let over: Vec<i32> = set.iter().take_while(|&a| a < self.rank()).map(|a| a as i32).collect();
        let sum = |y: &Array, keep: bool| if over.is_empty() { Ok(y.clone()) } else { y.sum(&over, keep) };
        let total = sum(&x, true)?;
        let from_mean = x.subtract(&total.divide(&total.scalar_like(n))?)?;
        let squares = if dtype == Dtype::C64 {
            let (re, im) = (from_mean.real()?.square()?, from_mean.imag()?.square()?);
            sum(&re.add(&im)?, keepdims)?
        } else {
            let missed = sum(&from_mean, keepdims)?;
            let squares = sum(&from_mean.square()?, keepdims)?;
            squares.subtract(&missed.square()?.divide(&missed.scalar_like(n))?)?
        };
        let left = (n - ddof as f64).max(0.0);
        let v = squares.divide(&squares.scalar_like(left))?;
        // The correction is below a rounding of the sum, which it must not turn negative.
        let v = v.maximum(&v.scalar_like(0.0))?;
        let out = if dtype == Dtype::C64 { Dtype::F32 } else { dtype };
        if root { v.sqrt()?.astype(out) } else { v.astype(out) }
    }

    /// Smallest and largest over `axes` (all when empty).
    pub fn minmax(&self, axes: &[i32], keepdims: bool) -> Result<(Array, Array)> {
        Ok((self.min(axes, keepdims)?, self.max(axes, keepdims)?))
    }

    /// Number of elements that are not zero over `axes` (all when empty), as `int32`.
    pub fn count_nonzero(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        self.axes_or_all("count_nonzero", axes)?;
        self.astype(Dtype::Bool)?.sum(axes, keepdims)
    }

    /// Middle element over `axes` (all when empty), the mean of both for an even number; NaN when any is, and of
    /// nothing. Integers give `float32`.
    pub fn median(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        let out = self.dtype().to_inexact();
        let c = self.collapse("median", axes)?;
        let n = c.x.dim(-1)?;
        if n == 0 {
            let shape = Shape::new(&c.x.shape()[..c.x.rank() - 1]);
            let nan = Array::from_scalar(f32::NAN).astype(out)?.broadcast_to(&shape)?;
            return c.reduced(nan, keepdims);
        }
        let sorted = c.x.sort(-1, false)?;
        let at = |i: usize| sorted.slice_axis(-1, i, i + 1)?.squeeze(&[-1])?.astype(self.middle_type());
        let (low, high) = (at((n - 1) / 2)?, at(n / 2)?);
        let half = low.scale(0.5)?.add(&high.scale(0.5)?)?;
        // Equal elements, which also the halves of infinities and the smallest numbers are not exact for.
        let mid = Array::select(&low.equal(&high)?, &low, &half)?;
        let last = at(n - 1)?;
        let mid = Array::select(&last.isnan()?, &last, &mid)?;
        c.reduced(mid.astype(out)?, keepdims)
    }

    /// Type that order statistics are combined in.
    fn middle_type(&self) -> Dtype {
        match self.dtype().kind() {
            Kind::Bool | Kind::Signed | Kind::Unsigned => Dtype::F64,
            Kind::Float if self.dtype().size() == 2 => Dtype::F32,
            Kind::Float | Kind::Complex => self.dtype(),
        }
    }

    /// Values below which the shares `q` of the elements lie, over `axes` (all when empty), along a new first axis;
    /// position `q * (n - 1)` of the sorted elements (Hyndman and Fan 1996, definition 7). NaN when any element is.
    /// Integers give `float32`.
    ///
    /// # Errors
    /// `Value` when an entry of `q` is not between 0 and 1, or there are no elements; `Dtype` for complex numbers.
    pub fn quantile(&self, q: &[f64], axes: &[i32], keepdims: bool, between: Interpolation) -> Result<Array> {
        let op = "quantile";
        if self.dtype() == Dtype::C64 {
            return Err(Error::bad_dtype(op, "real numbers", self.dtype()));
        }
        if let Some(bad) = q.iter().find(|&&v| !(0.0..=1.0).contains(&v)) {
            return Err(Error::value(op, format!("{bad} is not between 0 and 1")));
        }
        let c = self.collapse(op, axes)?;
        let n = c.x.dim(-1)?;
        if n == 0 {
            return Err(Error::value(op, format!("no value for an empty axis of {}", self.shape())));
        }
        let places: Vec<f64> = q
            .iter()
            .map(|&v| {
                let p = v * (n - 1) as f64;
                match between {
                    Interpolation::Linear => p,
                    Interpolation::Lower => p.floor(),
                    Interpolation::Higher => p.ceil(),
                    Interpolation::Midpoint => 0.5 * (p.floor() + p.ceil()),
                    Interpolation::Nearest => p.round_ties_even(),
                }
            })
            .collect();
        let lower: Vec<i64> = places.iter().map(|&p| (p.floor() as i64).min(n as i64 - 1)).collect();
        let upper: Vec<i64> = lower.iter().map(|&i| (i + 1).min(n as i64 - 1)).collect();
        let parts: Vec<f64> = places.iter().zip(&lower).map(|(&p, &i)| p - i as f64).collect();
        let sorted = c.x.sort(-1, false)?.astype(self.middle_type())?;
        let at = |i: &[i64]| sorted.take(&Array::from_slice(i, &[i.len()])?, -1);
        let (low, high) = (at(&lower)?, at(&upper)?);
        let t = Array::from_slice(&parts, &[parts.len()])?.astype(low.dtype())?;
        let step = high.subtract(&low)?;
        let from_low = low.add(&step.multiply(&t)?)?;
        let from_high = high.subtract(&step.multiply(&t.scalar_like(1.0).subtract(&t)?)?)?;
        let y = Array::select(&t.less(&t.scalar_like(0.5))?, &from_low, &from_high)?;
        let y = Array::select(&low.equal(&high)?.logical_or(&t.equal(&t.scalar_like(0.0))?)?, &low, &y)?;
        let last = sorted.slice_axis(-1, n - 1, n)?;
        let y = Array::select(&last.isnan()?, &last, &y)?.astype(self.dtype().to_inexact())?;
        let y = y.moveaxis(-1, 0)?;
        if !keepdims {
            return Ok(y);
        }
        let shape: Shape = [q.len()].into_iter().chain(c.keepdims.iter().copied()).collect();
        y.reshape(&shape)
    }

    /// [`Array::quantile`] with shares in percent.
    pub fn percentile(
        &self,
        q: &[f64],
        axes: &[i32],
        keepdims: bool,
        between: Interpolation,
    ) -> Result<Array> {
        if let Some(bad) = q.iter().find(|&&v| !(0.0..=100.0).contains(&v)) {
            return Err(Error::value("percentile", format!("{bad} is not between 0 and 100")));
        }
        let shares: Vec<f64> = q.iter().map(|v| v / 100.0).collect();
        self.quantile(&shares, axes, keepdims, between)
    }

    /// Covariances of variables, one a row (one a column unless `rows`), each sum divided by `n - ddof`.
    ///
    /// # Errors
    /// `Shape` for more than two axes.
    pub fn cov(&self, rows: bool, ddof: i64) -> Result<Array> {
        if self.rank() > 2 {
            return Err(Error::shape("cov", format!("takes at most two axes, got {}", self.shape())));
        }
        let dtype = self.dtype().to_inexact();
        let x = self.astype(if dtype.size() < 4 { Dtype::F32 } else { dtype })?;
        let x = if x.rank() < 2 { x.reshape(&[1, x.size()])? } else { x };
        let x = if rows || self.rank() < 2 { x } else { x.matrix_transpose()? };
        let n = x.shape()[1] as f64;
        let d = x.subtract(&x.mean(&[1], true)?)?;
        let c = d.matmul(&d.conjugate()?.matrix_transpose()?)?;
        let c = c.divide(&c.scalar_like((n - ddof as f64).max(0.0)))?.astype(dtype)?;
        if c.size() == 1 { c.reshape::<usize>(&[]) } else { Ok(c) }
    }

    /// `exp(x) / sum(exp(x))` over `axes` together (all when empty), accumulated in `float32` at least.
    pub fn softmax_axes(&self, axes: &[i32]) -> Result<Array> {
        let c = self.collapse("softmax", axes)?;
        let x = c.x.astype(c.x.dtype().to_inexact())?;
        let y = if x.dtype() == Dtype::C64 {
            let e = x.subtract(&x.max(&[-1], true)?)?.exp()?;
            e.divide(&e.sum(&[-1], true)?)?
        } else {
            Array::from_op(Op::Softmax(Softmax::Softmax), std::slice::from_ref(&x))?
        };
        c.restored(&y)
    }

    /// `log(sum(exp(x)))` over `axes` together (all when empty); minus infinity of nothing.
    pub fn logsumexp_axes(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        let c = self.collapse("logsumexp", axes)?;
        let x = c.x.astype(c.x.dtype().to_inexact())?;
        let y = if x.dim(-1)? == 0 {
            let shape = Shape::new(&x.shape()[..x.rank() - 1]);
            x.scalar_like(f64::NEG_INFINITY).broadcast_to(&shape)?
        } else if x.dtype() == Dtype::C64 {
            let max = x.max(&[-1], true)?;
            x.subtract(&max)?.exp()?.sum(&[-1], true)?.log()?.add(&max)?.squeeze(&[-1])?
        } else {
            Array::from_op(Op::Softmax(Softmax::LogSumExp), std::slice::from_ref(&x))?.squeeze(&[-1])?
        };
        c.reduced(y, keepdims)
    }

    /// Differences of neighbours along an axis, `times` times over; of truth values whether they differ.
    pub fn diff(&self, times: usize, along: i32) -> Result<Array> {
        let a = axis("diff", along, self.rank())? as i32;
        let mut x = self.clone();
        for _ in 0..times {
            let n = x.dim(a)?;
            if n == 0 {
                break;
            }
            x = x.slice_axis(a, 1, n)?.subtract(&x.slice_axis(a, 0, n - 1)?)?;
        }
        Ok(x)
    }

    /// Which of the intervals between `edges`, which rise or fall, each element lies in: 0 before the first. An
    /// interval holds its left edge, with `right` its right one instead.
    ///
    /// # Errors
    /// `Shape` unless `edges` has one axis.
    pub fn digitize(&self, edges: &Array, right: bool) -> Result<Array> {
        let n = edges.size();
        if edges.rank() != 1 {
            return Err(Error::shape("digitize", format!("edges of shape {}", edges.shape())));
        }
        if n == 0 {
            return Array::zeros(self.shape(), Dtype::I32);
        }
        let dtype = self.dtype().promote(edges.dtype());
        let (x, e) = (self.astype(dtype)?, edges.astype(dtype)?);
        let rising = e.searchsorted(&x, !right)?.astype(Dtype::I32)?;
        let turned = e.flip(&[0])?.searchsorted(&x, right)?.astype(Dtype::I32)?;
        let falling = Array::from_scalar(n as i64).astype(Dtype::I32)?.subtract(&turned)?;
        let rises = e.slice_axis(0, 0, 1)?.less_equal(&e.slice_axis(0, n - 1, n)?)?.reshape::<usize>(&[])?;
        Array::select(&rises, &rising, &falling)
    }

    /// How many elements lie in each of the intervals between rising `edges`, the last of which holds its right edge;
    /// with `weights` their sums. Elements outside all intervals do not count.
    ///
    /// # Errors
    /// `Shape` unless `edges` has one axis and weights have this array's shape; `Value` for fewer than two edges.
    pub fn histogram(&self, edges: &Array, weights: Option<&Array>) -> Result<Array> {
        let op = "histogram";
        let n = edges.size();
        if edges.rank() != 1 || weights.is_some_and(|w| w.shape() != self.shape()) {
            return Err(Error::shape(op, format!("array {}, edges {}", self.shape(), edges.shape())));
        }
        if n < 2 {
            return Err(Error::value(op, format!("{n} edges, at least two are needed")));
        }
        let dtype = self.dtype().promote(edges.dtype());
        let (x, e) = (self.astype(dtype)?.flatten()?, edges.astype(dtype)?);
        let at = e.searchsorted(&x, true)?.astype(Dtype::I64)?;
        // Place 0 is before the first edge, place n after the last; an element on the last edge comes before it.
        let last = e.slice_axis(0, n - 1, n)?;
        let at = Array::select(&x.equal(&last)?, &Array::from_scalar(n as i64 - 1), &at)?;
        let shape = Shape::checked(op, &[n + 1])?;
        let weights = weights.map(|w| w.flatten()).transpose()?;
        at.tally(&shape, weights.as_ref())?.slice_axis(0, 1, n)
    }

    /// `bins + 1` edges of intervals of one width between `range`, or between the smallest and the largest element,
    /// for [`Array::histogram`]. Evaluates the array unless a range is given.
    ///
    /// # Errors
    /// `Value` for no bins, or ends that are not finite or not in order.
    pub fn histogram_edges(&self, bins: usize, range: Option<(f64, f64)>) -> Result<Array> {
        let op = "histogram";
        let (mut low, mut high) = match range {
            Some(r) => r,
            None if self.size() == 0 => (0.0, 1.0),
            None => {
                let x = self.astype(if self.dtype() == Dtype::C64 { Dtype::C64 } else { Dtype::F64 })?;
                let (low, high) = x.minmax(&[], false)?;
                (known::<f64>(op, &low)?[0], known::<f64>(op, &high)?[0])
            }
        };
        if bins == 0 || !low.is_finite() || !high.is_finite() || low > high {
            return Err(Error::value(op, format!("{bins} bins between {low} and {high}")));
        }
        if low == high {
            (low, high) = (low - 0.5, high + 0.5);
        }
        Array::linspace(low, high, bins + 1, true, self.dtype().to_inexact())
    }

    /// Values at these points of the function that goes straight from each point (`xp`, `fp`) to the next; `xp` rises.
    /// Outside the values `left` and `right`, by default the first and the last of `fp`.
    ///
    /// # Errors
    /// `Shape` unless `xp` and `fp` have one axis of one length; `Value` when it is empty.
    pub fn interp(&self, xp: &Array, fp: &Array, left: Option<f64>, right: Option<f64>) -> Result<Array> {
        let op = "interp";
        if xp.rank() != 1 || xp.shape() != fp.shape() {
            return Err(Error::shape(op, format!("points of shapes {} and {}", xp.shape(), fp.shape())));
        }
        let n = xp.size();
        if n == 0 {
            return Err(Error::value(op, "takes at least one point"));
        }
        let dtype = self.dtype().promote(xp.dtype()).promote(fp.dtype()).to_inexact();
        if dtype == Dtype::C64 {
            return Err(Error::bad_dtype(op, "real numbers", dtype));
        }
        let wide = if dtype.size() < 4 { Dtype::F32 } else { dtype };
        let (x, xp, fp) = (self.astype(wide)?, xp.astype(wide)?, fp.astype(wide)?);
        let i = xp.searchsorted(&x, true)?.astype(Dtype::I64)?.subtract(&Array::from_scalar(1i64))?;
        let top = Array::from_scalar((n as i64 - 2).max(0));
        let i = i.clip(Some(&Array::from_scalar(0i64)), Some(&top))?;
        let j = i.add(&Array::from_scalar(1i64))?.minimum(&Array::from_scalar(n as i64 - 1))?;
        let (x0, x1) = (xp.take(&i, 0)?, xp.take(&j, 0)?);
        let (f0, f1) = (fp.take(&i, 0)?, fp.take(&j, 0)?);
        let slope = f1.subtract(&f0)?.divide(&x1.subtract(&x0)?)?;
        let y = slope.multiply(&x.subtract(&x0)?)?.add(&f0)?;
        // Points themselves, whatever slope there is.
        let y = Array::select(&x.equal(&x1)?, &f1, &y)?;
        let y = Array::select(&x.equal(&x0)?, &f0, &y)?;
        let end = |v: Option<f64>, k: usize| match v {
            Some(v) => Ok(fp.scalar_like(v)),
            None => fp.slice_axis(0, k, k + 1)?.reshape::<usize>(&[]),
        };
        let first = xp.slice_axis(0, 0, 1)?;
        let last = xp.slice_axis(0, n - 1, n)?;
        let y = Array::select(&x.less(&first)?, &end(left, 0)?, &y)?;
        let y = Array::select(&x.greater(&last)?, &end(right, n - 1)?, &y)?;
        Array::select(&x.isnan()?, &x, &y)?.astype(dtype)
    }
}
