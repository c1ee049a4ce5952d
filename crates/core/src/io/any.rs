//! Files of any format.

use super::ggml_blocks::GgmlType;
use super::gguf::{GgufWriter, Metadata as GgufMetadata};
use super::gguf_file::gguf_arrays;
use super::npy::parse_npy;
use super::npz::parse_npz;
use super::replace::Replacement;
use super::safetensors::parse_safetensors;
use super::{GgufFile, Mapped};
use crate::{Array, Dtype, Error, Result};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

const LOAD: &str = "load";
const SAVE: &str = "save_gguf";

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// One array of NumPy.
    Npy,
    /// Named arrays of NumPy.
    Npz,
    /// Named arrays with free text.
    Safetensors,
    /// A model of the ggml project.
    Gguf,
}

impl Format {
    /// From its name, which is the extension of its files.
    ///
    /// # Errors
    /// `Value` for another name.
    pub fn named(name: &str) -> Result<Format> {
        Ok(match name {
            "npy" => Format::Npy,
            "npz" => Format::Npz,
            "safetensors" => Format::Safetensors,
            "gguf" => Format::Gguf,
            _ => {
                let msg = format!("{name:?} is not npy, npz, safetensors or gguf");
                return Err(Error::value(LOAD, msg));
            }
        })
    }

    /// That of a path, by its extension.
    ///
    /// # Errors
    /// `Value` when it has another extension, or none.
    pub fn of(path: &Path) -> Result<Format> {
        let extension = path.extension().unwrap_or_default().to_string_lossy();
        Format::named(&extension).map_err(|_| {
            let msg = format!(
                "the format of {} is not known by its extension; it is npy, npz, safetensors or gguf",
                path.display()
            );
            Error::value(LOAD, msg)
        })
    }
}

/// What a file holds.
#[derive(Debug, Clone)]
pub enum Content {
    /// One array without a name.
    One(Array),
    /// Arrays by name.
    Named(BTreeMap<String, Array>),
}

/// What a file says beside its arrays.
#[derive(Debug, Clone)]
pub enum Metadata {
    /// The format has no place for it.
    None,
    /// Free text.
    Text(BTreeMap<String, String>),
    /// Typed values.
    Gguf(GgufMetadata),
}

/// The content of a file.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Its arrays.
    pub content: Content,
    /// What it says about them.
    pub metadata: Metadata,
}

/// Opens a file of any format, by default the one that its extension says. Arrays are views of the mapped file
/// where they can be; see [`Mapped`] about changing it meanwhile. Packed tensors of GGUF become three arrays: `w`,
/// whose name it keeps, and `scales` and `biases` in place of the last part of that name.
///
/// # Errors
/// `Io`, with the path and the cause, when the file cannot be read or is not what it claims to be; `Value` for an
/// unknown extension; `Dtype` for element types without an array type.
pub fn load(path: impl AsRef<Path>, format: Option<Format>) -> Result<Loaded> {
    let path = path.as_ref();
    let format = format.map_or_else(|| Format::of(path), Ok)?;
    parse(Mapped::open(LOAD, path)?, format)
}

/// Reads the rest of a stream, which is a file of the given format; `name` is what errors call it.
///
/// # Errors
/// As for [`load`].
pub fn load_from(from: &mut dyn Read, name: impl AsRef<Path>, format: Format) -> Result<Loaded> {
    parse(Mapped::read(LOAD, from, name)?, format)
}

fn parse(file: Arc<Mapped>, format: Format) -> Result<Loaded> {
    let (content, metadata) = match format {
        Format::Npy => (Content::One(parse_npy(&file)?), Metadata::None),
        Format::Npz => (Content::Named(parse_npz(&file)?), Metadata::None),
        Format::Safetensors => {
            let s = parse_safetensors(&file)?;
            (Content::Named(s.tensors), Metadata::Text(s.metadata))
        }
        Format::Gguf => {
            let file = GgufFile::parse(file)?;
            (Content::Named(gguf_arrays(&file)?), Metadata::Gguf(file.metadata().clone()))
        }
    };
    Ok(Loaded { content, metadata })
}

/// Writes arrays and metadata in the GGUF format to `out`, evaluating what has no value yet; `name` is what errors
/// call it.
///
/// # Errors
/// Whatever evaluation gives; `Dtype` for types that the format lacks (unsigned integers, `bool`, complex numbers);
/// `Io` for more than four axes, and when `out` fails.
pub fn write_gguf(
    out: &mut impl Write,
    name: impl AsRef<Path>,
    arrays: &BTreeMap<String, Array>,
    metadata: &GgufMetadata,
) -> Result<()> {
    let path = name.as_ref();
    let wrong = |e: super::gguf::GgufError| Error::io(SAVE, path, e);
    let mut writer = GgufWriter::new();
    for (key, value) in metadata.iter() {
        writer.metadata(key, value.clone()).map_err(wrong)?;
    }
    crate::eval::async_eval(&arrays.values().cloned().collect::<Vec<_>>())?;
    for (name, a) in arrays {
        let ty = match a.dtype() {
            Dtype::F32 => GgmlType::F32,
            Dtype::F16 => GgmlType::F16,
            Dtype::BF16 => GgmlType::BF16,
            Dtype::F64 => GgmlType::F64,
            Dtype::I8 => GgmlType::I8,
            Dtype::I16 => GgmlType::I16,
            Dtype::I32 => GgmlType::I32,
            Dtype::I64 => GgmlType::I64,
            Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 | Dtype::C64 => {
                let msg = format!("array {name:?} holds {}, which GGUF lacks", a.dtype());
                return Err(Error::dtype(SAVE, msg));
            }
        };
        let dims: Vec<u64> = a.shape().iter().rev().map(|&d| d as u64).collect();
        writer.tensor(name, &dims, ty, a.to_bytes()?).map_err(wrong)?;
    }
    writer.write(out).map_err(wrong)
}

/// Writes arrays and metadata to a GGUF file. The file appears whole or not at all.
///
/// # Errors
/// As for [`write_gguf`].
pub fn save_gguf(
    path: impl AsRef<Path>,
    arrays: &BTreeMap<String, Array>,
    metadata: &GgufMetadata,
) -> Result<()> {
    let path = path.as_ref();
    let io = |e: std::io::Error| Error::io(SAVE, path, e);
    let mut out = Replacement::create(path).map_err(io)?;
    write_gguf(&mut out.file, path, arrays, metadata)?;
    out.finish().map_err(io)
}
