//! Quantization in MLX's formats, and products that read the packed weights directly.
//!
//! A matrix `[rows, cols]` is stored as codes of `bits` bits, packed along each row as one little-endian
//! bit stream in `u32` words, with a scale and perhaps a bias for every `group` consecutive codes:
//! w = scale * value(code) + bias, where a code is an integer or a small float; see [`Scales`]. Activations stay floating point: products accumulate `f32` weights times `f32`
//! activations.
//!
//! - few rows of activations: [`gemv`] unpacks each weight once, in registers;
//! - many: [`gemm`] unpacks blocks into cache and multiplies them by all rows.

mod affine;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod decode;
#[cfg(target_arch = "x86_64")]
mod fixed;
mod floats;
mod gemm;
mod gemv;
#[cfg(test)]
mod tests;

pub use affine::{dequantize, quantize};
pub use floats::{Format, quantize_floats};

use super::{Floats, FloatsMut, Result, ensure, narrow_all, widen_all};
use crate::lanes::Lanes;
use crate::simd::{Level, level};

/// Scales and biases of a quantized matrix, `[rows, cols / group]`; what they are says what the codes are.
#[derive(Debug, Clone, Copy)]
pub enum Scales<'a> {
    /// Of unsigned integers.
    Affine {
        /// Factors.
        scales: Floats<'a>,
        /// Summands.
        biases: Floats<'a>,
    },
    /// Of E2M1 or, with 8 bits, E4M3 floats: powers of two, E8M0.
    E8m0(&'a [u8]),
    /// Of E2M1 floats: E4M3 floats.
    E4m3(&'a [u8]),
}

/// What a code stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    /// Itself.
    Integer,
    /// A float of 4 bits.
    E2m1,
    /// A float of 8 bits.
    E4m3,
}

impl<'a> Scales<'a> {
    /// Number of scales.
    fn len(&self) -> usize {
        match self {
            Scales::Affine { scales, .. } => scales.len(),
            Scales::E8m0(s) | Scales::E4m3(s) => s.len(),
        }
    }

    /// Scale `i`.
    fn scale(&self, i: usize) -> f32 {
        match self {
            Scales::Affine { scales, .. } => scales.get(i),
            Scales::E8m0(s) => floats::e8m0(s[i]),
            Scales::E4m3(s) => floats::e4m3(s[i]),
        }
    }

    /// Widens scales from `at` on.
    #[inline(always)]
    fn widen<S: Lanes>(&self, s: S, at: usize, out: &mut [f32]) {
        match self {
            Scales::Affine { scales, .. } => scales.widen(s, at..at + out.len(), out),
            Scales::E8m0(_) | Scales::E4m3(_) => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = self.scale(at + i);
                }
            }
        }
    }
}

/// A quantized matrix, borrowed.
#[derive(Debug, Clone, Copy)]
pub struct Quantized<'a> {
    /// Packed codes, `[rows, cols * bits / 32]`.
    pub words: &'a [u32],
    /// Scales and biases.
    pub scales: Scales<'a>,
    /// Rows: the outputs of a linear layer.
    pub rows: usize,
    /// Columns: the inputs of a linear layer. `cols * bits` is a multiple of 32.
    pub cols: usize,
    /// Codes that share a scale and a bias; divides `cols`.
    pub group: usize,
    /// Bits of a code, 1 to 8.
    pub bits: usize,
}

/// Checks bits, group and columns of a quantized row.
fn check_format(op: &'static str, cols: usize, group: usize, bits: usize) -> Result<()> {
    ensure!((1..=8).contains(&bits), op, "bits must be 1 to 8, not {bits}");
    ensure!(group > 0 && cols.is_multiple_of(group), op, "group size {group} does not divide {cols} columns");
    let whole = cols.checked_mul(bits).is_some_and(|b| b.is_multiple_of(32));
    ensure!(whole, op, "{cols} columns of {bits} bits do not fill whole 32-bit words");
    Ok(())
}

impl<'a> Quantized<'a> {
    /// Words of a row.
    fn row_words(&self) -> usize {
        self.cols * self.bits / 32
    }

