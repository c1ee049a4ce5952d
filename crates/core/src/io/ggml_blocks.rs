//! Block formats of GGUF tensors: sizes, the reference decode, and lossless repacking into
//! affine-quantized weights.
//!
//! A GGUF tensor stores each row as a sequence of fixed-size blocks; a block holds 1, 32 or 256
//! consecutive elements of the row together with their scales. Two things can be done with it:
//!
//! * [`dequantize`] gives the `f32` values that the ggml specification defines.
//! * [`to_affine`] moves the stored integers, unchanged, into the layout that the quantized
//!   matrix kernels read: one little-endian bit stream of `bits`-wide integers per row and a
//!   `(scale, bias)` pair per group, so that `w = scale * q + bias`. Nothing is requantized: for
//!   `Q4_0`, `Q4_1`, `Q5_0`, `Q5_1` and `Q8_0` the represented weights are exactly the ones of
//!   the file, and for the K formats, whose scales are products, they differ by at most the
//!   rounding of the scale and the bias (2^-11 each with [`half::f16`], 2^-24 with `f32`).
//!
//! Formats follow the ggml quantization structures as documented by llama.cpp's `gguf` package.

use thiserror::Error;

mod affine;
mod decode;
#[cfg(test)]
mod tests;

pub use affine::{AffineOutput, AffineScale, ScaleType, affine_scale_type, to_affine};
pub use decode::{dequantize, dequantize_block};

/// Why a block operation was refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum BlockError {
    /// The operation does not know this block format.
    #[error("{operation}: tensor type {ty} is not supported")]
    Unsupported {
        /// The operation that was asked for.
        operation: &'static str,
        /// The type of the tensor.
        ty: GgmlType,
    },
    /// A slice has another length than the shape and the format demand.
    #[error("{operation}: {what} of a {ty} tensor must have length {expected}, got {found}")]
    Length {
        /// The operation that was asked for.
        operation: &'static str,
        /// Which slice.
        what: &'static str,
        /// The type of the tensor.
        ty: GgmlType,
        /// The length that the shape demands.
        expected: usize,
        /// The length that was given.
        found: usize,
    },
    /// The row length is not a whole number of blocks.
    #[error("{operation}: rows of {cols} elements are not a multiple of the {ty} block of {block} elements")]
    Columns {
        /// The operation that was asked for.
        operation: &'static str,
        /// The type of the tensor.
        ty: GgmlType,
        /// Elements in a row.
        cols: usize,
        /// Elements in a block.
        block: usize,
    },
    /// The size of the tensor does not fit the address space.
    #[error("{operation}: {rows} x {cols} elements of {ty} overflow the address space")]
    Overflow {
        /// The operation that was asked for.
        operation: &'static str,
        /// The type of the tensor.
        ty: GgmlType,
        /// Rows.
        rows: usize,
        /// Elements in a row.
        cols: usize,
    },
    /// A block's scale or minimum is infinite or NaN, which no weight of a usable model is.
    #[error("{operation}: block {block} of a {ty} tensor has the non-finite scale or minimum {value}")]
    NonFiniteScale {
        /// The operation that was asked for.
        operation: &'static str,
        /// The type of the tensor.
        ty: GgmlType,
        /// Index of the block in the tensor.
        block: usize,
        /// The value found.
        value: f32,
    },
}

