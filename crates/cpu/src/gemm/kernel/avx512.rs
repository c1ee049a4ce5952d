//! AVX-512 vectors, and the conversions of sixteen-bit floats.

use std::arch::x86_64::*;
use std::marker::PhantomData;

use half::{bf16, f16};

use super::Vector;

/// Sixteen f32.
#[derive(Clone, Copy)]
pub(in super::super) struct F32x16;
/// Sixteen bf16 or f16, widened to f32 when loaded.
#[derive(Clone, Copy)]
pub(in super::super) struct Half16<E>(PhantomData<E>);
/// Sixteen pairs of bf16, multiplied by the bfloat16 dot product.
///
/// The instruction takes subnormal inputs as zero and flushes subnormal results.
#[derive(Clone, Copy)]
pub(in super::super) struct Pair16;
/// Eight f64.
#[derive(Clone, Copy)]
pub(in super::super) struct F64x8;
/// Conversions of sixteen-bit floats, sixteen or eight at a time.
pub(in super::super) trait HalfFloat: Copy + Send + Sync + 'static {
    /// # Safety
    /// AVX-512.
    unsafe fn widen16(v: __m256i) -> __m512;
    /// # Safety
    /// AVX-512.
    unsafe fn round16(v: __m512) -> __m256i;
    /// # Safety
    /// AVX2 and F16C.
    unsafe fn widen8(v: __m128i) -> __m256;
    /// # Safety
    /// AVX2 and F16C.
    unsafe fn round8(v: __m256) -> __m128i;
    fn widen1(self) -> f32;
}

impl HalfFloat for f16 {
    #[inline(always)]
    unsafe fn widen16(v: __m256i) -> __m512 {
        // SAFETY: the caller has AVX-512.
        unsafe { _mm512_cvtph_ps(v) }
    }
    #[inline(always)]
    unsafe fn round16(v: __m512) -> __m256i {
        // SAFETY: the caller has AVX-512.
        unsafe { _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(v) }
    }
    #[inline(always)]
    unsafe fn widen8(v: __m128i) -> __m256 {
        // SAFETY: the caller has F16C.
        unsafe { _mm256_cvtph_ps(v) }
    }
    #[inline(always)]
    unsafe fn round8(v: __m256) -> __m128i {
        // SAFETY: the caller has F16C.
        unsafe { _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v) }
    }
    #[inline(always)]
    fn widen1(self) -> f32 {
        self.to_f32()
    }
}

// Rounding to bfloat16: half a unit in the last kept place less one, plus the parity of that place, makes
// truncation round to nearest, ties to even. A NaN keeps its upper half with the quiet bit set, so that
// it cannot round to infinity.
impl HalfFloat for bf16 {
    #[inline(always)]
    unsafe fn widen16(v: __m256i) -> __m512 {
        // SAFETY: the caller has AVX-512.
        unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(v))) }
    }
    #[inline(always)]
    unsafe fn round16(v: __m512) -> __m256i {
        // SAFETY: the caller has AVX-512.
        unsafe {
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
            let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
            let quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x40_0000));
            _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(_mm512_mask_mov_epi32(up, nan, quiet)))
        }
    }
    #[inline(always)]
    unsafe fn widen8(v: __m128i) -> __m256 {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(v))) }
    }
    #[inline(always)]
    unsafe fn round8(v: __m256) -> __m128i {
        // SAFETY: the caller has AVX2.
        unsafe {
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
            let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
            let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
            let words = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(up, quiet, nan));
            let packed = _mm256_packus_epi32(words, words);
            _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(packed))
        }
    }
    #[inline(always)]
    fn widen1(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

#[inline(always)]
fn mask16(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1 << n) - 1 }
}

#[inline(always)]
fn mask8(n: usize) -> __mmask8 {
    if n >= 8 { !0 } else { (1 << n) - 1 }
}

