//! Vectors of `f32`, written once and compiled for each instruction set.
//!
//! A kernel implements [`Kernel`] with code generic over [`Lanes`]; [`dispatch`] runs it at the level of
//! the machine. A value of a `Lanes` type proves that its instructions exist: outside this module none can
//! be made, so arithmetic on vectors is safe and only loads and stores through pointers are not.
//!
//! `run` and everything generic that it calls must be `#[inline(always)]`: only code inlined into the
//! functions of this module that carry `#[target_feature]` is compiled with the wide instructions. For the
//! same reason such code holds no closures that outlive inlining.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::simd::{Level, level};
use half::{bf16, f16};

pub use portable::Portable;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// Operations on one register of `N` floats, or of `N` 32-bit integers.
///
/// Integer arithmetic wraps. Every operation acts lane by lane, so a result does not depend on the lane.
pub trait Lanes: Copy + Send + Sync + 'static {
    /// Lanes of a register.
    const N: usize;
    /// Floats.
    type F: Copy;
    /// 32-bit integers.
    type I: Copy;
    /// One truth value a lane.
    type M: Copy;

    /// The instruction set of this type.
    fn level(self) -> Level;
    /// Runs `kernel` as a function of its own, compiled for these instructions: keeps the size of large
    /// generic code in bounds where `#[inline(always)]` would multiply it.
    fn call<K: Kernel>(self, kernel: K) -> K::Output;
    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::F;
    /// `x` in every lane.
    fn splat_i(self, x: i32) -> Self::I;

    /// Reads `N` floats.
    ///
    /// # Safety
    /// `p` is valid for reading `N` floats; no alignment is needed.
    unsafe fn load(self, p: *const f32) -> Self::F;
    /// Writes `N` floats.
    ///
    /// # Safety
    /// `p` is valid for writing `N` floats; no alignment is needed.
    unsafe fn store(self, p: *mut f32, v: Self::F);
    /// Reads `n.min(N)` floats, zero in the other lanes.
    ///
    /// # Safety
    /// `p` is valid for reading `n.min(N)` floats.
    unsafe fn load_part(self, p: *const f32, n: usize) -> Self::F;
    /// Writes the first `n.min(N)` lanes.
    ///
    /// # Safety
    /// `p` is valid for writing `n.min(N)` floats.
    unsafe fn store_part(self, p: *mut f32, n: usize, v: Self::F);
    /// Reads `N` 32-bit integers.
    ///
    /// # Safety
    /// `p` is valid for reading `N` integers.
    unsafe fn load_i(self, p: *const i32) -> Self::I;
    /// Reads `N` IEEE halves, given by their bits, and widens them.
    ///
    /// # Safety
    /// `p` is valid for reading `N` halves.
    unsafe fn load_f16(self, p: *const f16) -> Self::F;
    /// Rounds to nearest even and writes `N` IEEE halves.
    ///
    /// # Safety
    /// `p` is valid for writing `N` halves.
    unsafe fn store_f16(self, p: *mut f16, v: Self::F);
    /// Reads `N` bfloat16 values and widens them.
    ///
    /// # Safety
    /// `p` is valid for reading `N` values.
    unsafe fn load_bf16(self, p: *const bf16) -> Self::F;
    /// Rounds to nearest even and writes `N` bfloat16 values.
    ///
    /// # Safety
    /// `p` is valid for writing `N` values.
    unsafe fn store_bf16(self, p: *mut bf16, v: Self::F);
    /// Reads `N` bytes as integers.
    ///
    /// # Safety
    /// `p` is valid for reading `N` bytes.
    unsafe fn load_u8(self, p: *const u8) -> Self::I;

    /// `a + b`
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a - b`
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b`
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a / b`
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// Square root.
    fn sqrt(self, a: Self::F) -> Self::F;
    /// `a * b + c`, rounded once. Exact rounding is kept at every level, at a cost in the portable one on
    /// machines without the instruction; see [`Lanes::mul_acc`].
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `a * b + c` by whatever is fastest, rounded once or twice.
    fn mul_acc(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`: the second where either is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`: the second where either is NaN.
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a < b`
    fn lt(self, a: Self::F, b: Self::F) -> Self::M;
    /// `a == b`
    fn eq_i(self, a: Self::I, b: Self::I) -> Self::M;
    /// `a` where `m`, else `b`.
    fn select(self, m: Self::M, a: Self::F, b: Self::F) -> Self::F;

    /// The bits of floats.
    fn bits(self, a: Self::F) -> Self::I;
    /// Floats of these bits.
    fn float_of(self, a: Self::I) -> Self::F;
    /// Integers to floats.
    fn to_f(self, a: Self::I) -> Self::F;
    /// `a + b`
    fn add_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a - b`
    fn sub_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a & b`
    fn and_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a | b`
    fn or_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a ^ b`
    fn xor_i(self, a: Self::I, b: Self::I) -> Self::I;
    /// `a << K`
    fn shl<const K: u32>(self, a: Self::I) -> Self::I;
    /// `a >> K`, keeping the sign.
    fn sar<const K: u32>(self, a: Self::I) -> Self::I;

    /// `a * 2^n` for `-150 <= n <= 254` and `|a|` between 0.5 and 2, rounded once; NaN stays NaN.
    #[inline(always)]
    fn scale2(self, a: Self::F, n: Self::I) -> Self::F {
        // Two steps, since neither 2^-150 nor 2^128 is a float. The first is exact.
        let half = self.sar::<1>(n);
        let rest = self.sub_i(n, half);
        let bias = self.splat_i(127);
        let s0 = self.float_of(self.shl::<23>(self.add_i(half, bias)));
        let s1 = self.float_of(self.shl::<23>(self.add_i(rest, bias)));
        self.mul(self.mul(a, s0), s1)
    }

    /// x = n + r with an integer n and |r| <= 1/2, for x <= 0. What is below -150 may count as -150.
    #[inline(always)]
    fn split(self, x: Self::F) -> (Self::F, Self::F) {
        // The order of operands lets NaN through; adding 1.5 * 2^23 rounds to an integer.
        let x = self.max(self.splat(-150.0), x);
        let magic = self.splat(12_582_912.0);
        let n = self.sub(self.add(x, magic), magic);
        (n, self.sub(x, n))
    }
    /// `a * 2^n` for n and r as [`Lanes::split`] gives them, and `|a|` between 0.5 and 2.
    #[inline(always)]
    fn scale_by(self, a: Self::F, n: Self::F) -> Self::F {
        let magic = self.splat(12_582_912.0);
        self.scale2(a, self.sub_i(self.bits(self.add(n, magic)), self.bits(magic)))
    }

    /// Exchanges lanes 0 and 1, 2 and 3, and so on.
    fn swap_pairs(self, a: Self::F) -> Self::F;
    /// Sum over the lanes, as a tree.
    fn reduce_add(self, a: Self::F) -> f32;
    /// Largest lane; a NaN lane may be passed over.
    fn reduce_max(self, a: Self::F) -> f32;
}

