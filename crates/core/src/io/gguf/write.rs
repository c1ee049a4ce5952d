//! Writing files.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};

use super::parse::tensor_size;
use super::{
    ALIGNMENT_KEY, ArrayValue, DEFAULT_ALIGNMENT, GgmlType, GgufError, MAGIC, MAX_ARRAY_DEPTH, MAX_DIMS,
    Metadata, Value,
};

/// Collects metadata and tensors, then writes a version 3 file.
///
/// Tensor bytes are borrowed where possible, so a model is not held twice. An alignment other
/// than 32 is set through the metadata key `general.alignment`.
#[derive(Default)]
pub struct GgufWriter<'a> {
    metadata: Metadata,
    tensors: Vec<Tensor<'a>>,
    names: HashSet<String>,
}

struct Tensor<'a> {
    name: String,
    dims: Vec<u64>,
    ty: GgmlType,
    bytes: Cow<'a, [u8]>,
}

impl<'a> GgufWriter<'a> {
    /// A writer without contents.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a metadata value.
    ///
    /// # Errors
    /// A key that is there already, arrays nested deeper than a reader admits, or a bad
    /// alignment.
    pub fn metadata(&mut self, key: impl Into<String>, value: Value) -> Result<&mut Self, GgufError> {
        let key = key.into();
        if let Value::Array(array) = &value
            && depth(array) > MAX_ARRAY_DEPTH
        {
            return Err(GgufError::TooDeep { key });
        }
        self.metadata.insert(key, value)?;
        self.alignment()?;
        Ok(self)
    }

    /// Adds a tensor. `dims` has the fastest-varying extent first; `bytes` are its blocks.
    ///
    /// # Errors
    /// A name that is there already, a shape that the type or the format does not admit, or bytes
    /// of another length.
    pub fn tensor(
        &mut self,
        name: impl Into<String>,
        dims: &[u64],
        ty: GgmlType,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self, GgufError> {
        let (name, bytes) = (name.into(), bytes.into());
        if dims.len() > MAX_DIMS {
            return Err(GgufError::TooManyDims { name, dims: dims.len() as u32 });
        }
        let expected = tensor_size(&name, dims, ty)?;
        if expected != bytes.len() as u64 {
            return Err(GgufError::WrongByteCount { name, expected, found: bytes.len() as u64 });
        }
        if !self.names.insert(name.clone()) {
            return Err(GgufError::DuplicateTensor { name });
        }
        self.tensors.push(Tensor { name, dims: dims.to_vec(), ty, bytes });
        Ok(self)
    }

    fn alignment(&self) -> Result<u64, GgufError> {
        let alignment = self.metadata.get_u64(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
        if alignment == 0 || !alignment.is_multiple_of(8) || alignment > u32::MAX as u64 {
            return Err(GgufError::BadAlignment { alignment });
        }
        Ok(alignment)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`GgufError::Write`] when `out` fails.
    pub fn write(&self, out: &mut impl Write) -> Result<(), GgufError> {
        let alignment = self.alignment()? as usize;
        self.write_parts(out, alignment).map_err(|e| GgufError::Write { message: e.to_string() })
    }

    /// The file as bytes.
    ///
    /// # Errors
    /// As for [`GgufWriter::write`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, GgufError> {
        let mut out = Vec::new();
        self.write(&mut out)?;
        Ok(out)
    }

    fn write_parts(&self, out: &mut impl Write, alignment: usize) -> io::Result<()> {
        let mut header = Vec::new();
        header.extend(MAGIC);
        header.extend(3u32.to_le_bytes());
        header.extend((self.tensors.len() as u64).to_le_bytes());
        header.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in self.metadata.iter() {
            put_string(&mut header, key);
            header.extend(value.kind().id().to_le_bytes());
            put_value(&mut header, value);
        }
        let mut offset = 0;
        for Tensor { name, dims, ty, bytes } in &self.tensors {
            put_string(&mut header, name);
            header.extend((dims.len() as u32).to_le_bytes());
            dims.iter().for_each(|d| header.extend(d.to_le_bytes()));
            header.extend(ty.id().to_le_bytes());
            header.extend((offset as u64).to_le_bytes());
            offset += bytes.len().next_multiple_of(alignment);
        }
        header.resize(header.len().next_multiple_of(alignment), 0);
        out.write_all(&header)?;
        let padding = vec![0; alignment];
        for Tensor { bytes, .. } in &self.tensors {
            out.write_all(bytes)?;
            out.write_all(&padding[..bytes.len().next_multiple_of(alignment) - bytes.len()])?;
        }
        Ok(())
    }
}

fn depth(array: &ArrayValue) -> usize {
    match array {
        ArrayValue::Array(inner) => 1 + inner.iter().map(depth).max().unwrap_or(0),
        _ => 1,
    }
}

fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::U8(v) => out.push(*v),
        Value::I8(v) => out.extend(v.to_le_bytes()),
        Value::U16(v) => out.extend(v.to_le_bytes()),
        Value::I16(v) => out.extend(v.to_le_bytes()),
        Value::U32(v) => out.extend(v.to_le_bytes()),
        Value::I32(v) => out.extend(v.to_le_bytes()),
        Value::F32(v) => out.extend(v.to_le_bytes()),
        Value::Bool(v) => out.push(u8::from(*v)),
        Value::String(v) => put_string(out, v),
        Value::U64(v) => out.extend(v.to_le_bytes()),
        Value::I64(v) => out.extend(v.to_le_bytes()),
        Value::F64(v) => out.extend(v.to_le_bytes()),
        Value::Array(v) => put_array(out, v),
    }
}

fn put_array(out: &mut Vec<u8>, array: &ArrayValue) {
    out.extend(array.kind().id().to_le_bytes());
    out.extend((array.len() as u64).to_le_bytes());
    match array {
        ArrayValue::U8(v) => out.extend(v),
        ArrayValue::I8(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::U16(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::I16(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::U32(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::I32(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::F32(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::Bool(v) => out.extend(v.iter().map(|&b| u8::from(b))),
        ArrayValue::String(v) => v.iter().for_each(|s| put_string(out, s)),
        ArrayValue::U64(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::I64(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::F64(v) => v.iter().for_each(|x| out.extend(x.to_le_bytes())),
        ArrayValue::Array(v) => v.iter().for_each(|a| put_array(out, a)),
    }
}
