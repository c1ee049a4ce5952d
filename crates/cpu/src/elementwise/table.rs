//! From an operation and a type to the loop that computes it over a tile.
//!
//! Loops work on the types that tiles hold: halves are widened to `f32` and `bool` is one byte that may hold
//! anything but counts as true when it is not 0. Rounding back to a half is a step of its own
//! ([`round`]). Integer operations that do not depend on the sign are shared by both kinds.

use super::scalar::{self, Float};
use super::wide::{self, Wide, Wide2};
use crate::lanes::{Kernel, Lanes, dispatch};
use crate::simd::Level;
use crate::vecmath;
use bytemuck::Pod;
use half::{bf16, f16};
use olivine_core::op::{Binary, Unary};
use olivine_core::{Complex64, Dtype};
use smallvec::{SmallVec, smallvec};

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

trait Map1<A, R> {
    fn f(a: A) -> R;
}
trait Map2<A, R> {
    fn f(a: A, b: A) -> R;
}
/// Function of `f32` that is written over vectors.
trait VecMap {
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
unsafe fn arg<'a, T>(p: *const u8, n: usize) -> &'a [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(p.cast(), n) }
}
/// # Safety
/// As for [`Step`].
unsafe fn result<'a, T>(p: *mut u8, n: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(p.cast(), n) }
}

/// # Safety
/// As for [`Step`].
unsafe fn un<M: Map1<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result(out, n), arg(args[0], n)) };
    dispatch(Run1::<M, A, R>(r, a, std::marker::PhantomData));
}
/// For functions that no compiler vectorises: one copy instead of one for each instruction set.
///
/// # Safety
/// As for [`Step`].
unsafe fn un_plain<M: Map1<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result::<R>(out, n), arg::<A>(args[0], n)) };
    for (r, &a) in r.iter_mut().zip(a) {
        *r = M::f(a);
    }
}
/// # Safety
/// As for [`Step`].
unsafe fn bin<M: Map2<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a, b) = unsafe { (result(out, n), arg(args[0], n), arg(args[1], n)) };
    dispatch(Run2::<M, A, R>(r, a, b, std::marker::PhantomData));
}
/// For functions that no compiler vectorises.
///
/// # Safety
/// As for [`Step`].
unsafe fn bin_plain<M: Map2<A, R>, A: Pod, R: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a, b) = unsafe { (result::<R>(out, n), arg::<A>(args[0], n), arg::<A>(args[1], n)) };
    for ((r, &a), &b) in r.iter_mut().zip(a).zip(b) {
        *r = M::f(a, b);
    }
}
/// # Safety
/// As for [`Step`].
unsafe fn choose<T: Pod>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    dispatch(unsafe { Run3::<T>(result(out, n), arg(args[0], n), arg(args[1], n), arg(args[2], n)) });
}
/// # Safety
/// As for [`Step`].
unsafe fn vector<M: VecMap>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result(out, n), arg(args[0], n)) };
    dispatch(RunVec::<M>(r, a, std::marker::PhantomData));
}
/// # Safety
/// As for [`Step`].
unsafe fn wide1<M: Wide>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a) = unsafe { (result(out, n), arg(args[0], n)) };
    dispatch(RunWide::<M>(r, a, std::marker::PhantomData));
}
/// # Safety
/// As for [`Step`].
unsafe fn wide2<M: Wide2>(out: *mut u8, args: [*const u8; 3], n: usize) {
    // SAFETY: the caller's promise.
    let (r, a, b) = unsafe { (result(out, n), arg(args[0], n), arg(args[1], n)) };
    dispatch(RunWide2::<M>(r, a, b, std::marker::PhantomData));
}

