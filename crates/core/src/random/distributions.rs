//! Distributions that MLX lacks. Rejection sampling draws a fixed number of candidates for every sample and takes
//! the first that is accepted, so that nothing is read while the graph is built.

use super::{categorical_shaped, check_float, key_or_next, normal, permutation, split, uniform};
use crate::linalg::eigh;
use crate::shape::{Shape, axis};
use crate::{Array, Dtype, Error, Result};

/// `n` keys of one, each of shape `[2]`.
fn keys<const N: usize>(key: Option<&Array>) -> Result<[Array; N]> {
    let all = split(&key_or_next(key)?, N)?;
    let mut keys = Vec::with_capacity(N);
    for i in 0..N {
        keys.push(all.slice_axis(0, i, i + 1)?.reshape(&[2])?);
    }
    keys.try_into().map_err(|_| Error::value("split", "another number of keys"))
}

/// `1 - u` for u uniform in `0..1`: uniform in the interval that is open below.
fn above_zero(shape: &[usize], key: &Array) -> Result<Array> {
    let u = uniform(0.0, 1.0, shape, Dtype::F32, Some(key))?;
    u.scalar_like(1.0).subtract(&u)
}

/// Jointly normal vectors of mean `mean[…, n]` and covariance `cov[…, n, n]`, which is symmetric and has no negative
/// eigenvalue: `shape` of them, whose axes broadcast with the leading ones of both, or as many as these when it is empty.
/// Standard normal vectors times the symmetric root of the covariance, as MLX computes it.
///
/// # Errors
/// `Shape` for arguments that do not fit, `Dtype` for samples that are no floats of 32 bits or less.
pub fn multivariate_normal(
    mean: &Array,
    cov: &Array,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    const OP: &str = "multivariate_normal";
    check_float(OP, dtype)?;
    let (m, c) = (mean.shape(), cov.shape());
    let fits = matches!((&m[..], &c[..]), ([.., n], [.., p, q]) if n == p && p == q);
    if !fits {
        return Err(Error::shape(OP, format!("a mean of shape {m} and a covariance of shape {c}")));
    }
    let n = m[m.rank() - 1];
    let batch = Shape::broadcast(OP, &Shape::new(&m[..m.rank() - 1]), &Shape::new(&c[..c.rank() - 2]))?;
    let lead =
        if shape.is_empty() { batch } else { Shape::broadcast(OP, &batch, &Shape::checked(OP, shape)?)? };
    let out: Vec<usize> = lead.iter().copied().chain([n]).collect();
    let (w, v) = eigh(&cov.astype(Dtype::F32)?, false)?;
    let sizes = w.maximum(&w.scalar_like(0.0))?.sqrt()?.expand_dims(&[-2])?;
    let root = v.multiply(&sizes)?.matmul(&v.matrix_transpose()?)?;
    let z = normal(&out, Dtype::F32, 0.0, 1.0, key)?.expand_dims(&[-2])?;
    z.matmul(&root)?.squeeze(&[-2])?.add(&mean.astype(Dtype::F32)?)?.astype(dtype)
}

/// Exponentially distributed floats of mean `scale`, which broadcasts to `shape`.
pub fn exponential(scale: &Array, shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    check_float("exponential", dtype)?;
    let u = uniform(0.0, 1.0, shape, Dtype::F32, key)?;
    let x = u.negative()?.log1p()?.negative()?;
    x.multiply(&scale.astype(Dtype::F32)?.broadcast_to(shape)?)?.astype(dtype)
}

/// Candidates for each sample: all are refused once in 10^10 samples at most.
const ROUNDS: usize = 8;

