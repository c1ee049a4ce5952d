//! From packed codes to floats, in order.

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::floats::{E2M1, e4m3};
use super::{Code, Quantized, Scales};
use crate::lanes::{Lanes, MAX_LANES};
use crate::simd::Level;

/// Codes that start on a byte whatever their width: positions inside a row are multiples of this.
pub(super) const STEP: usize = 8;

/// Writes w[row, start .. start + out.len()] to `out`. `start` is a multiple of [`STEP`].
#[inline(always)]
pub(super) fn dequantize_span<S: Lanes>(s: S, w: &Quantized<'_>, row: usize, start: usize, out: &mut [f32]) {
    codes(s, w, row, start, out);
    let end = start + out.len();
    let groups = w.row_groups();
    // Scales and biases are widened a register at a time.
    let (mut scales, mut biases) = ([0.0; MAX_LANES], [0.0; MAX_LANES]);
    let mut g = start / w.group;
    while g * w.group < end {
        let n = (end.div_ceil(w.group) - g).min(MAX_LANES);
        let at = row * groups + g;
        w.scales.widen(s, at, &mut scales[..n]);
        if let Scales::Affine { biases: b, .. } = &w.scales {
            b.widen(s, at..at + n, &mut biases[..n]);
        }
        for j in 0..n {
            let a = ((g + j) * w.group).max(start) - start;
            let b = ((g + j + 1) * w.group).min(end) - start;
            affine(s, &mut out[a..b], scales[j], biases[j]);
        }
        g += n;
    }
}

/// x <- scale * x + bias
#[inline(always)]
fn affine<S: Lanes>(s: S, x: &mut [f32], scale: f32, bias: f32) {
    let (vs, vb) = (s.splat(scale), s.splat(bias));
    let (p, n) = (x.as_mut_ptr(), x.len());
    let mut i = 0;
    // SAFETY: `i + N <= n` for whole registers, `n - i` lanes for the last one.
    unsafe {
        while i + S::N <= n {
            s.store(p.add(i), s.mul_acc(vs, s.load(p.add(i)), vb));
            i += S::N;
        }
        if i < n {
            s.store_part(p.add(i), n - i, s.mul_acc(vs, s.load_part(p.add(i), n - i), vb));
        }
    }
}

/// Writes what the codes of w[row, start .. start + out.len()] stand for, before scales.
#[inline(always)]
pub(super) fn codes<S: Lanes>(s: S, w: &Quantized<'_>, row: usize, start: usize, out: &mut [f32]) {
    debug_assert_eq!(start % STEP, 0);
    let words = w.row_words();
    let row: &[u8] = bytemuck::cast_slice(&w.words[row * words..(row + 1) * words]);
    assert!(start + out.len() <= w.cols, "codes past the end of a row");
    let src = &row[start * w.bits / 8..];
    match s.level() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the level has the instructions.
        Level::Avx512 | Level::Avx512Bf16 => unsafe { codes_avx512(w.code(), w.bits, src, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx2 => unsafe { codes_avx2(w.code(), w.bits, src, out) },
        _ => codes_portable(w.code(), w.bits, src, out),
    }
}

fn codes_portable(kind: Code, bits: usize, src: &[u8], out: &mut [f32]) {
    let mask = (1u64 << bits) - 1;
    for (i, out) in out.chunks_mut(STEP).enumerate() {
        let mut word = [0; 8];
        // The last codes of a row may lie in fewer bytes than eight whole codes would.
        let from = &src[i * bits..((i + 1) * bits).min(src.len())];
        word[..from.len()].copy_from_slice(from);
        let word = u64::from_le_bytes(word);
        for (j, x) in out.iter_mut().enumerate() {
            let code = word >> (j * bits) & mask;
            *x = match kind {
                Code::Integer => code as f32,
                Code::E2m1 => E2M1[(code & 15) as usize],
                Code::E4m3 => e4m3(code as u8),
            };
        }
    }
}

/// Byte positions and bit shifts that bring eight codes of `bits` bits into eight 32-bit lanes.
#[cfg(target_arch = "x86_64")]
const fn spread(bits: usize) -> ([i8; 32], [i32; 8]) {
    let (mut bytes, mut shifts) = ([-1i8; 32], [0; 8]);
    let mut i = 0;
    while i < 8 {
        let bit = i * bits;
        bytes[i * 4] = (bit / 8) as i8;
        if bit / 8 < 7 {
            bytes[i * 4 + 1] = (bit / 8 + 1) as i8;
        }
        shifts[i] = (bit % 8) as i32;
        i += 1;
    }
    (bytes, shifts)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn codes_avx2(kind: Code, bits: usize, src: &[u8], out: &mut [f32]) {
    use std::arch::x86_64::*;
    const SPREAD: [([i8; 32], [i32; 8]); 9] = {
        let mut t = [([0; 32], [0; 8]); 9];
        let mut b = 1;
        while b <= 8 {
            t[b] = spread(b);
            b += 1;
        }
        t
    };
    let (bytes, shifts) = &SPREAD[bits];
    // SAFETY: both tables hold 32 bytes.
    let (bytes, shifts) =
        unsafe { (_mm256_loadu_si256(bytes.as_ptr().cast()), _mm256_loadu_si256(shifts.as_ptr().cast())) };
    let mask = _mm256_set1_epi32((1 << bits) - 1);
    let whole = out.len() / STEP;
    // Whole eights whose eight-byte read stays inside the row; the rest is at most a few.
    let safe = if src.len() >= 8 { ((src.len() - 8) / bits + 1).min(whole) } else { 0 };
    for i in 0..safe {
        // SAFETY: `i * bits + 8 <= src.len()` and `i * 8 + 8 <= out.len()` by the choice of `safe`.
        unsafe {
            let word = _mm256_set1_epi64x(src.as_ptr().add(i * bits).cast::<i64>().read_unaligned());
            let lanes = _mm256_srlv_epi32(_mm256_shuffle_epi8(word, bytes), shifts);
            let codes = _mm256_and_si256(lanes, mask);
            let values = match kind {
                Code::Integer => _mm256_cvtepi32_ps(codes),
                Code::E2m1 => {
                    // The permutation looks at the low three bits; the fourth is the sign.
                    let magnitude = _mm256_permutevar8x32_ps(_mm256_loadu_ps(E2M1.as_ptr()), codes);
                    let sign = _mm256_slli_epi32::<31>(_mm256_srli_epi32::<3>(codes));
                    _mm256_xor_ps(magnitude, _mm256_castsi256_ps(sign))
                }
                Code::E4m3 => {
                    let magnitude = _mm256_and_si256(codes, _mm256_set1_epi32(0x7f));
                    let up = _mm256_castsi256_ps(_mm256_set1_epi32((120 + 127) << 23));
                    let v = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32::<20>(magnitude)), up);
                    let nan = _mm256_cmpeq_epi32(magnitude, _mm256_set1_epi32(0x7f));
                    let v = _mm256_or_ps(v, _mm256_castsi256_ps(nan));
                    let sign = _mm256_slli_epi32::<31>(_mm256_srli_epi32::<7>(codes));
                    _mm256_xor_ps(v, _mm256_castsi256_ps(sign))
                }
            };
            _mm256_storeu_ps(out.as_mut_ptr().add(i * STEP), values);
        }
    }
    codes_portable(kind, bits, &src[safe * bits..], &mut out[safe * STEP..]);
}

