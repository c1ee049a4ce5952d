//! How a scattered value meets what is there.

use crate::kernels::operand::with_size;
use crate::kernels::reduce::Extreme;
use half::{bf16, f16};
use olivine_core::op::ScatterMode;
use olivine_core::{Bool8, Complex64, Dtype};

/// A rule for meeting.
trait Combine<T>: 'static {
    /// The new value stays whatever is there.
    const REPLACES: bool = false;
    /// What results from `here` and the scattered `new`.
    fn combine(here: T, new: T) -> T;
}

struct Set;
struct Add;
struct Prod;
struct Max;
struct Min;

impl<T> Combine<T> for Set {
    const REPLACES: bool = true;
    #[inline(always)]
    fn combine(_here: T, new: T) -> T {
        new
    }
}

macro_rules! combine {
    ($($t:ty: $here:ident, $new:ident => $add:expr, $prod:expr, $max:expr, $min:expr;)*) => { $(
        impl Combine<$t> for Add {
            #[inline(always)]
            fn combine($here: $t, $new: $t) -> $t { $add }
        }
        impl Combine<$t> for Prod {
            #[inline(always)]
            fn combine($here: $t, $new: $t) -> $t { $prod }
        }
        impl Combine<$t> for Max {
            #[inline(always)]
            fn combine($here: $t, $new: $t) -> $t { $max }
        }
        impl Combine<$t> for Min {
            #[inline(always)]
            fn combine($here: $t, $new: $t) -> $t { $min }
        }
    )* };
}
macro_rules! integers {
    ($($t:ty),*) => { $( combine! { $t: a, b => a.wrapping_add(b), a.wrapping_mul(b), a.max(b), a.min(b); } )* };
}
integers!(u8, u16, u32, u64, i8, i16, i32, i64);
macro_rules! floats {
    ($($t:ty),*) => { $( combine! { $t: a, b => a + b, a * b,
        // NaN on either side stays.
        if b > a || b.is_nan() { b } else { a },
        if b < a || b.is_nan() { b } else { a }; } )* };
}
floats!(f32, f64);

macro_rules! complex_extremes {
    ($($mode:ident $better:ident),*) => { $(
        impl Combine<Complex64> for $mode {
            #[inline(always)]
            fn combine(a: Complex64, b: Complex64) -> Complex64 {
                if b.$better(a) || b.nan() { b } else { a }
            }
        }
    )* };
}
complex_extremes!(Max above, Min below);
macro_rules! halves {
    ($($t:ty),*) => { $( combine! { $t: a, b =>
        <$t>::from_f32(a.to_f32() + b.to_f32()),
        <$t>::from_f32(a.to_f32() * b.to_f32()),
        if b > a || b.is_nan() { b } else { a },
        if b < a || b.is_nan() { b } else { a }; } )* };
}
halves!(f16, bf16);
combine! { Bool8: a, b =>
    Bool8((a.0 != 0 || b.0 != 0) as u8),
    Bool8((a.0 != 0 && b.0 != 0) as u8),
    Bool8((a.0 != 0 || b.0 != 0) as u8),
    Bool8((a.0 != 0 && b.0 != 0) as u8);
}

impl Combine<Complex64> for Add {
    #[inline(always)]
    fn combine(a: Complex64, b: Complex64) -> Complex64 {
        Complex64 { re: a.re + b.re, im: a.im + b.im }
    }
}
impl Combine<Complex64> for Prod {
    #[inline(always)]
    fn combine(a: Complex64, b: Complex64) -> Complex64 {
        Complex64 { re: a.re * b.re - a.im * b.im, im: a.re * b.im + a.im * b.re }
    }
}

/// Lets elements of a run meet those of a destination: `n` of them, at a number of elements apart in the source and
/// in the destination.
///
/// # Safety
/// Both runs are inside their buffers, and no other thread touches the destination.
pub(super) type Meet = unsafe fn(*const u8, *mut u8, usize, [isize; 2]);

/// # Safety
/// As [`Meet`] says.
unsafe fn meet<T: Copy, C: Combine<T>>(s: *const u8, d: *mut u8, n: usize, [from, to]: [isize; 2]) {
    let (s, d) = (s.cast::<T>(), d.cast::<T>());
    // SAFETY: the caller's promise.
    unsafe {
        if from == 1 && to == 1 {
            if C::REPLACES {
                std::ptr::copy_nonoverlapping(s, d, n);
                return;
            }
            for j in 0..n {
                *d.add(j) = C::combine(*d.add(j), *s.add(j));
            }
            return;
        }
        for j in 0..n as isize {
            let d = d.offset(j * to);
            *d = C::combine(*d, *s.offset(j * from));
        }
    }
}

/// How elements of `dtype` meet. Complex numbers have no larger or smaller.
pub(super) fn meeting(mode: ScatterMode, dtype: Dtype) -> Meet {
    macro_rules! real {
        ($C:ty, complex => $complex:expr) => {
            match dtype {
                Dtype::Bool => meet::<Bool8, $C> as Meet,
                Dtype::U8 => meet::<u8, $C> as Meet,
                Dtype::U16 => meet::<u16, $C> as Meet,
                Dtype::U32 => meet::<u32, $C> as Meet,
                Dtype::U64 => meet::<u64, $C> as Meet,
                Dtype::I8 => meet::<i8, $C> as Meet,
                Dtype::I16 => meet::<i16, $C> as Meet,
                Dtype::I32 => meet::<i32, $C> as Meet,
                Dtype::I64 => meet::<i64, $C> as Meet,
                Dtype::F16 => meet::<f16, $C> as Meet,
                Dtype::BF16 => meet::<bf16, $C> as Meet,
                Dtype::F32 => meet::<f32, $C> as Meet,
                Dtype::F64 => meet::<f64, $C> as Meet,
                Dtype::C64 => $complex,
            }
        };
    }
    match mode {
        ScatterMode::Set => with_size!(dtype.size(), T => meet::<T, Set> as Meet),
        ScatterMode::Add => real!(Add, complex => meet::<Complex64, Add> as Meet),
        ScatterMode::Prod => real!(Prod, complex => meet::<Complex64, Prod> as Meet),
        ScatterMode::Max => real!(Max, complex => meet::<Complex64, Max> as Meet),
        ScatterMode::Min => real!(Min, complex => meet::<Complex64, Min> as Meet),
    }
}
