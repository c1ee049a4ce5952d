//! A few rows of activations with AVX-512.
//!
//! Codes go from memory to registers and never back. A block of codes spreads over the 16 lanes, several
//! consecutive ones in each; the activations are put in that order once. A block's lanes then each
//! belong to one group, whose scale multiplies the block's partial sums; biases multiply sums of the
//! activations of their groups, which are also formed once.

use super::decode::UNPACKING;
use super::floats::E2M1;
use super::{Code, Quantized, Scales};
use crate::kernels::{Aligned, Floats, Shared};
use crate::pool::parallel_ranges;
use std::arch::x86_64::*;

/// Codes in a block, and in a lane: 16 words of 4-bit codes; 64 codes, unpacked to bytes, of others.
pub(super) const fn block(form: usize) -> (usize, usize) {
    if form == 4 { (128, 8) } else { (64, 4) }
}

/// Form of E4M3 codes; that of others is their width.
const E4M3: usize = 9;

/// Bits of a code of this form.
const fn width(form: usize) -> usize {
    if form == E4M3 { 8 } else { form }
}

/// Values of 16 E4M3 codes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn e4m3_values(codes: __m512i) -> __m512 {
    let magnitude = _mm512_and_si512(codes, _mm512_set1_epi32(0x7f));
    // As the top of a float the exponent is too small by 120.
    let up = _mm512_castsi512_ps(_mm512_set1_epi32((120 + 127) << 23));
    let v = _mm512_mul_ps(_mm512_castsi512_ps(_mm512_slli_epi32::<20>(magnitude)), up);
    let nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7f));
    let v = _mm512_mask_blend_ps(nan, v, _mm512_set1_ps(f32::NAN));
    let sign = _mm512_slli_epi32::<24>(_mm512_and_si512(codes, _mm512_set1_epi32(0x80)));
    _mm512_xor_ps(v, _mm512_castsi512_ps(sign))
}

/// Whether lanes do not straddle groups, and 16 groups are whole blocks.
pub(super) fn fits(w: &Quantized<'_>) -> bool {
    let (block, lane) = block(w.bits);
    if w.group >= block {
        w.group.is_multiple_of(block)
    } else {
        block.is_multiple_of(w.group) && w.group.is_multiple_of(lane)
    }
}

/// Activations in the order of the kernel.
struct Activations {
    /// Rows that exist.
    m: usize,
    /// `[blocks, codes of a lane, M, 16]`, zero past the end of a row and in rows that do not exist.
    x: Aligned,
    /// `[M, groups]`, each row padded with zeros to a multiple of 16.
    sums: Aligned,
}

/// Floats of activations that stay in the first-level cache while all rows of a task pass by.
const RESIDENT: usize = 8192;

