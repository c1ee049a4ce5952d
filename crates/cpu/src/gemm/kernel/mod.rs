//! The innermost loops, generic over a [`Vector`] type, compiled once per instruction set.
//!
//! A `Vector` implementation wraps the intrinsics of one instruction set in functions that are always
//! inlined; the loops here are always inlined too, into entry points that carry the `target_feature`
//! attribute ([`Engine`]), so that the whole kernel is compiled with the instructions that it uses.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(super) mod amx;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;
pub(super) mod engine;
pub(super) mod few;
pub(super) mod portable;

/// Scalars that sums are kept in.
pub(in super::super) trait Real: Copy + Send + Sync + PartialEq + 'static {
    const ZERO: Self;
    fn from_f32(x: f32) -> Self;
    fn add(self, other: Self) -> Self;
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    fn from_f32(x: f32) -> f32 {
        x
    }
    fn add(self, other: f32) -> f32 {
        self + other
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    fn from_f32(x: f32) -> f64 {
        f64::from(x)
    }
    fn add(self, other: f64) -> f64 {
        self + other
    }
}

/// How one element type is loaded, multiplied and stored with one instruction set.
///
/// `LANES` sums are computed side by side. Each lane consumes `STEP` elements along k per
/// multiply-add (two for the bfloat16 dot product, else one). A `Packed` value holds `STEP` elements
/// that follow one another along k, ready to multiply.
///
/// # Safety
/// All functions require the instruction set of the type, and pointers valid for what they say they
/// read or write.
pub(in super::super) trait Vector: Copy + 'static {
    /// Element in memory.
    type Elem: Copy + Send + Sync + 'static;
    /// Element, or pair, as packed and as broadcast.
    type Packed: Copy + Send + Sync + 'static;
    /// Scalar of a sum.
    type Acc: Real;
    /// Register of `LANES` packed values.
    type Reg: Copy;
    /// Register of `LANES` sums.
    type Sum: Copy;

    const LANES: usize;
    const STEP: usize;

    /// Whether `transpose` is a register operation.
    const TRANSPOSES: bool;

    /// Asks for the cache line at `p`, which need not exist, in the second-level cache.
    #[inline(always)]
    fn prefetch_far(p: *const u8) {
        // SAFETY: as below.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T1 }>(p.cast())
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = p;
    }

    /// Asks for the cache line at `p`, which need not exist.
    #[inline(always)]
    fn prefetch(p: *const u8) {
        // SAFETY: a prefetch of any address is a hint without effect on memory; SSE is part of x86-64.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast())
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = p;
    }

    /// `LANES * STEP` consecutive elements.
    unsafe fn load(p: *const Self::Elem) -> Self::Reg;
    /// The first `n <= LANES * STEP` of them, zeros after.
    unsafe fn load_n(p: *const Self::Elem, n: usize) -> Self::Reg;
    /// Elements of `n <= LANES` neighbouring lines, of one step along k; `stride` elements separate the
    /// steps and `steps` of `STEP` exist (the others are zero).
    unsafe fn load_lines(p: *const Self::Elem, stride: isize, n: usize, steps: usize) -> Self::Reg;
    /// One packed value of a line; `stride` and `steps` as above.
    unsafe fn pack_one(p: *const Self::Elem, stride: isize, steps: usize) -> Self::Packed;
    /// Packed zeros.
    fn packed_zero() -> Self::Packed;

    /// `LANES` packed values.
    unsafe fn load_packed(p: *const Self::Packed) -> Self::Reg;
    unsafe fn store_packed_n(p: *mut Self::Packed, v: Self::Reg, n: usize);
    /// Transposes the square of `LANES` registers at `v`.
    unsafe fn transpose(v: *mut Self::Reg);
    unsafe fn splat(x: Self::Packed) -> Self::Reg;

    unsafe fn zero() -> Self::Sum;
    /// `a * b + c`, summed over the step.
    unsafe fn fma(a: Self::Reg, b: Self::Reg, c: Self::Sum) -> Self::Sum;
    unsafe fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// `a * x + c`.
    unsafe fn axpy(a: Self::Sum, x: Self::Acc, c: Self::Sum) -> Self::Sum;
    unsafe fn scale(a: Self::Sum, x: Self::Acc) -> Self::Sum;
    /// The sum of the lanes, in a fixed order.
    unsafe fn reduce(a: Self::Sum) -> Self::Acc;
    unsafe fn load_sum_n(p: *const Self::Acc, n: usize) -> Self::Sum;
    unsafe fn store_sum_n(p: *mut Self::Acc, v: Self::Sum, n: usize);
    /// `n <= LANES` elements, widened.
    unsafe fn widen_n(p: *const Self::Elem, n: usize) -> Self::Sum;
    /// Rounds to elements once and stores `n <= LANES` of them.
    unsafe fn round_n(p: *mut Self::Elem, v: Self::Sum, n: usize);
}

