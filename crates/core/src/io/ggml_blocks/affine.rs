//! Repacking of blocks into affine-quantized weights, without requantizing.
//!
//! The integers move by word-wide bit arithmetic, eight elements at a time: a `u64` holds eight
//! bytes with one integer each, and [`pack8`] squeezes the unused high bits out of them.

use half::f16;

use super::{
    AffineFormat, BlockError, GgmlType, check_length, checked_blocks, half_at, k_scale_bytes, k_scales, lanes,
};

/// Number type of the scales and biases of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScaleType {
    /// Half precision.
    F16,
    /// Single precision.
    F32,
}

/// [`f16`] or `f32`, the types that scales and biases can have.
pub trait AffineScale: Copy + private::Sealed {
    /// The nearest value to `x`.
    fn from_f32(x: f32) -> Self;
    /// `x` itself.
    fn from_f16(x: f16) -> Self;
    /// `self * factor`, rounded; exact for the powers of two used here unless it overflows.
    fn times(self, factor: f32) -> Self;
}

impl AffineScale for f16 {
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        f16::from_f32(x)
    }
    #[inline(always)]
    fn from_f16(x: f16) -> Self {
        x
    }
    #[inline(always)]
    fn times(self, factor: f32) -> Self {
        f16::from_f32(self.to_f32() * factor)
    }
}

impl AffineScale for f32 {
    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
    #[inline(always)]
    fn from_f16(x: f16) -> Self {
        x.to_f32()
    }
    #[inline(always)]
    fn times(self, factor: f32) -> Self {
        self * factor
    }
}

mod private {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for f32 {}
}

/// Where [`to_affine`] writes: row-major, with no padding between rows.
pub struct AffineOutput<'a, S> {
    /// `rows * words_per_row` words; the integers of a row are one bit stream, least significant
    /// bits first.
    pub words: &'a mut [u32],
    /// `rows * groups_per_row` scales.
    pub scales: &'a mut [S],
    /// `rows * groups_per_row` biases.
    pub biases: &'a mut [S],
}

/// The scale type that [`to_affine`] should be given for this tensor: half precision, unless the
/// `d` or the minimum of some block is so large that a scale or bias could overflow it. Reads the
/// block headers only.
///
/// Small numbers need no care: a scale is a half number times an integer, hence a multiple of the
/// smallest subnormal, so that half precision holds it exactly wherever it is subnormal and rounds
/// it by at most 2^-11 elsewhere.
///
/// # Errors
/// A `ty` without an affine form, a `src` that is not a whole number of blocks, or a block whose
/// scale or minimum is infinite or NaN.
pub fn affine_scale_type(ty: GgmlType, src: &[u8]) -> Result<ScaleType, BlockError> {
    const OPERATION: &str = "affine_scale_type";
    // Where `d` and the minimum are, and the largest number that each is multiplied by.
    let (d_at, d_factor, min_at, min_factor) = match ty {
        GgmlType::Q4_0 => (0, 8.0, None, 0.0),
        GgmlType::Q5_0 => (0, 16.0, None, 0.0),
        GgmlType::Q8_0 => (0, 128.0, None, 0.0),
        GgmlType::Q4_1 | GgmlType::Q5_1 => (0, 1.0, Some(2), 1.0),
        GgmlType::Q4_K | GgmlType::Q5_K => (0, 63.0, Some(2), 63.0),
        GgmlType::Q6_K => (208, 128.0 * 32.0, None, 0.0),
        _ => return Err(BlockError::Unsupported { operation: OPERATION, ty }),
    };
    let blocks = src.len() / ty.block_bytes();
    check_length(OPERATION, "source", ty, blocks * ty.block_bytes(), src.len())?;

    let mut scale_type = ScaleType::F16;
    for (at, factor) in [(Some(d_at), d_factor), (min_at, min_factor)] {
        let Some(at) = at else { continue };
        // The bits of non-negative half numbers are ordered as the numbers are, and those of
        // infinities and NaNs come last.
        let magnitude = |block: &[u8]| half_at(block, at).to_bits() & 0x7fff;
        let largest = src.chunks_exact(ty.block_bytes()).map(magnitude).max().unwrap_or(0);
        if !f16::from_bits(largest).is_finite() {
            let non_finite = |block: &[u8]| !f16::from_bits(magnitude(block)).is_finite();
            let block = src.chunks_exact(ty.block_bytes()).position(non_finite).expect("the largest is one");
            let value = half_at(&src[block * ty.block_bytes()..], at).to_f32();
            return Err(BlockError::NonFiniteScale { operation: OPERATION, ty, block, value });
        }
        if f16::from_bits(largest).to_f32() * factor > F16_MAX {
            scale_type = ScaleType::F32;
        }
    }
    Ok(scale_type)
}

const F16_MAX: f32 = 65504.0;