pub(super) fn multiply(x: &[f32], w: &Quantized<'_>, m: usize, grain: usize, y: &mut [f32]) {
    let (block, lane) = block(w.bits);
    let padded_groups = w.row_groups().next_multiple_of(16);
    // Compiled for these numbers of rows only.
    let wide = m.next_power_of_two();
    let mut a = Activations {
        m,
        x: Aligned::zeros(w.cols.div_ceil(block) * block * wide),
        sums: Aligned::zeros(padded_groups * wide),
    };
    for i in 0..m {
        let row = &x[i * w.cols..(i + 1) * w.cols];
        // SAFETY: the caller has checked the level.
        unsafe {
            reorder(row, block, lane, i, wide, &mut a.x);
            group_sums(row, w.group, &mut a.sums[i * padded_groups..(i + 1) * padded_groups]);
        }
    }
    let kernel = select(if w.code() == Code::E4m3 { E4M3 } else { w.bits }, wide);
    let y = Shared(y.as_mut_ptr());
    // SAFETY: the caller has checked the level and the format; y is `[m, w.rows]`, and tasks write
    // different rows.
    parallel_ranges(w.rows, grain, &|rows| unsafe { kernel(&a, w, rows, y.get()) });
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn reorder(row: &[f32], block: usize, lane: usize, i: usize, m: usize, out: &mut [f32]) {
    let steps = _mm512_mullo_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_set1_epi32(lane as i32),
    );
    for (b, out) in out.chunks_exact_mut(block * m).enumerate() {
        let from = b * block;
        for k in 0..lane {
            let left = (row.len() - from).saturating_sub(k).div_ceil(lane);
            let mask = if left >= 16 { !0 } else { (1u16 << left) - 1 };
            let out = &mut out[(k * m + i) * 16..(k * m + i) * 16 + 16];
            // SAFETY: masked lanes read `from + k + lane * j < row.len()`; `out` has 16 floats.
            unsafe {
                let base = row.as_ptr().wrapping_add(from + k);
                let v = _mm512_mask_i32gather_ps::<4>(_mm512_setzero_ps(), mask, steps, base.cast());
                _mm512_storeu_ps(out.as_mut_ptr(), v);
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn group_sums(row: &[f32], group: usize, out: &mut [f32]) {
    for (xs, out) in row.chunks_exact(group).zip(out) {
        let mut acc = [_mm512_setzero_ps(); 2];
        for (j, xs) in xs.chunks(16).enumerate() {
            let mask = if xs.len() == 16 { !0 } else { (1u16 << xs.len()) - 1 };
            // SAFETY: the mask stops at the end of `xs`.
            acc[j % 2] = _mm512_add_ps(acc[j % 2], unsafe { _mm512_maskz_loadu_ps(mask, xs.as_ptr()) });
        }
        *out = _mm512_reduce_add_ps(_mm512_add_ps(acc[0], acc[1]));
    }
}

type RowsFn = unsafe fn(&Activations, &Quantized<'_>, std::ops::Range<usize>, *mut f32);

fn select(form: usize, m: usize) -> RowsFn {
    macro_rules! table {
        ($($b:literal)+; $ms:tt) => { match form { $($b => table!(@row $b; $ms),)+ _ => unreachable!("bits were checked: {form}") } };
        (@row $b:literal; [$($m:literal)+]) => { match m { $($m => rows::<$b, $m> as RowsFn,)+ _ => unreachable!("m was checked: {m}") } };
    }
    table!(1 2 3 4 5 6 7 8 9; [1 2 4 8])
}

/// The first `n` of 16 scales or biases from `at` on, zero in the other lanes.
///
/// # Safety
/// `at + n` is within the slice.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn load16(x: &Floats<'_>, at: usize, n: usize) -> __m512 {
    let mask = if n >= 16 { !0 } else { (1u16 << n) - 1 };
    // SAFETY: the mask keeps to the caller's promise.
    unsafe {
        match x {
            Floats::F32(x) => _mm512_maskz_loadu_ps(mask, x.as_ptr().add(at)),
            Floats::F16(x) => _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, x.as_ptr().add(at).cast())),
            Floats::Bf16(x) => {
                let h = _mm256_maskz_loadu_epi16(mask, x.as_ptr().add(at).cast());
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(h)))
            }
        }
    }
}

/// The first `n` of 16 scales from `at` on, zero in the other lanes, and biases where there are any.
///
/// # Safety
/// `at + n` is within both.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn load_scales(x: &Scales<'_>, at: usize, n: usize) -> (__m512, Option<__m512>) {
    let mask = first(n);
    // SAFETY: masks keep to the caller's promise.
    unsafe {
        match x {
            Scales::Affine { scales, biases } => (load16(scales, at, n), Some(load16(biases, at, n))),
            Scales::E8m0(s) => {
                let codes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, s.as_ptr().add(at).cast()));
                let v = _mm512_castsi512_ps(_mm512_slli_epi32::<23>(codes));
                let least = _mm512_cmpeq_epi32_mask(codes, _mm512_setzero_si512());
                let v = _mm512_mask_blend_ps(least, v, _mm512_set1_ps(f32::from_bits(1 << 22)));
                let nan = _mm512_cmpeq_epi32_mask(codes, _mm512_set1_epi32(255));
                (_mm512_mask_blend_ps(nan, v, _mm512_set1_ps(f32::NAN)), None)
            }
            Scales::E4m3(s) => {
                let codes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, s.as_ptr().add(at).cast()));
                (e4m3_values(codes), None)
            }
        }
    }
}

