//! What can be wrong with a GGUF file, or with a question asked of one.

use thiserror::Error;

use super::{GgmlType, MAX_ARRAY_DEPTH, MAX_DIMS, ValueKind};

/// Why a GGUF file could not be read or written, or a metadata question not be answered.
/// Offsets and lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GgufError {
    /// The file ends inside something.
    #[error("GGUF: the file ends inside {what} at offset {offset}: {needed} bytes needed, {remaining} left")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        offset: u64,
        /// Bytes that it needs.
        needed: u64,
        /// Bytes that the file still has.
        remaining: u64,
    },
    /// The file does not begin with the letters `GGUF`.
    #[error("GGUF: the file begins with {found:02x?}, not with \"GGUF\"")]
    BadMagic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// A version of the format that is neither 2 nor 3, or another byte order.
    #[error("GGUF: version {version} is not supported (2 and 3 are){}", if *.big_endian { "; the file is big-endian" } else { "" })]
    UnsupportedVersion {
        /// The version as read in little-endian order.
        version: u32,
        /// Whether the bytes make sense in the other order.
        big_endian: bool,
    },
    /// A count that the rest of the file cannot hold.
    #[error(
        "GGUF: {what} at offset {offset} claims {count} entries, more than the remaining {remaining} bytes can hold"
    )]
    CountTooLarge {
        /// What is counted.
        what: &'static str,
        /// Where the count ends.
        offset: u64,
        /// The count.
        count: u64,
        /// Bytes that the file still has.
        remaining: u64,
    },
    /// Text that is not UTF-8.
    #[error("GGUF: {what} at offset {offset} is not valid UTF-8")]
    InvalidUtf8 {
        /// What the text is.
        what: &'static str,
        /// Where it begins.
        offset: u64,
    },
    /// A value type that the specification does not define.
    #[error("GGUF: metadata value {key:?} has the unknown type {id}")]
    UnknownValueType {
        /// The key.
        key: String,
        /// The type's id.
        id: u32,
    },
    /// A truth value that is neither 0 nor 1.
    #[error("GGUF: metadata value {key:?} holds {value} where a bool must be 0 or 1")]
    InvalidBool {
        /// The key.
        key: String,
        /// The byte found.
        value: u8,
    },
    /// Arrays nested too deeply.
    #[error("GGUF: metadata value {key:?} nests arrays deeper than {MAX_ARRAY_DEPTH}")]
    TooDeep {
        /// The key.
        key: String,
    },
    /// A metadata key that occurs twice.
    #[error("GGUF: duplicate metadata key {key:?}")]
    DuplicateKey {
        /// The key.
        key: String,
    },
    /// A tensor name that occurs twice.
    #[error("GGUF: duplicate tensor name {name:?}")]
    DuplicateTensor {
        /// The name.
        name: String,
    },
    /// `general.alignment` is not a positive multiple of 8 that fits 32 bits.
    #[error("GGUF: alignment {alignment} is not a positive multiple of 8")]
    BadAlignment {
        /// The value found.
        alignment: u64,
    },
    /// A tensor with too many dimensions.
    #[error("GGUF: tensor {name:?} has {dims} dimensions, at most {MAX_DIMS} are possible")]
    TooManyDims {
        /// The name.
        name: String,
        /// The number found.
        dims: u32,
    },
    /// A tensor whose size overflows.
    #[error("GGUF: the size of tensor {name:?} with dimensions {dims:?} overflows")]
    SizeOverflow {
        /// The name.
        name: String,
        /// The extents, fastest-varying first.
        dims: Vec<u64>,
    },
    /// A tensor type that the specification does not define.
    #[error("GGUF: tensor {name:?} has the unknown type {id}")]
    UnknownTensorType {
        /// The name.
        name: String,
        /// The type's id.
        id: u32,
    },
    /// A row length that is not a whole number of blocks.
    #[error(
        "GGUF: rows of tensor {name:?} have {cols} elements, not a multiple of the {ty} block of {}",
        .ty.block_size()
    )]
    PartialBlock {
        /// The name.
        name: String,
        /// Its type.
        ty: GgmlType,
        /// Elements of a row.
        cols: u64,
    },
    /// A tensor offset that is not aligned.
    #[error("GGUF: tensor {name:?} is at data offset {offset}, not a multiple of the alignment {alignment}")]
    Misaligned {
        /// The name.
        name: String,
        /// Offset from the start of the tensor data.
        offset: u64,
        /// The file's alignment.
        alignment: u64,
    },
    /// A tensor that reaches past the end of the file.
    #[error(
        "GGUF: tensor {name:?} needs {bytes} bytes at offset {offset}, past the end of the file at {file}"
    )]
    TensorOutOfRange {
        /// The name.
        name: String,
        /// Offset from the start of the file.
        offset: u64,
        /// Length of the tensor.
        bytes: u64,
        /// Length of the file.
        file: u64,
    },
    /// Two tensors that share bytes.
    #[error("GGUF: tensors {first:?} and {second:?} overlap at offset {offset}")]
    Overlap {
        /// The one that begins first.
        first: String,
        /// The other.
        second: String,
        /// Where the second begins, from the start of the file.
        offset: u64,
    },
    /// A metadata key that the file lacks.
    #[error("GGUF: metadata key {key:?} is missing")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// A metadata value of another kind than asked for.
    #[error("GGUF: metadata value {key:?} is {found}, expected {expected}")]
    WrongKind {
        /// The key.
        key: String,
        /// What was asked for.
        expected: &'static str,
        /// What the file has.
        found: ValueKind,
    },
    /// A metadata number that does not fit the type asked for.
    #[error("GGUF: metadata value {key:?} = {value} does not fit {expected}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The number.
        value: i128,
        /// The type asked for.
        expected: &'static str,
    },
    /// A tensor that the file lacks.
    #[error("GGUF: tensor {name:?} is missing")]
    MissingTensor {
        /// The name.
        name: String,
    },
    /// Tensor bytes of another length than its shape and type demand, given to a writer.
    #[error("GGUF: tensor {name:?} needs {expected} bytes, {found} were given")]
    WrongByteCount {
        /// The name.
        name: String,
        /// Bytes that the shape and type demand.
        expected: u64,
        /// Bytes given.
        found: u64,
    },
    /// The output of a writer failed.
    #[error("GGUF: writing failed: {message}")]
    Write {
        /// What the output reported.
        message: String,
    },
}
