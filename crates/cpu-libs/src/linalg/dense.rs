//! The factorizations, generic over the element.

use super::{Complex, Failure, Result, SignLog, Triangle};
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor::{lu_in_place, lu_in_place_scratch};
use faer::linalg::solvers::{DenseSolveCore, Eigen, Llt, PartialPivLu, Qr, SelfAdjointEigen, Solve, Svd};
use faer::linalg::triangular_inverse::{invert_lower_triangular, invert_upper_triangular};
use faer::linalg::triangular_solve::{solve_lower_triangular_in_place, solve_upper_triangular_in_place};
use faer::traits::{ComplexField, Conjugate};
use faer::{Mat, MatRef, Par, Side};
use std::ops::{Add, Mul, Neg};

/// What the functions here need of an element.
pub(super) trait Number:
    ComplexField<Real = f64>
    + Conjugate<Canonical = Self>
    + Copy
    + Add<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
{
}
impl<T> Number for T where
    T: ComplexField<Real = f64>
        + Conjugate<Canonical = T>
        + Copy
        + Add<Output = T>
        + Mul<Output = T>
        + Neg<Output = T>
{
}

fn side(part: Triangle) -> Side {
    match part {
        Triangle::Lower => Side::Lower,
        Triangle::Upper => Side::Upper,
    }
}

/// The matrix that fills a slice.
fn matrix<T>(a: &[T], rows: usize, cols: usize) -> Result<MatRef<'_, T>> {
    if Some(a.len()) != rows.checked_mul(cols) {
        return Err(Failure::Length);
    }
    Ok(MatRef::from_row_major_slice(a, rows, cols))
}

/// Writes `rows` x `cols` elements, row by row.
fn write<T: Copy>(out: &mut [T], rows: usize, cols: usize, value: impl Fn(usize, usize) -> T) -> Result<()> {
    if Some(out.len()) != rows.checked_mul(cols) {
        return Err(Failure::Length);
    }
    for i in 0..rows {
        for j in 0..cols {
            out[i * cols + j] = value(i, j);
        }
    }
    Ok(())
}

fn zero<T: Number>() -> T {
    T::zero_impl()
}

fn is_zero<T: Number>(x: T) -> bool {
    x == zero()
}

/// Packed factors, and the row of `a` that became row `i`.
fn factor<T: Number>(a: MatRef<'_, T>) -> (Mat<T>, Vec<usize>) {
    let (m, n) = a.shape();
    let mut lu = a.to_owned();
    let (mut forward, mut backward) = (vec![0usize; m], vec![0usize; m]);
    let need = lu_in_place_scratch::<usize, T>(m, n, Par::Seq, Default::default());
    let mut memory = MemBuffer::new(need);
    let stack = MemStack::new(&mut memory);
    lu_in_place(lu.as_mut(), &mut forward, &mut backward, Par::Seq, stack, Default::default());
    // The library divides by pivots that are zero; then a plain elimination goes on without them.
    let finite = |m: MatRef<'_, T>| (0..n).all(|j| (0..m.nrows()).all(|i| T::is_finite_impl(&m[(i, j)])));
    if !finite(lu.as_ref()) && finite(a) {
        return eliminate(a);
    }
    (lu, forward)
}

/// [`factor`] that leaves columns without a pivot as they are.
fn eliminate<T: Number>(a: MatRef<'_, T>) -> (Mat<T>, Vec<usize>) {
    let (m, n) = a.shape();
    let mut lu = a.to_owned();
    let mut order: Vec<usize> = (0..m).collect();
    for c in 0..m.min(n) {
        let size = |i: usize| T::abs_impl(&lu[(i, c)]);
        let pivot = (c..m).fold(c, |best, i| if size(i) > size(best) { i } else { best });
        if is_zero(lu[(pivot, c)]) {
            continue;
        }
        order.swap(c, pivot);
        for j in 0..n {
            let above = lu[(c, j)];
            lu[(c, j)] = lu[(pivot, j)];
            lu[(pivot, j)] = above;
        }
        let scale = T::recip_impl(&lu[(c, c)]);
        for i in c + 1..m {
            let factor = lu[(i, c)] * scale;
            lu[(i, c)] = factor;
            for j in c + 1..n {
                lu[(i, j)] = lu[(i, j)] + -(factor * lu[(c, j)]);
            }
        }
    }
    (lu, order)
}

pub(super) fn inverse<T: Number>(a: &[T], n: usize, out: &mut [T]) -> Result<()> {
    let lu = PartialPivLu::new(matrix(a, n, n)?);
    let u = lu.U();
    if (0..n).any(|i| is_zero(u[(i, i)])) {
        return Err(Failure::Singular);
    }
    let inverse = lu.inverse();
    write(out, n, n, |i, j| inverse[(i, j)])
}