/// Constants of a format, kept in registers.
pub(super) struct Tables {
    low: __m512,
    high: __m512,
    bytes: __m512i,
    shifts: __m512i,
}

impl Tables {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
    pub(super) fn new(bits: usize, code: Code) -> Self {
        let values: [f32; 32] = std::array::from_fn(|i| match code {
            Code::E2m1 => E2M1[i % 16],
            Code::Integer | Code::E4m3 => (i & ((1 << bits) - 1)) as f32,
        });
        let (bytes, shifts) = &UNPACKING[bits];
        // SAFETY: the arrays hold whole registers.
        unsafe {
            Tables {
                low: _mm512_loadu_ps(values.as_ptr()),
                high: _mm512_loadu_ps(values.as_ptr().add(16)),
                bytes: _mm512_loadu_si512(bytes.as_ptr().cast()),
                shifts: _mm512_loadu_si512(shifts.as_ptr().cast()),
            }
        }
    }
}

/// What code `k` of every lane of an unpacked block stands for. Permutes look at the low bits of a lane only,
/// so that the codes above need no masking.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
fn code<const FORM: usize>(t: &Tables, v: __m512i, k: usize) -> __m512 {
    let step = if FORM == 4 { 4 } else { 8 };
    let v = _mm512_srlv_epi32(v, _mm512_set1_epi32((step * k) as i32));
    match FORM {
        1..=4 => _mm512_permutexvar_ps(v, t.low),
        5 => _mm512_permutex2var_ps(t.low, v, t.high),
        8 if k == 3 => _mm512_cvtepi32_ps(v),
        E4M3 => e4m3_values(v),
        _ => _mm512_cvtepi32_ps(_mm512_and_si512(v, _mm512_set1_epi32((1 << FORM) - 1))),
    }
}

