//! AVX2 with FMA and F16C, and AVX-512.

use super::{Kernel, Lanes};
use crate::simd::Level;
use half::{bf16, f16};
use std::arch::x86_64::*;

/// Eight lanes; made only where AVX2, FMA and F16C exist.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

/// Sixteen lanes; made only where AVX-512 F, BW, DQ, VL, VBMI and VNNI exist.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run_avx2<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

#[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
pub(super) fn run_avx512<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

/// All ones in the first `n` of eight lanes.
#[inline(always)]
fn mask8(n: usize) -> __m256i {
    const TABLE: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: reads eight of the sixteen entries, from 8 - n with n at most 8; `n` reaches here only from
    // methods of `Avx2`, whose values prove the instruction.
    unsafe { _mm256_loadu_si256(TABLE.as_ptr().add(8 - n.min(8)).cast()) }
}

#[inline(always)]
fn mask16(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1u16 << n) - 1 }
}

impl Lanes for Avx2 {
    const N: usize = 8;
    type F = __m256;
    type I = __m256i;
    type M = __m256;

    #[inline(always)]
    fn level(self) -> Level {
        Level::Avx2
    }
    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: only the instructions that `self` proves.
        unsafe { run_avx2(kernel) }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_set1_epi32(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m256 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m256) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_part(self, p: *const f32, n: usize) -> __m256 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_maskload_ps(p, mask8(n)) }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize, v: __m256) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_maskstore_ps(p, mask8(n), v) }
    }
    #[inline(always)]
    unsafe fn load_i(self, p: *const i32) -> __m256i {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_loadu_si256(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const f16) -> __m256 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut f16, v: __m256) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const bf16) -> __m256 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe {
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()))))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut bf16, v: __m256) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe {
            let bits = _mm256_castps_si256(v);
            let high = _mm256_srli_epi32::<16>(bits);
            let odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
            let rounded = _mm256_srli_epi32::<16>(_mm256_add_epi32(
                _mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)),
                odd,
            ));
            let quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let word = _mm256_blendv_epi8(rounded, quiet, nan);
            let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(word, word));
            _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> __m256i {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())) }
    }
    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_sqrt_ps(a) }
    }
    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn mul_acc(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    fn lt(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_cmp_ps::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    fn eq_i(self, a: __m256i, b: __m256i) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)) }
    }
    #[inline(always)]
    fn select(self, m: __m256, a: __m256, b: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_blendv_ps(b, a, m) }
    }
    #[inline(always)]
    fn bits(self, a: __m256) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_castps_si256(a) }
    }
    #[inline(always)]
    fn float_of(self, a: __m256i) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_castsi256_ps(a) }
    }
    #[inline(always)]
    fn to_f(self, a: __m256i) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn add_i(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub_i(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn and_i(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_and_si256(a, b) }
    }
    #[inline(always)]
    fn or_i(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_or_si256(a, b) }
    }
    #[inline(always)]
    fn xor_i(self, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_xor_si256(a, b) }
    }
    #[inline(always)]
    fn shl<const K: u32>(self, a: __m256i) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_sll_epi32(a, _mm_cvtsi32_si128(K as i32)) }
    }
    #[inline(always)]
    fn sar<const K: u32>(self, a: __m256i) -> __m256i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_sra_epi32(a, _mm_cvtsi32_si128(K as i32)) }
    }
    #[inline(always)]
    fn swap_pairs(self, a: __m256) -> __m256 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm256_permute_ps::<0b10_11_00_01>(a) }
    }
    #[inline(always)]
    fn reduce_add(self, a: __m256) -> f32 {
        // SAFETY: only the instructions that `self` proves.
        unsafe {
            let a = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_add_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_add_ss(a, _mm_movehdup_ps(a)))
        }
    }
    #[inline(always)]
    fn reduce_max(self, a: __m256) -> f32 {
        // SAFETY: only the instructions that `self` proves.
        unsafe {
            let a = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let a = _mm_max_ps(a, _mm_movehl_ps(a, a));
            _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)))
        }
    }
}

impl Lanes for Avx512 {
    const N: usize = 16;
    type F = __m512;
    type I = __m512i;
    type M = __mmask16;

