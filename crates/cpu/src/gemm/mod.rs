//! Dense matrix products: `c = alpha * a @ b + beta * c`.
//!
//! Operands are borrowed strided matrices, checked when they are made ([`MatRef`], [`MatMut`]); everything
//! behind them is safe to call with any sizes and strides. Element types are f32, f64, bf16, f16 and
//! [`C64`]; bf16 and f16 are summed in f32 and rounded once, at the end. With `beta` zero, `c` is not read.
//!
//! # Which bits
//! A result does not depend on the number of threads, on how tasks fall on them, or on the other rows of
//! `a`: it depends on its row of `a`, its column of `b`, the sizes `k` and `n`, the strides, the instruction
//! set, and on whether `a` has few rows (up to 16; up to 8 for bf16 where AMX tiles are used; those of a `b`
//! that is read as it lies, see `few`) or more.
//!
//! On AMX tiles and with the vector bfloat16 product (AMD), subnormal bf16 inputs count as zero.

mod batch;
mod blocked;
mod few;
mod kernel;
mod lines;
mod mat;
mod scheme;
mod scratch;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use half::{bf16, f16};

pub use batch::{BatchMut, BatchRef, Offsets};
use blocked::Job;
use kernel::portable::Lanes;
pub use lines::{Grid, Lines, gemm_lines};
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
    /// Computes a product with instructions that the machine has.
    #[doc(hidden)]
    fn run(call: Call<Self>);
    /// The same for a left operand that is made on the way.
    #[doc(hidden)]
    fn run_lines(call: lines::LinesCall<'_, Self>);
}

/// A checked product, on its way to the kernels.
pub struct Call<T> {
    isa: Isa,
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
        } else if job.m <= S::FEW_ROWS && S::few_takes(b) {
            S::few(&job, a, b, c);
        } else {
            blocked::gemm::<S>(&job, a, b, c);
        }
    }
}

/// Instruction sets that there are kernels for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Isa {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// With the bfloat16 dot product of vectors.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    /// With the bfloat16 product of tiles.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Amx,
}

impl Isa {
    /// Whether this machine has the instructions.
    fn runs(self) -> bool {
        match self {
            Isa::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => simd::level() >= Level::Avx2,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => simd::level() >= Level::Avx512,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 => simd::level() >= Level::Avx512Bf16,
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Isa::Amx => simd::amx(),
        }
    }

    /// The fastest that this machine has.
    fn best() -> Isa {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| {
            let by_speed = [
                #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                Isa::Amx,
                // Intel's cores take four times as long for this product as for an f32 one, so
                // widening is faster there; AMD's take as long.
                #[cfg(target_arch = "x86_64")]
                if simd::intel() { Isa::Avx512 } else { Isa::Avx512Bf16 },
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512,
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2,
            ];
            by_speed.into_iter().find(|isa| isa.runs()).unwrap_or(Isa::Portable)
        })
    }
}

macro_rules! element {
    ($elem:ty, amx $amx:ty, bf16 $bf16:ty, avx512 $avx512:ty, avx2 $avx2:ty, portable $portable:ty) => {
        impl sealed::Sealed for $elem {}
        impl Element for $elem {
            fn run(call: Call<$elem>) {
                // SAFETY: a `Call` is made from checked matrices for instructions that the machine has.
                unsafe {
                    match call.isa {
                        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                        Isa::Amx => run::<$amx>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512Bf16 => run::<$bf16>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => run::<$avx512>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => run::<$avx2>(&call),
                        Isa::Portable => run::<$portable>(&call),
                    }
                }
            }
            fn run_lines(call: lines::LinesCall<'_, $elem>) {
                // SAFETY: as above.
                unsafe {
                    match call.isa {
                        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
                        Isa::Amx => lines::run::<$amx>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512Bf16 => lines::run::<$bf16>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => lines::run::<$avx512>(&call),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => lines::run::<$avx2>(&call),
                        Isa::Portable => lines::run::<$portable>(&call),
                    }
                }
            }
        }
    };
    ($elem:ty, avx512 $avx512:ty, avx2 $avx2:ty, portable $portable:ty) => {
        element!($elem, amx $avx512, bf16 $avx512, avx512 $avx512, avx2 $avx2, portable $portable);
    };
}

#[cfg(target_arch = "x86_64")]
use kernel::avx2::{F32x8, F64x4, Half8};
#[cfg(target_arch = "x86_64")]
use kernel::avx512::{F32x16, F64x8, Half16, Pair16};

element!(f32, avx512 Plain<F32x16, true>, avx2 Plain<F32x8, true>, portable Plain<Lanes<f32, 4>, true>);
element!(f64, avx512 Plain<F64x8, true>, avx2 Plain<F64x4, true>, portable Plain<Lanes<f64, 2>, true>);
element!(C64, avx512 Complex<F32x16>, avx2 Complex<F32x8>, portable Complex<Lanes<f32, 4>>);
element!(f16, avx512 Plain<Half16<f16>, false>, avx2 Plain<Half8<f16>, false>, portable Plain<Lanes<f16, 4>, false>);
element!(
    bf16,
    amx scheme::Amx,
    bf16 Plain<Pair16, false>,
    avx512 Plain<Half16<bf16>, false>,
    avx2 Plain<Half8<bf16>, false>,
    portable Plain<Lanes<bf16, 4>, false>
);

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
    gemm_at(Isa::best(), alpha, a, b, beta, c)
}

/// [`gemm`] with given instructions, which the machine must have.
fn gemm_at<T: Element>(
    isa: Isa,
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
    T::run(Call { isa, job, a: a.raw(), b: b.raw(), c: c.raw() });
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
    batch::run(Isa::best(), alpha, a, b, beta, c, batch)
}
