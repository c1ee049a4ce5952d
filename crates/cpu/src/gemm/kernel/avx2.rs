//! AVX2 vectors.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::Vector;
use super::avx512::{HalfFloat, no_transpose, plain_vector};

/// Eight f32.
#[derive(Clone, Copy)]
pub(in super::super) struct F32x8;
/// Eight bf16 or f16, widened to f32 when loaded.
#[derive(Clone, Copy)]
pub(in super::super) struct Half8<E>(PhantomData<E>);
/// Four f64.
#[derive(Clone, Copy)]
pub(in super::super) struct F64x4;

/// Sets the sign bit of the first `n` of eight 32-bit lanes.
#[inline(always)]
unsafe fn mask32x8(n: usize) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        _mm256_cmpgt_epi32(_mm256_set1_epi32(n.min(8) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
    }
}

/// Sets the sign bit of the first `n` of four 64-bit lanes.
#[inline(always)]
unsafe fn mask64x4(n: usize) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe { _mm256_cmpgt_epi64(_mm256_set1_epi64x(n.min(4) as i64), _mm256_setr_epi64x(0, 1, 2, 3)) }
}

/// Transposes 8 x 8 values of 32 bits.
#[inline(always)]
unsafe fn transpose8(v: *mut __m256) {
    // SAFETY: the caller has AVX2 and gives eight registers.
    unsafe {
        let r = &mut *v.cast::<[__m256; 8]>();
        let mut t = [_mm256_setzero_ps(); 8];
        for i in 0..2 {
            let [a, b, c, d] = [r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]];
            let (ab0, ab1) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            t[4 * i] = _mm256_shuffle_ps::<0x44>(ab0, cd0);
            t[4 * i + 1] = _mm256_shuffle_ps::<0xee>(ab0, cd0);
            t[4 * i + 2] = _mm256_shuffle_ps::<0x44>(ab1, cd1);
            t[4 * i + 3] = _mm256_shuffle_ps::<0xee>(ab1, cd1);
        }
        for j in 0..4 {
            r[j] = _mm256_permute2f128_ps::<0x20>(t[j], t[4 + j]);
            r[4 + j] = _mm256_permute2f128_ps::<0x31>(t[j], t[4 + j]);
        }
    }
}

#[inline(always)]
unsafe fn load_f32x8(p: *const f32, n: usize) -> __m256 {
    // SAFETY: the caller has AVX2 and `n` elements at `p`.
    unsafe { _mm256_maskload_ps(p, mask32x8(n)) }
}

#[inline(always)]
unsafe fn store_f32x8(p: *mut f32, v: __m256, n: usize) {
    // SAFETY: the caller has AVX2 and room for `n` elements at `p`.
    unsafe { if n >= 8 { _mm256_storeu_ps(p, v) } else { _mm256_maskstore_ps(p, mask32x8(n), v) } }
}

#[inline(always)]
unsafe fn load_f64x4(p: *const f64, n: usize) -> __m256d {
    // SAFETY: the caller has AVX2 and `n` elements at `p`.
    unsafe { _mm256_maskload_pd(p, mask64x4(n)) }
}

#[inline(always)]
unsafe fn store_f64x4(p: *mut f64, v: __m256d, n: usize) {
    // SAFETY: the caller has AVX2 and room for `n` elements at `p`.
    unsafe { if n >= 4 { _mm256_storeu_pd(p, v) } else { _mm256_maskstore_pd(p, mask64x4(n), v) } }
}

#[inline(always)]
unsafe fn reduce_f32x8(v: __m256) -> f32 {
    // SAFETY: the caller has AVX2.
    unsafe {
        let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }
}

#[inline(always)]
unsafe fn reduce_f64x4(v: __m256d) -> f64 {
    // SAFETY: the caller has AVX2.
    unsafe {
        let two = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd::<1>(v));
        _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
    }
}

plain_vector!(
    F32x8,
    f32,
    __m256,
    8,
    true,
    transpose8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    load_f32x8,
    store_f32x8,
    _mm256_add_ps,
    _mm256_mul_ps,
    _mm256_fmadd_ps,
    reduce_f32x8
);
plain_vector!(
    F64x4,
    f64,
    __m256d,
    4,
    false,
    no_transpose,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_loadu_pd,
    load_f64x4,
    store_f64x4,
    _mm256_add_pd,
    _mm256_mul_pd,
    _mm256_fmadd_pd,
    reduce_f64x4
);

