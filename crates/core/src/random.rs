//! Random numbers from explicit keys, or from a default key that advances.
//!
//! The generator is counter-based (Threefry-2x32), so the same key gives the same numbers on every device
//! and in every order of evaluation. Keys, bits and the way numbers are made of bits are those of MLX: one
//! 32-bit word for every number whatever its type, so a seed gives the same samples there and here.

mod distributions;

pub use distributions::{beta, choice, choice_index, exponential, gamma, multivariate_normal, poisson};

use crate::dtype::{Dtype, Kind};
use crate::op::{Op, Random};
use crate::shape::{Shape, axis};
use crate::{Array, Error, Result};
use std::cell::RefCell;
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
    with_default_key(|current| {
        let both = split(current, 2)?;
        let row = |i| both.slice_axis(0, i, i + 1)?.reshape(&[2]);
        Ok((row(1)?, row(0)?))
    })
}

/// The default key as it is: the next draw starts from it.
pub fn default_key() -> Result<Array> {
    with_default_key(|key| Ok((key.clone(), key.clone())))
}

/// Makes `key` the default one; see [`key`].
///
/// # Errors
/// `Value` when it is no key: `u32` of shape `[2]`.
pub fn set_default_key(key: &Array) -> Result<()> {
    if key.dtype() != Dtype::U32 || key.shape()[..] != [2] {
        let msg = format!("a key is uint32 of shape [2], got {} of shape {}", key.dtype(), key.shape());
        return Err(Error::value("random.state", msg));
    }
    with_default_key(|_| Ok(((), key.clone())))
}

/// Uses the default key: `f` gives a value and the key that comes next.
pub(crate) fn with_default_key<T>(f: impl FnOnce(&Array) -> Result<(T, Array)>) -> Result<T> {
    use std::hash::{BuildHasher, Hasher};
    if let Some(current) = LENT.with_borrow(|all| all.last().cloned()) {
        let (value, next) = f(&current)?;
        LENT.with_borrow_mut(|all| {
            if let Some(last) = all.last_mut() {
                *last = next;
            }
        });
        return Ok(value);
    }
    let mut guard = DEFAULT.lock().unwrap_or_else(|e| e.into_inner());
    let current = match guard.clone() {
        Some(k) => k,
        None => key(std::hash::RandomState::new().build_hasher().finish())?,
    };
    let (value, next) = f(&current)?;
    *guard = Some(next);
    Ok(value)
}

