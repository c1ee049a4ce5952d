//! Factorizations of one dense matrix.
//!
//! Every function takes a row-major matrix and writes row-major results into slices of exactly the right
//! length; a wrong length is a [`Failure::Length`]. Matrices without elements are fine.

mod dense;
#[cfg(test)]
mod tests;

use crate::Complex;
use std::fmt;

/// Why there is no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The matrix has no inverse: a pivot is zero.
    Singular,
    /// A pivot of a Cholesky factorization is not positive.
    NotPositiveDefinite,
    /// An iteration did not converge, as with matrices that hold NaN or infinities.
    NoConvergence,
    /// A slice does not have the length that the sizes ask for.
    Length,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Singular => "the matrix is singular",
            Failure::NotPositiveDefinite => "the matrix is not positive definite",
            Failure::NoConvergence => "the iteration did not converge; the matrix may hold NaN or infinities",
            Failure::Length => "a slice does not have the length of its matrix",
        })
    }
}

impl std::error::Error for Failure {}

/// Result of a factorization.
pub type Result<T> = std::result::Result<T, Failure>;

/// Which part of a matrix counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Triangle {
    /// On and below the diagonal.
    Lower,
    /// On and above the diagonal.
    Upper,
}

/// Sign and natural logarithm of the magnitude of a determinant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignLog<T> {
    /// Of magnitude 1, or 0 for a singular matrix.
    pub sign: T,
    /// `-inf` for a singular matrix.
    pub log: f64,
}

/// Element types of the factorizations: `f64` and complex numbers of two `f64`. Narrower types are widened by the
/// caller: that costs time on large matrices, saves the compilation of every factorization for two more types,
/// and leaves results that are right to the last bits of the narrow type.
pub trait Element: Copy + Send + Sync + 'static {
    /// Inverse of an `n` x `n` matrix.
    fn inverse(a: &[Self], n: usize, out: &mut [Self]) -> Result<()>;
    /// Inverse of a triangle of an `n` x `n` matrix; the rest of the result is zero.
    fn triangular_inverse(a: &[Self], n: usize, part: Triangle, out: &mut [Self]) -> Result<()>;
    /// `x` with `a x = b`, for `cols` columns of `b`.
    fn solve(a: &[Self], n: usize, b: &[Self], cols: usize, out: &mut [Self]) -> Result<()>;
    /// The same with only a triangle of `a`.
    fn solve_triangular(
        a: &[Self],
        n: usize,
        part: Triangle,
        b: &[Self],
        cols: usize,
        out: &mut [Self],
    ) -> Result<()>;
    /// Cholesky factor: `L` with `L L^H = a` from the lower triangle, or `U` with `U^H U = a` from the upper.
    fn cholesky(a: &[Self], n: usize, part: Triangle, out: &mut [Self]) -> Result<()>;
    /// Factors of an `m` x `n` matrix by partial pivoting: `L` (unit diagonal, not stored) below the diagonal
    /// of `lu` and `U` on and above it. `rows` says which row of `a` became row `i`; `swaps` says with which
    /// row, from `i` on, row `i` was exchanged.
    fn lu(a: &[Self], m: usize, n: usize, lu: &mut [Self], swaps: &mut [u32], rows: &mut [u32])
    -> Result<()>;
    /// Determinant.
    fn determinant(a: &[Self], n: usize) -> Result<Self>;
    /// Determinant as sign and logarithm.
    fn sign_log_determinant(a: &[Self], n: usize) -> Result<SignLog<Self>>;
    /// `q` (`m` x `k`, orthonormal columns) and `r` (`k` x `n`, upper triangular), `k` the smaller of `m` and
    /// `n`.
    fn qr(a: &[Self], m: usize, n: usize, q: &mut [Self], r: &mut [Self]) -> Result<()>;
    /// Singular values, falling.
    fn singular_values(a: &[Self], m: usize, n: usize, s: &mut [f64]) -> Result<()>;
    /// `u` (`m` x `m`), singular values, and the adjoint of `v` (`n` x `n`).
    fn svd(a: &[Self], m: usize, n: usize, u: &mut [Self], s: &mut [f64], vh: &mut [Self]) -> Result<()>;
    /// Eigenvalues of the Hermitian matrix that a triangle gives, rising.
    fn eigenvalues_hermitian(a: &[Self], n: usize, part: Triangle, w: &mut [f64]) -> Result<()>;
    /// The same with orthonormal eigenvectors, the columns of `v`.
    fn eigen_hermitian(a: &[Self], n: usize, part: Triangle, w: &mut [f64], v: &mut [Self]) -> Result<()>;
    /// Eigenvalues of any square matrix.
    fn eigenvalues(a: &[Self], n: usize, w: &mut [Complex<f64>]) -> Result<()>;
    /// The same with right eigenvectors of length 1 whose largest component is real, the columns of `v`.
    fn eigen(a: &[Self], n: usize, w: &mut [Complex<f64>], v: &mut [Complex<f64>]) -> Result<()>;
}

