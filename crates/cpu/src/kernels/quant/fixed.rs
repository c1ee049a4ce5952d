//! One row of activations with AVX-512, through byte products.
//!
//! The four or eight neighbours that a lane sums become 24-bit fixed point, in units of the largest of them over
//! 2^23: a rounding of the size that sums of `f32` have anyway, and an outlier touches nobody but its
//! neighbours. Their three signed bytes meet the codes, which are unsigned bytes, in products of which one
//! instruction adds 64, so that unpacking and multiplying take about two thirds of the instructions that
//! floats take.

use super::avx512::{AHEAD, Tables, block, first, group_sums, load_scales, unpack};
use super::{Code, Quantized};
use crate::kernels::{Aligned, Shared};
use crate::pool::parallel_ranges;
use std::arch::x86_64::*;

/// Largest magnitude of the fixed point numbers: its three signed bytes do not overflow, and neither do the
/// sums of a lane: at most 4 codes of 6 bits, or 8 of 4.
const LIMIT: f32 = 8_355_000.0;

/// Bytes of a register on a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Bytes([i8; 64]);

struct Activations {
    /// Digits `[blocks, halves, 3]`, the lowest first, in the order in which [`rows`] unpacks codes: those of
    /// 4 bits as even ones, then odd ones.
    digits: Vec<Bytes>,
    /// Value of one unit of each lane, `[blocks, 16]`.
    units: Aligned,
    /// Sum of the activations of each group, padded with zeros to a multiple of 16.
    sums: Aligned,
}

/// Halves of a block that are unpacked to bytes separately.
const fn halves(bits: usize) -> usize {
    if bits == 4 { 2 } else { 1 }
}

/// y = x w^T with x `[1, cols]`, y `[1, rows]`, where [`super::avx512::fits`]; false, and nothing done, if x has
/// values that fixed point cannot hold, or codes are no integers.
pub(super) fn multiply(x: &[f32], w: &Quantized<'_>, grain: usize, y: &mut [f32]) -> bool {
    if w.code() != Code::Integer {
        return false;
    }
    let most = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
    if !x.iter().all(|x| x.is_finite()) || most < 1e-20 {
        return false;
    }
    let blocks = w.cols.div_ceil(block(w.bits).0);
    let mut a = Activations {
        digits: vec![Bytes([0; 64]); blocks * halves(w.bits) * 3],
        units: Aligned::zeros(blocks * 16),
        sums: Aligned::zeros(w.row_groups().next_multiple_of(16)),
    };
    // SAFETY: the caller has checked the level.
    unsafe {
        group_sums(x, w.group, &mut a.sums);
        digits(x, w.bits, &mut a.digits, &mut a.units);
    }
    let kernel: RowsFn = match w.bits {
        1 => rows::<1>,
        2 => rows::<2>,
        3 => rows::<3>,
        4 => rows::<4>,
        5 => rows::<5>,
        6 => rows::<6>,
        7 => rows::<7>,
        _ => rows::<8>,
    };
    let y = Shared(y.as_mut_ptr());
    // SAFETY: the caller has checked the level and the format; y has `w.rows` elements, and tasks write
    // different ones.
    parallel_ranges(w.rows, grain, &|rows| unsafe { kernel(&a, w, rows, y.get()) });
    true
}

type RowsFn = unsafe fn(&Activations, &Quantized<'_>, std::ops::Range<usize>, *mut f32);

/// Splits x into digits and units.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn digits(x: &[f32], bits: usize, digits: &mut [Bytes], units: &mut [f32]) {
    let ((block, lane), halves) = (block(bits), halves(bits));
    let lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    let steps = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(lane as i32));
    let (limit, least) = (_mm512_set1_ps(LIMIT), _mm512_set1_ps(1e-30));
    let (half, byte) = (_mm512_set1_epi32(128), _mm512_set1_epi32(255));
    for ((b, digits), units) in
        digits.chunks_exact_mut(3 * halves).enumerate().zip(units.chunks_exact_mut(16))
    {
        let mut values = [_mm512_setzero_ps(); 8];
        let mut most = least;
        for (k, value) in values.iter_mut().enumerate().take(lane) {
            let from = b * block + k;
            let mask = first(x.len().saturating_sub(from).div_ceil(lane));
            let p = x.as_ptr().wrapping_add(from);
            // SAFETY: masked lanes read `from + lane * j < x.len()`.
            *value = unsafe { _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), mask, steps, p.cast()) };
            most = _mm512_max_ps(most, _mm512_abs_ps(*value));
        }
        // SAFETY: 16 floats.
        unsafe { _mm512_storeu_ps(units.as_mut_ptr(), _mm512_div_ps(most, limit)) };
        let factor = _mm512_div_ps(limit, most);
        for (h, digits) in digits.chunks_exact_mut(3).enumerate() {
            let mut bytes = [_mm512_setzero_si512(); 3];
            for j in 0..4 {
                let mut n = _mm512_cvtps_epi32(_mm512_mul_ps(values[j * halves + h], factor));
                for bytes in &mut bytes {
                    let digit = _mm512_sllv_epi32(_mm512_and_si512(n, byte), _mm512_set1_epi32(8 * j as i32));
                    *bytes = _mm512_or_si512(*bytes, digit);
                    // The byte counts as signed, so that the rest is rounded.
                    n = _mm512_srai_epi32::<8>(_mm512_add_epi32(n, half));
                }
            }
            for (digits, bytes) in digits.iter_mut().zip(bytes) {
                // SAFETY: 64 bytes.
                unsafe { _mm512_storeu_si512(digits.0.as_mut_ptr().cast(), bytes) };
            }
        }
    }
}