thread_local! {
    /// Keys that functions being traced on this thread draw from instead of the default one.
    static LENT: RefCell<Vec<Array>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread draws from a key of its own.
pub(crate) struct Lent {
    depth: usize,
}

/// Makes this thread draw from `key`.
pub(crate) fn lend_default_key(key: Array) -> Lent {
    LENT.with_borrow_mut(|all| {
        all.push(key);
        Lent { depth: all.len() }
    })
}

impl Lent {
    /// What the key has become.
    pub(crate) fn give_back(self) -> Option<Array> {
        LENT.with_borrow(|all| all.get(self.depth - 1).cloned())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        LENT.with_borrow_mut(|all| all.truncate(self.depth - 1));
    }
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

/// An error unless samples of this type can be made.
fn check_float(op: &'static str, dtype: Dtype) -> Result<()> {
    if !matches!(dtype, Dtype::F16 | Dtype::BF16 | Dtype::F32) {
        return Err(Error::bad_dtype(op, "float16, bfloat16 or float32", dtype));
    }
    Ok(())
}

/// The largest float below 1.
fn below_one(dtype: Dtype) -> f64 {
    let digits = match dtype {
        Dtype::F16 => 11,
        Dtype::BF16 => 8,
        _ => 24,
    };
    1.0 - 2f64.powi(-digits)
}

/// Uniform floats in `0..1`.
fn unit(shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    let u = bits(shape, 4, key)?.astype(Dtype::F32)?;
    let u = u.divide(&u.scalar_like(u32::MAX as f64))?;
    // The bound keeps the upper end open after rounding to the type.
    u.minimum(&u.scalar_like(below_one(dtype)))?.astype(dtype)
}

/// Uniform floats in `low..high`, of type `f16`, `bf16` or `f32`.
pub fn uniform(low: f64, high: f64, shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    check_float("uniform", dtype)?;
    let u = unit(shape, dtype, key)?;
    if low == 0.0 && high == 1.0 {
        return Ok(u);
    }
    // The ends, and the distance between them, are numbers of the type.
    let (low, high) = (u.scalar_like(low), u.scalar_like(high));
    high.subtract(&low)?.multiply(&u)?.add(&low)
}

/// Uniform floats between `low` and `high`, arrays that broadcast to `shape`, of type `f16`, `bf16` or `f32`.
pub fn uniform_between(
    low: &Array,
    high: &Array,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    check_float("uniform", dtype)?;
    let (low, high) = (low.astype(dtype)?, high.astype(dtype)?);
    let range = high.subtract(&low)?.broadcast_to(shape)?;
    range.multiply(&unit(shape, dtype, key)?)?.add(&low)
}

/// Uniform `f32` in the open interval from -1 to 1.
fn symmetric(shape: &[usize], key: Option<&Array>) -> Result<Array> {
    uniform(-below_one(Dtype::F32), 1.0, shape, Dtype::F32, key)
}

/// Normally distributed floats of mean `loc` and standard deviation `scale`, of type `f16`, `bf16`, `f32` or,
/// with independent parts each of that deviation, `complex64`.
pub fn normal(shape: &[usize], dtype: Dtype, loc: f64, scale: f64, key: Option<&Array>) -> Result<Array> {
    // By inversion: sqrt(2) erfinv(u) for u uniform in the open interval (-1, 1).
    if dtype == Dtype::C64 {
        let parts: Vec<usize> = shape.iter().copied().chain([2]).collect();
        let z = symmetric(&parts, key)?.erfinv()?.view_as(Dtype::C64)?.reshape(shape)?;
        let z = if scale == 1.0 { z } else { z.multiply(&z.scalar_like(scale))? };
        return if loc == 0.0 { Ok(z) } else { z.add(&z.scalar_like(loc)) };
    }
    check_float("normal", dtype)?;
    let z = symmetric(shape, key)?.erfinv()?.astype(dtype)?;
    let factor = z.scalar_like(std::f64::consts::SQRT_2);
    let factor = if scale == 1.0 { factor } else { factor.multiply(&z.scalar_like(scale))? };
    let z = factor.multiply(&z)?;
    if loc == 0.0 { Ok(z) } else { z.add(&z.scalar_like(loc)) }
}

/// Normally distributed floats of means `loc` and standard deviations `scale`, which broadcast to `shape`.
pub fn normal_around(
    loc: Option<&Array>,
    scale: Option<&Array>,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    let mut z = normal(shape, dtype, 0.0, 1.0, key)?;
    if let Some(s) = scale {
        z = s.astype(dtype)?.broadcast_to(shape)?.multiply(&z)?;
    }
    match loc {
        Some(l) => z.add(&l.astype(dtype)?.broadcast_to(shape)?),
        None => Ok(z),
    }
}

/// Normally distributed floats that lie between `low` and `high`, which broadcast to `shape`.
pub fn truncated_normal(
    low: &Array,
    high: &Array,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    check_float("truncated_normal", dtype)?;
    let (low, high) = (low.astype(dtype)?, high.astype(dtype)?);
    let root = low.scalar_like(std::f64::consts::SQRT_2);
    let (a, b) = (low.divide(&root)?.erf()?, high.divide(&root)?.erf()?);
    let z = root.multiply(&uniform_between(&a, &b, shape, dtype, key)?.erfinv()?)?;
    high.minimum(&z)?.maximum(&low)
}

/// Samples of the Gumbel distribution: `-log(-log(u))`.
pub fn gumbel(shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    let u = uniform(0.0, 1.0, shape, dtype, key)?;
    u.log()?.negative()?.log()?.negative()
}

/// Samples of the Laplace distribution of mean `loc` and spread `scale`.
pub fn laplace(shape: &[usize], dtype: Dtype, loc: f64, scale: f64, key: Option<&Array>) -> Result<Array> {
    check_float("laplace", dtype)?;
    let u = symmetric(shape, key)?;
    let x = u.sign()?.multiply(&u.abs()?.negative()?.log1p()?)?.astype(dtype)?;
    let x = if scale == 1.0 { x } else { x.multiply(&x.scalar_like(scale))? };
    if loc == 0.0 { Ok(x) } else { x.add(&x.scalar_like(loc)) }
}

/// True with probability `p`, which broadcasts to `shape`.
pub fn bernoulli(p: &Array, shape: &[usize], key: Option<&Array>) -> Result<Array> {
    if !p.dtype().is_float() {
        return Err(Error::bad_dtype("bernoulli", "a probability of a float type", p.dtype()));
    }
    // One step above the largest word as a float, so that 1 is always true.
    let words = bits(shape, 4, key)?;
    let bound = p.multiply(&Array::from_scalar((1u64 << 32) as f32 + 512.0))?;
    words.less(&bound.broadcast_to(shape)?)
}

/// Integers up to here are drawn through `f32`, which holds them exactly.
const EXACT: i64 = 1 << 24;

/// Uniform integers in `low..high` of an integer type.
///
/// # Errors
/// `Value` when no integer lies in `low..high` or the type does not hold them all, `Dtype` for other types.
pub fn randint(low: i64, high: i64, shape: &[usize], dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    if !matches!(dtype.kind(), Kind::Signed | Kind::Unsigned) {
        return Err(Error::bad_dtype("randint", "integers", dtype));
    }
    if low >= high {
        return Err(Error::value("randint", format!("no integer lies in {low}..{high}")));
    }
    let bits_of = dtype.size() as u32 * 8;
    let (least, most) = match dtype.kind() {
        Kind::Unsigned => (0, if bits_of == 64 { i64::MAX } else { (1i64 << bits_of) - 1 }),
        _ => (i64::MIN >> (64 - bits_of), i64::MAX >> (64 - bits_of)),
    };
    if low < least || high - 1 > most {
        return Err(Error::value("randint", format!("{dtype} does not hold all of {low}..{high}")));
    }
    if low >= -EXACT && high <= EXACT {
        let u = uniform(low as f64, high as f64, shape, Dtype::F32, key)?.floor()?;
        // Rounding may reach the open upper end.
        return u.minimum(&u.scalar_like((high - 1) as f64))?.astype(dtype);
    }
    // Beyond, a 64-bit word modulo the width; what that favours is below one part in the word over the width.
    let words = bits(&[shape, &[2]].concat(), 4, key)?.view_as(Dtype::U64)?.reshape(shape)?;
    let width = Array::from_scalar(high.wrapping_sub(low) as u64);
    let offset = words.remainder(&width)?;
    offset.add(&Array::from_scalar(low as u64))?.astype(dtype)
}

/// Uniform integers in `low..high`, integer arrays that broadcast to `shape`. They are drawn through `f32`, as MLX
/// does, so that beyond 2^24 not every integer comes up; an empty interval gives `low`.
pub fn randint_between(
    low: &Array,
    high: &Array,
    shape: &[usize],
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    for x in [low, high] {
        if !x.dtype().is_integer() {
            return Err(Error::bad_dtype("randint", "integer limits", x.dtype()));
        }
    }
    if !matches!(dtype.kind(), Kind::Signed | Kind::Unsigned) {
        return Err(Error::bad_dtype("randint", "integers", dtype));
    }
    let u = uniform_between(low, high, shape, Dtype::F32, key)?.floor()?.astype(dtype)?;
    let (low, high) = (low.astype(dtype)?, high.astype(dtype)?);
    u.minimum(&high.subtract(&high.scalar_like(1.0))?)?.maximum(&low)
}

/// The slices of `x` along an axis in random order.
pub fn permutation_of(x: &Array, along: i32, key: Option<&Array>) -> Result<Array> {
    let a = axis("permutation", along, x.rank())?;
    x.take(&permutation(x.shape()[a], key)?, a as i32)
}

/// The integers below `n` in random order, as `u32`.
pub fn permutation(n: usize, key: Option<&Array>) -> Result<Array> {
    bits(&[n], 4, key)?.argsort(0, false)
}

/// One index for every row of unnormalised log-probabilities along the last axis, as `u32` (the Gumbel-max
/// trick).
pub fn categorical(logits: &Array, key: Option<&Array>) -> Result<Array> {
    let along = last_axis(logits)?;
    categorical_shaped(logits, -1, &logits.shape().without(along), key)
}

fn last_axis(logits: &Array) -> Result<usize> {
    match logits.rank() {
        0 => Err(Error::shape("categorical", "a scalar has no axis to choose from")),
        n => Ok(n - 1),
    }
}

/// `samples` indices for every row of unnormalised log-probabilities along `along`: they are the last axis of
/// the result, after the other axes of `logits`.
pub fn categorical_many(logits: &Array, along: i32, samples: usize, key: Option<&Array>) -> Result<Array> {
    last_axis(logits)?;
    let along = axis("categorical", along, logits.rank())?;
    let shape: Vec<usize> = logits.shape().without(along).iter().copied().chain([samples]).collect();
    categorical_shaped(&logits.expand_dims(&[-1])?, along as i32, &shape, key)
}

/// Indices that all come from one distribution, by the inverse of its running sum: one number for each, instead of one
/// for each choice. MLX draws from one distribution in this way, from several in the other.
fn from_one(logits: &Array, shape: &Shape, key: Option<&Array>) -> Result<Array> {
    let logits = logits.astype(Dtype::F32)?.flatten()?;
    let (n, top) = (logits.size(), logits.max(&[], false)?);
    // The largest is as likely as can be, also when it is infinite.
    let below = Array::select(&logits.equal(&top)?, &logits.scalar_like(0.0), &logits.subtract(&top)?)?;
    let sums = below.exp()?.cumsum(0, false, true)?;
    let u =
        uniform(0.0, 1.0, shape, Dtype::F32, key)?.multiply(&sums.slice_axis(0, n - 1, n)?.squeeze(&[0])?)?;
    sums.searchsorted(&u, true)?.minimum(&Array::from_scalar((n - 1) as u32))
}

/// Indices of shape `shape`, to which the axes of `logits` other than `along` broadcast.
pub fn categorical_shaped(logits: &Array, along: i32, shape: &[usize], key: Option<&Array>) -> Result<Array> {
    last_axis(logits)?;
    let along = axis("categorical", along, logits.rank())?;
    let rest = logits.shape().without(along);
    let shape = Shape::new(shape);
    if Shape::broadcast("categorical", &shape, &rest)? != shape {
        return Err(Error::shape("categorical", format!("axes {rest} do not broadcast to shape {shape}")));
    }
    let n = logits.shape()[along];
    if logits.size() == n && n > 0 && shape.rank() > 0 {
        return from_one(logits, &shape, key);
    }
    // The axis of choices lies as far from the end as in `logits`.
    let at = along + shape.rank() - rest.rank();
    let mut full: Vec<usize> = shape.to_vec();
    full.insert(at, logits.shape()[along]);
    let noise = gumbel(&full, Dtype::F32, key)?;
    noise.add(&logits.astype(Dtype::F32)?)?.argmax(at as i32, false)
}
