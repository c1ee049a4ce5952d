//! The safetensors format: a JSON header, then the elements of all tensors back to back.
//!
//! [`Header::parse`] checks everything before a byte of data is used: every name is there once, every type
//! is known, sizes do not overflow, and the tensors fill the data without gap or overlap, which leaves no
//! room for hidden content. Source: the format's description in the `safetensors` repository.

use super::Mapped;
use super::replace::Replacement;
use crate::{Array, Dtype, Error, Result, Shape};
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// Bytes that a header may have; what the format's own reader allows.
const MAX_HEADER: usize = 100_000_000;
/// Axes that a tensor may have; what NumPy and PyTorch allow.
const MAX_RANK: usize = 64;
/// Key of the entry that is not a tensor.
const METADATA: &str = "__metadata__";

/// The content of a safetensors file.
#[derive(Debug, Clone)]
pub struct SafeTensors {
    /// Arrays by name.
    pub tensors: BTreeMap<String, Array>,
    /// Free text that was stored with them.
    pub metadata: BTreeMap<String, String>,
}

/// Opens a safetensors file. Its arrays are views of the mapped file: nothing but the header is read before
/// somebody uses an element. See [`Mapped`] about changing the file meanwhile.
///
/// # Errors
/// `Io`, with the path and the cause, when the file cannot be read or is not what it claims to be; `Dtype`
/// for element types without an array type, such as 8-bit floats.
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<SafeTensors> {
    parse_safetensors(&Mapped::open("load_safetensors", path)?)
}

/// The content of a safetensors file; see [`load_safetensors`].
///
/// # Errors
/// As for [`load_safetensors`].
pub fn parse_safetensors(file: &Arc<Mapped>) -> Result<SafeTensors> {
    const OP: &str = "load_safetensors";
    let header = Header::parse(file.bytes()).map_err(|msg| Error::io(OP, file.path(), msg))?;
    let mut tensors = BTreeMap::new();
    for t in header.tensors {
        let Some(dtype) = dtype_of(&t.dtype) else {
            let msg = format!(
                "{}: tensor {:?} holds {}, for which there is no array type",
                file.path().display(),
                t.name,
                t.dtype
            );
            return Err(Error::dtype(OP, msg));
        };
        let shape = Shape::checked(OP, &t.shape)
            .map_err(|e| Error::io(OP, file.path(), format!("tensor {:?}: {e}", t.name)))?;
        let array = file.array(OP, &format!("tensor {:?}", t.name), header.data + t.start, shape, dtype)?;
        tensors.insert(t.name, array);
    }
    Ok(SafeTensors { tensors, metadata: header.metadata })
}

/// Where one tensor of a file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorEntry {
    /// Name, unique in the file.
    pub name: String,
    /// Name of the element type in the format, such as `BF16`.
    pub dtype: String,
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    /// First byte, from the start of the data.
    pub start: usize,
    /// Byte after the last, from the start of the data.
    pub end: usize,
}

/// The description of a file's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Tensors in the order of their bytes.
    pub tensors: Vec<TensorEntry>,
    /// Free text.
    pub metadata: BTreeMap<String, String>,
    /// Offset of the data from the start of the file.
    pub data: usize,
}

impl Header {
    /// Parses the header of a whole file, and checks that its tensors are what the rest of the file holds.
    ///
    /// # Errors
    /// What is wrong, with the name of the tensor.
    pub fn parse(file: &[u8]) -> std::result::Result<Header, String> {
        let Some((length, rest)) = file.split_first_chunk::<8>() else {
            return Err(format!("the file has {} bytes; not even the header's length fits", file.len()));
        };
        let length = u64::from_le_bytes(*length);
        let json = match usize::try_from(length) {
            Ok(n) if n <= MAX_HEADER && n <= rest.len() => &rest[..n],
            _ => {
                return Err(format!(
                    "the header is said to have {length} bytes, but {} follow and {MAX_HEADER} are allowed",
                    rest.len()
                ));
            }
        };
        let text = std::str::from_utf8(json).map_err(|e| format!("the header is not UTF-8: {e}"))?;
        if !text.starts_with('{') {
            return Err("the header does not begin with '{'".into());
        }
        let raw: RawHeader = serde_json::from_str(text).map_err(|e| format!("the header is wrong: {e}"))?;
        let mut header = Header {
            tensors: Vec::with_capacity(raw.0.len()),
            metadata: BTreeMap::new(),
            data: 8 + json.len(),
        };
        for (name, entry) in raw.0 {
            match entry {
                RawEntry::Metadata(m) => header.metadata = m,
                RawEntry::Tensor(t) => {
                    let [start, end] = t.data_offsets;
                    header.tensors.push(TensorEntry { name, dtype: t.dtype, shape: t.shape, start, end });
                }
            }
        }
        header.tensors.sort_by(|a, b| (a.start, a.end, &a.name).cmp(&(b.start, b.end, &b.name)));
        header.check(rest.len() - json.len())?;
        Ok(header)
    }

