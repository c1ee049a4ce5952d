//! Steps that store, convert or choose elements without computing on them.

use super::loops::{
    Chain, Step, arg, by_float, by_int, by_type, by_width, choose, held, is_half, map1, result, un, unsigned,
};
use super::scalar;
use crate::lanes::{Kernel, Lanes, dispatch};
use half::{bf16, f16};
use olivine_core::{Complex64, Dtype};
use smallvec::{SmallVec, smallvec};

/// Whether the elements are true, as 0 or 1.
pub(super) fn truth(d: Dtype) -> Step {
    let int = by_width!(d, T => un!(T => u8, |a| (a != 0) as u8));
    let float = by_float!(d, T => un!(T => u8, |a| (a != 0.0) as u8));
    int.or(float).unwrap_or(match d {
        Dtype::C64 => un!(Complex64 => u8, |a| (a.re != 0.0 || a.im != 0.0) as u8),
        _ => un!(u8 => u8, |a| (a != 0) as u8),
    })
}

/// Copies elements of a size.
pub(super) fn copy(size: usize) -> Step {
    /// # Safety
    /// As for [`Step`].
    unsafe fn bytes<const N: usize>(out: *mut u8, args: [*const u8; 3], n: usize) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy(args[0], out, n * N) }
    }
    match size {
        1 => bytes::<1>,
        2 => bytes::<2>,
        4 => bytes::<4>,
        _ => bytes::<8>,
    }
}

/// Bytes of a result from which it is written past the caches: it would not stay in them, and a line that is
/// written as a whole need not be read first.
pub(super) const STREAM: usize = 16 << 20;

/// Copies elements of a size past the caches. The last of such copies is followed by [`stream_end`].
#[cfg(target_arch = "x86_64")]
pub(super) fn stream(size: usize) -> Step {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    /// # Safety
    /// As for [`Step`].
    unsafe fn bytes<const N: usize>(out: *mut u8, args: [*const u8; 3], n: usize) {
        let (src, len) = (args[0], n * N);
        let whole = if (out as usize).is_multiple_of(16) { len / 64 * 64 } else { 0 };
        let mut i = 0;
        // SAFETY: `i + 64 <= len`, the addresses are aligned, and the instructions are in the baseline.
        unsafe {
            while i < whole {
                for part in [i, i + 16, i + 32, i + 48] {
                    let v = _mm_loadu_si128(src.add(part).cast::<__m128i>());
                    _mm_stream_si128(out.add(part).cast::<__m128i>(), v);
                }
                i += 64;
            }
            std::ptr::copy_nonoverlapping(src.add(whole), out.add(whole), len - whole);
        }
    }
    match size {
        1 => bytes::<1>,
        2 => bytes::<2>,
        4 => bytes::<4>,
        _ => bytes::<8>,
    }
}

/// Orders streamed stores before whatever this thread stores next, such as word that it is done.
#[cfg(target_arch = "x86_64")]
pub(super) fn stream_end() {
    // SAFETY: the instruction is in the baseline and only orders stores.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Copies elements of a size; this machine has no portable way past the caches.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn stream(size: usize) -> Step {
    copy(size)
}

/// Nothing to order.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn stream_end() {}

/// Widens a half to the `f32` of a tile.
pub(super) fn widen(d: Dtype) -> Step {
    struct Widen<'a, T>(&'a mut [f32], &'a [T]);
    impl<T: crate::lanes::Element> Kernel for Widen<'_, T> {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            crate::lanes::widen(s, self.1, self.0);
        }
    }
    /// # Safety
    /// As for [`Step`].
    unsafe fn step<T: crate::lanes::Element>(out: *mut u8, args: [*const u8; 3], n: usize) {
        // SAFETY: the caller's promise.
        dispatch(unsafe { Widen::<T>(result(out, n), arg(args[0], n)) });
    }
    if d == Dtype::F16 { step::<f16> } else { step::<bf16> }
}

/// Rounds the `f32` of a tile to the half that it stands for, and stores that.
pub(super) fn narrow(d: Dtype) -> Step {
    struct Narrow<'a, T>(&'a mut [T], &'a [f32]);
    impl<T: crate::lanes::Element> Kernel for Narrow<'_, T> {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            crate::lanes::narrow(s, self.1, self.0);
        }
    }
    /// # Safety
    /// As for [`Step`].
    unsafe fn step<T: crate::lanes::Element>(out: *mut u8, args: [*const u8; 3], n: usize) {
        // SAFETY: the caller's promise.
        dispatch(unsafe { Narrow::<T>(result(out, n), arg(args[0], n)) });
    }
    if d == Dtype::F16 { step::<f16> } else { step::<bf16> }
}

