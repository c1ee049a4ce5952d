//! Dense matrix products: `c = alpha * a @ b + beta * c`.
//!
//! Operands are borrowed strided matrices, checked when they are made ([`MatRef`], [`MatMut`]); everything
//! behind them is safe to call with any sizes and strides. Element types are f32, f64, bf16, f16 and
//! [`C64`]; bf16 and f16 are summed in f32 and rounded once, at the end. With `beta` zero, `c` is not read.
//!
//! # Which bits
//! A result does not depend on the number of threads, on how tasks fall on them, or on the other rows of
//! `a`, as long as the same path computes it: it depends on its row of `a`, its column of `b`, the sizes
//! `k` and `n`, the strides, the instruction set, and on whether there are more rows than
//! the few-rows path takes.

mod batch;
mod blocked;
mod few;
mod kernel;
mod mat;
mod scheme;
mod scratch;
#[cfg(test)]
mod tests;

use half::{bf16, f16};

pub use batch::{BatchMut, BatchRef, Offsets};
use blocked::Job;
use kernel::portable::Lanes;
pub use mat::{C64, GemmError, MatMut, MatRef};
use mat::{Raw, RawMut};
use scheme::{Complex, Plain};

use crate::simd::{self, Level};

/// Most rows that the few-rows path takes,
const FEW_ROWS: usize = 16;
/// and most columns, when it runs on the transposed product.
const FEW_COLS: usize = 4;

mod sealed {
    pub trait Sealed {}
}

/// Element types that can be multiplied: f32, f64, bf16, f16 and [`C64`].
pub trait Element: sealed::Sealed + Copy + Send + Sync + 'static {
    /// Computes a product at a level that the machine has.
    #[doc(hidden)]
    fn run(call: Call<Self>);
}

/// A checked product, on its way to the kernels.
pub struct Call<T> {
    level: Level,
    job: Job,
    a: Raw<T>,
    b: Raw<T>,
    c: RawMut<T>,
}

/// Chooses the path for a scheme.
///
/// The order matters for the promise about bits: a single column goes the same way however many rows
/// there are.
///
/// # Safety
/// As [`blocked::gemm`].
unsafe fn run<S: scheme::Scheme>(call: &Call<S::Elem>) {
    let &Call { job, a, b, c, .. } = call;
    if job.m == 0 || job.n == 0 {
        return;
    }
    // SAFETY: the caller's promise; the transposed product is the same sums.
    unsafe {
        if job.k == 0 {
            blocked::scale::<S>(&job, c);
        } else if job.n <= FEW_COLS && S::few_takes(a.t()) {
            S::few(&Job { m: job.n, n: job.m, ..job }, b.t(), a.t(), c.t());
        } else if job.m <= FEW_ROWS && S::few_takes(b) {
            S::few(&job, a, b, c);
        } else {
            blocked::gemm::<S>(&job, a, b, c);
        }
    }
}

macro_rules! element {
    ($elem:ty, $bf16:ty, $avx512:ty, $avx2:ty, $portable:ty) => {
        impl sealed::Sealed for $elem {}
        impl Element for $elem {
            fn run(call: Call<$elem>) {
                // SAFETY: a `Call` is made from checked matrices at a level that the machine has.
                unsafe {
                    match call.level {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512Bf16 => run::<$bf16>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => run::<$avx512>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => run::<$avx2>(&call),
                        #[cfg(not(target_arch = "x86_64"))]
                        Level::Avx512Bf16 | Level::Avx512 | Level::Avx2 => run::<$portable>(&call),
                        Level::Portable => run::<$portable>(&call),
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
use kernel::avx2::{F32x8, F64x4, Half8};
#[cfg(target_arch = "x86_64")]
use kernel::avx512::{F32x16, F64x8, Half16, Pair16};

element!(f32, Plain<F32x16, true>, Plain<F32x16, true>, Plain<F32x8, true>, Plain<Lanes<f32, 4>, true>);
element!(f64, Plain<F64x8, true>, Plain<F64x8, true>, Plain<F64x4, true>, Plain<Lanes<f64, 2>, true>);
element!(bf16, Plain<Pair16, false>, Plain<Half16<bf16>, false>, Plain<Half8<bf16>, false>, Plain<Lanes<bf16, 4>, false>);
element!(
    f16,
    Plain<Half16<f16>, false>,
    Plain<Half16<f16>, false>,
    Plain<Half8<f16>, false>,
    Plain<Lanes<f16, 4>, false>
);
element!(C64, Complex<F32x16>, Complex<F32x16>, Complex<F32x8>, Complex<Lanes<f32, 4>>);

/// `c = alpha * a @ b + beta * c`.
///
/// # Errors
/// [`GemmError::Shape`] if the sizes do not match.
pub fn gemm<T: Element>(
    alpha: f32,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: f32,
    c: MatMut<'_, T>,
) -> Result<(), GemmError> {
    gemm_at(simd::level(), alpha, a, b, beta, c)
}

/// [`gemm`] at a given level, which the machine must have.
fn gemm_at<T: Element>(
    level: Level,
    alpha: f32,
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    beta: f32,
    mut c: MatMut<'_, T>,
) -> Result<(), GemmError> {
    if a.cols() != b.rows() || c.rows() != a.rows() || c.cols() != b.cols() {
        return Err(GemmError::Shape {
            a: (a.rows(), a.cols()),
            b: (b.rows(), b.cols()),
            c: (c.rows(), c.cols()),
        });
    }
    let job = Job { m: a.rows(), n: b.cols(), k: a.cols(), alpha, beta };
    T::run(Call { level, job, a: a.raw(), b: b.raw(), c: c.raw() });
    Ok(())
}

/// `c = alpha * a @ b + beta * c` for every entry of `batch`, which says where its three matrices begin.
///
/// Small products are spread over the threads whole, large ones are split inside. Operands may be shared
/// between entries (broadcast). Outputs that overlap are written in the order of `batch`. Entries that are
/// the consecutive row blocks of one product with a common `b` are computed as that product.
///
/// # Errors
/// [`GemmError::Shape`] if the sizes do not match, [`GemmError::Bounds`] or [`GemmError::Overlap`] if a
/// matrix leaves its slice or has overlapping output rows; `c` is then unchanged.
pub fn gemm_batched<T: Element>(
    alpha: f32,
    a: BatchRef<'_, T>,
    b: BatchRef<'_, T>,
    beta: f32,
    c: BatchMut<'_, T>,
    batch: &[Offsets],
) -> Result<(), GemmError> {
    batch::run(simd::level(), alpha, a, b, beta, c, batch)
}