macro_rules! element {
    ($t:ty, $eigenvalues:ident, $eigen:ident) => {
        impl Element for $t {
            fn inverse(a: &[Self], n: usize, out: &mut [Self]) -> Result<()> {
                dense::inverse(a, n, out)
            }
            fn triangular_inverse(a: &[Self], n: usize, part: Triangle, out: &mut [Self]) -> Result<()> {
                dense::triangular_inverse(a, n, part, out)
            }
            fn solve(a: &[Self], n: usize, b: &[Self], cols: usize, out: &mut [Self]) -> Result<()> {
                dense::solve(a, n, b, cols, out)
            }
            fn solve_triangular(
                a: &[Self],
                n: usize,
                part: Triangle,
                b: &[Self],
                cols: usize,
                out: &mut [Self],
            ) -> Result<()> {
                dense::solve_triangular(a, n, part, b, cols, out)
            }
            fn cholesky(a: &[Self], n: usize, part: Triangle, out: &mut [Self]) -> Result<()> {
                dense::cholesky(a, n, part, out)
            }
            fn lu(
                a: &[Self],
                m: usize,
                n: usize,
                lu: &mut [Self],
                swaps: &mut [u32],
                rows: &mut [u32],
            ) -> Result<()> {
                dense::lu(a, m, n, lu, swaps, rows)
            }
            fn determinant(a: &[Self], n: usize) -> Result<Self> {
                dense::determinant(a, n)
            }
            fn sign_log_determinant(a: &[Self], n: usize) -> Result<SignLog<Self>> {
                dense::sign_log_determinant(a, n)
            }
            fn qr(a: &[Self], m: usize, n: usize, q: &mut [Self], r: &mut [Self]) -> Result<()> {
                dense::qr(a, m, n, q, r)
            }
            fn singular_values(a: &[Self], m: usize, n: usize, s: &mut [f64]) -> Result<()> {
                dense::singular_values(a, m, n, s)
            }
            fn svd(
                a: &[Self],
                m: usize,
                n: usize,
                u: &mut [Self],
                s: &mut [f64],
                vh: &mut [Self],
            ) -> Result<()> {
                dense::svd(a, m, n, u, s, vh)
            }
            fn eigenvalues_hermitian(a: &[Self], n: usize, part: Triangle, w: &mut [f64]) -> Result<()> {
                dense::eigenvalues_hermitian(a, n, part, w)
            }
            fn eigen_hermitian(
                a: &[Self],
                n: usize,
                part: Triangle,
                w: &mut [f64],
                v: &mut [Self],
            ) -> Result<()> {
                dense::eigen_hermitian(a, n, part, w, v)
            }
            fn eigenvalues(a: &[Self], n: usize, w: &mut [Complex<f64>]) -> Result<()> {
                dense::$eigenvalues(a, n, w)
            }
            fn eigen(a: &[Self], n: usize, w: &mut [Complex<f64>], v: &mut [Complex<f64>]) -> Result<()> {
                dense::$eigen(a, n, w, v)
            }
        }
    };
}
element!(f64, eigenvalues_real, eigen_real);
element!(Complex<f64>, eigenvalues_complex, eigen_complex);
