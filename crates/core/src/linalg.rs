//! Linear algebra, matrix by matrix over leading axes.
//!
//! Matrices are the last two axes. `float32`, `float64` and `complex64` keep their type; integers and
//! half-precision floats are computed as `float32`, and half-precision results are rounded back to their type.
//! The CPU computes everything in double precision and rounds once. Matrices without elements are fine.
//!
//! A matrix without an inverse, or that is not positive definite, is a `Value` error when the result is
//! evaluated, as in NumPy; so is one with NaN or infinities where singular values or eigenvalues are asked for.
//! Determinants of singular matrices are 0 (`slogdet`: sign 0, logarithm `-inf`).

use crate::op::{Linalg, Op};
use crate::shape::{Shape, axis};
use crate::{Array, Dtype, Error, Kind, Result};

/// The type that a matrix is computed in.
fn working(d: Dtype) -> Dtype {
    match d {
        Dtype::F64 | Dtype::C64 => d,
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::F16
        | Dtype::BF16
        | Dtype::F32 => Dtype::F32,
    }
}

/// The type of a result that was computed in `x`'s type, for an argument of type `d`.
fn back(x: Array, d: Dtype) -> Result<Array> {
    let half = matches!(d, Dtype::F16 | Dtype::BF16);
    if half && x.dtype() == Dtype::F32 { x.astype(d) } else { Ok(x) }
}

fn apply<const N: usize>(op: Linalg, a: &Array) -> Result<[Array; N]> {
    let name = Op::Linalg(op).name();
    let results = Array::from_op_multi(Op::Linalg(op), &[a.astype(working(a.dtype()))?])?;
    let results = results.into_iter().map(|x| back(x, a.dtype())).collect::<Result<Vec<_>>>()?;
    <[Array; N]>::try_from(results).map_err(|r| Error::value(name, format!("gives {} arrays", r.len())))
}

fn single(op: Linalg, a: &Array) -> Result<Array> {
    let [x] = apply(op, a)?;
    Ok(x)
}

/// Inverse of square matrices.
pub fn inv(a: &Array) -> Result<Array> {
    single(Linalg::Inverse, a)
}

/// Inverse of triangular matrices; the other triangle is not looked at.
pub fn tri_inv(a: &Array, upper: bool) -> Result<Array> {
    single(Linalg::TriangularInverse { upper }, a)
}

/// Cholesky factor of positive definite matrices: `L` with `L L^H = a`, from the lower triangle, or `U` with
/// `U^H U = a`, from the upper.
pub fn cholesky(a: &Array, upper: bool) -> Result<Array> {
    single(Linalg::Cholesky { upper }, a)
}

/// Conjugate transpose.
fn adjoint(a: &Array) -> Result<Array> {
    let t = a.swapaxes(-1, -2)?;
    if a.dtype() == Dtype::C64 { t.conjugate() } else { Ok(t) }
}

/// Inverse of the matrix whose Cholesky factor is `a`.
pub fn cholesky_inv(a: &Array, upper: bool) -> Result<Array> {
    let t = tri_inv(a, upper)?;
    if upper { t.matmul(&adjoint(&t)?) } else { adjoint(&t)?.matmul(&t) }
}

/// `q[…, m, k]` with orthonormal columns and upper triangular `r[…, k, n]`, `k` the smaller of `m` and `n`.
pub fn qr(a: &Array) -> Result<(Array, Array)> {
    let [q, r] = apply(Linalg::Qr, a)?;
    Ok((q, r))
}

/// Singular value decomposition `a = u[:, :k] diag(s) vt[:k, :]`: `u[…, m, m]`, `s[…, k]` falling, and the
/// adjoint of `v`, `[…, n, n]`. Singular vectors are unique only up to sign (or phase).
pub fn svd(a: &Array) -> Result<(Array, Array, Array)> {
    let [u, s, vt] = apply(Linalg::Svd { vectors: true }, a)?;
    Ok((u, s, vt))
}

/// Singular values, falling.
pub fn svdvals(a: &Array) -> Result<Array> {
    single(Linalg::Svd { vectors: false }, a)
}

