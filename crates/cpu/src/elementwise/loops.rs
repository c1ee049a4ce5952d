//! Loops over a tile, made of functions of single elements or of vectors, and the macros that make them.
//!
//! Loops work on the types that tiles hold: halves are widened to `f32` and `bool` is one byte that may hold
//! anything but counts as true when it is not 0.

use super::wide::{Wide, Wide2};
use crate::lanes::{Kernel, Lanes, dispatch};
use crate::simd::Level;
use bytemuck::Pod;
use olivine_core::Dtype;
use smallvec::SmallVec;

/// Computes `n` elements from up to three arguments.
///
/// # Safety
/// The pointers are valid for, and aligned for, `n` elements of the types that the step was picked for, and
/// the result overlaps no argument (unless the step says that it works in place).
pub(super) type Step = unsafe fn(*mut u8, [*const u8; 3], usize);

/// Steps in sequence, each taking the result of the one before.
pub(super) type Chain = SmallVec<[Step; 3]>;

/// Type that tiles of `d` hold.
pub(super) const fn held(d: Dtype) -> Dtype {
    match d {
        Dtype::F16 | Dtype::BF16 => Dtype::F32,
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::F32
        | Dtype::F64
        | Dtype::C64 => d,
    }
}

/// Whether values of `d` are rounded after every step and widened in tiles.
pub(super) const fn is_half(d: Dtype) -> bool {
    matches!(d, Dtype::F16 | Dtype::BF16)
}

pub(super) trait Map1<A, R> {
    fn f(a: A) -> R;
}
pub(super) trait Map2<A, R> {
    fn f(a: A, b: A) -> R;
}
/// Function of `f32` that is written over vectors.
pub(super) trait VecMap {
    fn f<S: Lanes>(s: S, x: S::F) -> S::F;
}
struct Run1<'a, M, A, R>(&'a mut [R], &'a [A], std::marker::PhantomData<M>);
impl<M: Map1<A, R>, A: Pod, R: Pod> Kernel for Run1<'_, M, A, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        for (r, &a) in self.0.iter_mut().zip(self.1) {
            *r = M::f(a);
        }
    }
}

struct Run2<'a, M, A, R>(&'a mut [R], &'a [A], &'a [A], std::marker::PhantomData<M>);
impl<M: Map2<A, R>, A: Pod, R: Pod> Kernel for Run2<'_, M, A, R> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        for ((r, &a), &b) in self.0.iter_mut().zip(self.1).zip(self.2) {
            *r = M::f(a, b);
        }
    }
}

struct Run3<'a, T>(&'a mut [T], &'a [u8], &'a [T], &'a [T]);
impl<T: Pod> Kernel for Run3<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, _s: S) {
        for (((r, &c), &a), &b) in self.0.iter_mut().zip(self.1).zip(self.2).zip(self.3) {
            *r = if c != 0 { a } else { b };
        }
    }
}

struct RunVec<'a, M>(&'a mut [f32], &'a [f32], std::marker::PhantomData<M>);
impl<M: VecMap> Kernel for RunVec<'_, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let (n, out, x) = (self.0.len().min(self.1.len()), self.0.as_mut_ptr(), self.1.as_ptr());
        let mut i = 0;
        // SAFETY: `i + N <= n` for whole registers, `n - i` lanes for the last one.
        unsafe {
            while i + S::N <= n {
                s.store(out.add(i), M::f(s, s.load(x.add(i))));
                i += S::N;
            }
            if i < n {
                s.store_part(out.add(i), n - i, M::f(s, s.load_part(x.add(i), n - i)));
            }
        }
    }
}

/// A function computed in `f64`; see [`wide`](super::wide).
struct RunWide<'a, M>(&'a mut [f32], &'a [f32], std::marker::PhantomData<M>);
impl<M: Wide> Kernel for RunWide<'_, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        if has_fma(s) {
            for (r, &x) in self.0.iter_mut().zip(self.1) {
                *r = M::value::<true>(x as f64) as f32;
            }
        } else {
            for (r, &x) in self.0.iter_mut().zip(self.1) {
                *r = M::value::<false>(x as f64) as f32;
            }
        }
        if self.1.iter().fold(false, |any, &x| any | M::special(x)) {
            for (r, &x) in self.0.iter_mut().zip(self.1) {
                if M::special(x) {
                    *r = M::exact(x);
                }
            }
        }
    }
}

struct RunWide2<'a, M>(&'a mut [f32], &'a [f32], &'a [f32], std::marker::PhantomData<M>);
impl<M: Wide2> Kernel for RunWide2<'_, M> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        if has_fma(s) {
            for ((r, &x), &y) in self.0.iter_mut().zip(self.1).zip(self.2) {
                *r = M::value::<true>(x as f64, y as f64) as f32;
            }
        } else {
            for ((r, &x), &y) in self.0.iter_mut().zip(self.1).zip(self.2) {
                *r = M::value::<false>(x as f64, y as f64) as f32;
            }
        }
        if self.1.iter().zip(self.2).fold(false, |any, (&x, &y)| any | M::special(x, y)) {
            for ((r, &x), &y) in self.0.iter_mut().zip(self.1).zip(self.2) {
                if M::special(x, y) {
                    *r = M::exact(x, y);
                }
            }
        }
    }
}