/// A computation that can be compiled for each instruction set.
pub trait Kernel {
    /// What it returns.
    type Output;
    /// The computation. Implementations are `#[inline(always)]`.
    fn run<S: Lanes>(self, s: S) -> Self::Output;
}

/// Runs `kernel` with the widest instructions of the machine.
#[inline]
pub fn dispatch<K: Kernel>(kernel: K) -> K::Output {
    dispatch_at(level(), kernel)
}

/// Runs `kernel` at `at`, or at the level of the machine if that is lower.
#[inline]
pub fn dispatch_at<K: Kernel>(at: Level, kernel: K) -> K::Output {
    match at.min(level()) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `level()` says that the machine has these instructions.
        Level::Avx512 | Level::Avx512Bf16 => unsafe { x86::run_avx512(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { x86::run_avx2(kernel) },
        _ => kernel.run(Portable::new()),
    }
}

/// A storage type of real numbers that kernels compute with in `f32`.
pub trait Element: Copy + Send + Sync + Default + 'static {
    /// The value, exactly.
    fn to_f32(self) -> f32;
    /// The nearest value, ties to even.
    fn from_f32(x: f32) -> Self;
    /// Reads `S::N` values.
    ///
    /// # Safety
    /// `p` is valid for reading `S::N` values.
    unsafe fn load<S: Lanes>(s: S, p: *const Self) -> S::F;
    /// Writes `S::N` values, rounded to nearest even.
    ///
    /// # Safety
    /// `p` is valid for writing `S::N` values.
    unsafe fn store<S: Lanes>(s: S, p: *mut Self, v: S::F);

    /// Reads `n.min(N)` values, zero in the other lanes.
    ///
    /// # Safety
    /// `p` is valid for reading `n.min(N)` values.
    #[inline(always)]
    unsafe fn load_part<S: Lanes>(s: S, p: *const Self, n: usize) -> S::F {
        let mut buf = [Self::default(); MAX_LANES];
        // SAFETY: the caller's promise; the buffer holds `MAX_LANES >= N` values.
        unsafe {
            std::ptr::copy_nonoverlapping(p, buf.as_mut_ptr(), n.min(S::N));
            Self::load(s, buf.as_ptr())
        }
    }

    /// Writes the first `n.min(N)` lanes.
    ///
    /// # Safety
    /// `p` is valid for writing `n.min(N)` values.
    #[inline(always)]
    unsafe fn store_part<S: Lanes>(s: S, p: *mut Self, n: usize, v: S::F) {
        let mut buf = [Self::default(); MAX_LANES];
        // SAFETY: the caller's promise; the buffer holds `MAX_LANES >= N` values.
        unsafe {
            Self::store(s, buf.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(buf.as_ptr(), p, n.min(S::N));
        }
    }
}

/// The most lanes of any level.
pub const MAX_LANES: usize = 16;

impl Element for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
    #[inline(always)]
    unsafe fn load<S: Lanes>(s: S, p: *const Self) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { s.load(p) }
    }
    #[inline(always)]
    unsafe fn store<S: Lanes>(s: S, p: *mut Self, v: S::F) {
        // SAFETY: the caller's promise.
        unsafe { s.store(p, v) }
    }
    #[inline(always)]
    unsafe fn load_part<S: Lanes>(s: S, p: *const Self, n: usize) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { s.load_part(p, n) }
    }
    #[inline(always)]
    unsafe fn store_part<S: Lanes>(s: S, p: *mut Self, n: usize, v: S::F) {
        // SAFETY: the caller's promise.
        unsafe { s.store_part(p, n, v) }
    }
}

