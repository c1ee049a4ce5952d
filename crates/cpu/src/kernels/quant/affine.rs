//! To and from the quantized format.

use super::decode::codes;
use super::{Quantized, Scales, check_format};
use crate::kernels::{Floats, FloatsMut, Result, Scratch, Shared, ensure, with_floats};
use crate::lanes::{Element, Kernel, Lanes, dispatch_at, narrow};
use crate::pool::parallel_ranges;
use crate::simd::{Level, level};

/// Rows of at least this many elements together make a task.
const GRAIN: usize = 1 << 14;

/// Quantizes `x` `[rows, cols]` in groups of `group` along each row; scales and biases are `[rows, cols / group]`.
///
/// MLX's rule, bit for bit: the end of the group's range that is farther from zero becomes the bias, the
/// step is the range over 2^bits - 1, then adjusted so that zero falls on a code; of 1 bit, the lower end is the
/// bias. Where MLX loses values the rule is another: a range below 1e-7 steps keeps its own step, if scales are
/// wide enough for it, and its place; and values that are not finite do not count for the range of their
/// group and become the end that they are nearest to (NaN the bias).
///
/// # Errors
/// When `group` does not divide `cols`, a row does not fill whole words, or a length does not fit.
pub fn quantize(
    x: Floats<'_>,
    cols: usize,
    group: usize,
    bits: usize,
    words: &mut [u32],
    scales: FloatsMut<'_>,
    biases: FloatsMut<'_>,
) -> Result<()> {
    const OP: &str = "quantize";
    check_format(OP, cols, group, bits)?;
    ensure!(cols > 0 && x.len().is_multiple_of(cols), OP, "{} elements are not rows of {cols}", x.len());
    let rows = x.len() / cols;
    let (row_words, row_groups) = (cols * bits / 32, cols / group);
    ensure!(words.len() == rows * row_words, OP, "{} words, not {rows} x {row_words}", words.len());
    for (name, len) in [("scales", scales.len()), ("biases", biases.len())] {
        ensure!(len == rows * row_groups, OP, "{len} {name}, not {rows} x {row_groups}");
    }
    with_floats!(FloatsMut, scales, scales => with_floats!(FloatsMut, biases, biases => {
        let (words, scales, biases) = (Shared(words.as_mut_ptr()), Shared(scales.as_mut_ptr()), Shared(biases.as_mut_ptr()));
        parallel_ranges(rows, GRAIN.div_ceil(cols), &|range| {
            for row in range {
                // SAFETY: the lengths were checked above; each row is written by one task.
                let (words, scales, biases) = unsafe {(
                    std::slice::from_raw_parts_mut(words.get().add(row * row_words), row_words),
                    std::slice::from_raw_parts_mut(scales.get().add(row * row_groups), row_groups),
                    std::slice::from_raw_parts_mut(biases.get().add(row * row_groups), row_groups),
                )};
                dispatch_at(level(), QuantizeRow { x: x.slice(row * cols..(row + 1) * cols), group, bits, words, scales, biases });
            }
        });
    }));
    Ok(())
}

struct QuantizeRow<'a, A, B> {
    x: Floats<'a>,
    group: usize,
    bits: usize,
    words: &'a mut [u32],
    scales: &'a mut [A],
    biases: &'a mut [B],
}

impl<A: Element, B: Element> Kernel for QuantizeRow<'_, A, B> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let n = self.x.len();
        let mut row = Scratch::take(n);
        self.x.widen(s, 0..n, &mut row);
        let top = ((1u32 << self.bits) - 1) as f32;
        // Half floats end at 6e-8.
        let wide = A::from_f32(1e-30).to_f32() != 0.0;
        for (g, xs) in row.chunks_exact_mut(self.group).enumerate() {
            let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
            for &x in xs.iter() {
                low = if x < low && x > f32::NEG_INFINITY { x } else { low };
                high = if x > high && x < f32::INFINITY { x } else { high };
            }
            if low > high {
                (low, high) = (0.0, 0.0);
            }
            // Of opposite signs the ends may be farther apart than floats reach.
            let range = (high / top - low / top).min(f32::MAX / top);
            let exact = if (high - low).is_finite() { (high - low) / top } else { range };
            let step = if exact >= 1e-7 || (exact > 1e-30 && wide) { exact } else { 1e-7 };
            let (scale, bias) = if self.bits == 1 {
                (step, low)
            } else {
                let downward = low.abs() > high.abs();
                let step = if downward { step } else { -step };
                let edge = if downward { low } else { high };
                let steps = (edge / step).round_ties_even();
                (if steps == 0.0 { step } else { edge / steps }, edge)
            };
            for x in xs.iter_mut() {
                // NaN passes through both limits and becomes code 0.
                *x = ((x.clamp(f32::MIN, f32::MAX) - bias) / scale).round_ties_even().clamp(0.0, top);
            }
            self.scales[g] = A::from_f32(scale);
            self.biases[g] = B::from_f32(bias);
        }
        let (mut pending, mut held) = (0u64, 0);
        let mut words = self.words.iter_mut();
        for &code in row.iter() {
            pending |= (code as u64) << held;
            held += self.bits;
            if held >= 32 {
                if let Some(word) = words.next() {
                    *word = pending as u32;
                }
                pending >>= 32;
                held -= 32;
            }
        }
    }
}

