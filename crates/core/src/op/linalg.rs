//! Factorizations and systems of equations, matrix by matrix over leading axes.

use super::{Meta, Metas, arity, one};
use crate::shape::Shape;
use crate::{Dtype, Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// What is computed of every matrix `a[…, m, n]` of `float32`, `float64` or `complex64` elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Linalg {
    /// Inverse of a square matrix; one that is singular is a `Value` error when the operation runs.
    Inverse,
    /// Inverse of a triangle of a square matrix, zero elsewhere.
    TriangularInverse {
        /// The triangle on and above the diagonal.
        upper: bool,
    },
    /// Arguments `a[…, n, n]`, `b[…, n, k]`: `x` with `a x = b`.
    Solve,
    /// The same with only a triangle of `a`.
    SolveTriangular {
        /// The triangle on and above the diagonal.
        upper: bool,
    },
    /// Cholesky factor of a positive definite matrix, from one of its triangles.
    Cholesky {
        /// `U` with `U^H U = a` from the upper triangle, rather than `L` with `L L^H = a` from the lower.
        upper: bool,
    },
    /// Results: `L` and `U` in one matrix, row exchanges (`u32[…, k]`), and which row of `a` became which
    /// row of the product (`u32[…, m]`), with `k` the smaller of `m` and `n`.
    Lu,
    /// Determinant.
    Det,
    /// Results: sign (or phase) and logarithm of the magnitude of the determinant.
    SlogDet,
    /// Results: `q[…, m, k]` and `r[…, k, n]`.
    Qr,
    /// Results: singular values; before and after them `u[…, m, m]` and `v^H[…, n, n]` if asked for.
    Svd {
        /// With singular vectors.
        vectors: bool,
    },
    /// Results: eigenvalues of a Hermitian matrix, rising; then its eigenvectors if asked for.
    Eigh {
        /// The matrix is what the upper triangle says.
        upper: bool,
        /// With eigenvectors.
        vectors: bool,
    },
    /// Results: eigenvalues as `complex64`; then right eigenvectors if asked for.
    Eig {
        /// With eigenvectors.
        vectors: bool,
    },
}

impl Linalg {
    pub(super) fn name(self) -> &'static str {
        match self {
            Linalg::Inverse => "inv",
            Linalg::TriangularInverse { .. } => "tri_inv",
            Linalg::Solve => "solve",
            Linalg::SolveTriangular { .. } => "solve_triangular",
            Linalg::Cholesky { .. } => "cholesky",
            Linalg::Lu => "lu",
            Linalg::Det => "det",
            Linalg::SlogDet => "slogdet",
            Linalg::Qr => "qr",
            Linalg::Svd { .. } => "svd",
            Linalg::Eigh { .. } => "eigh",
            Linalg::Eig { .. } => "eig",
        }
    }

    fn wants_square(self) -> bool {
        match self {
            Linalg::Lu | Linalg::Qr | Linalg::Svd { .. } => false,
            Linalg::Inverse
            | Linalg::TriangularInverse { .. }
            | Linalg::Solve
            | Linalg::SolveTriangular { .. }
            | Linalg::Cholesky { .. }
            | Linalg::Det
            | Linalg::SlogDet
            | Linalg::Eigh { .. }
            | Linalg::Eig { .. } => true,
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        let (a, b) = match self {
            Linalg::Solve | Linalg::SolveTriangular { .. } => {
                let [a, b] = arity(name, inputs)?;
                (a, Some(b))
            }
            Linalg::Inverse
            | Linalg::TriangularInverse { .. }
            | Linalg::Cholesky { .. }
            | Linalg::Lu
            | Linalg::Det
            | Linalg::SlogDet
            | Linalg::Qr
            | Linalg::Svd { .. }
            | Linalg::Eigh { .. }
            | Linalg::Eig { .. } => {
                let [a] = arity(name, inputs)?;
                (a, None)
            }
        };
        if !matches!(a.dtype, Dtype::F32 | Dtype::F64 | Dtype::C64) {
            return Err(Error::bad_dtype(name, "float32, float64 or complex64", a.dtype));
        }
        let r = a.shape.rank();
        if r < 2 {
            return Err(Error::shape(name, format!("takes matrices, got shape {}", a.shape)));
        }
        let (lead, m, n) = (&a.shape[..r - 2], a.shape[r - 2], a.shape[r - 1]);
        if self.wants_square() && m != n {
            return Err(Error::shape(name, format!("takes square matrices, got shape {}", a.shape)));
        }
        if m > u32::MAX as usize {
            return Err(Error::shape(name, format!("{m} rows are more than uint32 can number")));
        }
        if let Some(b) = b {
            let fits =
                b.dtype == a.dtype && b.shape.rank() == r && b.shape[..r - 2] == *lead && b.shape[r - 2] == n;
            if !fits {
                let msg = format!(
                    "matrices {} of shape {} and right sides {} of shape {} do not fit",
                    a.dtype, a.shape, b.dtype, b.shape
                );
                return Err(Error::shape(name, msg));
            }
            return one(b.shape.clone(), b.dtype);
        }
        let (k, real) = (m.min(n), if a.dtype == Dtype::C64 { Dtype::F32 } else { a.dtype });
        let full = |tail: &[usize], dtype| -> Result<Meta> {
            let dims: Vec<usize> = lead.iter().chain(tail).copied().collect();
            Ok(Meta::new(Shape::checked(name, &dims)?, dtype))
        };
        let metas: SmallVec<[Meta; 1]> = match self {
            Linalg::Inverse | Linalg::TriangularInverse { .. } | Linalg::Cholesky { .. } => {
                SmallVec::from_iter([a.clone()])
            }
            Linalg::Solve | Linalg::SolveTriangular { .. } => SmallVec::new(),
            Linalg::Lu => {
                SmallVec::from_vec(vec![a.clone(), full(&[k], Dtype::U32)?, full(&[m], Dtype::U32)?])
            }
            Linalg::Det => SmallVec::from_iter([full(&[], a.dtype)?]),
            Linalg::SlogDet => SmallVec::from_vec(vec![full(&[], a.dtype)?, full(&[], real)?]),
            Linalg::Qr => SmallVec::from_vec(vec![full(&[m, k], a.dtype)?, full(&[k, n], a.dtype)?]),
            Linalg::Svd { vectors: false } => SmallVec::from_iter([full(&[k], real)?]),
            Linalg::Svd { vectors: true } => {
                SmallVec::from_vec(vec![full(&[m, m], a.dtype)?, full(&[k], real)?, full(&[n, n], a.dtype)?])
            }
            Linalg::Eigh { vectors: false, .. } => SmallVec::from_iter([full(&[n], real)?]),
            Linalg::Eigh { vectors: true, .. } => SmallVec::from_vec(vec![full(&[n], real)?, a.clone()]),
            Linalg::Eig { vectors: false } => SmallVec::from_iter([full(&[n], Dtype::C64)?]),
            Linalg::Eig { vectors: true } => {
                SmallVec::from_vec(vec![full(&[n], Dtype::C64)?, full(&[n, n], Dtype::C64)?])
            }
        };
        Ok(metas)
    }
}