/// Repacks `rows` rows of `cols` elements into affine-quantized weights: `w = scale * q + bias`.
///
/// | type | `q` | scale | bias |
/// | --- | --- | --- | --- |
/// | `Q4_0` | 4 bits | `d` | `-8 d` |
/// | `Q5_0` | 5 bits | `d` | `-16 d` |
/// | `Q8_0` | stored value + 128 | `d` | `-128 d` |
/// | `Q4_1`, `Q5_1` | 4, 5 bits | `d` | `m` |
/// | `Q4_K`, `Q5_K` | 4, 5 bits | `d * scale` | `-dmin * min` |
/// | `Q6_K` | 6 bits | `d * scale` | `-32` times the rounded scale |
///
/// [`GgmlType::affine_format`] gives the bit width and the group; [`affine_scale_type`] says
/// which `S` keeps the promised precision. Rows are independent, so threads may share a tensor by
/// rows.
///
/// # Errors
/// A `ty` without an affine form, `cols` that are not a whole number of blocks, or slices of
/// other lengths than the shape demands.
pub fn to_affine<S: AffineScale>(
    ty: GgmlType,
    src: &[u8],
    rows: usize,
    cols: usize,
    out: AffineOutput<'_, S>,
) -> Result<(), BlockError> {
    const OPERATION: &str = "to_affine";
    let AffineFormat { bits, group_size } =
        ty.affine_format().ok_or(BlockError::Unsupported { operation: OPERATION, ty })?;
    let blocks = checked_blocks(OPERATION, ty, src, rows, cols)?;
    // No overflow: both are smaller than the byte length of the source.
    let block_words = ty.block_size() / 32 * bits;
    let block_groups = ty.block_size() / group_size;
    check_length(OPERATION, "words", ty, blocks * block_words, out.words.len())?;
    check_length(OPERATION, "scales", ty, blocks * block_groups, out.scales.len())?;
    check_length(OPERATION, "biases", ty, blocks * block_groups, out.biases.len())?;

    match ty {
        GgmlType::Q4_0 => each_block::<18, 4, 1, S>(src, out, |block, words, scale, bias| {
            scale[0] = S::from_f16(half_at(block, 0));
            bias[0] = scale[0].times(-8.0);
            pack_nibbles(&block[2..18], words);
        }),
        GgmlType::Q4_1 => each_block::<20, 4, 1, S>(src, out, |block, words, scale, bias| {
            scale[0] = S::from_f16(half_at(block, 0));
            bias[0] = S::from_f16(half_at(block, 2));
            pack_nibbles(&block[4..20], words);
        }),
        GgmlType::Q5_0 => each_block::<22, 5, 1, S>(src, out, |block, words, scale, bias| {
            scale[0] = S::from_f16(half_at(block, 0));
            bias[0] = scale[0].times(-16.0);
            *words = pack_fives(quintets(&block[2..6], &block[6..22]));
        }),
        GgmlType::Q5_1 => each_block::<24, 5, 1, S>(src, out, |block, words, scale, bias| {
            scale[0] = S::from_f16(half_at(block, 0));
            bias[0] = S::from_f16(half_at(block, 2));
            *words = pack_fives(quintets(&block[4..8], &block[8..24]));
        }),
        GgmlType::Q8_0 => each_block::<34, 8, 1, S>(src, out, |block, words, scale, bias| {
            scale[0] = S::from_f16(half_at(block, 0));
            bias[0] = scale[0].times(-128.0);
            for (word, q) in words.iter_mut().zip(block[2..].as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*q) ^ 0x8080_8080;
            }
        }),
        GgmlType::Q4_K => each_block::<144, 32, 8, S>(src, out, |block, words, scale, bias| {
            k_scales_and_biases(block, scale, bias);
            for (words, bytes) in words.as_chunks_mut::<8>().0.iter_mut().zip(block[16..].as_chunks::<32>().0)
            {
                for i in 0..4 {
                    let pair = lanes(&bytes[i * 8..]);
                    words[i] = pack8::<4>(pair & NIBBLES) as u32;
                    words[i + 4] = pack8::<4>(pair >> 4 & NIBBLES) as u32;
                }
            }
        }),
        GgmlType::Q5_K => each_block::<176, 40, 8, S>(src, out, |block, words, scale, bias| {
            k_scales_and_biases(block, scale, bias);
            for (g, words) in words.as_chunks_mut::<5>().0.iter_mut().enumerate() {
                let low = &block[48 + g / 2 * 32..];
                *words = pack_fives(std::array::from_fn(|i| {
                    let high = lanes(&block[16 + i * 8..]) >> g & ONES;
                    lanes(&low[i * 8..]) >> (g % 2 * 4) & NIBBLES | high << 4
                }));
            }
        }),
        GgmlType::Q6_K => each_block::<210, 48, 16, S>(src, out, |block, words, scale, bias| {
            let d = half_at(block, 208).to_f32();
            for (i, &s) in block[192..208].iter().enumerate() {
                scale[i] = S::from_f32(d * s as i8 as f32);
                bias[i] = scale[i].times(-32.0);
            }
            for (g, words) in words.as_chunks_mut::<6>().0.iter_mut().enumerate() {
                let (n, part) = (g / 4, g % 4);
                let low = &block[n * 64 + part % 2 * 32..];
                let high = &block[128 + n * 32..];
                let six = |i: usize| {
                    let l = lanes(&low[i * 8..]) >> (part / 2 * 4) & NIBBLES;
                    l | (lanes(&high[i * 8..]) >> (part * 2) & (ONES * 3)) << 4
                };
                for (i, words) in words.as_chunks_mut::<3>().0.iter_mut().enumerate() {
                    let (a, b) = (pack8::<6>(six(i * 2)), pack8::<6>(six(i * 2 + 1)));
                    *words = [a as u32, (a >> 32 | b << 16) as u32, (b >> 16) as u32];
                }
            }
        }),
        other => unreachable!("types without an affine form were refused above, not {other}"),
    }
    Ok(())
}