pub(super) fn triangular_inverse<T: Number>(a: &[T], n: usize, part: Triangle, out: &mut [T]) -> Result<()> {
    let a = matrix(a, n, n)?;
    if (0..n).any(|i| is_zero(a[(i, i)])) {
        return Err(Failure::Singular);
    }
    let a = a.to_owned();
    let mut x = Mat::<T>::zeros(n, n);
    match part {
        Triangle::Lower => invert_lower_triangular(x.as_mut(), a.as_ref(), Par::Seq),
        Triangle::Upper => invert_upper_triangular(x.as_mut(), a.as_ref(), Par::Seq),
    }
    write(out, n, n, |i, j| x[(i, j)])
}

pub(super) fn solve<T: Number>(a: &[T], n: usize, b: &[T], cols: usize, out: &mut [T]) -> Result<()> {
    let lu = PartialPivLu::new(matrix(a, n, n)?);
    let u = lu.U();
    if (0..n).any(|i| is_zero(u[(i, i)])) {
        return Err(Failure::Singular);
    }
    let x = lu.solve(matrix(b, n, cols)?);
    write(out, n, cols, |i, j| x[(i, j)])
}

pub(super) fn solve_triangular<T: Number>(
    a: &[T],
    n: usize,
    part: Triangle,
    b: &[T],
    cols: usize,
    out: &mut [T],
) -> Result<()> {
    let a = matrix(a, n, n)?;
    if (0..n).any(|i| is_zero(a[(i, i)])) {
        return Err(Failure::Singular);
    }
    let mut x = matrix(b, n, cols)?.to_owned();
    match part {
        Triangle::Lower => solve_lower_triangular_in_place(a, x.as_mut(), Par::Seq),
        Triangle::Upper => solve_upper_triangular_in_place(a, x.as_mut(), Par::Seq),
    }
    write(out, n, cols, |i, j| x[(i, j)])
}

pub(super) fn cholesky<T: Number>(a: &[T], n: usize, part: Triangle, out: &mut [T]) -> Result<()> {
    let llt = Llt::new(matrix(a, n, n)?, side(part)).map_err(|_| Failure::NotPositiveDefinite)?;
    let l = llt.L();
    match part {
        Triangle::Lower => write(out, n, n, |i, j| if j <= i { l[(i, j)] } else { zero() }),
        Triangle::Upper => write(out, n, n, |i, j| if j >= i { T::conj_impl(&l[(j, i)]) } else { zero() }),
    }
}

pub(super) fn lu<T: Number>(
    a: &[T],
    m: usize,
    n: usize,
    out: &mut [T],
    swaps: &mut [u32],
    rows: &mut [u32],
) -> Result<()> {
    let (lu, order) = factor(matrix(a, m, n)?);
    if swaps.len() != m.min(n) || rows.len() != m {
        return Err(Failure::Length);
    }
    // The exchanges that lead from rising order to `order`.
    let mut now: Vec<usize> = (0..m).collect();
    let mut place = now.clone();
    for (i, swap) in swaps.iter_mut().enumerate() {
        let at = place[order[i]];
        *swap = at as u32;
        now.swap(i, at);
        place[now[i]] = i;
        place[now[at]] = at;
    }
    for (row, &from) in rows.iter_mut().zip(&order) {
        *row = from as u32;
    }
    write(out, m, n, |i, j| lu[(i, j)])
}

/// Whether a permutation is an odd number of exchanges.
fn is_odd(order: &[usize]) -> bool {
    let mut seen = vec![false; order.len()];
    let mut exchanges = 0;
    for start in 0..order.len() {
        let mut i = start;
        while !std::mem::replace(&mut seen[i], true) {
            i = order[i];
            exchanges += usize::from(i != start);
        }
    }
    exchanges % 2 == 1
}

pub(super) fn determinant<T: Number>(a: &[T], n: usize) -> Result<T> {
    let (lu, order) = factor(matrix(a, n, n)?);
    let one = T::one_impl();
    let sign = if is_odd(&order) { -one } else { one };
    Ok((0..n).fold(sign, |d, i| d * lu[(i, i)]))
}

pub(super) fn sign_log_determinant<T: Number>(a: &[T], n: usize) -> Result<SignLog<T>> {
    let (lu, order) = factor(matrix(a, n, n)?);
    let one = T::one_impl();
    let mut sign = if is_odd(&order) { -one } else { one };
    let mut log = 0.0;
    for i in 0..n {
        let d = lu[(i, i)];
        if is_zero(d) {
            return Ok(SignLog { sign: zero(), log: f64::NEG_INFINITY });
        }
        let size = T::abs_impl(&d);
        sign *= T::mul_real_impl(&d, &size.recip());
        log += size.ln();
    }
    Ok(SignLog { sign, log })
}

pub(super) fn qr<T: Number>(a: &[T], m: usize, n: usize, q: &mut [T], r: &mut [T]) -> Result<()> {
    let k = m.min(n);
    let qr = Qr::new(matrix(a, m, n)?);
    let (basis, top) = (qr.compute_thin_Q(), qr.thin_R());
    write(q, m, k, |i, j| basis[(i, j)])?;
    write(r, k, n, |i, j| if j >= i { top[(i, j)] } else { zero() })
}

