//! How element types are packed for the micro-kernels.

use std::marker::PhantomData;

use half::bf16;

use super::FEW_ROWS;
use super::blocked::{self, Job};
use super::few;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
use super::kernel::amx;
#[cfg(target_arch = "x86_64")]
use super::kernel::avx512::{Half16, Pair16};
use super::kernel::engine::Engine;
use super::kernel::{Pack, Table, Vector};
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
    /// Micro-kernels by rows and width.
    const TABLE: Table<<Self::V as Vector>::Packed, <Self::V as Vector>::Acc> = Self::V::TABLE;
    /// Rough multiply-adds per nanosecond of one core, which say what is worth a thread.
    const SPEED: usize;
    /// Bytes of a packed strip of `b`, which passes through the first-level cache (48 KiB on current cores)
    /// while a panel of `a`, half as high as the strip is wide, stays there. A deeper strip visits `c` less
    /// often.
    const STRIP_BYTES: usize = 96 << 10;
    /// Packed values that a micro-kernel may read after the last panel of `a`.
    const OVERRUN: usize = 0;
    /// Most rows that the few-rows path takes: beyond them it computes longer than it waits for memory.
    const FEW_ROWS: usize;
    /// Prepares a thread for micro-kernels,
    unsafe fn enter() {}
    /// and cleans up after them.
    unsafe fn leave() {}
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
    const SPEED: usize = 4 * V::LANES;
    const FEW_ROWS: usize = FEW_ROWS;

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
    const SPEED: usize = V::LANES;
    const FEW_ROWS: usize = 0;

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

/// bfloat16 on the tile registers of AMX. Few rows are widened to f32: their time is memory's, and the
/// vector form of the bfloat16 product is slower than two f32 ones on the cores that have tiles.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) struct Amx;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
impl Scheme for Amx {
    type Elem = bf16;
    type V = Pair16;
    const SUMS: usize = 1;
    const IN_PLACE: bool = false;
    const TABLE: Table<u32, f32> = amx::TABLE;
    const SPEED: usize = 1024;
    const OVERRUN: usize = 16 * amx::CHUNK;
    const FEW_ROWS: usize = 8;

    unsafe fn enter() {
        // SAFETY: the caller has AMX.
        unsafe { amx::enter() }
    }
    unsafe fn leave() {
        // SAFETY: the caller has AMX.
        unsafe { amx::leave() }
    }
    fn steps(k: usize) -> usize {
        k.div_ceil(2 * amx::CHUNK) * amx::CHUNK
    }
    unsafe fn pack_a(p: &Pack<bf16, u32>) {
        // SAFETY: the caller's promise.
        unsafe { amx::pack_a(p) }
    }
    unsafe fn pack_b(p: &Pack<bf16, u32>) {
        let steps = p.k.div_ceil(2);
        // SAFETY: the caller's promise; the steps that fill the last chunk are zero.
        unsafe {
            Pair16::pack(p);
            p.dst.add(steps * p.width).write_bytes(0, (Self::steps(p.k) - steps) * p.width);
        }
    }
    fn few_takes(b: Raw<bf16>) -> bool {
        few::takes(&b)
    }
    unsafe fn few(job: &Job, a: Raw<bf16>, b: Raw<bf16>, c: RawMut<bf16>) {
        // SAFETY: the caller's promise.
        unsafe { few::gemm::<Half16<bf16>>(job, a, b, c) }
    }
}