/// Eigenvalues, rising, and orthonormal eigenvectors (columns) of the symmetric or Hermitian matrices that one
/// triangle gives.
pub fn eigh(a: &Array, upper: bool) -> Result<(Array, Array)> {
    let [w, v] = apply(Linalg::Eigh { upper, vectors: true }, a)?;
    Ok((w, v))
}

/// Eigenvalues of [`eigh`].
pub fn eigvalsh(a: &Array, upper: bool) -> Result<Array> {
    single(Linalg::Eigh { upper, vectors: false }, a)
}

/// Eigenvalues and right eigenvectors (columns, of length 1) of square matrices, as `complex64`.
pub fn eig(a: &Array) -> Result<(Array, Array)> {
    let [w, v] = apply(Linalg::Eig { vectors: true }, a)?;
    Ok((w, v))
}

/// Eigenvalues of [`eig`].
pub fn eigvals(a: &Array) -> Result<Array> {
    single(Linalg::Eig { vectors: false }, a)
}

/// Sizes of the last two axes.
fn matrix_sizes(op: &'static str, a: &Array) -> Result<(usize, usize)> {
    match a.shape()[..] {
        [.., m, n] => Ok((m, n)),
        [_] | [] => Err(Error::shape(op, format!("takes matrices, got shape {}", a.shape()))),
    }
}

/// 1 where column less row is at least `k`.
fn at_or_above(m: usize, n: usize, k: i64) -> Result<Array> {
    let (rows, cols) = (Array::arange_i32(m)?, Array::arange_i32(n)?);
    cols.greater_equal(&rows.reshape(&[m, 1])?.add(&Array::from_scalar(k as i32))?)
}

/// LU factorization by partial pivoting: `p`, `l`, `u` with `a = l[p, :] @ u`; `p` holds row numbers, `u32`.
pub fn lu(a: &Array) -> Result<(Array, Array, Array)> {
    let (m, n) = matrix_sizes("lu", a)?;
    let [packed, _, rows] = apply(Linalg::Lu, a)?;
    let k = m.min(n);
    let zero = packed.scalar_like(0.0);
    let left = packed.slice_axis(-1, 0, k)?;
    let right = packed.slice_axis(-2, 0, k)?;
    let l = Array::select(&at_or_above(m, k, 0)?, &zero, &left)?;
    let diagonal = at_or_above(m, k, 0)?.logical_and(&at_or_above(m, k, 1)?.logical_not()?)?;
    let l = Array::select(&diagonal, &packed.scalar_like(1.0), &l)?;
    let u = Array::select(&at_or_above(k, n, 0)?, &right, &zero)?;
    // `rows` says where each row came from; sorting it says where each went.
    Ok((rows.argsort(-1, false)?, l, u))
}

/// The factors of [`lu`] in one matrix, the diagonal of ones left out, and with which row, from its own on,
/// each row was exchanged (`u32`).
pub fn lu_factor(a: &Array) -> Result<(Array, Array)> {
    let [packed, swaps, _] = apply(Linalg::Lu, a)?;
    Ok((packed, swaps))
}

/// Determinant.
pub fn det(a: &Array) -> Result<Array> {
    single(Linalg::Det, a)
}

/// Sign (or phase) of the determinant and logarithm of its magnitude.
pub fn slogdet(a: &Array) -> Result<(Array, Array)> {
    let [sign, log] = apply(Linalg::SlogDet, a)?;
    Ok((sign, log))
}

fn system(op: Linalg, name: &'static str, a: &Array, b: &Array) -> Result<Array> {
    matrix_sizes(name, a)?;
    let given = a.dtype().promote(b.dtype());
    let dtype = working(given);
    let (a, mut b) = (a.astype(dtype)?, b.astype(dtype)?);
    let line = b.rank() == 1;
    if line {
        b = b.expand_dims(&[1])?;
    }
    if b.rank() < 2 {
        return Err(Error::shape(name, "the right side is a scalar"));
    }
    let lead = |x: &Array| Shape::new(&x.shape()[..x.rank() - 2]);
    let shape = Shape::broadcast(name, &lead(&a), &lead(&b))?;
    let full = |x: &Array| {
        let tail = &x.shape()[x.rank() - 2..];
        x.broadcast_to(&shape.iter().chain(tail).copied().collect::<Shape>())
    };
    let x = Array::from_op(Op::Linalg(op), &[full(&a)?, full(&b)?])?;
    let x = back(x, given)?;
    if line { x.squeeze(&[-1]) } else { Ok(x) }
}