/// Iterations do not end well on values that are not finite.
fn check_finite<T: Number>(a: &[T]) -> Result<()> {
    if a.iter().all(T::is_finite_impl) { Ok(()) } else { Err(Failure::NoConvergence) }
}

pub(super) fn singular_values<T: Number>(a: &[T], m: usize, n: usize, s: &mut [f64]) -> Result<()> {
    check_finite(a)?;
    let values = matrix(a, m, n)?.singular_values().map_err(|_| Failure::NoConvergence)?;
    write(s, 1, m.min(n), |_, j| values[j])
}

pub(super) fn svd<T: Number>(
    a: &[T],
    m: usize,
    n: usize,
    u: &mut [T],
    s: &mut [f64],
    vh: &mut [T],
) -> Result<()> {
    check_finite(a)?;
    let svd = Svd::new(matrix(a, m, n)?).map_err(|_| Failure::NoConvergence)?;
    let (left, right, values) = (svd.U(), svd.V(), svd.S());
    write(u, m, m, |i, j| left[(i, j)])?;
    write(s, 1, m.min(n), |_, j| T::real_part_impl(&values[j]))?;
    write(vh, n, n, |i, j| T::conj_impl(&right[(j, i)]))
}

pub(super) fn eigenvalues_hermitian<T: Number>(
    a: &[T],
    n: usize,
    part: Triangle,
    w: &mut [f64],
) -> Result<()> {
    check_finite(a)?;
    let a = matrix(a, n, n)?;
    // The library cannot count what is left of no rows.
    if n == 0 {
        return Ok(());
    }
    let values = a.self_adjoint_eigenvalues(side(part)).map_err(|_| Failure::NoConvergence)?;
    write(w, 1, n, |_, j| values[j])
}

pub(super) fn eigen_hermitian<T: Number>(
    a: &[T],
    n: usize,
    part: Triangle,
    w: &mut [f64],
    v: &mut [T],
) -> Result<()> {
    check_finite(a)?;
    let a = matrix(a, n, n)?;
    if n == 0 {
        return Ok(());
    }
    let e = SelfAdjointEigen::new(a, side(part)).map_err(|_| Failure::NoConvergence)?;
    let (vectors, values) = (e.U(), e.S());
    write(w, 1, n, |_, j| T::real_part_impl(&values[j]))?;
    write(v, n, n, |i, j| vectors[(i, j)])
}

pub(super) fn eigenvalues_real(a: &[f64], n: usize, w: &mut [Complex<f64>]) -> Result<()> {
    check_finite(a)?;
    let a = matrix(a, n, n)?;
    // Fewer than one row is more than the library can count.
    let values = if n == 0 { Vec::new() } else { a.eigenvalues().map_err(|_| Failure::NoConvergence)? };
    write(w, 1, n, |_, j| values[j])
}

pub(super) fn eigenvalues_complex(a: &[Complex<f64>], n: usize, w: &mut [Complex<f64>]) -> Result<()> {
    check_finite(a)?;
    let a = matrix(a, n, n)?;
    let values = if n == 0 { Vec::new() } else { a.eigenvalues().map_err(|_| Failure::NoConvergence)? };
    write(w, 1, n, |_, j| values[j])
}

pub(super) fn eigen_real(a: &[f64], n: usize, w: &mut [Complex<f64>], v: &mut [Complex<f64>]) -> Result<()> {
    check_finite(a)?;
    let a = matrix(a, n, n)?;
    if n == 0 {
        return Ok(());
    }
    eigen_results(&Eigen::new_from_real(a).map_err(|_| Failure::NoConvergence)?, n, w, v)
}

pub(super) fn eigen_complex(
    a: &[Complex<f64>],
    n: usize,
    w: &mut [Complex<f64>],
    v: &mut [Complex<f64>],
) -> Result<()> {
    check_finite(a)?;
    let a = matrix(a, n, n)?;
    if n == 0 {
        return Ok(());
    }
    eigen_results(&Eigen::<f64>::new(a).map_err(|_| Failure::NoConvergence)?, n, w, v)
}

fn eigen_results(e: &Eigen<f64>, n: usize, w: &mut [Complex<f64>], v: &mut [Complex<f64>]) -> Result<()> {
    let (vectors, values) = (e.U(), e.S());
    write(w, 1, n, |_, j| values[j])?;
    write(v, n, n, |i, j| vectors[(i, j)])?;
    for j in 0..n {
        let column = || (0..n).map(|i| i * n + j);
        let length = column().map(|i| v[i].norm_sqr()).sum::<f64>().sqrt();
        let larger = |a: Complex<f64>, b: Complex<f64>| if b.norm_sqr() > a.norm_sqr() { b } else { a };
        let largest = column().map(|i| v[i]).fold(Complex::default(), larger);
        if length == 0.0 || !length.is_finite() {
            continue;
        }
        // A real vector keeps its sign.
        let turn = if largest.im == 0.0 { Complex::new(1.0, 0.0) } else { largest.conj() / largest.norm() };
        for i in column() {
            v[i] = v[i] * turn / length;
        }
    }
    Ok(())
}