/// Logarithms of gamma distributed floats of shape parameters `a`, of shape `shape` (Marsaglia and Tsang 2000, "A
/// simple method for generating gamma variables"). NaN where a parameter is not positive.
fn log_gamma_sample(a: &Array, shape: &[usize], key: &Array) -> Result<Array> {
    let [first, second, third] = keys(Some(key))?;
    let a = a.astype(Dtype::F32)?.broadcast_to(shape)?;
    let one = a.scalar_like(1.0);
    let small = a.less(&one)?;
    // Below 1 the density has a pole: one more, times a power.
    let raised = Array::select(&small, &a.add(&one)?, &a)?;
    let d = raised.subtract(&a.scalar_like(1.0 / 3.0))?;
    let c = d.scale(9.0)?.rsqrt()?;
    let many: Vec<usize> = std::iter::once(ROUNDS).chain(shape.iter().copied()).collect();
    let z = normal(&many, Dtype::F32, 0.0, 1.0, Some(&first))?;
    let u = above_zero(&many, &second)?;
    let base = c.multiply(&z)?.add(&one)?;
    let positive = base.greater(&base.scalar_like(0.0))?;
    let log_v = Array::select(&positive, &base, &one)?.log()?.scale(3.0)?;
    let v = log_v.exp()?;
    let bound = z.square()?.scale(0.5)?.add(&d.multiply(&one.subtract(&v)?.add(&log_v)?)?)?;
    let accepted = u.log()?.less(&bound)?.logical_and(&positive)?;
    let at = accepted.astype(Dtype::U8)?.argmax(0, true)?;
    let log_v = log_v.take_along_axis(&at, 0)?.squeeze(&[0])?;
    let x = d.log()?.add(&log_v)?;
    let power = above_zero(shape, &third)?.log()?.divide(&a)?;
    let x = Array::select(&small, &x.add(&power)?, &x)?;
    let wrong = a.greater(&a.scalar_like(0.0))?.logical_not()?;
    Array::select(&wrong, &a.scalar_like(f64::NAN), &x)
}

/// Gamma distributed floats of shape parameter `a` and scale `scale`, which broadcast to `shape`; NaN where `a` is
/// not positive.
pub fn gamma(a: &Array, scale: &Array, shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    check_float("gamma", dtype)?;
    let x = log_gamma_sample(a, shape, &key_or_next(key)?)?.exp()?;
    x.multiply(&scale.astype(Dtype::F32)?.broadcast_to(shape)?)?.astype(dtype)
}

/// Beta distributed floats of parameters `a` and `b`, which broadcast to `shape`; NaN where one is not positive.
pub fn beta(a: &Array, b: &Array, shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    check_float("beta", dtype)?;
    let [first, second] = keys(key)?;
    // x / (x + y), which does not lose small ones when formed from logarithms.
    let (x, y) = (log_gamma_sample(a, shape, &first)?, log_gamma_sample(b, shape, &second)?);
    x.subtract(&y)?.sigmoid()?.astype(dtype)
}

/// Rates up to here are sampled by counting arrivals, of which there are hardly ever more than [`ARRIVALS`].
const FEW: f64 = 10.0;
const ARRIVALS: usize = 48;
/// Candidates for each sample of larger rates, of which at least three in four are accepted.
const TRIES: usize = 16;

/// Poisson distributed integers of rate `rate`, which broadcasts to `shape`; zero where it is not positive.
///
/// Small rates count the arrivals of a process, larger ones use Hörmann's transformed rejection (1993, "The
/// transformed rejection method for generating Poisson random variables", PTRS), in `f64`.
///
/// # Errors
/// `Dtype` when `dtype` is no integer type.
pub fn poisson(rate: &Array, shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    if !dtype.is_integer() {
        return Err(Error::bad_dtype("poisson", "integers", dtype));
    }
    let [first, second, third] = keys(key)?;
    let rate = rate.astype(Dtype::F64)?.broadcast_to(shape)?;
    let many = |n: usize| std::iter::once(n).chain(shape.iter().copied()).collect::<Vec<usize>>();
    let steps = above_zero(&many(ARRIVALS), &first)?.log()?.negative()?;
    let few = steps.cumsum(0, false, true)?.less(&rate.astype(Dtype::F32)?)?;
    let few = few.astype(Dtype::I32)?.sum(&[0], false)?.astype(Dtype::F64)?;

    let number = |v: f64| Array::from_scalar(v);
    let large = rate.maximum(&number(FEW))?;
    let (root, log_rate) = (large.sqrt()?, large.log()?);
    let b = root.scale(2.53)?.add(&number(0.931))?;
    let a = b.scale(0.02483)?.subtract(&number(0.059))?;
    let shift = b.subtract(&number(3.4))?.reciprocal()?.scale(1.1328)?.add(&number(1.1239))?;
    let u = uniform(0.0, 1.0, &many(TRIES), Dtype::F32, Some(&second))?.astype(Dtype::F64)?;
    let u = u.subtract(&number(0.5))?;
    let v = above_zero(&many(TRIES), &third)?.astype(Dtype::F64)?;
    let us = number(0.5).subtract(&u.abs()?)?.maximum(&number(1e-12))?;
    let k = a.scale(2.0)?.divide(&us)?.add(&b)?.multiply(&u)?.add(&large)?.add(&number(0.43))?.floor()?;
    let inside = k.greater_equal(&number(0.0))?;
    let k = k.maximum(&number(0.0))?;
    let left = v.multiply(&shift)?.divide(&a.divide(&us.square()?)?.add(&b)?)?.log()?;
    let right = k.multiply(&log_rate)?.subtract(&large)?.subtract(&log_factorial(&k)?)?;
    let accepted = left.less_equal(&right)?.logical_and(&inside)?;
    let at = accepted.astype(Dtype::U8)?.argmax(0, true)?;
    let many_arrivals = k.take_along_axis(&at, 0)?.squeeze(&[0])?;
    Array::select(&rate.less(&number(FEW))?, &few, &many_arrivals)?.astype(dtype)
}

