//! The GGUF container: metadata, tensor descriptions and the bytes of tensors.
//!
//! [`Gguf::parse`] reads the header of a file that the caller holds in memory or has mapped; it
//! copies the metadata and leaves the tensor data alone. [`Gguf::tensor_bytes`] then borrows the
//! blocks of one tensor from the same bytes. [`GgufWriter`] writes such files.
//!
//! A file is hostile until proved otherwise: every count is checked against the bytes that are
//! left before anything is allocated for it, nesting is bounded, and a tensor is admitted only
//! when its name is new, its size does not overflow, and its bytes lie inside the file without
//! touching another tensor's. Whatever is wrong is a [`GgufError`] that names the place.
//!
//! Versions 2 and 3 of the format are read, in little-endian byte order; version 3 is written.
//! Source: the GGUF specification of the ggml project.

use std::collections::HashMap;

mod error;
mod parse;
#[cfg(test)]
mod tests;

mod value;
mod write;

pub use error::GgufError;
pub use value::{ArrayValue, Metadata, StringList, Value, ValueKind};
pub use write::GgufWriter;

use super::ggml_blocks::GgmlType;

/// The most dimensions that a tensor can have.
pub const MAX_DIMS: usize = 4;
/// How deep arrays may nest inside arrays in the metadata.
pub const MAX_ARRAY_DEPTH: usize = 4;
/// Alignment of tensor data in files that do not say otherwise, in bytes.
pub const DEFAULT_ALIGNMENT: u64 = 32;
/// The metadata key that sets another alignment.
pub const ALIGNMENT_KEY: &str = "general.alignment";

const MAGIC: [u8; 4] = *b"GGUF";

/// What a tensor is called, its shape and type, and where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    /// The name, unique in the file.
    pub name: String,
    /// Extents as the file lists them: the fastest-varying (the row length) first.
    pub dims: Vec<usize>,
    /// Element type.
    pub ty: GgmlType,
    /// Offset of the first byte from the start of the file.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

impl TensorInfo {
    /// The shape in row-major order, the fastest-varying extent last.
    pub fn shape(&self) -> Vec<usize> {
        self.dims.iter().rev().copied().collect()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    /// Elements of a row, the unit that is made of whole blocks. 1 for a scalar.
    pub fn cols(&self) -> usize {
        self.dims.first().copied().unwrap_or(1)
    }

    /// Number of rows, over all other dimensions.
    pub fn rows(&self) -> usize {
        self.dims.iter().skip(1).product()
    }
}

/// The header of a GGUF file. Owns its contents; the tensor bytes stay with the file.
#[derive(Clone, Debug)]
pub struct Gguf {
    version: u32,
    alignment: usize,
    data_offset: usize,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
}

impl Gguf {
    /// Parses the header of a whole file.
    ///
    /// # Errors
    /// Anything that breaks the format or points outside the file; see [`GgufError`].
    pub fn parse(file: &[u8]) -> Result<Self, GgufError> {
        parse::parse(file)
    }

    /// Format version of the file, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Alignment of tensor data in bytes.
    pub fn alignment(&self) -> usize {
        self.alignment
    }

    /// Offset in bytes at which tensor data begins.
    pub fn data_offset(&self) -> usize {
        self.data_offset
    }

    /// Keys and values.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Tensors in the order of the file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&i| &self.tensors[i])
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// [`GgufError::MissingTensor`].
    pub fn tensor(&self, name: &str) -> Result<&TensorInfo, GgufError> {
        self.find(name).ok_or_else(|| GgufError::MissingTensor { name: name.to_owned() })
    }

    /// The bytes of `tensor` in `file`, the bytes that were parsed.
    ///
    /// # Errors
    /// [`GgufError::TensorOutOfRange`] when `file` is shorter than the file that was parsed.
    pub fn tensor_bytes<'f>(&self, file: &'f [u8], tensor: &TensorInfo) -> Result<&'f [u8], GgufError> {
        tensor.offset.checked_add(tensor.bytes).and_then(|end| file.get(tensor.offset..end)).ok_or_else(
            || GgufError::TensorOutOfRange {
                name: tensor.name.clone(),
                offset: tensor.offset as u64,
                bytes: tensor.bytes as u64,
                file: file.len() as u64,
            },
        )
    }
}
