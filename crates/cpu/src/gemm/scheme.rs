//! How element types are packed for the micro-kernels.

use std::marker::PhantomData;

use super::blocked::{self, Job};
use super::few;
use super::kernel::engine::Engine;
use super::kernel::{Pack, Vector};
use super::mat::{C64, Raw, RawMut};

/// One element type on one instruction set, for the blocked product.
///
/// # Safety
/// The functions require the instruction set of `V`, and what [`super::kernel::pack`] says.
pub(super) trait Scheme: 'static {
    type Elem: Copy + Send + Sync + 'static;
    type V: Engine;
    /// Sums per element of `c`: two for a complex number.
    const SUMS: usize;
    /// Whether `c` can hold the sums themselves between blocks of k.
    const IN_PLACE: bool;
    /// Packed steps for `k` elements.
    fn steps(k: usize) -> usize;
    /// Packs rows of `a`; `width` counts packed values.
    unsafe fn pack_a(p: &Pack<Self::Elem, <Self::V as Vector>::Packed>);
    /// Packs columns of `b`; `width` counts packed values, `lines` elements.
    unsafe fn pack_b(p: &Pack<Self::Elem, <Self::V as Vector>::Packed>);
    /// Whether the few-rows path serves this type with such a `b`.
    fn few_takes(b: Raw<Self::Elem>) -> bool;
    /// The few-rows path.
    unsafe fn few(job: &Job, a: Raw<Self::Elem>, b: Raw<Self::Elem>, c: RawMut<Self::Elem>);
}

/// Elements that `V` loads directly. `IN_PLACE`: they are their own sums.
pub(super) struct Plain<V, const IN_PLACE: bool>(PhantomData<V>);

impl<V: Engine, const IN_PLACE: bool> Scheme for Plain<V, IN_PLACE> {
    type Elem = V::Elem;
    type V = V;
    const SUMS: usize = 1;
    const IN_PLACE: bool = IN_PLACE;

    fn steps(k: usize) -> usize {
        k.div_ceil(V::STEP)
    }
    unsafe fn pack_a(p: &Pack<V::Elem, V::Packed>) {
        // SAFETY: the caller's promise.
        unsafe { V::pack(p) }
    }
    unsafe fn pack_b(p: &Pack<V::Elem, V::Packed>) {
        // SAFETY: the caller's promise.
        unsafe { V::pack(p) }
    }
    fn few_takes(b: Raw<V::Elem>) -> bool {
        few::takes(&b)
    }
    unsafe fn few(job: &Job, a: Raw<V::Elem>, b: Raw<V::Elem>, c: RawMut<V::Elem>) {
        // SAFETY: the caller's promise.
        unsafe { few::gemm::<V>(job, a, b, c) }
    }
}

/// Complex numbers as a real product of twice the size: a row `[re, im]` of `a` times the columns
/// `[re, -im]` and `[im, re]` of `b` gives the real and the imaginary part, which lie side by side in `c`.
pub(super) struct Complex<V>(PhantomData<V>);

impl<V: Engine<Elem = f32, Packed = f32, Acc = f32>> Scheme for Complex<V> {
    type Elem = C64;
    type V = V;
    const SUMS: usize = 2;
    const IN_PLACE: bool = true;

    fn steps(k: usize) -> usize {
        2 * k
    }
    unsafe fn pack_a(p: &Pack<C64, f32>) {
        for k in 0..p.k {
            for line in 0..p.lines {
                // SAFETY: the caller has elements at these lines and steps, and room for them.
                unsafe {
                    let x = p.src.offset(line as isize * p.line_stride + k as isize * p.k_stride).read();
                    let at = p.dst.add(2 * k * p.width + line);
                    at.write(x.re);
                    at.add(p.width).write(x.im);
                }
            }
        }
    }
    unsafe fn pack_b(p: &Pack<C64, f32>) {
        for k in 0..p.k {
            for line in 0..p.width / 2 {
                let mut x = C64::default();
                // SAFETY: the caller has elements at these lines and steps, and room for twice as many.
                unsafe {
                    if line < p.lines {
                        x = p.src.offset(line as isize * p.line_stride + k as isize * p.k_stride).read();
                    }
                    let at = p.dst.add(2 * k * p.width + 2 * line);
                    at.write(x.re);
                    at.add(1).write(x.im);
                    at.add(p.width).write(-x.im);
                    at.add(p.width + 1).write(x.re);
                }
            }
        }
    }
    fn few_takes(_: Raw<C64>) -> bool {
        false
    }
    unsafe fn few(job: &Job, a: Raw<C64>, b: Raw<C64>, c: RawMut<C64>) {
        // SAFETY: the caller's promise.
        unsafe { blocked::gemm::<Self>(job, a, b, c) }
    }
}