/// The first `n` of eight half floats; zeros after.
#[inline(always)]
unsafe fn load_half8<E>(p: *const E, n: usize) -> __m128i {
    // SAFETY: the caller has AVX2 and `n` elements of 16 bits at `p`.
    unsafe {
        if n >= 8 {
            return _mm_loadu_si128(p.cast());
        }
        let mut buffer = [0u16; 8];
        std::ptr::copy_nonoverlapping(p.cast(), buffer.as_mut_ptr(), n);
        _mm_loadu_si128(buffer.as_ptr().cast())
    }
}

impl<E: HalfFloat> Vector for Half8<E> {
    type Elem = E;
    type Packed = f32;
    type Acc = f32;
    type Reg = __m256;
    type Sum = __m256;
    const LANES: usize = 8;
    const STEP: usize = 1;
    const TRANSPOSES: bool = true;

    #[inline(always)]
    fn packed_zero() -> f32 {
        0.0
    }
    #[inline(always)]
    unsafe fn load(p: *const E) -> __m256 {
        // SAFETY: the caller has AVX2 and F16C, and eight elements at `p`.
        unsafe { E::widen8(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_n(p: *const E, n: usize) -> __m256 {
        // SAFETY: the caller has AVX2 and F16C, and `n` elements at `p`.
        unsafe { E::widen8(load_half8(p, n)) }
    }
    #[inline(always)]
    unsafe fn load_lines(p: *const E, _stride: isize, n: usize, _steps: usize) -> __m256 {
        // SAFETY: the caller has AVX2 and F16C, and `n` elements at `p`.
        unsafe { E::widen8(load_half8(p, n)) }
    }
    #[inline(always)]
    unsafe fn pack_one(p: *const E, _stride: isize, _steps: usize) -> f32 {
        // SAFETY: the caller has one element at `p`.
        unsafe { p.read().widen1() }
    }
    #[inline(always)]
    unsafe fn load_packed(p: *const f32) -> __m256 {
        // SAFETY: the caller has AVX2 and eight values at `p`.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store_packed_n(p: *mut f32, v: __m256, n: usize) {
        // SAFETY: the caller has AVX2 and `n` values at `p`.
        unsafe { store_f32x8(p, v, n) }
    }
    #[inline(always)]
    unsafe fn transpose(v: *mut __m256) {
        // SAFETY: the caller has AVX2 and eight registers at `v`.
        unsafe { transpose8(v) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn zero() -> __m256 {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the caller has FMA.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn axpy(a: __m256, x: f32, c: __m256) -> __m256 {
        // SAFETY: the caller has FMA.
        unsafe { _mm256_fmadd_ps(a, _mm256_set1_ps(x), c) }
    }
    #[inline(always)]
    unsafe fn scale(a: __m256, x: f32) -> __m256 {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_mul_ps(a, _mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn reduce(a: __m256) -> f32 {
        // SAFETY: the caller has AVX2.
        unsafe { reduce_f32x8(a) }
    }
    #[inline(always)]
    unsafe fn load_sum_n(p: *const f32, n: usize) -> __m256 {
        // SAFETY: the caller has AVX2 and `n` sums at `p`.
        unsafe { load_f32x8(p, n) }
    }
    #[inline(always)]
    unsafe fn store_sum_n(p: *mut f32, v: __m256, n: usize) {
        // SAFETY: the caller has AVX2 and `n` sums at `p`.
        unsafe { store_f32x8(p, v, n) }
    }
    #[inline(always)]
    unsafe fn widen_n(p: *const E, n: usize) -> __m256 {
        // SAFETY: the caller has AVX2 and F16C, and `n` elements at `p`.
        unsafe { E::widen8(load_half8(p, n)) }
    }
    #[inline(always)]
    unsafe fn round_n(p: *mut E, v: __m256, n: usize) {
        // SAFETY: the caller has AVX2 and F16C, and room for `n` elements of 16 bits at `p`.
        unsafe {
            let halves = E::round8(v);
            if n >= 8 {
                return _mm_storeu_si128(p.cast(), halves);
            }
            let mut buffer = [0u16; 8];
            _mm_storeu_si128(buffer.as_mut_ptr().cast(), halves);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), p.cast(), n);
        }
    }
}