    /// Scales of a row.
    fn row_groups(&self) -> usize {
        self.cols / self.group
    }

    /// What its codes are.
    fn code(&self) -> Code {
        match (self.scales, self.bits) {
            (Scales::Affine { .. }, _) => Code::Integer,
            (Scales::E8m0(_), 8) => Code::E4m3,
            (Scales::E8m0(_) | Scales::E4m3(_), _) => Code::E2m1,
        }
    }

    /// Checks that the parts fit together.
    fn check(&self, op: &'static str) -> Result<()> {
        let Quantized { rows, cols, group, bits, .. } = *self;
        check_format(op, cols, group, bits)?;
        let words = rows.checked_mul(self.row_words());
        ensure!(
            words == Some(self.words.len()),
            op,
            "{} packed words for a [{rows}, {cols}] matrix of {bits} bits, which needs {words:?}",
            self.words.len()
        );
        let groups = rows.checked_mul(self.row_groups());
        let biases = match self.scales {
            Scales::Affine { biases, .. } => biases.len(),
            Scales::E8m0(_) | Scales::E4m3(_) => self.scales.len(),
        };
        ensure!(
            groups == Some(self.scales.len()) && groups == Some(biases),
            op,
            "{} scales and {biases} biases for a [{rows}, {cols}] matrix in groups of {group}, which needs {groups:?}",
            self.scales.len()
        );
        let known = match self.scales {
            Scales::Affine { .. } => true,
            Scales::E8m0(_) => matches!(bits, 4 | 8),
            Scales::E4m3(_) => bits == 4,
        };
        ensure!(known, op, "small floats have 4 bits, or 8 with scales E8M0, not {bits}");
        Ok(())
    }
}

/// Products with no more rows of activations than this unpack weights in registers.
const FEW: usize = 8;

/// y = x w^T (`transpose`, x `[m, cols]`, y `[m, rows]`) or y = x w (x `[m, rows]`, y `[m, cols]`).
///
/// x and y are contiguous, of any storage type; products accumulate in `f32`. Runs on the thread pool.
///
/// # Errors
/// When the parts of `w`, or the lengths of x and y, do not fit `m`.
pub fn quantized_matmul(
    x: Floats<'_>,
    w: &Quantized<'_>,
    m: usize,
    transpose: bool,
    y: FloatsMut<'_>,
) -> Result<()> {
    quantized_matmul_at(level(), x, w, m, transpose, y)
}

/// [`quantized_matmul`] at an instruction-set level no higher than `at`.
pub fn quantized_matmul_at(
    at: Level,
    x: Floats<'_>,
    w: &Quantized<'_>,
    m: usize,
    transpose: bool,
    y: FloatsMut<'_>,
) -> Result<()> {
    const OP: &str = "quantized_matmul";
    w.check(OP)?;
    let (inner, outer) = if transpose { (w.cols, w.rows) } else { (w.rows, w.cols) };
    ensure!(m.checked_mul(inner) == Some(x.len()), OP, "x has {} elements, not {m} x {inner}", x.len());
    ensure!(m.checked_mul(outer) == Some(y.len()), OP, "y has {} elements, not {m} x {outer}", y.len());
    if m == 0 || outer == 0 {
        return Ok(());
    }
    let widened;
    let x = match x {
        Floats::F32(x) => x,
        _ => {
            let mut buf = vec![0.0; x.len()];
            widen_all(at, x, &mut buf);
            widened = buf;
            &widened
        }
    };
    let product = |y: &mut [f32]| match (transpose, m <= FEW) {
        (true, true) => gemv::multiply(at.min(level()), x, w, m, y),
        (true, false) => gemm::multiply_transposed(at, x, w, y),
        (false, _) => gemm::multiply(at, x, w, m, y),
    };
    match y {
        FloatsMut::F32(y) => product(y),
        y => {
            let mut buf = vec![0.0; y.len()];
            product(&mut buf);
            narrow_all(at, &buf, y);
        }
    }
    Ok(())
}