/// Rounds the `f32` of a tile to a half, in place.
pub(super) fn round(d: Dtype) -> Step {
    struct Round<'a, T>(&'a mut [f32], std::marker::PhantomData<T>);
    impl<T: crate::lanes::Element> Kernel for Round<'_, T> {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            let mut half = [T::default(); crate::lanes::MAX_LANES];
            let (p, n) = (self.0.as_mut_ptr(), self.0.len());
            let mut i = 0;
            // SAFETY: whole registers while `i + N <= n`, then `n - i` lanes; `half` holds a register.
            unsafe {
                while i + S::N <= n {
                    T::store(s, half.as_mut_ptr(), s.load(p.add(i)));
                    s.store(p.add(i), T::load(s, half.as_ptr()));
                    i += S::N;
                }
                if i < n {
                    T::store(s, half.as_mut_ptr(), s.load_part(p.add(i), n - i));
                    s.store_part(p.add(i), n - i, T::load(s, half.as_ptr()));
                }
            }
        }
    }
    /// # Safety
    /// As for [`Step`]; works on the result in place.
    unsafe fn step<T: crate::lanes::Element>(out: *mut u8, _args: [*const u8; 3], n: usize) {
        // SAFETY: the caller's promise.
        dispatch(Round::<T>(unsafe { result(out, n) }, std::marker::PhantomData));
    }
    if d == Dtype::F16 { step::<f16> } else { step::<bf16> }
}

/// `where` on elements of a size.
pub(super) fn select(size: usize) -> Step {
    match size {
        1 => choose::<u8>,
        2 => choose::<u16>,
        4 => choose::<u32>,
        _ => choose::<u64>,
    }
}

/// Conversion between types as tiles hold them. A half as target is not yet rounded to, but its `f32` is
/// chosen so that rounding gives the half nearest to the source.
pub(super) fn cast(from: Dtype, to: Dtype) -> Chain {
    let half = is_half(to);
    let (src, dst) = (held(from), held(to));
    if to == Dtype::Bool {
        return smallvec![truth(src)];
    }
    match src {
        Dtype::Bool => {
            let mut c: Chain = smallvec![truth(src)];
            c.extend(cast(Dtype::U8, to));
            return c;
        }
        Dtype::C64 if dst != Dtype::C64 => {
            let mut c: Chain = smallvec![un!(Complex64 => f32, |a| a.re)];
            if dst != Dtype::F32 {
                c.extend(cast(Dtype::F32, to));
            }
            return c;
        }
        _ => {}
    }
    if dst == Dtype::C64 && src != Dtype::C64 {
        let mut c: Chain = SmallVec::new();
        if src != Dtype::F32 {
            c.extend(cast(src, Dtype::F32));
        }
        c.push(un!(f32 => Complex64, |a| Complex64 { re: a, im: 0.0 }));
        return c;
    }
    if unsigned(src) == unsigned(dst) {
        return smallvec![copy(dst.size())];
    }
    let step = if half && dst != src {
        match src {
            Dtype::F64 => Some(un!(f64 => f32, |a| scalar::to_odd(a))),
            Dtype::U32 => Some(un!(u32 => f32, |a| scalar::to_odd(a as f64))),
            Dtype::I32 => Some(un!(i32 => f32, |a| scalar::to_odd(a as f64))),
            Dtype::U64 => Some(un!(u64 => f32, |a| scalar::to_odd(scalar::u64_to_odd(a)))),
            Dtype::I64 => Some(un!(i64 => f32, |a| scalar::to_odd(scalar::i64_to_odd(a)))),
            _ => None,
        }
    } else {
        None
    };
    let step = step.or_else(|| match dst {
        Dtype::U8 | Dtype::I8 => by_width!(src, T => un!(T => u8, |a| a as u8)),
        Dtype::U16 | Dtype::I16 => {
            by_type!(src, T in [U8 u8, I8 i8, U32 u32, I32 u32, U64 u64, I64 u64] => un!(T => u16, |a| a as u16))
        }
        Dtype::U32 | Dtype::I32 => {
            by_type!(src, T in [U8 u8, I8 i8, U16 u16, I16 i16, U64 u64, I64 u64] => un!(T => u32, |a| a as u32))
        }
        Dtype::U64 | Dtype::I64 => {
            by_type!(src, T in [U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32] => un!(T => u64, |a| a as u64))
        }
        Dtype::F32 => by_int!(src, T => un!(T => f32, |a| a as f32))
            .or_else(|| (src == Dtype::F64).then(|| un!(f64 => f32, |a| a as f32))),
        Dtype::F64 => by_int!(src, T => un!(T => f64, |a| a as f64))
            .or_else(|| (src == Dtype::F32).then(|| un!(f32 => f64, |a| a as f64))),
        _ => None,
    });
    let step = step.or_else(|| {
        if (src, dst) == (Dtype::F32, Dtype::I32) {
            return Some(un!(f32 => i32, |a| scalar::to_i32(a)));
        }
        by_int!(dst, T => if src == Dtype::F32 {
            un!(f32 => T, |a| a as T)
        } else {
            un!(f64 => T, |a| a as T)
        })
    });
    step.into_iter().collect()
}
