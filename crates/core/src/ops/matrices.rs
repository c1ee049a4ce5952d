//! Diagonals, triangles, sequences and windows.

use crate::dtype::{Dtype, Scalar};
use crate::op::{Create, Op, Update};
use crate::shape::{Shape, axis};
use crate::{Array, Error, Result};
use smallvec::SmallVec;

impl Array {
    /// Zeros of this array's shape and type.
    pub fn zeros_like(&self) -> Result<Array> {
        Array::zeros(self.shape(), self.dtype())
    }

    /// Ones of this array's shape and type.
    pub fn ones_like(&self) -> Result<Array> {
        Array::ones(self.shape(), self.dtype())
    }

    /// `start, start + step, …` up to but not including `stop`, exact for integers of any size.
    ///
    /// # Errors
    /// `Value` when `step` is 0.
    pub fn arange_int(start: i64, stop: i64, step: i64, dtype: Dtype) -> Result<Array> {
        if step == 0 {
            return Err(Error::value("arange", format!("no range from {start} to {stop} by 0")));
        }
        let span = (stop as i128 - start as i128) * step.signum() as i128;
        let len = if span <= 0 { 0 } else { (span - 1) / step.unsigned_abs() as i128 + 1 };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let scalar = |v| Scalar::from_i64(v, dtype);
        let op = Create::Arange { start: scalar(start), step: scalar(step), len };
        Array::from_op(Op::Create(op), &[])
    }

    /// `num` numbers from `start` to `stop`, evenly spaced, computed in `float64`. Without `endpoint` the last stays
    /// one step before `stop`. Integer types cut the fraction off.
    pub fn linspace(start: f64, stop: f64, num: usize, endpoint: bool, dtype: Dtype) -> Result<Array> {
        Array::even("linspace", start, stop, num, endpoint)?.astype(dtype)
    }

    /// `base` to the powers of [`Array::linspace`].
    pub fn logspace(
        start: f64,
        stop: f64,
        num: usize,
        endpoint: bool,
        base: f64,
        dtype: Dtype,
    ) -> Result<Array> {
        let powers = Array::even("logspace", start, stop, num, endpoint)?;
        Array::from_scalar(base).power(&powers)?.astype(dtype)
    }

    fn even(op: &'static str, start: f64, stop: f64, num: usize, endpoint: bool) -> Result<Array> {
        Shape::checked(op, &[num])?;
        let steps = if endpoint { num.saturating_sub(1) } else { num };
        let i = Array::arange_int(0, num as i64, 1, Dtype::F64)?;
        let t = i.divide(&Array::from_scalar(steps.max(1) as f64))?;
        // Both ends exactly.
        let rest = t.scalar_like(1.0).subtract(&t)?;
        rest.scale(start)?.add(&t.scale(stop)?)
    }

    /// `rows` by `columns`, ones on diagonal `k` (above the main one when positive) and zeros elsewhere.
    pub fn eye(rows: usize, columns: usize, k: i64, dtype: Dtype) -> Result<Array> {
        Array::on_diagonals("eye", rows, columns, |i, j| i.equal(j), k)?.astype(dtype)
    }

    /// The `n` by `n` matrix with ones on the diagonal.
    pub fn identity(n: usize, dtype: Dtype) -> Result<Array> {
        Array::eye(n, n, 0, dtype)
    }

    /// `rows` by `columns`, ones on and below diagonal `k` and zeros elsewhere.
    pub fn tri(rows: usize, columns: usize, k: i64, dtype: Dtype) -> Result<Array> {
        Array::on_diagonals("tri", rows, columns, |i, j| i.greater_equal(j), k)?.astype(dtype)
    }

    /// Truth of row + k against column.
    fn on_diagonals(
        op: &'static str,
        rows: usize,
        columns: usize,
        test: impl Fn(&Array, &Array) -> Result<Array>,
        k: i64,
    ) -> Result<Array> {
        Shape::checked(op, &[rows, columns])?;
        // Beyond the matrix all diagonals are alike.
        let (r, c) = (rows as i64, columns as i64);
        let k = k.clamp(-r - 1, c + 1);
        let i = Array::arange_int(k, k + r, 1, Dtype::I64)?.reshape(&[rows, 1])?;
        let j = Array::arange_int(0, c, 1, Dtype::I64)?;
        test(&i, &j)
    }

    /// The elements on and below diagonal `k` of the last two axes, zeros above.
    pub fn tril(&self, k: i64) -> Result<Array> {
        let mask = self.triangle("tril", k)?;
        Array::select(&mask, self, &self.scalar_like(0.0))
    }

    /// The elements on and above diagonal `k` of the last two axes, zeros below.
    pub fn triu(&self, k: i64) -> Result<Array> {
        let mask = self.triangle("triu", k.saturating_sub(1))?;
        Array::select(&mask, &self.scalar_like(0.0), self)
    }

    fn triangle(&self, op: &'static str, k: i64) -> Result<Array> {
        let &[.., rows, columns] = &self.shape()[..] else {
            let msg = format!("takes an array of at least two axes, got {}", self.shape());
            return Err(Error::shape(op, msg));
        };
        Array::tri(rows, columns, k, Dtype::Bool)
    }