/// Whether code compiled for this level has a fused multiply-add.
#[inline(always)]
fn has_fma<S: Lanes>(s: S) -> bool {
    cfg!(target_arch = "aarch64") || s.level() > Level::Portable
}

/// # Safety
/// As for [`Step`].
pub(super) unsafe fn arg<'a, T>(p: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(p.cast(), n) }
}
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn result<'a, T>(p: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(p.cast(), n) }
}

/// # Safety
/// As for [`Step`].
pub(super) unsafe fn map1<M: Map1<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result(out, n), arg(args[0], n)) };
    dispatch(Run1::<M, A, R>(r, a, std::marker::PhantomData));
}
/// For functions that no compiler vectorises: one copy instead of one for each instruction set.
///
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn plain1<M: Map1<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result::<R>(out, n), arg::<A>(args[0], n)) };
    for (r, &a) in r.iter_mut().zip(a) {
        *r = M::f(a);
    }
}
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn map2<M: Map2<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a, b) = unsafe { (result(out, n), arg(args[0], n), arg(args[1], n)) };
    dispatch(Run2::<M, A, R>(r, a, b, std::marker::PhantomData));
}
/// For functions that no compiler vectorises.
///
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn plain2<M: Map2<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a, b) = unsafe { (result::<R>(out, n), arg::<A>(args[0], n), arg::<A>(args[1], n)) };
    for ((r, &a), &b) in r.iter_mut().zip(a).zip(b) {
        *r = M::f(a, b);
    }
}
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn choose<T: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    dispatch(unsafe { Run3::<T>(result(out, n), arg(args[0], n), arg(args[1], n), arg(args[2], n)) });
}
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn vector<M: VecMap>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result(out, n), arg(args[0], n)) };
    dispatch(RunVec::<M>(r, a, std::marker::PhantomData));
}
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn wide1<M: Wide>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result(out, n), arg(args[0], n)) };
    dispatch(RunWide::<M>(r, a, std::marker::PhantomData));
}
/// # Safety
/// As for [`Step`].
pub(super) unsafe fn wide2<M: Wide2>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a, b) = unsafe { (result(out, n), arg(args[0], n), arg(args[1], n)) };
    dispatch(RunWide2::<M>(r, a, b, std::marker::PhantomData));
}

/// A step that applies an expression to every element.
macro_rules! un {
    ($a:ty => $r:ty, |$x:ident| $e:expr) => {
        un!(map1, $a => $r, |$x| $e)
    };
    ($run:ident, $a:ty => $r:ty, |$x:ident| $e:expr) => {{
        struct M;
        impl $crate::elementwise::loops::Map1<$a, $r> for M {
            #[inline(always)]
            fn f($x: $a) -> $r {
                $e
            }
        }
        $run::<M, $a, $r>  as $crate::elementwise::loops::Step
    }};
}
macro_rules! bin {
    ($a:ty => $r:ty, |$x:ident, $y:ident| $e:expr) => {
        bin!(map2, $a => $r, |$x, $y| $e)
    };
    ($run:ident, $a:ty => $r:ty, |$x:ident, $y:ident| $e:expr) => {{
        struct M;
        impl $crate::elementwise::loops::Map2<$a, $r> for M {
            #[inline(always)]
            fn f($x: $a, $y: $a) -> $r {
                $e
            }
        }
        $run::<M, $a, $r>  as $crate::elementwise::loops::Step
    }};
}
macro_rules! vec1 {
    ($f:path) => {{
        struct M;
        impl $crate::elementwise::loops::VecMap for M {
            #[inline(always)]
            fn f<S: $crate::lanes::Lanes>(s: S, x: S::F) -> S::F {
                $f(s, x)
            }
        }
        $crate::elementwise::loops::vector::<M> as $crate::elementwise::loops::Step
    }};
}
/// `match $d` with one arm for each type in the list, the type bound to `$t`; `None` for others.
macro_rules! by_type {
    ($d:expr, $t:ident in [$($variant:ident $type:ty),+] => $e:expr) => {
        match $d {
            $( Dtype::$variant => { type $t = $type; Some($e) } )+
            #[allow(unreachable_patterns, clippy::wildcard_enum_match_arm, reason = "the list is the rule")]
            _ => None,
        }
    };
}
/// The same, with sign-free operations sharing the unsigned types.
macro_rules! by_width {
    ($d:expr, $t:ident => $e:expr) => {
        by_type!(unsigned($d), $t in [U8 u8, U16 u16, U32 u32, U64 u64] => $e)
    };
}
macro_rules! by_int {
    ($d:expr, $t:ident => $e:expr) => {
        by_type!($d, $t in [U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64] => $e)
    };
}
macro_rules! by_float {
    ($d:expr, $t:ident => $e:expr) => {
        by_type!($d, $t in [F32 f32, F64 f64] => $e)
    };
}

/// The unsigned type of the same width; other types stay.
pub(super) fn unsigned(d: Dtype) -> Dtype {
    match d {
        Dtype::I8 => Dtype::U8,
        Dtype::I16 => Dtype::U16,
        Dtype::I32 => Dtype::U32,
        Dtype::I64 => Dtype::U64,
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::F16
        | Dtype::BF16
        | Dtype::F32
        | Dtype::F64
        | Dtype::C64 => d,
    }
}

pub(super) use {bin, by_float, by_int, by_type, by_width, un, vec1};
