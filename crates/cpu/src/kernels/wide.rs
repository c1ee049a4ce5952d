//! Elements of any type as one of four types that kernels compute with, a block at a time: integers and truth
//! values as `i64`, halves and `f32` as `f32`, `f64` and complex numbers as they are.
//!
//! Loads and stores are functions chosen by type when a kernel starts, so that a kernel is compiled for four types
//! instead of fourteen.

use crate::lanes::{self, Element, Kernel, Lanes, Portable, dispatch};
use half::{bf16, f16};
use olivine_core::{Bool8, Complex64, Dtype};

/// Elements that are loaded at a time: the widened ones stay in the first-level cache.
pub(super) const BLOCK: usize = 512;

/// A type that kernels compute with.
pub(super) trait Wide: Copy + Default + Send + Sync + 'static {
    /// Runs a kernel over this type: for every instruction set where speed matters most, else with the baseline,
    /// which keeps up with memory and is compiled once.
    fn launch<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(Portable::new())
    }
}
impl Wide for i64 {}
impl Wide for f64 {}
impl Wide for Complex64 {}
/// Only where sums wrap, or no sum is made: half of the width, and quick on every machine.
impl Wide for i32 {
    fn launch<K: Kernel>(kernel: K) -> K::Output {
        dispatch(kernel)
    }
}
impl Wide for f32 {
    fn launch<K: Kernel>(kernel: K) -> K::Output {
        dispatch(kernel)
    }
}

/// Loads at most `BLOCK` elements that are a number of elements apart, and says where they are: in the buffer, or
/// where they were when they need no conversion.
///
/// # Safety
/// The first argument points to the first of the elements, all of which are readable.
pub(super) type Load<W> = unsafe fn(*const u8, isize, usize, &mut [W; BLOCK]) -> *const W;

/// Stores results that are a number of elements apart from a place on.
///
/// # Safety
/// As many results as the second argument says are readable from the first, and their places are writable.
pub(super) type Store<A> = unsafe fn(*const A, usize, *mut u8, isize);

/// A [`Load`] that converts elements `$x` of type `$t` by `$e`.
macro_rules! load {
    ($t:ty => $w:ty, $x:ident => $e:expr) => {{
        /// # Safety
        /// As [`Load`] says.
        unsafe fn load(p: *const u8, stride: isize, n: usize, buf: &mut [$w; BLOCK]) -> *const $w {
            let p = p.cast::<$t>();
            if stride == 1 {
                // SAFETY: the caller's promise for a dense run.
                let xs = unsafe { std::slice::from_raw_parts(p, n) };
                for (b, &$x) in buf.iter_mut().zip(xs) {
                    *b = $e;
                }
            } else {
                for (i, b) in buf[..n].iter_mut().enumerate() {
                    // SAFETY: the caller's promise.
                    let $x = unsafe { *p.offset(i as isize * stride) };
                    *b = $e;
                }
            }
            buf.as_ptr()
        }
        load as Load<$w>
    }};
}

/// A [`Store`] that converts results `$a` to type `$t` by `$e`.
macro_rules! store {
    ($acc:ty => $t:ty, $a:ident => $e:expr) => {{
        /// # Safety
        /// As [`Store`] says.
        unsafe fn store(accs: *const $acc, n: usize, out: *mut u8, stride: isize) {
            let out = out.cast::<$t>();
            if stride == 1 {
                // SAFETY: the caller's promise, for a dense run.
                let accs = unsafe { std::slice::from_raw_parts(accs, n) };
                // SAFETY: as above.
                let out = unsafe { std::slice::from_raw_parts_mut(out, n) };
                for (y, &$a) in out.iter_mut().zip(accs) {
                    *y = $e;
                }
                return;
            }
            for i in 0..n {
                // SAFETY: the caller's promise.
                unsafe {
                    let $a = *accs.add(i);
                    *out.offset(i as isize * stride) = $e;
                }
            }
        }
        store as Store<$acc>
    }};
}
pub(super) use store;

