//! Small floats: E2M1 and E4M3 elements, E8M0 and E4M3 scales (OCP Microscaling Formats 1.0), and packing to
//! them by MLX's rules.

use super::check_format;
use crate::kernels::{Floats, Result, Shared, ensure, with_floats};
use crate::lanes::Element;
use crate::pool::parallel_ranges;

/// Values of E2M1 codes.
pub(super) const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// Largest value of E2M1, and of E4M3.
const MOST_E2M1: f32 = 6.0;
const MOST_E4M3: f32 = 448.0;

/// Value of an E4M3 code: bias 7, no infinities, NaN with all bits of exponent and mantissa.
#[inline(always)]
pub(super) fn e4m3(code: u8) -> f32 {
    let magnitude = code & 0x7f;
    // As the top of a float its exponent is too small by 120.
    let value = f32::from_bits((magnitude as u32) << 20) * f32::from_bits((120 + 127) << 23);
    let value = if magnitude == 0x7f { f32::NAN } else { value };
    if code & 0x80 == 0 { value } else { -value }
}

/// Value of an E8M0 code: a power of two, from 2^-127 on; NaN for 255.
#[inline(always)]
pub(super) fn e8m0(code: u8) -> f32 {
    match code {
        0 => f32::from_bits(1 << 22),
        255 => f32::NAN,
        c => f32::from_bits((c as u32) << 23),
    }
}

/// Nearest E4M3 code, ties to even; what is too large becomes the largest, NaN stays NaN.
pub fn to_e4m3(x: f32) -> u8 {
    let sign = ((x.to_bits() >> 24) & 0x80) as u8;
    if x.is_nan() {
        return sign | 0x7f;
    }
    let a = x.abs().min(MOST_E4M3);
    let code = if a < f32::from_bits((127 - 6) << 23) {
        // Subnormal: steps of 2^-9.
        (a * 512.0).round_ties_even() as u8
    } else {
        let bits = a.to_bits();
        let rounded = bits + 0x7_ffff + ((bits >> 20) & 1);
        ((rounded >> 20) - (120 << 3)) as u8
    };
    sign | code
}

/// Nearest E2M1 code, the one nearer to zero of two that are equally near in type `T`; what rounds to zero has
/// no sign, and neither has NaN, which counts as zero.
fn to_e2m1<T: Element>(y: f32) -> u8 {
    let a = y.abs();
    let (mut best, mut least) = (0, f32::INFINITY);
    for (i, &v) in E2M1[..8].iter().enumerate() {
        let d = T::from_f32((v - a).abs()).to_f32();
        if d < least {
            (best, least) = (i as u8, d);
        }
    }
    if a == f32::INFINITY {
        best = 7;
    }
    if best != 0 && y < 0.0 { best | 8 } else { best }
}

/// A format of small floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Format {
    /// E2M1 elements, E8M0 scales.
    Mxfp4,
    /// E4M3 elements, E8M0 scales.
    Mxfp8,
    /// E2M1 elements, E4M3 scales.
    Nvfp4 {
        /// Largest magnitude of the whole array, when scales are relative to it.
        global: Option<f32>,
    },
}

/// Quantizes `x` `[rows, cols]` in groups of `group` along each row; scales are `[rows, cols / group]`.
///
/// The scale of a group is its largest finite magnitude over the largest element of the format, for E8M0 rounded
/// up to a power of two. Values that are not finite do not count for it, and become the largest element, or
/// NaN where the format has it.
///
/// # Errors
/// When `group` does not divide `cols`, a row does not fill whole words, or a length does not fit.
pub fn quantize_floats(
    x: Floats<'_>,
    cols: usize,
    group: usize,
    format: Format,
    words: &mut [u32],
    scales: &mut [u8],
) -> Result<()> {
    const OP: &str = "quantize";
    let bits = if format == Format::Mxfp8 { 8 } else { 4 };
    check_format(OP, cols, group, bits)?;
    ensure!(cols > 0 && x.len().is_multiple_of(cols), OP, "{} elements are not rows of {cols}", x.len());
    let rows = x.len() / cols;
    let (row_words, row_groups) = (cols * bits / 32, cols / group);
    ensure!(words.len() == rows * row_words, OP, "{} words, not {rows} x {row_words}", words.len());
    ensure!(scales.len() == rows * row_groups, OP, "{} scales, not {rows} x {row_groups}", scales.len());
    let (words, scales) = (Shared(words.as_mut_ptr()), Shared(scales.as_mut_ptr()));
    parallel_ranges(rows, (1usize << 13).div_ceil(cols), &|range| {
        for row in range {
            // SAFETY: the lengths were checked above; each row is written by one task.
            let (words, scales) = unsafe {
                (
                    std::slice::from_raw_parts_mut(words.get().add(row * row_words), row_words),
                    std::slice::from_raw_parts_mut(scales.get().add(row * row_groups), row_groups),
                )
            };
            with_floats!(Floats, x, x => {
                let x = &x[row * cols..(row + 1) * cols];
                quantize_row(x, group, format, bytemuck::cast_slice_mut(words), scales);
            });
        }
    });
    Ok(())
}