/// `x` with `a @ x = b`; `b` with one axis is a vector, else its last two axes are matrices and leading axes
/// broadcast.
pub fn solve(a: &Array, b: &Array) -> Result<Array> {
    system(Linalg::Solve, "solve", a, b)
}

/// [`solve`] with only one triangle of `a`.
pub fn solve_triangular(a: &Array, b: &Array, upper: bool) -> Result<Array> {
    system(Linalg::SolveTriangular { upper }, "solve_triangular", a, b)
}

/// Spacing of numbers near one.
fn epsilon(d: Dtype) -> f64 {
    if d == Dtype::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) }
}

/// Singular values below `rcond` (by default the spacing of numbers times the larger size) times the largest
/// count as zero; gives `v`, the reciprocals of the others, and the adjoint of `u`.
fn inverse_parts(name: &'static str, a: &Array, rcond: Option<f64>) -> Result<(Array, Array, Array)> {
    let (m, n) = matrix_sizes(name, a)?;
    let k = m.min(n);
    let [u, s, vt] = apply(Linalg::Svd { vectors: true }, a)?;
    let rcond = rcond.unwrap_or(epsilon(a.dtype()) * m.max(n) as f64);
    let inverse = if k == 0 {
        s
    } else {
        let limit = s.max(&[-1], true)?.scale(rcond)?;
        Array::select(&s.greater(&limit)?, &s.reciprocal()?, &s.scalar_like(0.0))?
    };
    Ok((adjoint(&vt.slice_axis(-2, 0, k)?)?, inverse, adjoint(&u.slice_axis(-1, 0, k)?)?))
}

/// Moore-Penrose inverse. Singular values below `rcond` times the largest count as zero; by default the spacing
/// of numbers times the larger size.
pub fn pinv(a: &Array, rcond: Option<f64>) -> Result<Array> {
    let wide = a.astype(working(a.dtype()))?;
    let (v, s, uh) = inverse_parts("pinv", &wide, rcond)?;
    back(v.multiply(&s.expand_dims(&[-2])?)?.matmul(&uh)?, a.dtype())
}

/// `x` that minimizes the length of `a @ x - b`, the shortest of those that do; `b` is a vector or matrices, as
/// for [`solve`].
pub fn lstsq(a: &Array, b: &Array, rcond: Option<f64>) -> Result<Array> {
    let given = a.dtype().promote(b.dtype());
    let (a, b) = (a.astype(working(given))?, b.astype(working(given))?);
    let line = b.rank() == 1;
    let (m, _) = matrix_sizes("lstsq", &a)?;
    let b = if line { b.expand_dims(&[1])? } else { b };
    if matrix_sizes("lstsq", &b)?.0 != m {
        let msg = format!("matrices {} and right sides {} do not fit", a.shape(), b.shape());
        return Err(Error::shape("lstsq", msg));
    }
    let (v, s, uh) = inverse_parts("lstsq", &a, rcond)?;
    let x = v.matmul(&s.expand_dims(&[-1])?.multiply(&uh.matmul(&b)?)?)?;
    back(if line { x.squeeze(&[-1])? } else { x }, given)
}

/// Number of singular values above `rtol` (by default the spacing of numbers times the larger size) times the
/// largest, as `int32`.
pub fn matrix_rank(a: &Array, rtol: Option<f64>) -> Result<Array> {
    let (m, n) = matrix_sizes("matrix_rank", a)?;
    let a = a.astype(working(a.dtype()))?;
    let s = svdvals(&a)?;
    if m.min(n) == 0 {
        return Array::zeros(&a.shape()[..a.rank() - 2], Dtype::I32);
    }
    let limit = s.max(&[-1], true)?.scale(rtol.unwrap_or(epsilon(a.dtype()) * m.max(n) as f64))?;
    s.greater(&limit)?.astype(Dtype::I32)?.sum(&[-1], false)
}