/// Transposes 16 x 16 values of 32 bits: first within the 4 x 4 blocks, then the blocks.
#[inline(always)]
unsafe fn transpose16(v: *mut __m512) {
    // SAFETY: the caller has AVX-512 and gives sixteen registers.
    unsafe {
        let r = &mut *v.cast::<[__m512; 16]>();
        let mut t = [_mm512_setzero_ps(); 16];
        for i in 0..4 {
            let [a, b, c, d] = [r[4 * i], r[4 * i + 1], r[4 * i + 2], r[4 * i + 3]];
            let (ab0, ab1) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let (cd0, cd1) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            t[4 * i] = _mm512_shuffle_ps::<0x44>(ab0, cd0);
            t[4 * i + 1] = _mm512_shuffle_ps::<0xee>(ab0, cd0);
            t[4 * i + 2] = _mm512_shuffle_ps::<0x44>(ab1, cd1);
            t[4 * i + 3] = _mm512_shuffle_ps::<0xee>(ab1, cd1);
        }
        for j in 0..4 {
            let [a, b, c, d] = [t[j], t[4 + j], t[8 + j], t[12 + j]];
            let (ab0, ab1) = (_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b));
            let (cd0, cd1) = (_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d));
            r[j] = _mm512_shuffle_f32x4::<0x88>(ab0, cd0);
            r[8 + j] = _mm512_shuffle_f32x4::<0xdd>(ab0, cd0);
            r[4 + j] = _mm512_shuffle_f32x4::<0x88>(ab1, cd1);
            r[12 + j] = _mm512_shuffle_f32x4::<0xdd>(ab1, cd1);
        }
    }
}

/// The parts that all AVX-512 vectors with f32 sums share.
macro_rules! f32_sums_512 {
    () => {
        type Acc = f32;
        type Sum = __m512;
        const LANES: usize = 16;
        const TRANSPOSES: bool = true;

        #[inline(always)]
        unsafe fn zero() -> __m512 {
            // SAFETY: the caller has AVX-512.
            unsafe { _mm512_setzero_ps() }
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            // SAFETY: the caller has AVX-512.
            unsafe { _mm512_add_ps(a, b) }
        }
        #[inline(always)]
        unsafe fn axpy(a: __m512, x: f32, c: __m512) -> __m512 {
            // SAFETY: the caller has AVX-512.
            unsafe { _mm512_fmadd_ps(a, _mm512_set1_ps(x), c) }
        }
        #[inline(always)]
        unsafe fn scale(a: __m512, x: f32) -> __m512 {
            // SAFETY: the caller has AVX-512.
            unsafe { _mm512_mul_ps(a, _mm512_set1_ps(x)) }
        }
        #[inline(always)]
        unsafe fn reduce(a: __m512) -> f32 {
            // SAFETY: the caller has AVX-512.
            unsafe { _mm512_reduce_add_ps(a) }
        }
        #[inline(always)]
        unsafe fn load_sum_n(p: *const f32, n: usize) -> __m512 {
            // SAFETY: the caller has AVX-512 and `n` sums at `p`.
            unsafe { _mm512_maskz_loadu_ps(mask16(n), p) }
        }
        #[inline(always)]
        unsafe fn store_sum_n(p: *mut f32, v: __m512, n: usize) {
            // SAFETY: the caller has AVX-512 and `n` sums at `p`.
            unsafe { _mm512_mask_storeu_ps(p, mask16(n), v) }
        }
    };
}