/// Steps that a micro-kernel asks for `a` ahead of its use: about the latency of the second-level cache.
const AHEAD: usize = 12;

/// One call of a micro-kernel: a tile of `rows x cols` sums over `k` packed steps.
///
/// `a` is packed step by step, the rows of a step together; step `p` of `b` starts at
/// `b + p * b_stride` and holds the columns of the step together, padded to whole vectors.
pub(super) struct Tile<P, A> {
    pub rows: usize,
    pub k: usize,
    pub a: *const P,
    pub b: *const P,
    pub b_stride: usize,
    pub c: *mut A,
    pub c_stride: usize,
    pub cols: usize,
    /// Add to what is in `c`, or overwrite without reading.
    pub add: bool,
}

pub(super) type Micro<P, A> = unsafe fn(&Tile<P, A>);

/// Width of a tile in vectors.
pub(super) const WIDE: usize = 2;

/// The micro-kernels of one vector type, by rows and width: entry `[r - 1][w - 1]` computes `r` rows and
/// `w` vectors.
pub(super) type Table<P, A> = &'static [[Micro<P, A>; WIDE]];

/// # Safety
/// The tile's pointers must be valid for what [`Tile`] says, with `(NV - 1) * LANES < cols <= NV * LANES`.
#[inline(always)]
unsafe fn micro<V: Vector, const MR: usize, const NV: usize>(t: &Tile<V::Packed, V::Acc>) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[V::zero(); NV]; MR];
        let (mut a, mut b) = (t.a, t.b);
        // The tile of `c` arrives while the sums are computed.
        for i in 0..MR {
            for j in 0..NV {
                V::prefetch(t.c.wrapping_add(i * t.c_stride + j * V::LANES).cast());
            }
        }
        for _ in 0..t.k {
            V::prefetch(a.wrapping_add(AHEAD * MR).cast());
            let mut right = [V::load_packed(b); NV];
            for (j, r) in right.iter_mut().enumerate().skip(1) {
                *r = V::load_packed(b.add(j * V::LANES));
            }
            for (i, row) in acc.iter_mut().enumerate() {
                let left = V::splat(*a.add(i));
                for (sum, &r) in row.iter_mut().zip(&right) {
                    *sum = V::fma(left, r, *sum);
                }
            }
            a = a.add(MR);
            b = b.add(t.b_stride);
        }
        let last = t.cols - (NV - 1) * V::LANES;
        for (i, row) in acc.iter().enumerate() {
            for (j, &sum) in row.iter().enumerate() {
                let p = t.c.add(i * t.c_stride + j * V::LANES);
                let n = if j + 1 == NV { last } else { V::LANES };
                let sum = if t.add { V::add(V::load_sum_n(p, n), sum) } else { sum };
                V::store_sum_n(p, sum, n);
            }
        }
    }
}

