//! Vectors of 128 bits in plain Rust, which the compiler turns into the baseline of the target.

use std::marker::PhantomData;

use half::{bf16, f16};

use super::{Real, Vector};

/// `N` numbers of type `E`, multiplied and summed in its wide type.
#[derive(Clone, Copy)]
pub(in super::super) struct Lanes<E, const N: usize>(PhantomData<E>);

/// An element type and the type in which it is computed with.
pub(in super::super) trait Wide: Copy + Send + Sync + 'static {
    type Wide: Real;
    fn widen(self) -> Self::Wide;
    fn round(x: Self::Wide) -> Self;
    fn mul_add(a: Self::Wide, b: Self::Wide, c: Self::Wide) -> Self::Wide;
    fn mul(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

/// Without an instruction for it, `mul_add` is a slow function call.
const HAS_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

macro_rules! wide {
    ($elem:ty, $wide:ty, $widen:expr, $round:expr) => {
        impl Wide for $elem {
            type Wide = $wide;
            #[inline(always)]
            fn widen(self) -> $wide {
                $widen(self)
            }
            #[inline(always)]
            fn round(x: $wide) -> $elem {
                $round(x)
            }
            #[inline(always)]
            fn mul_add(a: $wide, b: $wide, c: $wide) -> $wide {
                if HAS_FMA { a.mul_add(b, c) } else { a * b + c }
            }
            #[inline(always)]
            fn mul(a: $wide, b: $wide) -> $wide {
                a * b
            }
        }
    };
}

wide!(f32, f32, |x| x, |x| x);
wide!(f64, f64, |x| x, |x| x);
wide!(bf16, f32, bf16::to_f32, bf16::from_f32);
wide!(f16, f32, f16::to_f32, f16::from_f32);

impl<E: Wide, const N: usize> Vector for Lanes<E, N> {
    type Elem = E;
    type Packed = E::Wide;
    type Acc = E::Wide;
    type Reg = [E::Wide; N];
    type Sum = [E::Wide; N];
    const LANES: usize = N;
    const STEP: usize = 1;
    const TRANSPOSES: bool = false;

    #[inline(always)]
    fn packed_zero() -> E::Wide {
        E::Wide::ZERO
    }
    #[inline(always)]
    unsafe fn load(p: *const E) -> Self::Reg {
        // SAFETY: the caller has `N` elements at `p`.
        std::array::from_fn(|i| unsafe { p.add(i).read() }.widen())
    }
    #[inline(always)]
    unsafe fn load_n(p: *const E, n: usize) -> Self::Reg {
        // SAFETY: the caller has `n` elements at `p`.
        std::array::from_fn(|i| if i < n { unsafe { p.add(i).read() }.widen() } else { E::Wide::ZERO })
    }
    #[inline(always)]
    unsafe fn load_lines(p: *const E, _stride: isize, n: usize, _steps: usize) -> Self::Reg {
        // SAFETY: the caller has `n` elements at `p`.
        unsafe { Self::load_n(p, n) }
    }
    #[inline(always)]
    unsafe fn pack_one(p: *const E, _stride: isize, _steps: usize) -> E::Wide {
        // SAFETY: the caller has one element at `p`.
        unsafe { p.read() }.widen()
    }
    #[inline(always)]
    unsafe fn load_packed(p: *const E::Wide) -> Self::Reg {
        // SAFETY: the caller has `N` values at `p`.
        unsafe { p.cast::<[E::Wide; N]>().read() }
    }
    #[inline(always)]
    unsafe fn store_packed_n(p: *mut E::Wide, v: Self::Reg, n: usize) {
        // SAFETY: the caller has room for `n` values at `p`.
        unsafe { Self::store_sum_n(p, v, n) }
    }
    #[inline(always)]
    unsafe fn transpose(_: *mut Self::Reg) {
        unreachable!("`TRANSPOSES` is false")
    }
    #[inline(always)]
    unsafe fn splat(x: E::Wide) -> Self::Reg {
        [x; N]
    }
    #[inline(always)]
    unsafe fn zero() -> Self::Sum {
        [E::Wide::ZERO; N]
    }
    #[inline(always)]
    unsafe fn fma(a: Self::Reg, b: Self::Reg, c: Self::Sum) -> Self::Sum {
        std::array::from_fn(|i| E::mul_add(a[i], b[i], c[i]))
    }
    #[inline(always)]
    unsafe fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum {
        std::array::from_fn(|i| a[i].add(b[i]))
    }
    #[inline(always)]
    unsafe fn axpy(a: Self::Sum, x: E::Wide, c: Self::Sum) -> Self::Sum {
        std::array::from_fn(|i| E::mul_add(a[i], x, c[i]))
    }
    #[inline(always)]
    unsafe fn scale(a: Self::Sum, x: E::Wide) -> Self::Sum {
        std::array::from_fn(|i| E::mul(a[i], x))
    }
    #[inline(always)]
    unsafe fn reduce(a: Self::Sum) -> E::Wide {
        let mut a = a;
        let mut half = N / 2;
        while half > 0 {
            for i in 0..half {
                a[i] = a[i].add(a[i + half]);
            }
            half /= 2;
        }
        a[0]
    }
    #[inline(always)]
    unsafe fn load_sum_n(p: *const E::Wide, n: usize) -> Self::Sum {
        if n >= N {
            // SAFETY: the caller has `N` values at `p`.
            return unsafe { p.cast::<[E::Wide; N]>().read() };
        }
        // SAFETY: the caller has `n` values at `p`.
        std::array::from_fn(|i| if i < n { unsafe { p.add(i).read() } } else { E::Wide::ZERO })
    }
    #[inline(always)]
    unsafe fn store_sum_n(p: *mut E::Wide, v: Self::Sum, n: usize) {
        for (i, &x) in v.iter().enumerate().take(n) {
            // SAFETY: the caller has room for `n` values at `p`.
            unsafe { p.add(i).write(x) }
        }
    }
    #[inline(always)]
    unsafe fn widen_n(p: *const E, n: usize) -> Self::Sum {
        // SAFETY: the caller has `n` elements at `p`.
        unsafe { Self::load_n(p, n) }
    }
    #[inline(always)]
    unsafe fn round_n(p: *mut E, v: Self::Sum, n: usize) {
        for (i, &x) in v.iter().enumerate().take(n) {
            // SAFETY: the caller has room for `n` elements at `p`.
            unsafe { p.add(i).write(E::round(x)) }
        }
    }
}