macro_rules! ggml_types {
    ($($(#[$doc:meta])* $name:ident = $id:literal, $label:literal, $block:literal x $bytes:expr;)*) => {
        /// Element type of a GGUF tensor. All formats of the specification are known by size, so
        /// that any file can be walked; [`dequantize`] and [`to_affine`] say which they handle.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(non_camel_case_types)] // the names of the specification
        pub enum GgmlType { $($(#[$doc])* $name,)* }

        impl GgmlType {
            /// Every known type.
            pub const ALL: &'static [GgmlType] = &[$(GgmlType::$name,)*];

            /// The type with this id in a GGUF file, if the specification has one.
            pub const fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(Self::$name),)* _ => None }
            }

            /// The id that GGUF files use.
            pub const fn id(self) -> u32 {
                match self { $(Self::$name => $id,)* }
            }

            /// Elements in a block; rows are whole numbers of blocks.
            pub const fn block_size(self) -> usize {
                match self { $(Self::$name => $block,)* }
            }

            /// Bytes of a block.
            pub const fn block_bytes(self) -> usize {
                match self { $(Self::$name => $bytes,)* }
            }

            /// The name in the specification, such as `Q4_K`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

ggml_types! {
    /// IEEE single precision.
    F32 = 0, "F32", 1 x 4;
    /// IEEE half precision.
    F16 = 1, "F16", 1 x 2;
    /// 4-bit, `d * (q - 8)`.
    Q4_0 = 2, "Q4_0", 32 x 2 + 16;
    /// 4-bit, `d * q + m`.
    Q4_1 = 3, "Q4_1", 32 x 4 + 16;
    /// 5-bit, `d * (q - 16)`.
    Q5_0 = 6, "Q5_0", 32 x 2 + 4 + 16;
    /// 5-bit, `d * q + m`.
    Q5_1 = 7, "Q5_1", 32 x 4 + 4 + 16;
    /// 8-bit, `d * q` with signed `q`.
    Q8_0 = 8, "Q8_0", 32 x 2 + 32;
    /// 8-bit with block sums; an activation format.
    Q8_1 = 9, "Q8_1", 32 x 4 + 4 + 32;
    /// 2-bit super-blocks of 256.
    Q2_K = 10, "Q2_K", 256 x 4 + 16 + 64;
    /// 3-bit super-blocks of 256.
    Q3_K = 11, "Q3_K", 256 x 2 + 64 + 32 + 12;
    /// 4-bit super-blocks of 256, eight groups with 6-bit scales and minima.
    Q4_K = 12, "Q4_K", 256 x 4 + 12 + 128;
    /// 5-bit super-blocks of 256, eight groups with 6-bit scales and minima.
    Q5_K = 13, "Q5_K", 256 x 4 + 12 + 32 + 128;
    /// 6-bit super-blocks of 256, sixteen groups with 8-bit scales.
    Q6_K = 14, "Q6_K", 256 x 2 + 128 + 64 + 16;
    /// 8-bit super-blocks; an activation format.
    Q8_K = 15, "Q8_K", 256 x 4 + 256 + 32;
    /// 2.06-bit codebook format.
    IQ2_XXS = 16, "IQ2_XXS", 256 x 2 + 64;
    /// 2.31-bit codebook format.
    IQ2_XS = 17, "IQ2_XS", 256 x 2 + 64 + 8;
    /// 3.06-bit codebook format.
    IQ3_XXS = 18, "IQ3_XXS", 256 x 2 + 64 + 32;
    /// 1.56-bit codebook format.
    IQ1_S = 19, "IQ1_S", 256 x 2 + 32 + 16;
    /// 4-bit non-linear format.
    IQ4_NL = 20, "IQ4_NL", 32 x 2 + 16;
    /// 3.44-bit codebook format.
    IQ3_S = 21, "IQ3_S", 256 x 2 + 64 + 32 + 8 + 4;
    /// 2.5-bit codebook format.
    IQ2_S = 22, "IQ2_S", 256 x 2 + 64 + 16;
    /// 4.25-bit non-linear super-blocks.
    IQ4_XS = 23, "IQ4_XS", 256 x 4 + 128 + 4;
    /// Signed bytes.
    I8 = 24, "I8", 1 x 1;
    /// Signed 16-bit integers.
    I16 = 25, "I16", 1 x 2;
    /// Signed 32-bit integers.
    I32 = 26, "I32", 1 x 4;
    /// Signed 64-bit integers.
    I64 = 27, "I64", 1 x 8;
    /// IEEE double precision.
    F64 = 28, "F64", 1 x 8;
    /// 1.75-bit codebook format.
    IQ1_M = 29, "IQ1_M", 256 x 32 + 16 + 8;
    /// Brain float: the upper half of a single.
    BF16 = 30, "BF16", 1 x 2;
    /// Ternary, 1.69 bits.
    TQ1_0 = 34, "TQ1_0", 256 x 2 + 52;
    /// Ternary, 2.06 bits.
    TQ2_0 = 35, "TQ2_0", 256 x 2 + 64;
    /// OCP microscaling 4-bit floats, one exponent per 32.
    MXFP4 = 39, "MXFP4", 32 x 1 + 16;
    /// NVIDIA 4-bit floats, one 8-bit float scale per 16.
    NVFP4 = 40, "NVFP4", 64 x 4 + 32;
}

impl std::fmt::Display for GgmlType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Integer width and group of the affine form of a block format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AffineFormat {
    /// Bits of a packed integer: 4, 5, 6 or 8.
    pub bits: usize,
    /// Consecutive elements of a row that share a scale and a bias: 16 or 32.
    pub group_size: usize,
}

impl AffineFormat {
    /// `u32` words of a packed row. `cols` is a multiple of 32.
    pub const fn words_per_row(self, cols: usize) -> usize {
        cols / 32 * self.bits
    }

    /// Scales, and biases, of a row.
    pub const fn groups_per_row(self, cols: usize) -> usize {
        cols / self.group_size
    }
}

impl GgmlType {
    /// The affine form that [`to_affine`] gives tensors of this type, `None` where it has none.
    pub const fn affine_format(self) -> Option<AffineFormat> {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q4_K => Some(AffineFormat { bits: 4, group_size: 32 }),
            Self::Q5_0 | Self::Q5_1 | Self::Q5_K => Some(AffineFormat { bits: 5, group_size: 32 }),
            Self::Q6_K => Some(AffineFormat { bits: 6, group_size: 16 }),
            Self::Q8_0 => Some(AffineFormat { bits: 8, group_size: 32 }),
            _ => None,
        }
    }

    /// Whether [`dequantize`] knows this type.
    pub const fn can_dequantize(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16) || self.affine_format().is_some()
    }

    /// Bytes of a row of `cols` elements; `None` when `cols` is not a whole number of blocks or
    /// the size overflows.
    pub const fn row_bytes(self, cols: usize) -> Option<usize> {
        if !cols.is_multiple_of(self.block_size()) {
            return None;
        }
        (cols / self.block_size()).checked_mul(self.block_bytes())
    }
}

/// Blocks in `rows` rows of `cols` elements, with the source slice checked against them.
fn checked_blocks(
    operation: &'static str,
    ty: GgmlType,
    src: &[u8],
    rows: usize,
    cols: usize,
) -> Result<usize, BlockError> {
    let block = ty.block_size();
    if !cols.is_multiple_of(block) {
        return Err(BlockError::Columns { operation, ty, cols, block });
    }
    let overflow = BlockError::Overflow { operation, ty, rows, cols };
    let blocks = rows.checked_mul(cols / block).ok_or(overflow.clone())?;
    let expected = blocks.checked_mul(ty.block_bytes()).ok_or(overflow)?;
    check_length(operation, "source", ty, expected, src.len())?;
    Ok(blocks)
}

fn check_length(
    operation: &'static str,
    what: &'static str,
    ty: GgmlType,
    expected: usize,
    found: usize,
) -> Result<(), BlockError> {
    if expected != found {
        return Err(BlockError::Length { operation, what, ty, expected, found });
    }
    Ok(())
}

/// The half-precision number at byte `at` of a block.
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> half::f16 {
    half::f16::from_le_bytes([block[at], block[at + 1]])
}

/// Eight consecutive bytes as the lanes of a word, the first in the lowest lane.
#[inline(always)]
fn lanes(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// The 6-bit scale and minimum of each of the eight groups of a `Q4_K` or `Q5_K` block, from its
/// twelve packed bytes: groups 0 to 3 in the low six bits of bytes 0 to 7; groups 4 to 7 take
/// their low nibbles from bytes 8 to 11 and their two high bits from the top of bytes 0 to 7.
#[inline(always)]
fn k_scales(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    for j in 0..4 {
        scales[j] = packed[j] & 63;
        mins[j] = packed[j + 4] & 63;
        scales[j + 4] = (packed[j + 8] & 15) | (packed[j] >> 6) << 4;
        mins[j + 4] = (packed[j + 8] >> 4) | (packed[j + 4] >> 6) << 4;
    }
    (scales, mins)
}

/// The twelve scale bytes of a `Q4_K` or `Q5_K` block.
#[inline(always)]
fn k_scale_bytes(block: &[u8]) -> &[u8; 12] {
    block[4..16].try_into().expect("twelve bytes")
}