fn quantize_row<T: Element>(x: &[T], group: usize, format: Format, bytes: &mut [u8], scales: &mut [u8]) {
    let round = |v: f32| T::from_f32(v).to_f32();
    for (g, (x, code)) in x.chunks_exact(group).zip(scales).enumerate() {
        let most = x.iter().map(|x| x.to_f32().abs()).filter(|a| a.is_finite()).fold(0.0f32, f32::max);
        // What elements are divided by, in `T`, and multiplied by then.
        let (divisor, factor) = match format {
            Format::Mxfp4 | Format::Mxfp8 => {
                let s = round(most / if format == Format::Mxfp4 { MOST_E2M1 } else { MOST_E4M3 });
                *code = power_above(s);
                (e8m0(*code), None)
            }
            Format::Nvfp4 { global } => {
                let factor = global.map(|g| MOST_E2M1 * MOST_E4M3 / g);
                *code = to_e4m3(round(most / MOST_E2M1) * factor.unwrap_or(1.0));
                (e4m3(*code), factor)
            }
        };
        let quotient = |x: &T| if divisor == 0.0 { 0.0 } else { round(x.to_f32() / divisor) };
        if format == Format::Mxfp8 {
            for (x, byte) in x.iter().zip(&mut bytes[g * group..(g + 1) * group]) {
                *byte = to_e4m3(quotient(x));
            }
        } else {
            let nibble = |x: &T| match factor {
                None => to_e2m1::<T>(quotient(x)),
                Some(f) => to_e2m1::<f32>(quotient(x) * f),
            };
            for (pair, byte) in x.chunks_exact(2).zip(&mut bytes[g * group / 2..(g + 1) * group / 2]) {
                *byte = nibble(&pair[0]) | nibble(&pair[1]) << 4;
            }
        }
    }
}

/// The E8M0 code of the least power of two that is not below `s`; that of 1 for zero.
fn power_above(s: f32) -> u8 {
    if s == 0.0 {
        return 127;
    }
    let bits = s.to_bits();
    let up = (bits & 0x7f_ffff != 0) as u32;
    let exponent = bits >> 23;
    if exponent == 0 {
        // Below 2^-126: up to 2^-127 or 2^-126.
        return if bits <= 1 << 22 { 0 } else { 1 };
    }
    (exponent + up).min(254) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_e4m3_code_survives() {
        for code in 0..=255u8 {
            let v = e4m3(code);
            assert_eq!(to_e4m3(v), code, "{v}");
        }
        assert_eq!(e4m3(0x7e), 448.0);
        assert_eq!(e4m3(1), 2f32.powi(-9));
        assert_eq!(to_e4m3(1e9), 0x7e);
        assert_eq!(to_e4m3(f32::NEG_INFINITY), 0xfe);
    }

    #[test]
    fn e4m3_rounds_to_the_nearest_with_ties_to_even() {
        for code in 0..0x7du8 {
            let (low, high) = (e4m3(code), e4m3(code + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(to_e4m3(middle), if code % 2 == 0 { code } else { code + 1 });
            assert_eq!(to_e4m3(middle.next_up()), code + 1);
            assert_eq!(to_e4m3(middle.next_down()), code);
        }
    }

    #[test]
    fn powers_are_rounded_up() {
        for (s, code) in
            [(0.0, 127), (1.0, 127), (1.0001, 128), (0.5, 126), (1e-45, 0), (6e-39, 1), (3e38, 254)]
        {
            assert_eq!(power_above(s), code, "{s}");
        }
        for code in 0..=254u8 {
            assert_eq!(power_above(e8m0(code)), code);
        }
    }
}