/// The parts that AVX-512 vectors packed as f32 share.
macro_rules! f32_packed_512 {
    () => {
        type Packed = f32;
        type Reg = __m512;
        const STEP: usize = 1;

        #[inline(always)]
        fn packed_zero() -> f32 {
            0.0
        }
        #[inline(always)]
        unsafe fn load_packed(p: *const f32) -> __m512 {
            // SAFETY: the caller has AVX-512 and sixteen values at `p`.
            unsafe { _mm512_loadu_ps(p) }
        }
        #[inline(always)]
        unsafe fn store_packed_n(p: *mut f32, v: __m512, n: usize) {
            // SAFETY: the caller has AVX-512 and `n` values at `p`.
            unsafe { _mm512_mask_storeu_ps(p, mask16(n), v) }
        }
        #[inline(always)]
        unsafe fn transpose(v: *mut __m512) {
            // SAFETY: the caller has AVX-512 and sixteen registers at `v`.
            unsafe { transpose16(v) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            // SAFETY: the caller has AVX-512.
            unsafe { _mm512_set1_ps(x) }
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            // SAFETY: the caller has AVX-512.
            unsafe { _mm512_fmadd_ps(a, b, c) }
        }
    };
}

/// A vector of `LANES` numbers that are loaded, multiplied and summed in one type.
macro_rules! plain_vector {
    ($name:ident, $elem:ty, $reg:ty, $lanes:literal, $transposes:literal, $transpose:path,
     $zero:ident, $set1:ident, $loadu:ident, $load_n:path, $store_n:path,
     $add:ident, $mul:ident, $fmadd:ident, $reduce:path) => {
        impl Vector for $name {
            type Elem = $elem;
            type Packed = $elem;
            type Acc = $elem;
            type Reg = $reg;
            type Sum = $reg;
            const LANES: usize = $lanes;
            const STEP: usize = 1;
            const TRANSPOSES: bool = $transposes;

            #[inline(always)]
            fn packed_zero() -> $elem {
                0.0
            }
            #[inline(always)]
            unsafe fn load(p: *const $elem) -> $reg {
                // SAFETY: the caller has the instructions and `LANES` elements at `p`.
                unsafe { $loadu(p) }
            }
            #[inline(always)]
            unsafe fn load_n(p: *const $elem, n: usize) -> $reg {
                // SAFETY: the caller has the instructions and `n` elements at `p`.
                unsafe { $load_n(p, n) }
            }
            #[inline(always)]
            unsafe fn load_lines(p: *const $elem, _stride: isize, n: usize, _steps: usize) -> $reg {
                // SAFETY: the caller has the instructions and `n` elements at `p`.
                unsafe { $load_n(p, n) }
            }
            #[inline(always)]
            unsafe fn pack_one(p: *const $elem, _stride: isize, _steps: usize) -> $elem {
                // SAFETY: the caller has one element at `p`.
                unsafe { p.read() }
            }
            #[inline(always)]
            unsafe fn load_packed(p: *const $elem) -> $reg {
                // SAFETY: the caller has the instructions and `LANES` values at `p`.
                unsafe { $loadu(p) }
            }
            #[inline(always)]
            unsafe fn store_packed_n(p: *mut $elem, v: $reg, n: usize) {
                // SAFETY: the caller has the instructions and `n` values at `p`.
                unsafe { $store_n(p, v, n) }
            }
            #[inline(always)]
            unsafe fn transpose(v: *mut $reg) {
                // SAFETY: the caller has the instructions and `LANES` registers at `v`.
                unsafe { $transpose(v) }
            }
            #[inline(always)]
            unsafe fn splat(x: $elem) -> $reg {
                // SAFETY: the caller has the instructions.
                unsafe { $set1(x) }
            }
            #[inline(always)]
            unsafe fn zero() -> $reg {
                // SAFETY: the caller has the instructions.
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn fma(a: $reg, b: $reg, c: $reg) -> $reg {
                // SAFETY: the caller has the instructions.
                unsafe { $fmadd(a, b, c) }
            }
            #[inline(always)]
            unsafe fn add(a: $reg, b: $reg) -> $reg {
                // SAFETY: the caller has the instructions.
                unsafe { $add(a, b) }
            }
            #[inline(always)]
            unsafe fn axpy(a: $reg, x: $elem, c: $reg) -> $reg {
                // SAFETY: the caller has the instructions.
                unsafe { $fmadd(a, $set1(x), c) }
            }
            #[inline(always)]
            unsafe fn scale(a: $reg, x: $elem) -> $reg {
                // SAFETY: the caller has the instructions.
                unsafe { $mul(a, $set1(x)) }
            }
            #[inline(always)]
            unsafe fn reduce(a: $reg) -> $elem {
                // SAFETY: the caller has the instructions.
                unsafe { $reduce(a) }
            }
            #[inline(always)]
            unsafe fn load_sum_n(p: *const $elem, n: usize) -> $reg {
                // SAFETY: the caller has the instructions and `n` sums at `p`.
                unsafe { $load_n(p, n) }
            }
            #[inline(always)]
            unsafe fn store_sum_n(p: *mut $elem, v: $reg, n: usize) {
                // SAFETY: the caller has the instructions and `n` sums at `p`.
                unsafe { $store_n(p, v, n) }
            }
            #[inline(always)]
            unsafe fn widen_n(p: *const $elem, n: usize) -> $reg {
                // SAFETY: the caller has the instructions and `n` elements at `p`.
                unsafe { $load_n(p, n) }
            }
            #[inline(always)]
            unsafe fn round_n(p: *mut $elem, v: $reg, n: usize) {
                // SAFETY: the caller has the instructions and `n` elements at `p`.
                unsafe { $store_n(p, v, n) }
            }
        }
    };
}
pub(super) use plain_vector;

#[inline(always)]
unsafe fn load_f32x16(p: *const f32, n: usize) -> __m512 {
    // SAFETY: the caller has AVX-512 and `n` elements at `p`.
    unsafe { _mm512_maskz_loadu_ps(mask16(n), p) }
}

#[inline(always)]
unsafe fn store_f32x16(p: *mut f32, v: __m512, n: usize) {
    // SAFETY: the caller has AVX-512 and room for `n` elements at `p`.
    unsafe { _mm512_mask_storeu_ps(p, mask16(n), v) }
}

#[inline(always)]
unsafe fn load_f64x8(p: *const f64, n: usize) -> __m512d {
    // SAFETY: the caller has AVX-512 and `n` elements at `p`.
    unsafe { _mm512_maskz_loadu_pd(mask8(n), p) }
}

#[inline(always)]
unsafe fn store_f64x8(p: *mut f64, v: __m512d, n: usize) {
    // SAFETY: the caller has AVX-512 and room for `n` elements at `p`.
    unsafe { _mm512_mask_storeu_pd(p, mask8(n), v) }
}

/// For vectors that are packed without a transposition in registers.
#[inline(always)]
pub(super) unsafe fn no_transpose<R>(_: *mut R) {
    unreachable!("`TRANSPOSES` is false")
}

plain_vector!(
    F32x16,
    f32,
    __m512,
    16,
    true,
    transpose16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    load_f32x16,
    store_f32x16,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_fmadd_ps,
    _mm512_reduce_add_ps
);
plain_vector!(
    F64x8,
    f64,
    __m512d,
    8,
    false,
    no_transpose,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_loadu_pd,
    load_f64x8,
    store_f64x8,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_fmadd_pd,
    _mm512_reduce_add_pd
);

/// The first `n` of sixteen half floats; zeros after.
#[inline(always)]
unsafe fn load_half16<E>(p: *const E, n: usize) -> __m256i {
    // SAFETY: the caller has AVX-512 and `n` elements of 16 bits at `p`.
    unsafe { _mm256_maskz_loadu_epi16(mask16(n), p.cast()) }
}

impl<E: HalfFloat> Vector for Half16<E> {
    type Elem = E;
    f32_sums_512!();
    f32_packed_512!();

    #[inline(always)]
    unsafe fn load(p: *const E) -> __m512 {
        // SAFETY: the caller has AVX-512 and sixteen elements at `p`.
        unsafe { E::widen16(_mm256_loadu_si256(p.cast())) }
    }
    #[inline(always)]
    unsafe fn load_n(p: *const E, n: usize) -> __m512 {
        // SAFETY: the caller has AVX-512 and `n` elements at `p`.
        unsafe { E::widen16(load_half16(p, n)) }
    }
    #[inline(always)]
    unsafe fn load_lines(p: *const E, _stride: isize, n: usize, _steps: usize) -> __m512 {
        // SAFETY: the caller has AVX-512 and `n` elements at `p`.
        unsafe { E::widen16(load_half16(p, n)) }
    }
    #[inline(always)]
    unsafe fn pack_one(p: *const E, _stride: isize, _steps: usize) -> f32 {
        // SAFETY: the caller has one element at `p`.
        unsafe { p.read().widen1() }
    }
    #[inline(always)]
    unsafe fn widen_n(p: *const E, n: usize) -> __m512 {
        // SAFETY: the caller has AVX-512 and `n` elements at `p`.
        unsafe { E::widen16(load_half16(p, n)) }
    }
    #[inline(always)]
    unsafe fn round_n(p: *mut E, v: __m512, n: usize) {
        // SAFETY: the caller has AVX-512 and `n` elements at `p`.
        unsafe { _mm256_mask_storeu_epi16(p.cast(), mask16(n), E::round16(v)) }
    }
}

impl Vector for Pair16 {
    type Elem = bf16;
    type Packed = u32;
    type Reg = __m512i;
    const STEP: usize = 2;
    f32_sums_512!();

    #[inline(always)]
    fn packed_zero() -> u32 {
        0
    }
    #[inline(always)]
    unsafe fn load(p: *const bf16) -> __m512i {
        // SAFETY: the caller has AVX-512 and 32 elements at `p`.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_n(p: *const bf16, n: usize) -> __m512i {
        let mask = if n >= 32 { !0 } else { (1 << n) - 1 };
        // SAFETY: the caller has AVX-512 and `n` elements at `p`.
        unsafe { _mm512_maskz_loadu_epi16(mask, p.cast()) }
    }
    #[inline(always)]
    unsafe fn load_lines(p: *const bf16, stride: isize, n: usize, steps: usize) -> __m512i {
        // SAFETY: the caller has AVX-512 and `n` elements at `p` and, of two steps, a stride later.
        unsafe {
            let low = _mm512_cvtepu16_epi32(load_half16(p, n));
            if steps < 2 {
                return low;
            }
            let high = _mm512_cvtepu16_epi32(load_half16(p.offset(stride), n));
            _mm512_or_si512(low, _mm512_slli_epi32::<16>(high))
        }
    }
    #[inline(always)]
    unsafe fn pack_one(p: *const bf16, stride: isize, steps: usize) -> u32 {
        // SAFETY: the caller has an element at `p` and, of two steps, one a stride later.
        unsafe {
            let low = u32::from(p.read().to_bits());
            if steps < 2 { low } else { low | u32::from(p.offset(stride).read().to_bits()) << 16 }
        }
    }
    #[inline(always)]
    unsafe fn load_packed(p: *const u32) -> __m512i {
        // SAFETY: the caller has AVX-512 and sixteen values at `p`.
        unsafe { _mm512_loadu_si512(p.cast()) }
    }
    #[inline(always)]
    unsafe fn store_packed_n(p: *mut u32, v: __m512i, n: usize) {
        // SAFETY: the caller has AVX-512 and `n` values at `p`.
        unsafe { _mm512_mask_storeu_epi32(p.cast(), mask16(n), v) }
    }
    #[inline(always)]
    unsafe fn transpose(v: *mut __m512i) {
        // SAFETY: the caller has AVX-512 and sixteen registers at `v`.
        unsafe { transpose16(v.cast()) }
    }
    #[inline(always)]
    unsafe fn splat(x: u32) -> __m512i {
        // SAFETY: the caller has AVX-512.
        unsafe { _mm512_set1_epi32(x.cast_signed()) }
    }
    #[inline(always)]
    unsafe fn fma(a: __m512i, b: __m512i, c: __m512) -> __m512 {
        // SAFETY: the caller has AVX-512 with BF16; both types are 512 plain bits.
        unsafe {
            let (a, b) =
                (std::mem::transmute::<__m512i, __m512bh>(a), std::mem::transmute::<__m512i, __m512bh>(b));
            _mm512_dpbf16_ps(c, a, b)
        }
    }
    #[inline(always)]
    unsafe fn widen_n(p: *const bf16, n: usize) -> __m512 {
        // SAFETY: the caller has AVX-512 and `n` elements at `p`.
        unsafe { bf16::widen16(load_half16(p, n)) }
    }
    #[inline(always)]
    unsafe fn round_n(p: *mut bf16, v: __m512, n: usize) {
        // SAFETY: the caller has AVX-512 and `n` elements at `p`.
        unsafe { _mm256_mask_storeu_epi16(p.cast(), mask16(n), bf16::round16(v)) }
    }
}