/// `a` multiplied with itself `n` times; negative powers are those of the inverse.
pub fn matrix_power(a: &Array, n: i64) -> Result<Array> {
    let (rows, cols) = matrix_sizes("matrix_power", a)?;
    if rows != cols {
        return Err(Error::shape("matrix_power", format!("takes square matrices, got shape {}", a.shape())));
    }
    let base = if n < 0 { inv(a)? } else { a.astype(a.dtype().to_inexact())? };
    let identity = at_or_above(rows, rows, 0)?.logical_and(&at_or_above(rows, rows, 1)?.logical_not()?)?;
    let identity = identity.astype(base.dtype())?.broadcast_to(base.shape())?;
    let (mut square, mut left, mut result) = (base, n.unsigned_abs(), None);
    while left > 0 {
        if left & 1 == 1 {
            result = Some(match result {
                None => square.clone(),
                Some(r) => square.matmul(&r)?,
            });
        }
        left >>= 1;
        if left > 0 {
            square = square.matmul(&square)?;
        }
    }
    Ok(result.unwrap_or(identity))
}

/// Product of several matrices in the order that takes the fewest operations; the first and the last may be
/// vectors.
pub fn multi_dot(arrays: &[Array]) -> Result<Array> {
    let name = "multi_dot";
    let (Some(first), Some(last)) = (arrays.first(), arrays.last()) else {
        return Err(Error::value(name, "takes at least one array"));
    };
    let inner = arrays.iter().skip(1).take(arrays.len().saturating_sub(2));
    if arrays.len() < 2
        || inner.clone().any(|a| a.rank() != 2)
        || !(1..=2).contains(&first.rank())
        || !(1..=2).contains(&last.rank())
    {
        let shapes: Vec<String> = arrays.iter().map(|a| a.shape().to_string()).collect();
        return Err(Error::shape(name, format!("takes two or more matrices, got {}", shapes.join(", "))));
    }
    let mut all = arrays.to_vec();
    let (row, column) = (first.rank() == 1, last.rank() == 1);
    if row {
        all[0] = first.expand_dims(&[0])?;
    }
    let end = all.len() - 1;
    if column {
        all[end] = last.expand_dims(&[1])?;
    }
    // Cost and split of every run of matrices, short runs first (Cormen et al., "Introduction to Algorithms",
    // chapter on dynamic programming).
    let n = all.len();
    let size = |i: usize| if i == 0 { all[0].shape()[0] } else { all[i - 1].shape()[1] };
    let mut cost = vec![vec![0.0f64; n]; n];
    let mut split = vec![vec![0usize; n]; n];
    for len in 2..=n {
        for i in 0..=n - len {
            let j = i + len - 1;
            let outer = size(i) as f64 * size(j + 1) as f64;
            let tries = (i..j).map(|k| (cost[i][k] + cost[k + 1][j] + outer * size(k + 1) as f64, k));
            let best = tries.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, i));
            (cost[i][j], split[i][j]) = best;
        }
    }
    // The splits as products from the inside out, without recursion.
    let (mut open, mut order) = (vec![(0, n - 1)], Vec::new());
    while let Some((i, j)) = open.pop() {
        order.push((i, j));
        if i < j {
            open.push((i, split[i][j]));
            open.push((split[i][j] + 1, j));
        }
    }
    let mut done = std::collections::HashMap::new();
    for (i, j) in order.into_iter().rev() {
        let value = if i == j {
            all[i].clone()
        } else {
            let k = split[i][j];
            match (done.remove(&(i, k)), done.remove(&(k + 1, j))) {
                (Some(a), Some(b)) => Array::matmul(&a, &b)?,
                _ => return Err(Error::value(name, "the order of products is broken")),
            }
        };
        done.insert((i, j), value);
    }
    let y = done.remove(&(0, n - 1)).ok_or_else(|| Error::value(name, "the order of products is broken"))?;
    let y = if column { y.squeeze(&[-1])? } else { y };
    if row { y.squeeze(&[if column { -1 } else { -2 }]) } else { Ok(y) }
}