    fn check(&self, data: usize) -> std::result::Result<(), String> {
        let mut at = 0;
        for t in &self.tensors {
            let name = &t.name;
            if t.shape.len() > MAX_RANK {
                return Err(format!("tensor {name:?} has {} axes, more than {MAX_RANK}", t.shape.len()));
            }
            let bits = bits_of(&t.dtype)
                .ok_or_else(|| format!("tensor {name:?} has the unknown type {:?}", t.dtype))?;
            let bytes = t
                .shape
                .iter()
                .try_fold(1usize, |n, &d| n.checked_mul(d))
                .and_then(|n| n.checked_mul(bits))
                .filter(|b| b.is_multiple_of(8))
                .map(|b| b / 8)
                .ok_or_else(|| {
                    format!(
                        "tensor {name:?}: {:?} elements of {} are not whole bytes in memory",
                        t.shape, t.dtype
                    )
                })?;
            let (start, end) = (t.start, t.end);
            if end < start || end > data {
                return Err(format!(
                    "tensor {name:?} takes bytes {start} to {end} of the data, which has {data} bytes"
                ));
            }
            if end - start != bytes {
                return Err(format!(
                    "tensor {name:?}: shape {:?} of {} takes {bytes} bytes, its offsets {start} to {end} hold {}",
                    t.shape,
                    t.dtype,
                    end - start
                ));
            }
            if start < at {
                return Err(format!(
                    "tensor {name:?} begins at byte {start} of the data, inside another one"
                ));
            }
            if start > at {
                return Err(format!("bytes {at} to {start} of the data belong to no tensor"));
            }
            at = end;
        }
        if at != data {
            return Err(format!("the tensors end at byte {at} of the data, which has {data} bytes"));
        }
        Ok(())
    }
}

/// Element types of the format with their sizes in bits.
const TYPES: &[(&str, usize, Option<Dtype>)] = &[
    ("BOOL", 8, Some(Dtype::Bool)),
    ("U8", 8, Some(Dtype::U8)),
    ("I8", 8, Some(Dtype::I8)),
    ("U16", 16, Some(Dtype::U16)),
    ("I16", 16, Some(Dtype::I16)),
    ("U32", 32, Some(Dtype::U32)),
    ("I32", 32, Some(Dtype::I32)),
    ("U64", 64, Some(Dtype::U64)),
    ("I64", 64, Some(Dtype::I64)),
    ("F16", 16, Some(Dtype::F16)),
    ("BF16", 16, Some(Dtype::BF16)),
    ("F32", 32, Some(Dtype::F32)),
    ("F64", 64, Some(Dtype::F64)),
    ("C64", 64, Some(Dtype::C64)),
    ("F4", 4, None),
    ("F6_E2M3", 6, None),
    ("F6_E3M2", 6, None),
    ("F8_E5M2", 8, None),
    ("F8_E4M3", 8, None),
    ("F8_E8M0", 8, None),
    ("F8_E4M3FNUZ", 8, None),
    ("F8_E5M2FNUZ", 8, None),
];

fn bits_of(name: &str) -> Option<usize> {
    TYPES.iter().find(|t| t.0 == name).map(|t| t.1)
}

fn dtype_of(name: &str) -> Option<Dtype> {
    TYPES.iter().find(|t| t.0 == name).and_then(|t| t.2)
}

fn name_of(dtype: Dtype) -> &'static str {
    // Every dtype has a row, which a test checks.
    TYPES.iter().find(|t| t.2 == Some(dtype)).map_or("", |t| t.0)
}

/// Entries of the header's JSON object.
struct RawHeader(BTreeMap<String, RawEntry>);

enum RawEntry {
    Metadata(BTreeMap<String, String>),
    Tensor(RawTensor),
}

#[derive(serde::Deserialize)]
struct RawTensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

// serde's own maps let the last of two equal keys win while another reader takes the first, so both kinds of
// objects are read by visitors that refuse the second.