/// Writes packed lines: step `p` goes to `dst + p * width`, `lines` values and then zeros up to `width`.
///
/// Element `(line, k)` of the source is at `src + line * line_stride + k * k_stride`; there are `k`.
/// The next `width` lines are asked for on the way: packed next, they arrive during the computation.
///
/// # Safety
/// Source elements must be readable and `k.div_ceil(STEP) * width` packed values writable;
/// `lines <= width`.
#[inline(always)]
unsafe fn pack<V: Vector>(p: &Pack<V::Elem, V::Packed>) {
    let &Pack { src, line_stride, k_stride, lines, width, k, dst } = p;
    let steps = k.div_ceil(V::STEP);
    // SAFETY: every source address below is of an existing line and an existing k; the rest is the
    // caller's promise.
    unsafe {
        if V::TRANSPOSES && k_stride == 1 {
            let mut line = 0;
            while line < width {
                let here = lines.saturating_sub(line).min(V::LANES);
                let wide = (width - line).min(V::LANES);
                let mut step = 0;
                while step < steps {
                    let square = (steps - step).min(V::LANES);
                    let from = step * V::STEP;
                    let left = (k - from).min(V::LANES * V::STEP);
                    let whole = left == V::LANES * V::STEP;
                    let mut regs = [V::splat(V::packed_zero()); 16];
                    for (i, reg) in regs.iter_mut().enumerate().take(here) {
                        let at = src.offset((line + i) as isize * line_stride + from as isize);
                        V::prefetch_far(at.wrapping_offset(width as isize * line_stride).cast());
                        *reg = if whole { V::load(at) } else { V::load_n(at, left) };
                    }
                    V::transpose(regs.as_mut_ptr());
                    for (i, &reg) in regs.iter().enumerate().take(square) {
                        V::store_packed_n(dst.add((step + i) * width + line), reg, wide);
                    }
                    step += square;
                }
                line += V::LANES;
            }
        } else if line_stride == 1 {
            for step in 0..steps {
                let from = step * V::STEP;
                let exist = (k - from).min(V::STEP);
                let row = src.offset(from as isize * k_stride);
                let mut line = 0;
                while line < width {
                    let here = lines.saturating_sub(line).min(V::LANES);
                    let wide = (width - line).min(V::LANES);
                    let at = row.add(line.min(lines));
                    for i in 0..V::STEP {
                        V::prefetch_far(at.wrapping_offset(width as isize + i as isize * k_stride).cast());
                    }
                    let reg = V::load_lines(at, k_stride, here, exist);
                    V::store_packed_n(dst.add(step * width + line), reg, wide);
                    line += V::LANES;
                }
            }
        } else {
            for step in 0..steps {
                let from = step * V::STEP;
                let exist = (k - from).min(V::STEP);
                let row = src.offset(from as isize * k_stride);
                for line in 0..lines {
                    let x = V::pack_one(row.offset(line as isize * line_stride), k_stride, exist);
                    dst.add(step * width + line).write(x);
                }
                for line in lines..width {
                    dst.add(step * width + line).write(V::packed_zero());
                }
            }
        }
    }
}

/// Arguments of [`pack`].
pub(super) struct Pack<E, P> {
    pub src: *const E,
    pub line_stride: isize,
    pub k_stride: isize,
    pub lines: usize,
    pub width: usize,
    pub k: usize,
    pub dst: *mut P,
}

/// `dst = round(alpha * src + beta * dst)` over a row of `n`; `dst` is not read if `beta` is zero.
///
/// # Safety
/// `n` sums readable at `src`, `n` elements writable (and readable unless `beta` is zero) at `dst`,
/// `stride` elements apart.
#[inline(always)]
unsafe fn finish<V: Vector>(f: &Finish<V::Elem, V::Acc>) {
    let &Finish { src, dst, stride, n, alpha, beta } = f;
    let (a, b) = (V::Acc::from_f32(alpha), V::Acc::from_f32(beta));
    let mut i = 0;
    // SAFETY: the caller's promise; a strided row goes through a buffer of one vector.
    unsafe {
        while i < n {
            let m = (n - i).min(V::LANES);
            let mut sum = V::load_sum_n(src.add(i), m);
            if alpha != 1.0 {
                sum = V::scale(sum, a);
            }
            if stride == 1 {
                if beta != 0.0 {
                    sum = V::axpy(V::widen_n(dst.add(i), m), b, sum);
                }
                V::round_n(dst.add(i), sum, m);
            } else {
                let mut buffer = std::mem::MaybeUninit::<[V::Elem; 16]>::uninit();
                let buffer = buffer.as_mut_ptr().cast::<V::Elem>();
                if beta != 0.0 {
                    for j in 0..m {
                        buffer.add(j).write(dst.offset((i + j) as isize * stride).read());
                    }
                    sum = V::axpy(V::widen_n(buffer, m), b, sum);
                }
                V::round_n(buffer, sum, m);
                for j in 0..m {
                    dst.offset((i + j) as isize * stride).write(buffer.add(j).read());
                }
            }
            i += m;
        }
    }
}

/// Arguments of [`finish`].
pub(super) struct Finish<E, A> {
    pub src: *const A,
    pub dst: *mut E,
    pub stride: isize,
    pub n: usize,
    pub alpha: f32,
    pub beta: f32,
}