/// Runs `convert` on each block with its words, scales and biases; all sizes are constants, so
/// that the conversions compile without bounds checks. The lengths were checked by the caller.
#[inline(always)]
fn each_block<const BYTES: usize, const WORDS: usize, const GROUPS: usize, S>(
    src: &[u8],
    out: AffineOutput<'_, S>,
    convert: impl Fn(&[u8; BYTES], &mut [u32; WORDS], &mut [S; GROUPS], &mut [S; GROUPS]),
) {
    let blocks = src.as_chunks::<BYTES>().0.iter();
    let words = out.words.as_chunks_mut::<WORDS>().0.iter_mut();
    let scales = out.scales.as_chunks_mut::<GROUPS>().0.iter_mut();
    let biases = out.biases.as_chunks_mut::<GROUPS>().0.iter_mut();
    for (((block, words), scales), biases) in blocks.zip(words).zip(scales).zip(biases) {
        convert(block, words, scales, biases);
    }
}

#[inline(always)]
fn k_scales_and_biases<S: AffineScale>(block: &[u8], scale: &mut [S; 8], bias: &mut [S; 8]) {
    let (d, dmin) = (half_at(block, 0).to_f32(), half_at(block, 2).to_f32());
    let (scales, mins) = k_scales(k_scale_bytes(block));
    for g in 0..8 {
        scale[g] = S::from_f32(d * scales[g] as f32);
        bias[g] = S::from_f32(-(dmin * mins[g] as f32));
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const NIBBLES: u64 = ONES * 15;

/// Squeezes the eight `BITS`-wide lanes of a word together into its low `8 * BITS` bits: pairs of
/// lanes, then pairs of pairs, then the two halves.
#[inline(always)]
const fn pack8<const BITS: u32>(lanes: u64) -> u64 {
    let one = (1 << BITS) - 1;
    let two = (1 << (2 * BITS)) - 1;
    let four = (1 << (4 * BITS)) - 1;
    let m1 = one * 0x0001_0001_0001_0001;
    let x = lanes & m1 | (lanes >> 8 & m1) << BITS;
    let m2 = two * 0x0000_0001_0000_0001;
    let x = x & m2 | (x >> 16 & m2) << (2 * BITS);
    x & four | (x >> 32 & four) << (4 * BITS)
}

/// Sixteen bytes whose low nibbles are elements 0 to 15 and whose high ones are 16 to 31.
#[inline(always)]
fn pack_nibbles(bytes: &[u8], words: &mut [u32; 4]) {
    for i in 0..2 {
        let pair = lanes(&bytes[i * 8..]);
        words[i] = pack8::<4>(pair & NIBBLES) as u32;
        words[i + 2] = pack8::<4>(pair >> 4 & NIBBLES) as u32;
    }
}

/// The 32 five-bit integers of a `Q5_0` or `Q5_1` block in lanes: `high` holds the fifth bits.
#[inline(always)]
fn quintets(high: &[u8], low: &[u8]) -> [u64; 4] {
    std::array::from_fn(|i| {
        let nibbles = lanes(&low[i % 2 * 8..]) >> (i / 2 * 4) & NIBBLES;
        nibbles | spread_bits(high[i]) << 4
    })
}

/// Bit `i` of a byte as lane `i`, 0 or 1.
#[inline(always)]
const fn spread_bits(byte: u8) -> u64 {
    // Lane `i` keeps bit `i` of its copy of the byte; adding 0x7f carries any set bit to bit 7.
    let picked = (byte as u64 * ONES) & 0x8040_2010_0804_0201;
    (picked + ONES * 0x7f) >> 7 & ONES
}

/// 32 five-bit integers as 160 bits.
#[inline(always)]
fn pack_fives(lanes: [u64; 4]) -> [u32; 5] {
    let [a, b, c, d] = lanes.map(pack8::<5>);
    [
        a as u32,
        (a >> 32 | b << 8) as u32,
        (b >> 24 | c << 16) as u32,
        (c >> 16 | d << 24) as u32,
        (d >> 8) as u32,
    ]
}