/// Byte indices and bit offsets that bring 64 codes of `bits` bits into 64 bytes: first the bytes of each
/// eight codes to one 64-bit lane, then each code to a byte of it.
#[cfg(target_arch = "x86_64")]
pub(super) const fn unpacking(bits: usize) -> ([u8; 64], [u8; 64]) {
    let (mut bytes, mut shifts) = ([0; 64], [0; 64]);
    let mut i = 0;
    while i < 64 {
        bytes[i] = ((i / 8) * bits + i % 8) as u8 % 64;
        shifts[i] = ((i % 8) * bits) as u8;
        i += 1;
    }
    (bytes, shifts)
}

#[cfg(target_arch = "x86_64")]
pub(super) static UNPACKING: [([u8; 64], [u8; 64]); 9] = {
    let mut t = [([0; 64], [0; 64]); 9];
    let mut b = 1;
    while b <= 8 {
        t[b] = unpacking(b);
        b += 1;
    }
    t
};

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
fn codes_avx512(kind: Code, bits: usize, src: &[u8], out: &mut [f32]) {
    use std::arch::x86_64::*;
    // SAFETY: the table holds 16 floats.
    let small = unsafe { _mm512_loadu_ps(E2M1.as_ptr()) };
    let (bytes, shifts) = &UNPACKING[bits];
    // SAFETY: both tables hold 64 bytes.
    let (bytes, shifts) =
        unsafe { (_mm512_loadu_si512(bytes.as_ptr().cast()), _mm512_loadu_si512(shifts.as_ptr().cast())) };
    let mask = _mm512_set1_epi8(((1u32 << bits) - 1) as u8 as i8);
    let per_block = 8 * bits;
    for (i, out) in out.chunks_mut(64).enumerate() {
        let left = (src.len() - i * per_block).min(per_block);
        let readable = if left == 64 { !0 } else { (1u64 << left) - 1 };
        // SAFETY: the mask stops at the end of `src`.
        let packed = unsafe { _mm512_maskz_loadu_epi8(readable, src.as_ptr().add(i * per_block).cast()) };
        let spread = _mm512_permutexvar_epi8(bytes, packed);
        let codes = _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, spread), mask);
        let quarters = [
            _mm512_castsi512_si128(codes),
            _mm512_extracti32x4_epi32::<1>(codes),
            _mm512_extracti32x4_epi32::<2>(codes),
            _mm512_extracti32x4_epi32::<3>(codes),
        ];
        for (quarter, out) in quarters.into_iter().zip(out.chunks_mut(16)) {
            let wide = _mm512_cvtepu8_epi32(quarter);
            let x = match kind {
                Code::Integer => _mm512_cvtepi32_ps(wide),
                Code::E2m1 => _mm512_permutexvar_ps(wide, small),
                Code::E4m3 => avx512::e4m3_values(wide),
            };
            let m = if out.len() == 16 { !0 } else { (1u16 << out.len()) - 1 };
            // SAFETY: the mask stops at the end of `out`.
            unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), m, x) };
        }
    }
}