/// Loads what needs no conversion.
///
/// # Safety
/// As [`Load`] says.
pub(super) unsafe fn same<W: Wide>(p: *const u8, stride: isize, n: usize, buf: &mut [W; BLOCK]) -> *const W {
    let p = p.cast::<W>();
    if stride == 1 {
        return p;
    }
    for (i, b) in buf[..n].iter_mut().enumerate() {
        // SAFETY: the caller's promise.
        *b = unsafe { *p.offset(i as isize * stride) };
    }
    buf.as_ptr()
}

/// Loads halves.
///
/// # Safety
/// As [`Load`] says.
unsafe fn half<T: Element>(p: *const u8, stride: isize, n: usize, buf: &mut [f32; BLOCK]) -> *const f32 {
    struct Widen<'a, T>(&'a [T], &'a mut [f32]);
    impl<T: Element> Kernel for Widen<'_, T> {
        type Output = ();
        #[inline(always)]
        fn run<S: Lanes>(self, s: S) {
            lanes::widen(s, self.0, self.1);
        }
    }
    let p = p.cast::<T>();
    if stride == 1 {
        // SAFETY: the caller's promise for a dense run.
        dispatch(Widen(unsafe { std::slice::from_raw_parts(p, n) }, &mut buf[..n]));
    } else {
        for (i, b) in buf[..n].iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            *b = unsafe { *p.offset(i as isize * stride) }.to_f32();
        }
    }
    buf.as_ptr()
}

/// How to load each type, as the type that computes it.
pub(super) enum Loader {
    /// Integers as they are, modulo 2^64 for the widest unsigned ones; truth values as 0 and 1.
    Int(Load<i64>),
    F32(Load<f32>),
    F64(Load<f64>),
    Complex(Load<Complex64>),
}

/// How to load elements of `dtype`.
pub(super) fn loader(dtype: Dtype) -> Loader {
    match dtype {
        Dtype::Bool => Loader::Int(load!(u8 => i64, x => (x != 0) as i64)),
        Dtype::U8 => Loader::Int(load!(u8 => i64, x => x as i64)),
        Dtype::U16 => Loader::Int(load!(u16 => i64, x => x as i64)),
        Dtype::U32 => Loader::Int(load!(u32 => i64, x => x as i64)),
        Dtype::I8 => Loader::Int(load!(i8 => i64, x => x as i64)),
        Dtype::I16 => Loader::Int(load!(i16 => i64, x => x as i64)),
        Dtype::I32 => Loader::Int(load!(i32 => i64, x => x as i64)),
        Dtype::U64 | Dtype::I64 => Loader::Int(same::<i64>),
        Dtype::F16 => Loader::F32(half::<f16>),
        Dtype::BF16 => Loader::F32(half::<bf16>),
        Dtype::F32 => Loader::F32(same::<f32>),
        Dtype::F64 => Loader::F64(same::<f64>),
        Dtype::C64 => Loader::Complex(same::<Complex64>),
    }
}

/// How to load elements of `dtype` so that order is kept: differs from [`loader`] where `u64` does not fit.
pub(super) fn ordered_loader(dtype: Dtype) -> Loader {
    if dtype == Dtype::U64 {
        return Loader::Int(load!(u64 => i64, x => (x ^ 1 << 63) as i64));
    }
    loader(dtype)
}

/// How to load elements of `dtype` as something that is 0 where they are false. The sign is left out, so that -0.0 is
/// false and NaN is true.
pub(super) fn truth_loader(dtype: Dtype) -> Load<i64> {
    match dtype {
        Dtype::Bool | Dtype::U8 | Dtype::I8 => load!(u8 => i64, x => x as i64),
        Dtype::U16 | Dtype::I16 => load!(u16 => i64, x => x as i64),
        Dtype::F16 | Dtype::BF16 => load!(u16 => i64, x => (x & 0x7fff) as i64),
        Dtype::U32 | Dtype::I32 => load!(u32 => i64, x => x as i64),
        Dtype::F32 => load!(u32 => i64, x => (x & 0x7fff_ffff) as i64),
        Dtype::U64 | Dtype::I64 => same::<i64>,
        Dtype::F64 => load!(u64 => i64, x => (x & (u64::MAX >> 1)) as i64),
        Dtype::C64 => load!([u32; 2] => i64, x => ((x[0] | x[1]) & 0x7fff_ffff) as i64),
    }
}

