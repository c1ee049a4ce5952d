//! Eight lanes in an array, for the compiler to vectorise with the baseline of the target.

use super::{Kernel, Lanes};
use crate::simd::Level;
use half::{bf16, f16};

/// Runs anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Portable(());

impl Portable {
    /// Needs no instructions beyond the baseline.
    pub fn new() -> Self {
        Portable(())
    }
}

impl Default for Portable {
    fn default() -> Self {
        Self::new()
    }
}

const N: usize = 8;
type F = [f32; N];
type I = [i32; N];

/// Whether the baseline of the target has a fused multiply-add.
const FUSED: bool = cfg!(any(target_feature = "fma", target_arch = "aarch64"));

#[inline(always)]
fn fused(a: f32, b: f32, c: f32) -> f32 {
    if FUSED {
        a.mul_add(b, c)
    } else {
        // The product is exact in f64, so that only the sum is rounded before the final rounding: at worst
        // a hair above half a unit in the last place, and far faster than emulation in the C library.
        (a as f64 * b as f64 + c as f64) as f32
    }
}

macro_rules! lanewise {
    ($a:ident => $e:expr) => {{
        std::array::from_fn(|i| {
            let $a = $a[i];
            $e
        })
    }};
    ($a:ident, $b:ident => $e:expr) => {{
        std::array::from_fn(|i| {
            let ($a, $b) = ($a[i], $b[i]);
            $e
        })
    }};
    ($a:ident, $b:ident, $c:ident => $e:expr) => {{
        std::array::from_fn(|i| {
            let ($a, $b, $c) = ($a[i], $b[i], $c[i]);
            $e
        })
    }};
}

impl Lanes for Portable {
    const N: usize = N;
    type F = F;
    type I = I;
    type M = [bool; N];

    #[inline(always)]
    fn level(self) -> Level {
        Level::Portable
    }
    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    #[inline(always)]
    fn splat(self, x: f32) -> F {
        [x; N]
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> I {
        [x; N]
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> F {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<F>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: F) {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<F>().write_unaligned(v) }
    }
    #[inline(always)]
    unsafe fn load_part(self, p: *const f32, n: usize) -> F {
        let mut v = [0.0; N];
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(p, v.as_mut_ptr(), n.min(N)) };
        v
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize, v: F) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(v.as_ptr(), p, n.min(N)) }
    }
    #[inline(always)]
    unsafe fn load_i(self, p: *const i32) -> I {
        // SAFETY: the caller's promise.
        unsafe { p.cast::<I>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const f16) -> F {
        // SAFETY: the caller's promise.
        let v = unsafe { p.cast::<[f16; N]>().read_unaligned() };
        lanewise!(v => v.to_f32())
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut f16, v: F) {
        let h: [f16; N] = lanewise!(v => f16::from_f32(v));
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[f16; N]>().write_unaligned(h) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const bf16) -> F {
        // SAFETY: the caller's promise.
        let v = unsafe { p.cast::<[u16; N]>().read_unaligned() };
        lanewise!(v => f32::from_bits((v as u32) << 16))
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut bf16, v: F) {
        let h: [bf16; N] = lanewise!(v => bf16::from_f32(v));
        // SAFETY: the caller's promise.
        unsafe { p.cast::<[bf16; N]>().write_unaligned(h) }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> I {
        // SAFETY: the caller's promise.
        let v = unsafe { p.cast::<[u8; N]>().read_unaligned() };
        lanewise!(v => v as i32)
    }
    #[inline(always)]
    fn add(self, a: F, b: F) -> F {
        lanewise!(a, b => a + b)
    }
    #[inline(always)]
    fn sub(self, a: F, b: F) -> F {
        lanewise!(a, b => a - b)
    }
    #[inline(always)]
    fn mul(self, a: F, b: F) -> F {
        lanewise!(a, b => a * b)
    }
    #[inline(always)]
    fn div(self, a: F, b: F) -> F {
        lanewise!(a, b => a / b)
    }
    #[inline(always)]
    fn sqrt(self, a: F) -> F {
        lanewise!(a => a.sqrt())
    }
    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        lanewise!(a, b, c => fused(a, b, c))
    }
    #[inline(always)]
    fn mul_acc(self, a: F, b: F, c: F) -> F {
        if FUSED { lanewise!(a, b, c => a.mul_add(b, c)) } else { lanewise!(a, b, c => a * b + c) }
    }
    #[inline(always)]
    fn max(self, a: F, b: F) -> F {
        lanewise!(a, b => if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: F, b: F) -> F {
        lanewise!(a, b => if a < b { a } else { b })
    }
    #[inline(always)]
    fn lt(self, a: F, b: F) -> [bool; N] {
        lanewise!(a, b => a < b)
    }
    #[inline(always)]
    fn eq_i(self, a: I, b: I) -> [bool; N] {
        lanewise!(a, b => a == b)
    }
    #[inline(always)]
    fn select(self, m: [bool; N], a: F, b: F) -> F {
        lanewise!(m, a, b => if m { a } else { b })
    }
    #[inline(always)]
    fn bits(self, a: F) -> I {
        lanewise!(a => a.to_bits() as i32)
    }
    #[inline(always)]
    fn float_of(self, a: I) -> F {
        lanewise!(a => f32::from_bits(a as u32))
    }
    #[inline(always)]
    fn to_f(self, a: I) -> F {
        lanewise!(a => a as f32)
    }
    #[inline(always)]
    fn add_i(self, a: I, b: I) -> I {
        lanewise!(a, b => a.wrapping_add(b))
    }
    #[inline(always)]
    fn sub_i(self, a: I, b: I) -> I {
        lanewise!(a, b => a.wrapping_sub(b))
    }
    #[inline(always)]
    fn and_i(self, a: I, b: I) -> I {
        lanewise!(a, b => a & b)
    }
    #[inline(always)]
    fn or_i(self, a: I, b: I) -> I {
        lanewise!(a, b => a | b)
    }
    #[inline(always)]
    fn xor_i(self, a: I, b: I) -> I {
        lanewise!(a, b => a ^ b)
    }
    #[inline(always)]
    fn shl<const K: u32>(self, a: I) -> I {
        lanewise!(a => a << K)
    }
    #[inline(always)]
    fn sar<const K: u32>(self, a: I) -> I {
        lanewise!(a => a >> K)
    }
    #[inline(always)]
    fn swap_pairs(self, a: F) -> F {
        std::array::from_fn(|i| a[i ^ 1])
    }
    #[inline(always)]
    fn reduce_add(self, a: F) -> f32 {
        ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))
    }
    #[inline(always)]
    fn reduce_max(self, a: F) -> f32 {
        a.iter().fold(f32::NEG_INFINITY, |m, &x| if x > m { x } else { m })
    }
}