/// Cross product along an axis of two or three elements; a missing third one is zero. Leading axes broadcast.
pub fn cross(a: &Array, b: &Array, along: i32) -> Result<Array> {
    let name = "cross";
    let (x, y) = (axis(name, along, a.rank())?, axis(name, along, b.rank())?);
    let (a, b) = (a.moveaxis(x as i32, -1)?, b.moveaxis(y as i32, -1)?);
    let sizes = (a.shape()[a.rank() - 1], b.shape()[b.rank() - 1]);
    if !matches!(sizes, (2 | 3, 2 | 3)) {
        let msg = format!("takes axes of 2 or 3 elements, got {} and {}", sizes.0, sizes.1);
        return Err(Error::shape(name, msg));
    }
    let part = |v: &Array, n: usize, i: usize| -> Result<Array> {
        if i < n {
            return v.slice_axis(-1, i, i + 1);
        }
        v.slice_axis(-1, 0, 1)?.full_like(0.0)
    };
    let component = |i: usize, j: usize| -> Result<Array> {
        let (ai, aj) = (part(&a, sizes.0, i)?, part(&a, sizes.0, j)?);
        let (bi, bj) = (part(&b, sizes.1, i)?, part(&b, sizes.1, j)?);
        ai.multiply(&bj)?.subtract(&aj.multiply(&bi)?)
    };
    let y = Array::concatenate(&[component(1, 2)?, component(2, 0)?, component(0, 1)?], -1)?;
    let rank = y.rank();
    let place = if along < 0 { along } else { (along as usize).min(rank - 1) as i32 };
    y.moveaxis(-1, place)
}

/// Order of a norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ord {
    /// Any number; of matrices only 1, -1, 2, -2 and the infinities.
    P(f64),
    /// Root of the sum of squares, of matrices.
    Frobenius,
    /// Sum of singular values, of matrices.
    Nuclear,
}

/// Length of vectors along one axis.
fn vector_norm(a: &Array, p: f64, axes: &[i32], keepdims: bool) -> Result<Array> {
    let size = a.abs()?;
    if p == f64::INFINITY {
        return size.max(axes, keepdims);
    }
    if p == f64::NEG_INFINITY {
        return size.min(axes, keepdims);
    }
    if p == 0.0 {
        let any = a.not_equal(&a.scalar_like(0.0))?;
        return any.astype(size.dtype())?.sum(axes, keepdims);
    }
    if p == 1.0 {
        return size.sum(axes, keepdims);
    }
    if p == 2.0 {
        return size.square()?.sum(axes, keepdims)?.sqrt();
    }
    let sum = size.power(&size.scalar_like(p))?.sum(axes, keepdims)?;
    sum.power(&sum.scalar_like(1.0 / p))
}

/// Norm of vectors (one axis) or matrices (two axes). Without axes: of all elements when there is no order,
/// else of an array of one or two axes. Without an order: the root of the sum of squares.
///
/// # Errors
/// `Value` for an order that the kind of norm does not have; `Shape` for other numbers of axes.
pub fn norm(a: &Array, ord: Option<Ord>, axes: Option<&[i32]>, keepdims: bool) -> Result<Array> {
    let given = a.dtype();
    let wide = a.astype(working(given))?;
    let all: Vec<i32> = (0..a.rank() as i32).collect();
    let y = match (ord, axes) {
        (None, None) => {
            let size = wide.abs()?.square()?;
            if all.is_empty() { size.sqrt() } else { size.sum(&all, keepdims)?.sqrt() }
        }
        (Some(ord), None) => norm_over(&wide, Some(ord), &all, keepdims),
        (ord, Some(axes)) => norm_over(&wide, ord, axes, keepdims),
    }?;
    back(y, given)
}