impl Element for f16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        f16::to_f32(self)
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        f16::from_f32(x)
    }
    #[inline(always)]
    unsafe fn load<S: Lanes>(s: S, p: *const Self) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { s.load_f16(p) }
    }
    #[inline(always)]
    unsafe fn store<S: Lanes>(s: S, p: *mut Self, v: S::F) {
        // SAFETY: the caller's promise.
        unsafe { s.store_f16(p, v) }
    }
}

impl Element for bf16 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        bf16::from_f32(x)
    }
    #[inline(always)]
    unsafe fn load<S: Lanes>(s: S, p: *const Self) -> S::F {
        // SAFETY: the caller's promise.
        unsafe { s.load_bf16(p) }
    }
    #[inline(always)]
    unsafe fn store<S: Lanes>(s: S, p: *mut Self, v: S::F) {
        // SAFETY: the caller's promise.
        unsafe { s.store_bf16(p, v) }
    }
}

/// Widens `src` into `dst`, which has the same length.
#[inline(always)]
pub fn widen<S: Lanes, T: Element>(s: S, src: &[T], dst: &mut [f32]) {
    assert_eq!(src.len(), dst.len(), "widen: lengths differ");
    let n = src.len();
    let mut i = 0;
    // SAFETY: `i + N <= n` for whole registers, `n - i` lanes for the last one.
    unsafe {
        while i + S::N <= n {
            s.store(dst.as_mut_ptr().add(i), T::load(s, src.as_ptr().add(i)));
            i += S::N;
        }
        if i < n {
            s.store_part(dst.as_mut_ptr().add(i), n - i, T::load_part(s, src.as_ptr().add(i), n - i));
        }
    }
}

/// Rounds `src` into `dst`, which has the same length.
#[inline(always)]
pub fn narrow<S: Lanes, T: Element>(s: S, src: &[f32], dst: &mut [T]) {
    assert_eq!(src.len(), dst.len(), "narrow: lengths differ");
    let n = src.len();
    let mut i = 0;
    // SAFETY: `i + N <= n` for whole registers, `n - i` lanes for the last one.
    unsafe {
        while i + S::N <= n {
            T::store(s, dst.as_mut_ptr().add(i), s.load(src.as_ptr().add(i)));
            i += S::N;
        }
        if i < n {
            T::store_part(s, dst.as_mut_ptr().add(i), n - i, s.load_part(src.as_ptr().add(i), n - i));
        }
    }
}

#[cfg(test)]
mod tests;
