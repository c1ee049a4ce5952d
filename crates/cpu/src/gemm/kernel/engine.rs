//! The kernels of every vector type, compiled with its instruction set.

use half::{bf16, f16};

#[cfg(target_arch = "x86_64")]
use super::avx2::{F32x8, F64x4, Half8};
#[cfg(target_arch = "x86_64")]
use super::avx512::{F32x16, F64x8, Half16, Pair16};
use super::few::{Dot, Line, Rows};
use super::portable::Lanes;
use super::{Finish, Pack, Table, Tile, Vector};

/// Entry points for one vector type.
///
/// # Safety
/// The functions require the instruction set of the type, and what the generic kernels of the same name
/// in the parent module say.
pub(in super::super) trait Engine: Vector {
    /// Micro-kernels by rows and width in vectors; its length is the most rows that fit in registers.
    const TABLE: Table<Self::Packed, Self::Acc>;
    unsafe fn pack(p: &Pack<Self::Elem, Self::Packed>);
    unsafe fn finish(f: &Finish<Self::Elem, Self::Acc>);
    unsafe fn pack_line(l: &Line<Self::Elem, Self::Packed>);
    unsafe fn dot(d: &Dot<Self::Elem, Self::Packed, Self::Acc>);
    unsafe fn reduce_groups(sums: *mut Self::Acc, n: usize);
    unsafe fn rows(r: &Rows<Self::Elem, Self::Packed, Self::Acc>);
}

/// The tables of two types that are packed the same way are one.
macro_rules! engine {
    (@table $vector:ty, [$($rows:literal)*] $(, $features:literal)?) => {
        {
            $(#[target_feature(enable = $features)])?
            unsafe fn micro<const R: usize, const W: usize>(
                t: &Tile<<$vector as Vector>::Packed, <$vector as Vector>::Acc>,
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::micro::<$vector, R, W>(t) }
            }
            &[$([micro::<$rows, 1>, micro::<$rows, 2>]),*]
        }
    };
    (@table $vector:ty, (as $other:ty) $(, $features:literal)?) => { <$other>::TABLE };
    ($vector:ty, $table:tt $(, $features:literal)?) => {
        impl Engine for $vector {
            const TABLE: Table<Self::Packed, Self::Acc> = engine!(@table $vector, $table $(, $features)?);
            unsafe fn pack(x: &Pack<Self::Elem, Self::Packed>) {
                $(#[target_feature(enable = $features)])?
                unsafe fn run(x: &Pack<<$vector as Vector>::Elem, <$vector as Vector>::Packed>) {
                    // SAFETY: the caller's promise.
                    unsafe { super::pack::<$vector>(x) }
                }
                // SAFETY: the caller's promise.
                unsafe { run(x) }
            }
            unsafe fn finish(x: &Finish<Self::Elem, Self::Acc>) {
                $(#[target_feature(enable = $features)])?
                unsafe fn run(x: &Finish<<$vector as Vector>::Elem, <$vector as Vector>::Acc>) {
                    // SAFETY: the caller's promise.
                    unsafe { super::finish::<$vector>(x) }
                }
                // SAFETY: the caller's promise.
                unsafe { run(x) }
            }
            unsafe fn pack_line(x: &Line<Self::Elem, Self::Packed>) {
                $(#[target_feature(enable = $features)])?
                unsafe fn run(x: &Line<<$vector as Vector>::Elem, <$vector as Vector>::Packed>) {
                    // SAFETY: the caller's promise.
                    unsafe { super::few::pack_line::<$vector>(x) }
                }
                // SAFETY: the caller's promise.
                unsafe { run(x) }
            }
            unsafe fn dot(x: &Dot<Self::Elem, Self::Packed, Self::Acc>) {
                $(#[target_feature(enable = $features)])?
                unsafe fn run(x: &Dot<<$vector as Vector>::Elem, <$vector as Vector>::Packed, <$vector as Vector>::Acc>) {
                    // SAFETY: the caller's promise.
                    unsafe { super::few::dot::<$vector>(x) }
                }
                // SAFETY: the caller's promise.
                unsafe { run(x) }
            }
            unsafe fn reduce_groups(sums: *mut Self::Acc, n: usize) {
                $(#[target_feature(enable = $features)])?
                unsafe fn run(sums: *mut <$vector as Vector>::Acc, n: usize) {
                    // SAFETY: the caller's promise.
                    unsafe { super::few::reduce::<$vector>(sums, n) }
                }
                // SAFETY: the caller's promise.
                unsafe { run(sums, n) }
            }
            unsafe fn rows(x: &Rows<Self::Elem, Self::Packed, Self::Acc>) {
                $(#[target_feature(enable = $features)])?
                unsafe fn run(x: &Rows<<$vector as Vector>::Elem, <$vector as Vector>::Packed, <$vector as Vector>::Acc>) {
                    // SAFETY: the caller's promise.
                    unsafe { super::few::rows::<$vector>(x) }
                }
                // SAFETY: the caller's promise.
                unsafe { run(x) }
            }
        }
    };
}

// Of 32 registers, 28 hold sums, two the columns of a step and one the row being multiplied.
#[cfg(target_arch = "x86_64")]
macro_rules! avx512 {
    ($vector:ty, $table:tt) => {
        engine!($vector, $table, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c");
    };
}
#[cfg(target_arch = "x86_64")]
avx512!(F32x16, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
#[cfg(target_arch = "x86_64")]
avx512!(Half16<bf16>, (as F32x16));
#[cfg(target_arch = "x86_64")]
avx512!(Half16<f16>, (as F32x16));
#[cfg(target_arch = "x86_64")]
avx512!(F64x8, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]);
#[cfg(target_arch = "x86_64")]
engine!(
    Pair16,
    [1 2 3 4 5 6 7 8 9 10 11 12 13 14],
    "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c"
);

// Of 16 registers, twelve hold sums.
#[cfg(target_arch = "x86_64")]
engine!(F32x8, [1 2 3 4 5 6], "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
engine!(Half8<bf16>, (as F32x8), "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
engine!(Half8<f16>, (as F32x8), "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
engine!(F64x4, [1 2 3 4 5 6], "avx2,fma,f16c");

engine!(Lanes<f32, 4>, [1 2 3 4]);
engine!(Lanes<bf16, 4>, (as Lanes<f32, 4>));
engine!(Lanes<f16, 4>, (as Lanes<f32, 4>));
engine!(Lanes<f64, 2>, [1 2 3 4]);