/// Writes the matrix `[rows, cols]` that `w` stands for.
///
/// Where `out` has the type of the scales, product and sum are each rounded to that type, which gives MLX's
/// bits; otherwise both are in `f32` and the result is rounded once.
///
/// # Errors
/// When the parts of `w` or the length of `out` do not fit.
pub fn dequantize(w: &Quantized<'_>, out: FloatsMut<'_>) -> Result<()> {
    dequantize_at(level(), w, out)
}

/// [`dequantize`] at an instruction-set level no higher than `at`.
pub(super) fn dequantize_at(at: Level, w: &Quantized<'_>, out: FloatsMut<'_>) -> Result<()> {
    const OP: &str = "dequantize";
    w.check(OP)?;
    ensure!(out.len() == w.rows * w.cols, OP, "{} elements for a [{}, {}] matrix", out.len(), w.rows, w.cols);
    let same = match w.scales {
        Scales::Affine { scales, .. } => matches!(
            (&out, scales),
            (FloatsMut::F32(_), Floats::F32(_))
                | (FloatsMut::F16(_), Floats::F16(_))
                | (FloatsMut::Bf16(_), Floats::Bf16(_))
        ),
        Scales::E8m0(_) | Scales::E4m3(_) => false,
    };
    with_floats!(FloatsMut, out, out => {
        let to = Shared(out.as_mut_ptr());
        parallel_ranges(w.rows, GRAIN.div_ceil(w.cols.max(1)), &|range| {
            for row in range {
                // SAFETY: the length was checked above; each row is written by one task.
                let out = unsafe { std::slice::from_raw_parts_mut(to.get().add(row * w.cols), w.cols) };
                dispatch_at(at, DequantizeRow { w, row, same, out });
            }
        });
    });
    Ok(())
}

struct DequantizeRow<'a, T> {
    w: &'a Quantized<'a>,
    row: usize,
    /// Whether `T` is the type of the scales.
    same: bool,
    out: &'a mut [T],
}

impl<T: Element> Kernel for DequantizeRow<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        let DequantizeRow { w, row, same, out } = self;
        // Padded, so that the last register of a group may run over its end.
        let mut buf = Scratch::take(w.cols + 2 * S::N);
        codes(s, w, row, 0, &mut buf[..w.cols]);
        let groups = w.row_groups();
        for g in 0..groups {
            let vs = s.splat(w.scales.scale(row * groups + g));
            let bias = match &w.scales {
                Scales::Affine { biases, .. } => Some(s.splat(biases.get(row * groups + g))),
                Scales::E8m0(_) | Scales::E4m3(_) => None,
            };
            let (from, end) = (g * w.group, (g + 1) * w.group);
            let mut i = from;
            while i < end {
                let n = S::N.min(end - i);
                // SAFETY: `i + n <= cols`; `buf` has a register to spare, which holds the product in type T
                // while it is rounded.
                unsafe {
                    let mut product = s.mul(vs, s.load_part(buf.as_ptr().add(i), n));
                    if same {
                        let room = buf.as_mut_ptr().add(w.cols).cast::<T>();
                        T::store(s, room, product);
                        product = T::load(s, room);
                    }
                    if let Some(bias) = bias {
                        product = s.add(product, bias);
                    }
                    s.store_part(buf.as_mut_ptr().add(i), n, product);
                }
                i += n;
            }
        }
        narrow(s, &buf[..w.cols], out);
    }
}