/// y[rows] for one row of activations.
///
/// # Safety
/// The machine has the instructions; `fits(w)`, whose bits are `BITS`; `a` was made for `w`; y has `w.rows`
/// elements, and nobody else uses these rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
unsafe fn rows<const BITS: usize>(
    a: &Activations,
    w: &Quantized<'_>,
    rows: std::ops::Range<usize>,
    y: *mut f32,
) {
    debug_assert_eq!(BITS, w.bits);
    let (block, lane) = const { block(BITS) };
    let block_bytes = block * BITS / 8;
    let groups = w.row_groups();
    let row_bytes = w.row_words() * 4;
    // Blocks after which the group index advances, and by how much.
    let (every, advance) = ((w.group / block).max(1), (block / w.group).max(1) as i32);
    let blocks_per_16 = 16 * w.group / block;
    let lane_group: [i32; 16] = std::array::from_fn(|j| (j * lane / w.group) as i32);
    // SAFETY: 16 integers.
    let lane_group = unsafe { _mm512_loadu_si512(lane_group.as_ptr().cast()) };
    let t = Tables::new(BITS, Code::Integer);
    let mask = _mm512_set1_epi8(((1u32 << BITS) - 1) as u8 as i8);
    for row in rows {
        // SAFETY: row < w.rows, so that all of its bytes are in `words`.
        let packed = unsafe { w.words.as_ptr().cast::<u8>().add(row * row_bytes) };
        let (mut total, mut shift) = (_mm512_setzero_ps(), _mm512_setzero_ps());
        let (mut first_group, mut b) = (0, 0);
        while first_group < groups {
            let n = (groups - first_group).min(16);
            let at = row * groups + first_group;
            // SAFETY: `at + n` is within the scales and biases of this row; sums are padded.
            let scales = unsafe {
                let sums = _mm512_loadu_ps(a.sums.as_ptr().add(first_group));
                let (scales, biases) = load_scales(&w.scales, at, n);
                if let Some(biases) = biases {
                    shift = _mm512_fmadd_ps(biases, sums, shift);
                }
                scales
            };
            let end = ((first_group + n) * w.group).div_ceil(block).min(b + blocks_per_16);
            let mut index = lane_group;
            while b < end {
                let scale = _mm512_permutexvar_ps(index, scales);
                for _ in 0..every.min(end - b) {
                    // SAFETY: unpacking stops at the end of the row; there are digits for every
                    // block.
                    let sum = unsafe {
                        let p = packed.add(b * block_bytes);
                        _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(AHEAD).cast());
                        let v = unpack::<BITS>(&t, p, (row_bytes - b * block_bytes).min(block_bytes));
                        let d = a.digits.as_ptr().add(b * const { halves(BITS) * 3 }).cast();
                        if BITS == 8 {
                            products::<BITS, _>([v], d)
                        } else if BITS == 4 {
                            let odd = _mm512_srli_epi16::<4>(v);
                            products::<BITS, _>([_mm512_and_si512(v, mask), _mm512_and_si512(odd, mask)], d)
                        } else {
                            products::<BITS, _>([_mm512_and_si512(v, mask)], d)
                        }
                    };
                    // SAFETY: there are units for every block.
                    let unit = unsafe { _mm512_load_ps(a.units.as_ptr().add(b * 16)) };
                    total = _mm512_fmadd_ps(sum, _mm512_mul_ps(scale, unit), total);
                    b += 1;
                }
                index = _mm512_add_epi32(index, _mm512_set1_epi32(advance));
            }
            first_group += n;
        }
        let sum = _mm512_reduce_add_ps(_mm512_add_ps(total, shift));
        // SAFETY: y has `w.rows` elements.
        unsafe { *y.add(row) = sum };
    }
}

/// Sums, a lane, of codes times activations in units.
///
/// # Safety
/// `3 * H` registers of digits are readable at `digits`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")]
unsafe fn products<const BITS: usize, const H: usize>(codes: [__m512i; H], digits: *const __m512i) -> __m512 {
    let mut sums = [_mm512_setzero_si512(); 3];
    for (h, codes) in codes.into_iter().enumerate() {
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let digit = unsafe { _mm512_load_si512(digits.add(3 * h + i)) };
            *sum = _mm512_dpbusd_epi32(*sum, codes, digit);
        }
    }
    if BITS <= 6 {
        let high = _mm512_add_epi32(_mm512_slli_epi32::<8>(sums[2]), sums[1]);
        _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32::<8>(high), sums[0]))
    } else {
        // The whole sum would not fit 32 bits.
        let [low, mid, high] = sums.map(|s| _mm512_cvtepi32_ps(s));
        let mid = _mm512_fmadd_ps(mid, _mm512_set1_ps(256.0), low);
        _mm512_fmadd_ps(high, _mm512_set1_ps(65536.0), mid)
    }
}