    #[inline(always)]
    fn level(self) -> Level {
        Level::Avx512
    }
    #[inline(always)]
    fn call<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: only the instructions that `self` proves.
        unsafe { run_avx512(kernel) }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    fn splat_i(self, x: i32) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_set1_epi32(x) }
    }
    #[inline(always)]
    unsafe fn load(self, p: *const f32) -> __m512 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm512_loadu_ps(p) }
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32, v: __m512) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm512_storeu_ps(p, v) }
    }
    #[inline(always)]
    unsafe fn load_part(self, p: *const f32, n: usize) -> __m512 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm512_maskz_loadu_ps(mask16(n), p) }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize, v: __m512) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm512_mask_storeu_ps(p, mask16(n), v) }
    }
    #[inline(always)]
    unsafe fn load_i(self, p: *const i32) -> __m512i {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm512_loadu_epi32(p) }
    }
    #[inline(always)]
    unsafe fn load_f16(self, p: *const f16) -> __m512 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut f16, v: __m512) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(self, p: *const bf16) -> __m512 {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe {
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()))))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut bf16, v: __m512) {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe {
            // Not the instruction of AVX512_BF16, which flushes subnormal inputs to zero.
            let bits = _mm512_castps_si512(v);
            let high = _mm512_srli_epi32::<16>(bits);
            let odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
            let rounded = _mm512_srli_epi32::<16>(_mm512_add_epi32(
                _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)),
                odd,
            ));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let word = _mm512_mask_or_epi32(rounded, nan, high, _mm512_set1_epi32(0x40));
            _mm256_storeu_si256(p.cast(), _mm512_cvtepi32_epi16(word));
        }
    }
    #[inline(always)]
    unsafe fn load_u8(self, p: *const u8) -> __m512i {
        // SAFETY: the caller's promise, and the instructions that `self` proves.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())) }
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_sub_ps(a, b) }
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_mul_ps(a, b) }
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    fn sqrt(self, a: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_sqrt_ps(a) }
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn mul_acc(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    fn lt(self, a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b) }
    }
    #[inline(always)]
    fn eq_i(self, a: __m512i, b: __m512i) -> __mmask16 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_cmpeq_epi32_mask(a, b) }
    }
    #[inline(always)]
    fn select(self, m: __mmask16, a: __m512, b: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_mask_blend_ps(m, b, a) }
    }
    #[inline(always)]
    fn bits(self, a: __m512) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_castps_si512(a) }
    }
    #[inline(always)]
    fn float_of(self, a: __m512i) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_castsi512_ps(a) }
    }
    #[inline(always)]
    fn to_f(self, a: __m512i) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_cvtepi32_ps(a) }
    }
    #[inline(always)]
    fn add_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    fn sub_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_sub_epi32(a, b) }
    }
    #[inline(always)]
    fn and_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_and_si512(a, b) }
    }
    #[inline(always)]
    fn or_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_or_si512(a, b) }
    }
    #[inline(always)]
    fn xor_i(self, a: __m512i, b: __m512i) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_xor_si512(a, b) }
    }
    #[inline(always)]
    fn shl<const K: u32>(self, a: __m512i) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_slli_epi32::<K>(a) }
    }
    #[inline(always)]
    fn sar<const K: u32>(self, a: __m512i) -> __m512i {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_srai_epi32::<K>(a) }
    }
    #[inline(always)]
    fn scale2(self, a: __m512, n: __m512i) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_scalef_ps(a, _mm512_cvtepi32_ps(n)) }
    }
    #[inline(always)]
    fn split(self, x: __m512) -> (__m512, __m512) {
        // SAFETY: only the instructions that `self` proves.
        unsafe {
            // What rounding to nearest leaves; zero of infinities, which `scale_by` takes as they are.
            let r = _mm512_reduce_ps::<8>(x);
            (_mm512_sub_ps(x, r), r)
        }
    }
    #[inline(always)]
    fn scale_by(self, a: __m512, n: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_scalef_ps(a, n) }
    }
    #[inline(always)]
    fn swap_pairs(self, a: __m512) -> __m512 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_permute_ps::<0b10_11_00_01>(a) }
    }
    #[inline(always)]
    fn reduce_add(self, a: __m512) -> f32 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_reduce_add_ps(a) }
    }
    #[inline(always)]
    fn reduce_max(self, a: __m512) -> f32 {
        // SAFETY: only the instructions that `self` proves.
        unsafe { _mm512_reduce_max_ps(a) }
    }
}