/// Stores an integer sum as an integer of `bytes` bytes, 4 or 8; it wraps.
pub(super) fn store_wrapped(bytes: usize) -> Store<i64> {
    if bytes == 4 { store!(i64 => u32, a => a as u32) } else { store!(i64 => i64, a => a) }
}

/// Stores what [`ordered_loader`] loaded of an integer type or `bool`; what is beyond the type becomes its end.
pub(super) fn store_ordered(dtype: Dtype) -> Store<i64> {
    match dtype {
        Dtype::Bool => store!(i64 => Bool8, a => Bool8((a > 0) as u8)),
        Dtype::U8 => store!(i64 => u8, a => a.clamp(0, u8::MAX as i64) as u8),
        Dtype::U16 => store!(i64 => u16, a => a.clamp(0, u16::MAX as i64) as u16),
        Dtype::U32 => store!(i64 => u32, a => a.clamp(0, u32::MAX as i64) as u32),
        Dtype::U64 => store!(i64 => u64, a => a as u64 ^ 1 << 63),
        Dtype::I8 => store!(i64 => i8, a => a.clamp(i8::MIN as i64, i8::MAX as i64) as i8),
        Dtype::I16 => store!(i64 => i16, a => a.clamp(i16::MIN as i64, i16::MAX as i64) as i16),
        Dtype::I32 => store!(i64 => i32, a => a.clamp(i32::MIN as i64, i32::MAX as i64) as i32),
        Dtype::I64 | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => {
            store!(i64 => i64, a => a)
        }
    }
}

/// Stores an `f32` as the half that it is, or as itself.
pub(super) fn store_f32(dtype: Dtype) -> Store<f32> {
    match dtype {
        Dtype::F16 => store!(f32 => f16, a => f16::from_f32(a)),
        Dtype::BF16 => store!(f32 => bf16, a => bf16::from_f32(a)),
        _ => store!(f32 => f32, a => a),
    }
}

/// Stores an `f64` as the nearest number of a float type.
pub(super) fn store_f64(dtype: Dtype) -> Store<f64> {
    match dtype {
        Dtype::F16 => store!(f64 => f16, a => f16::from_f64(a)),
        Dtype::BF16 => store!(f64 => bf16, a => bf16::from_f64(a)),
        Dtype::F32 => store!(f64 => f32, a => a as f32),
        _ => store!(f64 => f64, a => a),
    }
}

/// Stores the logarithm of `a.1` times e to the `a.0`.
pub(super) fn store_log(dtype: Dtype) -> Store<(f64, f64)> {
    match dtype {
        Dtype::F16 => store!((f64, f64) => f16, a => f16::from_f64(a.0 + a.1.ln())),
        Dtype::BF16 => store!((f64, f64) => bf16, a => bf16::from_f64(a.0 + a.1.ln())),
        Dtype::F32 => store!((f64, f64) => f32, a => (a.0 + a.1.ln()) as f32),
        _ => store!((f64, f64) => f64, a => a.0 + a.1.ln()),
    }
}

/// Stores a complex number.
pub(super) fn store_complex() -> Store<(f64, f64)> {
    store!((f64, f64) => Complex64, a => Complex64 { re: a.0 as f32, im: a.1 as f32 })
}

/// Evaluates `$e` with `$T` bound to the element type of a [`Dtype`].
macro_rules! with_element {
    ($dtype:expr, $T:ident => $e:expr) => {
        $crate::kernels::wide::with_element!(@ $dtype, $T, $e; Bool olivine_core::Bool8, U8 u8, U16 u16, U32 u32,
            U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
            C64 olivine_core::Complex64)
    };
    (@ $dtype:expr, $T:ident, $e:expr; $($d:ident $t:ty),*) => {
        match $dtype {
            $(olivine_core::Dtype::$d => {
                type $T = $t;
                $e
            })*
        }
    };
}
pub(super) use with_element;