fn twice<E: de::Error>(key: &str) -> E {
    E::custom(format_args!("{key:?} is there twice"))
}

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<RawHeader, A::Error> {
                let mut entries = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if entries.contains_key(&key) {
                        return Err(twice(&key));
                    }
                    let entry = if key == METADATA {
                        // MLX writes `null` for no text.
                        RawEntry::Metadata(
                            map.next_value::<Option<Texts>>()?.map_or_else(BTreeMap::new, |t| t.0),
                        )
                    } else {
                        RawEntry::Tensor(map.next_value()?)
                    };
                    entries.insert(key, entry);
                }
                Ok(RawHeader(entries))
            }
        }
        d.deserialize_map(Entries)
    }
}

struct Texts(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Texts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of strings")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Texts, A::Error> {
                let mut texts = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if texts.contains_key(&key) {
                        return Err(twice(&key));
                    }
                    texts.insert(key, map.next_value()?);
                }
                Ok(Texts(texts))
            }
        }
        d.deserialize_map(Pairs)
    }
}

/// Writes arrays and free text to a safetensors file, evaluating what has no value yet. The file appears
/// whole or not at all: it is written beside its place under another name and then renamed.
///
/// Tensors lie in falling order of their element's size, then by name, so that each is aligned.
///
/// # Errors
/// Whatever evaluation gives; `Value` for the name `__metadata__`, which the format reserves; `Io` when
/// the file cannot be written.
pub fn save_safetensors(
    path: impl AsRef<Path>,
    arrays: &BTreeMap<String, Array>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let path = path.as_ref();
    let mut out = Replacement::create(path).map_err(|e| Error::io(SAVE, path, e))?;
    write_safetensors(&mut out.file, path, arrays, metadata)?;
    out.finish().map_err(|e| Error::io(SAVE, path, e))
}

const SAVE: &str = "save_safetensors";

/// Writes a file as [`save_safetensors`] does, to `out`; `name` is what errors call it.
///
/// # Errors
/// As for [`save_safetensors`].
pub fn write_safetensors(
    out: &mut impl Write,
    name: impl AsRef<Path>,
    arrays: &BTreeMap<String, Array>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    let path = name.as_ref();
    if arrays.contains_key(METADATA) {
        return Err(Error::value(SAVE, format!("{METADATA:?} cannot be the name of a tensor")));
    }
    crate::eval::async_eval(&arrays.values().cloned().collect::<Vec<_>>())?;
    let mut order: Vec<(&String, &Array)> = arrays.iter().collect();
    order.sort_by_key(|(name, a)| (std::cmp::Reverse(a.dtype().size()), *name));

    let header = header_json(&order, metadata).map_err(|e| Error::io(SAVE, path, e))?;
    if header.len() > MAX_HEADER {
        let msg = format!("the header would have {} bytes; {MAX_HEADER} are allowed", header.len());
        return Err(Error::io(SAVE, path, msg));
    }
    let io = |e: std::io::Error| Error::io(SAVE, path, e);
    out.write_all(&(header.len() as u64).to_le_bytes()).map_err(io)?;
    out.write_all(&header).map_err(io)?;
    for (_, a) in order {
        out.write_all(&a.to_bytes()?).map_err(io)?;
    }
    Ok(())
}

fn header_json(
    order: &[(&String, &Array)],
    metadata: &BTreeMap<String, String>,
) -> serde_json::Result<Vec<u8>> {
    #[derive(serde::Serialize)]
    struct Entry<'a> {
        dtype: &'static str,
        shape: &'a [usize],
        data_offsets: [usize; 2],
    }
    #[derive(serde::Serialize)]
    #[serde(untagged)]
    enum Item<'a> {
        Metadata(&'a BTreeMap<String, String>),
        Tensor(Entry<'a>),
    }
    let mut items: BTreeMap<&str, Item<'_>> = BTreeMap::new();
    if !metadata.is_empty() {
        items.insert(METADATA, Item::Metadata(metadata));
    }
    let mut at = 0;
    for (name, a) in order {
        let end = at + a.nbytes();
        let entry = Entry { dtype: name_of(a.dtype()), shape: a.shape(), data_offsets: [at, end] };
        items.insert(name, Item::Tensor(entry));
        at = end;
    }
    let mut json = serde_json::to_vec(&items)?;
    // Spaces, which JSON ignores, so that the data begins aligned for every type.
    json.resize(json.len().next_multiple_of(8), b' ');
    Ok(json)
}

#[cfg(test)]
mod tests;