/// `log(k!)` of integers `k` that are not negative, in `f64`: Stirling's series, six places up.
fn log_factorial(k: &Array) -> Result<Array> {
    let number = |v: f64| Array::from_scalar(v);
    let mut product = k.add(&number(1.0))?;
    for i in 2..=6 {
        product = product.multiply(&k.add(&number(i as f64))?)?;
    }
    let x = k.add(&number(7.0))?;
    let inverse = x.reciprocal()?;
    let square = inverse.square()?;
    let series = square.scale(1.0 / 1260.0)?.subtract(&number(1.0 / 360.0))?;
    let series = series.multiply(&square)?.add(&number(1.0 / 12.0))?.multiply(&inverse)?;
    let half_log = 0.5 * (2.0 * std::f64::consts::PI).ln();
    x.subtract(&number(0.5))?
        .multiply(&x.log()?)?
        .subtract(&x)?
        .add(&series)?
        .add(&number(half_log))?
        .subtract(&product.log()?)
}

/// Indices below `n`, as `u32` of shape `shape`, drawn with the probabilities `p [n]`, which need not sum to 1, or
/// with equal ones; with `replace` each draw is independent, without no index comes twice.
///
/// # Errors
/// `Value` when `n` is 0 or less than what is drawn without replacement; `Shape` when `p` has not `n` elements.
pub fn choice_index(
    n: usize,
    shape: &[usize],
    replace: bool,
    p: Option<&Array>,
    key: Option<&Array>,
) -> Result<Array> {
    const OP: &str = "choice";
    let count = Shape::checked(OP, shape)?.elements();
    if (n == 0 && count > 0) || (!replace && count > n) {
        return Err(Error::value(OP, format!("{count} of {n} cannot be drawn, replace is {replace}")));
    }
    if n == 0 {
        return Array::zeros(shape, Dtype::U32);
    }
    let Some(p) = p else {
        if replace {
            return super::randint(0, n as i64, shape, Dtype::U32, key);
        }
        return permutation(n, key)?.slice_axis(0, 0, count)?.reshape(shape);
    };
    if p.shape()[..] != [n] || !p.dtype().is_float() {
        let msg = format!("probabilities are floats of shape ({n},), got {} {}", p.dtype(), p.shape());
        return Err(Error::shape(OP, msg));
    }
    let logits = p.astype(Dtype::F32)?.log()?;
    if replace {
        return categorical_shaped(&logits, -1, &[count], key)?.reshape(shape);
    }
    // The largest of logits with Gumbel noise are a draw without replacement (Kool et al. 2019).
    let noisy = super::gumbel(&[n], Dtype::F32, key)?.add(&logits)?;
    noisy.argsort(0, true)?.slice_axis(0, 0, count)?.reshape(shape)
}

/// Slices of `x` along an axis, in whose place the axes of `shape` stand; see [`choice_index`].
pub fn choice(
    x: &Array,
    shape: &[usize],
    replace: bool,
    p: Option<&Array>,
    along: i32,
    key: Option<&Array>,
) -> Result<Array> {
    let a = axis("choice", along, x.rank())?;
    x.take(&choice_index(x.shape()[a], shape, replace, p, key)?, a as i32)
}