    /// Diagonal `offset` of axes `a` and `b`, as a new last axis in their place.
    pub fn diagonal(&self, offset: i64, a: i32, b: i32) -> Result<Array> {
        let op = "diagonal";
        let rank = self.rank();
        if rank < 2 {
            return Err(Error::shape(op, format!("takes at least two axes, got {}", self.shape())));
        }
        let (p, q) = (axis(op, a, rank)?, axis(op, b, rank)?);
        if p == q {
            return Err(Error::shape(op, format!("axes {a} and {b} are one")));
        }
        let order: Vec<i32> =
            (0..rank).filter(|&i| i != p && i != q).chain([p, q]).map(|i| i as i32).collect();
        let x = self.transpose(&order)?;
        let (rows, columns) = (x.shape()[rank - 2], x.shape()[rank - 1]);
        let (down, right) = if offset < 0 { (offset.unsigned_abs(), 0) } else { (0, offset as u64) };
        let left = |n: usize, skip: u64| (n as u64).saturating_sub(skip) as usize;
        let len = left(rows, down).min(left(columns, right));
        let mut flat: Vec<usize> = x.shape()[..rank - 2].to_vec();
        flat.push(rows * columns);
        if len == 0 {
            *flat.last_mut().unwrap_or(&mut 0) = 0;
            return Array::zeros(&flat, self.dtype());
        }
        let first = down as usize * columns + right as usize;
        let last = first + (len - 1) * (columns + 1);
        let ranges: Vec<_> = (0..rank - 2)
            .map(|_| (None, None, 1))
            .chain([(Some(first as i64), Some(last as i64 + 1), columns as i64 + 1)])
            .collect();
        x.reshape(&flat)?.slice(&ranges)
    }

    /// Of one axis the matrix with these elements on diagonal `k`, of two axes their diagonal `k`.
    pub fn diag(&self, k: i64) -> Result<Array> {
        match self.rank() {
            1 => {
                let len = self.size();
                let aside = k.unsigned_abs() as usize;
                let n =
                    len.checked_add(aside).ok_or_else(|| Error::shape("diag", format!("diagonal {k}")))?;
                let square = n.saturating_mul(n);
                Shape::checked("diag", &[square])?;
                let flat = Array::zeros(&[square], self.dtype())?;
                let start = if k < 0 { aside * n } else { aside };
                let start = if len == 0 { 0 } else { start };
                let op = Update::Slice {
                    start: SmallVec::from_slice(&[start]),
                    step: SmallVec::from_slice(&[n as isize + 1]),
                };
                Array::from_op(Op::Update(op), &[flat, self.clone()])?.reshape(&[n, n])
            }
            2 => self.diagonal(k, 0, 1),
            _ => Err(Error::shape("diag", format!("takes one or two axes, got {}", self.shape()))),
        }
    }

    /// Sum of diagonal `offset` of axes `a` and `b`, in type `dtype` where one is given.
    pub fn trace(&self, offset: i64, a: i32, b: i32, dtype: Option<Dtype>) -> Result<Array> {
        let d = self.diagonal(offset, a, b)?;
        match dtype {
            Some(t) => d.astype(t)?.sum(&[-1], false)?.astype(t),
            None => d.sum(&[-1], false),
        }
    }

    /// Hann window of `n` points, `0.5 - 0.5 cos(2 pi i / (n - 1))` (Blackman and Tukey 1958), as `float32`.
    pub fn hanning(n: usize) -> Result<Array> {
        cosines("hanning", n, &[0.5, -0.5])
    }

    /// Hamming window of `n` points, `0.54 - 0.46 cos(2 pi i / (n - 1))` (Blackman and Tukey 1958), as `float32`.
    pub fn hamming(n: usize) -> Result<Array> {
        cosines("hamming", n, &[0.54, -0.46])
    }

    /// Blackman window of `n` points, `0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t)` with `t = i / (n - 1)` (Blackman and
    /// Tukey 1958), as `float32`.
    pub fn blackman(n: usize) -> Result<Array> {
        cosines("blackman", n, &[0.42, -0.5, 0.08])
    }

    /// Bartlett window of `n` points, a triangle with zeros at both ends, as `float32`.
    pub fn bartlett(n: usize) -> Result<Array> {
        if n == 1 {
            return Array::full(&[1], 1f32);
        }
        let t = Array::even("bartlett", -1.0, 1.0, n, true)?;
        t.scalar_like(1.0).subtract(&t.abs()?)?.astype(Dtype::F32)
    }
}

/// The window `sum of c[k] cos(2 pi k t)`, with `t` from 0 to 1; one point is 1.
fn cosines(op: &'static str, n: usize, c: &[f64]) -> Result<Array> {
    if n == 1 {
        return Array::full(&[1], 1f32);
    }
    let t = Array::even(op, 0.0, std::f64::consts::TAU, n, true)?;
    let mut y = t.full_like(c[0])?;
    for (k, &c) in c.iter().enumerate().skip(1) {
        y = y.add(&t.scale(k as f64)?.cos()?.scale(c)?)?;
    }
    y.astype(Dtype::F32)
}