/// A step that applies an expression to every element.
macro_rules! un {
    ($a:ty => $r:ty, |$x:ident| $e:expr) => {
        un!(un, $a => $r, |$x| $e)
    };
    ($run:ident, $a:ty => $r:ty, |$x:ident| $e:expr) => {{
        struct M;
        impl Map1<$a, $r> for M {
            #[inline(always)]
            fn f($x: $a) -> $r {
                $e
            }
        }
        $run::<M, $a, $r> as Step
    }};
}
macro_rules! bin {
    ($a:ty => $r:ty, |$x:ident, $y:ident| $e:expr) => {
        bin!(bin, $a => $r, |$x, $y| $e)
    };
    ($run:ident, $a:ty => $r:ty, |$x:ident, $y:ident| $e:expr) => {{
        struct M;
        impl Map2<$a, $r> for M {
            #[inline(always)]
            fn f($x: $a, $y: $a) -> $r {
                $e
            }
        }
        $run::<M, $a, $r> as Step
    }};
}
macro_rules! vec1 {
    ($f:path) => {{
        struct M;
        impl VecMap for M {
            #[inline(always)]
            fn f<S: Lanes>(s: S, x: S::F) -> S::F {
                $f(s, x)
            }
        }
        vector::<M> as Step
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
fn unsigned(d: Dtype) -> Dtype {
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

/// Whether the elements are true, as 0 or 1.
fn truth(d: Dtype) -> Step {
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
        by_int!(dst, T => if src == Dtype::F32 {
            un!(f32 => T, |a| a as T)
        } else {
            un!(f64 => T, |a| a as T)
        })
    });
    step.into_iter().collect()
}

/// `single` for `f32`, `double` for `f64`.
fn by_width_of_float(d: Dtype, single: Step, double: Step) -> Option<Step> {
    match d {
        Dtype::F32 => Some(single),
        d => self::double(d, double),
    }
}

/// `step` for `f64`.
fn double(d: Dtype, step: Step) -> Option<Step> {
    (d == Dtype::F64).then_some(step)
}

/// Functions of one argument of a type as tiles hold it. `None` for what the operation's rule refuses.
pub(super) fn unary(op: Unary, d: Dtype) -> Option<Step> {
    let same = || Some(copy(d.size()));
    let int = d.is_integer() || d == Dtype::Bool;
    match op {
        Unary::Abs => match d {
            Dtype::C64 => Some(un!(Complex64 => f32, |a| scalar::modulus(a))),
            _ => by_float!(d, T => un!(T => T, |a| a.abs()))
                .or_else(|| by_type!(d, T in [I8 i8, I16 i16, I32 i32, I64 i64] => un!(T => T, |a| a.wrapping_abs())))
                .or_else(same),
        },
        Unary::Neg => match d {
            Dtype::C64 => Some(un!(Complex64 => Complex64, |a| Complex64 { re: -a.re, im: -a.im })),
            _ => by_float!(d, T => un!(T => T, |a| -a))
                .or_else(|| by_width!(d, T => un!(T => T, |a| a.wrapping_neg()))),
        },
        Unary::Sign if d == Dtype::Bool => Some(truth(d)),
        Unary::Sign => by_float!(d, T => un!(T => T, |a| a.sign()))
            .or_else(|| by_type!(d, T in [I8 i8, I16 i16, I32 i32, I64 i64] => un!(T => T, |a| a.signum())))
            .or_else(|| by_width!(d, T => un!(T => T, |a| (a != 0) as T))),
        Unary::Ceil | Unary::Floor | Unary::Round if int => same(),
        Unary::Ceil => by_float!(d, T => un!(T => T, |a| a.ceil())),
        Unary::Floor => by_float!(d, T => un!(T => T, |a| a.floor())),
        Unary::Round => by_float!(d, T => un!(T => T, |a| a.round_ties_even())),
        Unary::Square => binary(Binary::Mul, d).map(|(s, _)| s),
        Unary::Sqrt if d == Dtype::C64 => Some(un!(un_plain, Complex64 => Complex64, |a| scalar::csqrt(a))),
        Unary::Sqrt => by_float!(d, T => un!(T => T, |a| a.sqrt())),
        Unary::Rsqrt => by_float!(d, T => un!(T => T, |a| 1.0 / a.sqrt())),
        Unary::Exp | Unary::Log | Unary::Sigmoid if d == Dtype::C64 => Some(match op {
            Unary::Exp => un!(un_plain, Complex64 => Complex64, |a| scalar::cexp(a)),
            Unary::Log => un!(un_plain, Complex64 => Complex64, |a| scalar::clog(a)),
            _ => un!(un_plain, Complex64 => Complex64, |a| scalar::csigmoid(a)),
        }),
        Unary::Exp if d == Dtype::F32 => Some(vec1!(vecmath::exp)),
        Unary::Exp => double(d, un!(un_plain, f64 => f64, |a| a.exp())),
        Unary::Expm1 => by_width_of_float(d, wide1::<wide::Expm1>, un!(un_plain, f64 => f64, |a| a.exp_m1())),
        Unary::Log => by_width_of_float(d, wide1::<wide::Ln>, un!(un_plain, f64 => f64, |a| a.ln())),
        Unary::Log2 => by_width_of_float(d, wide1::<wide::Log2>, un!(un_plain, f64 => f64, |a| a.log2())),
        Unary::Log10 => by_width_of_float(d, wide1::<wide::Log10>, un!(un_plain, f64 => f64, |a| a.log10())),
        Unary::Log1p => by_width_of_float(d, wide1::<wide::Ln1p>, un!(un_plain, f64 => f64, |a| a.ln_1p())),
        Unary::Sin => by_width_of_float(d, wide1::<wide::Sin>, un!(un_plain, f64 => f64, |a| a.sin())),
        Unary::Cos => by_width_of_float(d, wide1::<wide::Cos>, un!(un_plain, f64 => f64, |a| a.cos())),
        Unary::Tan => by_width_of_float(d, wide1::<wide::Tan>, un!(un_plain, f64 => f64, |a| a.tan())),
        Unary::Asin => by_width_of_float(d, wide1::<wide::Asin>, un!(un_plain, f64 => f64, |a| a.asin())),
        Unary::Acos => by_width_of_float(d, wide1::<wide::Acos>, un!(un_plain, f64 => f64, |a| a.acos())),
        Unary::Atan => by_width_of_float(d, wide1::<wide::Atan>, un!(un_plain, f64 => f64, |a| a.atan())),
        Unary::Sinh => by_width_of_float(d, wide1::<wide::Sinh>, un!(un_plain, f64 => f64, |a| a.sinh())),
        Unary::Cosh => by_width_of_float(d, wide1::<wide::Cosh>, un!(un_plain, f64 => f64, |a| a.cosh())),
        Unary::Tanh => by_width_of_float(d, wide1::<wide::Tanh>, un!(un_plain, f64 => f64, |a| a.tanh())),
        Unary::Asinh => by_width_of_float(d, wide1::<wide::Asinh>, un!(un_plain, f64 => f64, |a| libm::asinh(a))),
        Unary::Acosh => by_width_of_float(d, wide1::<wide::Acosh>, un!(un_plain, f64 => f64, |a| libm::acosh(a))),
        Unary::Atanh => by_width_of_float(d, wide1::<wide::Atanh>, un!(un_plain, f64 => f64, |a| libm::atanh(a))),
        Unary::Erf => by_width_of_float(d, wide1::<wide::Erf>, un!(un_plain, f64 => f64, |a| libm::erf(a))),
        Unary::ErfInv => by_width_of_float(d, wide1::<wide::ErfInv>, un!(un_plain, f64 => f64, |a| scalar::erfinv(a))),
        Unary::Sigmoid => by_width_of_float(d, wide1::<wide::Sigmoid>, un!(un_plain, f64 => f64, |a| scalar::sigmoid(a))),
        Unary::LogicalNot => Some(match d {
            Dtype::C64 => un!(Complex64 => u8, |a| (a.re == 0.0 && a.im == 0.0) as u8),
            Dtype::Bool => un!(u8 => u8, |a| (a == 0) as u8),
            _ => by_width!(d, T => un!(T => u8, |a| (a == 0) as u8))
                .or_else(|| by_float!(d, T => un!(T => u8, |a| (a == 0.0) as u8)))?,
        }),
        Unary::BitNot if d == Dtype::Bool => Some(un!(u8 => u8, |a| (a == 0) as u8)),
        Unary::BitNot => by_width!(d, T => un!(T => T, |a| !a)),
        Unary::Real => Some(un!(Complex64 => f32, |a| a.re)),
        Unary::Imag => Some(un!(Complex64 => f32, |a| a.im)),
        Unary::Conj => Some(un!(Complex64 => Complex64, |a| Complex64 { re: a.re, im: -a.im })),
    }
}

/// Functions of two arguments of a type as tiles hold it, and whether the arguments change places. `None`
/// for what the operation's rule refuses.
pub(super) fn binary(op: Binary, d: Dtype) -> Option<(Step, bool)> {
    let step = match op {
        Binary::Gt => return binary(Binary::Lt, d).map(|(s, _)| (s, true)),
        Binary::Ge => return binary(Binary::Le, d).map(|(s, _)| (s, true)),
        op if d == Dtype::Bool => truth_table(op),
        op if d == Dtype::C64 => complex(op),
        op if d.is_integer() => integer(op, d),
        op => real(op, d),
    };
    step.map(|s| (s, false))
}

fn truth_table(op: Binary) -> Option<Step> {
    Some(match op {
        Binary::Add | Binary::Max | Binary::LogicalOr | Binary::BitOr => {
            bin!(u8 => u8, |a, b| ((a | b) != 0) as u8)
        }
        Binary::Mul | Binary::Min | Binary::LogicalAnd | Binary::BitAnd => {
            bin!(u8 => u8, |a, b| (a != 0) as u8 & (b != 0) as u8)
        }
        Binary::BitXor | Binary::Ne => bin!(u8 => u8, |a, b| (a != 0) as u8 ^ (b != 0) as u8),
        Binary::Eq => bin!(u8 => u8, |a, b| ((a != 0) as u8 ^ (b != 0) as u8) ^ 1),
        Binary::Lt => bin!(u8 => u8, |a, b| (a == 0) as u8 & (b != 0) as u8),
        Binary::Le => bin!(u8 => u8, |a, b| (a == 0) as u8 | (b != 0) as u8),
        Binary::Sub
        | Binary::Div
        | Binary::FloorDiv
        | Binary::Rem
        | Binary::Pow
        | Binary::Atan2
        | Binary::LogAddExp
        | Binary::Shl
        | Binary::Shr
        | Binary::Gt
        | Binary::Ge => return None,
    })
}

fn complex(op: Binary) -> Option<Step> {
    type C = Complex64;
    Some(match op {
        Binary::Add => bin!(C => C, |a, b| C { re: a.re + b.re, im: a.im + b.im }),
        Binary::Sub => bin!(C => C, |a, b| C { re: a.re - b.re, im: a.im - b.im }),
        Binary::Mul => bin!(C => C, |a, b| scalar::cmul(a, b)),
        Binary::Div => bin!(bin_plain, C => C, |a, b| scalar::cdiv(a, b)),
        Binary::Eq => bin!(C => u8, |a, b| (a.re == b.re) as u8 & (a.im == b.im) as u8),
        Binary::Ne => bin!(C => u8, |a, b| (a.re != b.re) as u8 | (a.im != b.im) as u8),
        Binary::LogicalAnd => bin!(C => u8, |a, b| scalar::is_true(a) as u8 & scalar::is_true(b) as u8),
        Binary::LogicalOr => bin!(C => u8, |a, b| scalar::is_true(a) as u8 | scalar::is_true(b) as u8),
        Binary::FloorDiv
        | Binary::Rem
        | Binary::Pow
        | Binary::Max
        | Binary::Min
        | Binary::Atan2
        | Binary::LogAddExp
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr
        | Binary::Lt
        | Binary::Le
        | Binary::Gt
        | Binary::Ge => return None,
    })
}

fn integer(op: Binary, d: Dtype) -> Option<Step> {
    use scalar::Int;
    match op {
        Binary::Add => by_width!(d, T => bin!(T => T, |a, b| a.wrapping_add(b))),
        Binary::Sub => by_width!(d, T => bin!(T => T, |a, b| a.wrapping_sub(b))),
        Binary::Mul => by_width!(d, T => bin!(T => T, |a, b| a.wrapping_mul(b))),
        Binary::FloorDiv => by_int!(d, T => bin!(bin_plain, T => T, |a, b| a.floor_div(b))),
        Binary::Rem => by_int!(d, T => bin!(bin_plain, T => T, |a, b| a.floor_rem(b))),
        Binary::Pow => by_int!(d, T => bin!(bin_plain, T => T, |a, b| a.power(b))),
        Binary::Max => by_int!(d, T => bin!(T => T, |a, b| if a > b { a } else { b })),
        Binary::Min => by_int!(d, T => bin!(T => T, |a, b| if a < b { a } else { b })),
        Binary::LogicalAnd => by_width!(d, T => bin!(T => u8, |a, b| (a != 0) as u8 & (b != 0) as u8)),
        Binary::LogicalOr => by_width!(d, T => bin!(T => u8, |a, b| ((a | b) != 0) as u8)),
        Binary::BitAnd => by_width!(d, T => bin!(T => T, |a, b| a & b)),
        Binary::BitOr => by_width!(d, T => bin!(T => T, |a, b| a | b)),
        Binary::BitXor => by_width!(d, T => bin!(T => T, |a, b| a ^ b)),
        Binary::Shl => by_int!(d, T => bin!(T => T, |a, b| a.shift_up(b))),
        Binary::Shr => by_int!(d, T => bin!(T => T, |a, b| a.shift_down(b))),
        Binary::Eq => by_width!(d, T => bin!(T => u8, |a, b| (a == b) as u8)),
        Binary::Ne => by_width!(d, T => bin!(T => u8, |a, b| (a != b) as u8)),
        Binary::Lt => by_int!(d, T => bin!(T => u8, |a, b| (a < b) as u8)),
        Binary::Le => by_int!(d, T => bin!(T => u8, |a, b| (a <= b) as u8)),
        Binary::Div | Binary::Atan2 | Binary::LogAddExp | Binary::Gt | Binary::Ge => None,
    }
}

fn real(op: Binary, d: Dtype) -> Option<Step> {
    match op {
        Binary::Add => by_float!(d, T => bin!(T => T, |a, b| a + b)),
        Binary::Sub => by_float!(d, T => bin!(T => T, |a, b| a - b)),
        Binary::Mul => by_float!(d, T => bin!(T => T, |a, b| a * b)),
        Binary::Div => by_float!(d, T => bin!(T => T, |a, b| a / b)),
        Binary::FloorDiv => {
            by_width_of_float(d, wide2::<wide::FloorDiv>, bin!(bin_plain, f64 => f64, |a, b| a.floor_div(b)))
        }
        Binary::Rem => {
            by_width_of_float(d, wide2::<wide::Rem>, bin!(bin_plain, f64 => f64, |a, b| a.floor_rem(b)))
        }
        Binary::Pow => {
            by_width_of_float(d, wide2::<wide::Pow>, bin!(bin_plain, f64 => f64, |a, b| a.powf(b)))
        }
        Binary::Max => by_float!(d, T => bin!(T => T, |a, b| if a > b || a.is_nan() { a } else { b })),
        Binary::Min => by_float!(d, T => bin!(T => T, |a, b| if a < b || a.is_nan() { a } else { b })),
        Binary::Atan2 => {
            by_width_of_float(d, wide2::<wide::Atan2>, bin!(bin_plain, f64 => f64, |a, b| a.atan2(b)))
        }
        Binary::LogAddExp => by_width_of_float(
            d,
            wide2::<wide::LogAddExp>,
            bin!(bin_plain, f64 => f64, |a, b| a.log_add_exp(b)),
        ),
        Binary::LogicalAnd => by_float!(d, T => bin!(T => u8, |a, b| (a != 0.0) as u8 & (b != 0.0) as u8)),
        Binary::LogicalOr => by_float!(d, T => bin!(T => u8, |a, b| (a != 0.0) as u8 | (b != 0.0) as u8)),
        Binary::Eq => by_float!(d, T => bin!(T => u8, |a, b| (a == b) as u8)),
        Binary::Ne => by_float!(d, T => bin!(T => u8, |a, b| (a != b) as u8)),
        Binary::Lt => by_float!(d, T => bin!(T => u8, |a, b| (a < b) as u8)),
        Binary::Le => by_float!(d, T => bin!(T => u8, |a, b| (a <= b) as u8)),
        Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr
        | Binary::Gt
        | Binary::Ge => None,
    }
}

/// Rough cost of a function, in additions.
pub(super) fn cost_unary(op: Unary) -> usize {
    match op {
        Unary::Abs
        | Unary::Neg
        | Unary::Sign
        | Unary::Ceil
        | Unary::Floor
        | Unary::Round
        | Unary::Sqrt
        | Unary::Rsqrt
        | Unary::Square
        | Unary::LogicalNot
        | Unary::BitNot
        | Unary::Real
        | Unary::Imag
        | Unary::Conj => 0,
        Unary::Exp
        | Unary::Expm1
        | Unary::Log
        | Unary::Log2
        | Unary::Log10
        | Unary::Log1p
        | Unary::Sin
        | Unary::Cos
        | Unary::Tan
        | Unary::Asin
        | Unary::Acos
        | Unary::Atan
        | Unary::Sinh
        | Unary::Cosh
        | Unary::Tanh
        | Unary::Asinh
        | Unary::Acosh
        | Unary::Atanh
        | Unary::Erf
        | Unary::ErfInv
        | Unary::Sigmoid => 6,
    }
}

/// Rough cost of a function, in additions.
pub(super) fn cost_binary(op: Binary) -> usize {
    match op {
        Binary::FloorDiv | Binary::Rem | Binary::Pow | Binary::Atan2 | Binary::LogAddExp => 10,
        Binary::Add
        | Binary::Sub
        | Binary::Mul
        | Binary::Div
        | Binary::Max
        | Binary::Min
        | Binary::LogicalAnd
        | Binary::LogicalOr
        | Binary::BitAnd
        | Binary::BitOr
        | Binary::BitXor
        | Binary::Shl
        | Binary::Shr
        | Binary::Eq
        | Binary::Ne
        | Binary::Lt
        | Binary::Le
        | Binary::Gt
        | Binary::Ge => 0,
    }
}