/// y[.., rows] for up to `M` rows of activations.
///
/// # Safety
/// The machine has the instructions; `fits(w)`, whose form is `FORM`; `a` was made for `w` with room for
/// `M` rows; y is `[a.m, w.rows]`, and nobody else uses these rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
unsafe fn rows<const FORM: usize, const M: usize>(
    a: &Activations,
    w: &Quantized<'_>,
    rows: std::ops::Range<usize>,
    y: *mut f32,
) {
    debug_assert!(width(FORM) == w.bits && a.m <= M);
    let (block, lane) = const { block(FORM) };
    let block_bytes = block * const { width(FORM) } / 8;
    let groups = w.row_groups();
    let padded_groups = groups.next_multiple_of(16);
    let row_bytes = w.row_words() * 4;
    // Blocks after which the group index advances, and by how much.
    let (every, advance) = ((w.group / block).max(1), (block / w.group).max(1) as i32);
    let blocks_per_16 = 16 * w.group / block;
    let lane_group: [i32; 16] = std::array::from_fn(|j| (j * lane / w.group) as i32);
    // SAFETY: 16 integers.
    let lane_group = unsafe { _mm512_loadu_si512(lane_group.as_ptr().cast()) };
    let t = Tables::new(w.bits, w.code());
    // Whole groups and blocks whose activations stay in cache; then the next part of the columns.
    let unit = block.max(w.group);
    let part_groups = (RESIDENT / M / unit).max(1) * unit / w.group;
    let ahead = if part_groups >= groups { AHEAD } else { row_bytes };
    let mut part = 0;
    while part < groups {
        let part_end = (part + part_groups).min(groups);
        for row in rows.clone() {
            // SAFETY: row < w.rows, so that all of its bytes are in `words`.
            let packed = unsafe { w.words.as_ptr().cast::<u8>().add(row * row_bytes) };
            let mut total = [_mm512_setzero_ps(); M];
            let mut first_group = part;
            let mut b = part * w.group / block;
            while first_group < part_end {
                let n = (part_end - first_group).min(16);
                let at = row * groups + first_group;
                // SAFETY: `at + n` is within the scales and biases of this row.
                let (scales, biases) = unsafe { load_scales(&w.scales, at, n) };
                if let Some(biases) = biases {
                    for (i, total) in total.iter_mut().enumerate() {
                        let at = i * padded_groups + first_group;
                        // SAFETY: `n` sums from there on are of this row; the mask stops at them.
                        let sums = unsafe { _mm512_maskz_loadu_ps(first(n), a.sums.as_ptr().add(at)) };
                        *total = _mm512_fmadd_ps(biases, sums, *total);
                    }
                }
                let end = ((first_group + n) * w.group).div_ceil(block).min(b + blocks_per_16);
                let mut index = lane_group;
                while b < end {
                    let scale = _mm512_permutexvar_ps(index, scales);
                    for _ in 0..every.min(end - b) {
                        let left = row_bytes - b * block_bytes;
                        // SAFETY: the mask stops at the end of the row; x holds every block of a row.
                        unsafe {
                            let p = packed.add(b * block_bytes);
                            _mm_prefetch::<_MM_HINT_T0>(p.wrapping_add(ahead).cast());
                            let v = unpack::<FORM>(&t, p, left.min(block_bytes));
                            let x = a.x.as_ptr().add(b * block * M);
                            let mut sums = [_mm512_setzero_ps(); M];
                            for k in 0..lane {
                                let q = code::<FORM>(&t, v, k);
                                for (i, sum) in sums.iter_mut().enumerate() {
                                    *sum = _mm512_fmadd_ps(q, _mm512_loadu_ps(x.add((k * M + i) * 16)), *sum);
                                }
                            }
                            for (total, sum) in total.iter_mut().zip(sums) {
                                *total = _mm512_fmadd_ps(sum, scale, *total);
                            }
                        }
                        b += 1;
                    }
                    index = _mm512_add_epi32(index, _mm512_set1_epi32(advance));
                }
                first_group += n;
            }
            for (i, total) in total.into_iter().enumerate().take(a.m) {
                let sum = _mm512_reduce_add_ps(total);
                // SAFETY: y is `[m, w.rows]`.
                unsafe {
                    let y = y.add(i * w.rows + row);
                    *y = if part == 0 { sum } else { *y + sum };
                }
            }
        }
        part = part_end;
    }
    if groups == 0 {
        for row in rows {
            for i in 0..a.m {
                // SAFETY: y is `[m, w.rows]`.
                unsafe { *y.add(i * w.rows + row) = 0.0 };
            }
        }
    }
}

/// A mask of the first `n` of 16 lanes.
#[inline(always)]
pub(super) fn first(n: usize) -> __mmask16 {
    if n >= 16 { !0 } else { (1u16 << n) - 1 }
}

/// The codes of the block at `p`, of which `bytes` exist: as they are for 4 bits, in bytes of their own
/// otherwise.
///
/// # Safety
/// `bytes` bytes are readable at `p`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi")]
pub(super) unsafe fn unpack<const FORM: usize>(t: &Tables, p: *const u8, bytes: usize) -> __m512i {
    // SAFETY: keeps to the caller's promise. A mask would cost the port of the permutes.
    let v = unsafe {
        if bytes == 64 {
            _mm512_loadu_si512(p.cast())
        } else {
            _mm512_maskz_loadu_epi8((1u64 << bytes) - 1, p.cast())
        }
    };
    if FORM == 4 || width(FORM) == 8 {
        v
    } else {
        _mm512_multishift_epi64_epi8(t.shifts, _mm512_permutexvar_epi8(t.bytes, v))
    }
}

/// Bytes that are asked for ahead of use: the hardware stops at page ends.
pub(super) const AHEAD: usize = 1024;