/// [`norm`] of the matrices of the last two axes, by default Frobenius's.
pub fn matrix_norm(a: &Array, ord: Option<Ord>, keepdims: bool) -> Result<Array> {
    matrix_sizes("matrix_norm", a)?;
    norm(a, Some(ord.unwrap_or(Ord::Frobenius)), Some(&[-2, -1]), keepdims)
}

fn norm_over(a: &Array, ord: Option<Ord>, axes: &[i32], keepdims: bool) -> Result<Array> {
    let bad = |kind: &str| Err(Error::value("norm", format!("{ord:?} is no order of a norm of {kind}")));
    match axes {
        [_] => match ord {
            None => vector_norm(a, 2.0, axes, keepdims),
            Some(Ord::P(p)) if !p.is_nan() => vector_norm(a, p, axes, keepdims),
            Some(Ord::P(_) | Ord::Frobenius | Ord::Nuclear) => bad("vectors"),
        },
        &[r, c] => {
            let rank = a.rank();
            let (r, c) = (axis("norm", r, rank)?, axis("norm", c, rank)?);
            if r == c {
                return Err(Error::shape("norm", format!("axis {r} is given twice")));
            }
            let (r, c) = (r as i32, c as i32);
            // Sums along one axis, then the largest or smallest along the other.
            let sums = |over: i32, rest: i32, largest: bool| -> Result<Array> {
                let s = a.abs()?.sum(&[over], true)?;
                let s = if largest { s.max(&[rest], true)? } else { s.min(&[rest], true)? };
                if keepdims { Ok(s) } else { s.squeeze(&[over, rest]) }
            };
            let singular = |f: &dyn Fn(&Array) -> Result<Array>| -> Result<Array> {
                let mut order: Vec<i32> = (0..rank as i32).filter(|&x| x != r && x != c).collect();
                order.extend([r, c]);
                let s = f(&svdvals(&a.transpose(&order)?)?)?;
                if keepdims { s.expand_dims(&[r, c]) } else { Ok(s) }
            };
            match ord {
                None | Some(Ord::Frobenius) => a.abs()?.square()?.sum(&[r, c], keepdims)?.sqrt(),
                Some(Ord::Nuclear) => singular(&|s| s.sum(&[-1], false)),
                Some(Ord::P(2.0)) => singular(&|s| s.max(&[-1], false)),
                Some(Ord::P(-2.0)) => singular(&|s| s.min(&[-1], false)),
                Some(Ord::P(1.0)) => sums(r, c, true),
                Some(Ord::P(-1.0)) => sums(r, c, false),
                Some(Ord::P(f64::INFINITY)) => sums(c, r, true),
                Some(Ord::P(f64::NEG_INFINITY)) => sums(c, r, false),
                Some(Ord::P(_)) => bad("matrices"),
            }
        }
        _ => {
            let msg = format!("{} axes; a norm is that of vectors or matrices", axes.len());
            Err(Error::shape("norm", msg))
        }
    }
}

impl Array {
    /// Walsh-Hadamard transform of the last axis, of size `m * 2^k` with `m` of 1, 12, 20 or 28, times `scale`
    /// (by default one over the root of the size). Integers become `float32`.
    ///
    /// # Errors
    /// `Shape` for other sizes; `Dtype` for complex numbers.
    pub fn hadamard_transform(&self, scale: Option<f32>) -> Result<Array> {
        if self.dtype().kind() == Kind::Complex {
            return Err(Error::bad_dtype("hadamard_transform", "real numbers", self.dtype()));
        }
        let n = self.shape().last().copied().unwrap_or(1);
        let scale = scale.unwrap_or(1.0 / (n.max(1) as f32).sqrt()).to_bits();
        let x = self.astype(self.dtype().to_inexact())?;
        let x = if x.rank() == 0 { x.expand_dims(&[0])? } else { x };
        let y = Array::from_op(Op::Hadamard(crate::op::Hadamard { scale }), &[x])?;
        if self.rank() == 0 { y.squeeze(&[0]) } else { Ok(y) }
    }
}
