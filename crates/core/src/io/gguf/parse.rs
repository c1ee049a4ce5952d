//! Reading the header.

use std::collections::HashMap;

use super::{
    ALIGNMENT_KEY, ArrayValue, DEFAULT_ALIGNMENT, GgmlType, Gguf, GgufError, MAGIC, MAX_ARRAY_DEPTH,
    MAX_DIMS, Metadata, StringList, TensorInfo, Value, ValueKind,
};

pub(super) fn parse(file: &[u8]) -> Result<Gguf, GgufError> {
    let mut r = Reader { file, at: 0 };
    let found: [u8; 4] = r.array("the magic number")?;
    if found != MAGIC {
        return Err(GgufError::BadMagic { found });
    }
    let version = u32::from_le_bytes(r.array("the version")?);
    if !(2..=3).contains(&version) {
        let big_endian = (1..=3).contains(&version.swap_bytes());
        return Err(GgufError::UnsupportedVersion { version, big_endian });
    }
    let tensor_count = r.u64("the tensor count")?;
    let metadata_count = r.u64("the metadata count")?;
    // An entry of either table takes at least this many bytes: an empty name, a type and a
    // one-byte value; an empty name, a dimension count, a type and an offset.
    r.check_count("the metadata", metadata_count, 8 + 4 + 1)?;
    r.check_count("the tensor table", tensor_count, 8 + 4 + 4 + 8)?;

    let mut metadata = Metadata::default();
    for _ in 0..metadata_count {
        let key = r.string("a metadata key")?.to_owned();
        let kind = r.kind(&key)?;
        let value = r.value(&key, kind)?;
        metadata.insert(key, value)?;
    }

    let alignment = metadata.get_u64(ALIGNMENT_KEY)?.unwrap_or(DEFAULT_ALIGNMENT);
    if alignment == 0 || !alignment.is_multiple_of(8) || alignment > u32::MAX as u64 {
        return Err(GgufError::BadAlignment { alignment });
    }

    r.check_count("the tensor table", tensor_count, 8 + 4 + 4 + 8)?;
    let mut tensors = Vec::with_capacity(tensor_count as usize);
    let mut by_name = HashMap::with_capacity(tensor_count as usize);
    for index in 0..tensor_count as usize {
        let raw = r.tensor(alignment)?;
        if by_name.insert(raw.name.clone(), index).is_some() {
            return Err(GgufError::DuplicateTensor { name: raw.name });
        }
        tensors.push(raw);
    }

    // Offsets count from the first aligned position behind the header.
    let data_offset = (r.at as u64).next_multiple_of(alignment);
    for tensor in &mut tensors {
        let out_of_range = |offset: u64| GgufError::TensorOutOfRange {
            name: tensor.name.clone(),
            offset,
            bytes: tensor.bytes as u64,
            file: file.len() as u64,
        };
        let start = data_offset.saturating_add(tensor.offset as u64);
        match start.checked_add(tensor.bytes as u64) {
            Some(end) if end <= file.len() as u64 => tensor.offset = start as usize,
            _ => return Err(out_of_range(start)),
        }
    }
    check_overlaps(&tensors)?;

    Ok(Gguf {
        version,
        alignment: alignment as usize,
        data_offset: data_offset as usize,
        metadata,
        tensors,
        by_name,
    })
}

fn check_overlaps(tensors: &[TensorInfo]) -> Result<(), GgufError> {
    // Tensors without elements occupy nothing and may lie anywhere.
    let mut order: Vec<&TensorInfo> = tensors.iter().filter(|t| t.bytes > 0).collect();
    order.sort_by_key(|t| t.offset);
    for pair in order.windows(2) {
        if pair[0].offset + pair[0].bytes > pair[1].offset {
            return Err(GgufError::Overlap {
                first: pair[0].name.clone(),
                second: pair[1].name.clone(),
                offset: pair[1].offset as u64,
            });
        }
    }
    Ok(())
}

/// Size in bytes of a tensor, with its shape checked against its type.
pub(super) fn tensor_size(name: &str, dims: &[u64], ty: GgmlType) -> Result<u64, GgufError> {
    let cols = dims.first().copied().unwrap_or(1);
    let block = ty.block_size() as u64;
    if !cols.is_multiple_of(block) {
        return Err(GgufError::PartialBlock { name: name.to_owned(), ty, cols });
    }
    let overflow = || GgufError::SizeOverflow { name: name.to_owned(), dims: dims.to_vec() };
    // A zero extent must not hide that the others overflow: code further on multiplies them in
    // any order.
    let nonzero = dims.iter().map(|&d| d.max(1)).try_fold(1u64, u64::checked_mul).ok_or_else(overflow)?;
    let size = (nonzero / block).max(1).checked_mul(ty.block_bytes() as u64).ok_or_else(overflow)?;
    if isize::try_from(size).is_err() || isize::try_from(nonzero).is_err() {
        return Err(overflow());
    }
    Ok(if dims.contains(&0) { 0 } else { size })
}

struct Reader<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn remaining(&self) -> usize {
        self.file.len() - self.at
    }

    fn take(&mut self, what: &'static str, needed: u64) -> Result<&'a [u8], GgufError> {
        let remaining = self.remaining();
        if needed > remaining as u64 {
            return Err(GgufError::Truncated {
                what,
                offset: self.at as u64,
                needed,
                remaining: remaining as u64,
            });
        }
        let start = self.at;
        self.at += needed as usize;
        Ok(&self.file[start..self.at])
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], GgufError> {
        Ok(self.take(what, N as u64)?.try_into().expect("take gives the length asked for"))
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, GgufError> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, GgufError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// Refuses a count whose entries, of `least` bytes or more, the file cannot hold, so that
    /// what is allocated for it stays in proportion to the file.
    fn check_count(&self, what: &'static str, count: u64, least: u64) -> Result<(), GgufError> {
        let remaining = self.remaining() as u64;
        if count > remaining / least {
            return Err(GgufError::CountTooLarge { what, offset: self.at as u64, count, remaining });
        }
        Ok(())
    }

    fn string(&mut self, what: &'static str) -> Result<&'a str, GgufError> {
        let length = self.u64(what)?;
        let offset = self.at as u64;
        let bytes = self.take(what, length)?;
        std::str::from_utf8(bytes).map_err(|_| GgufError::InvalidUtf8 { what, offset })
    }

    fn kind(&mut self, key: &str) -> Result<ValueKind, GgufError> {
        let id = self.u32("a value type")?;
        ValueKind::from_id(id).ok_or_else(|| GgufError::UnknownValueType { key: key.to_owned(), id })
    }

    fn value(&mut self, key: &str, kind: ValueKind) -> Result<Value, GgufError> {
        const WHAT: &str = "a metadata value";
        Ok(match kind {
            ValueKind::U8 => Value::U8(u8::from_le_bytes(self.array(WHAT)?)),
            ValueKind::I8 => Value::I8(i8::from_le_bytes(self.array(WHAT)?)),
            ValueKind::U16 => Value::U16(u16::from_le_bytes(self.array(WHAT)?)),
            ValueKind::I16 => Value::I16(i16::from_le_bytes(self.array(WHAT)?)),
            ValueKind::U32 => Value::U32(u32::from_le_bytes(self.array(WHAT)?)),
            ValueKind::I32 => Value::I32(i32::from_le_bytes(self.array(WHAT)?)),
            ValueKind::F32 => Value::F32(f32::from_le_bytes(self.array(WHAT)?)),
            ValueKind::Bool => Value::Bool(truth(key, self.array::<1>(WHAT)?[0])?),
            ValueKind::String => Value::String(self.string(WHAT)?.to_owned()),
            ValueKind::U64 => Value::U64(u64::from_le_bytes(self.array(WHAT)?)),
            ValueKind::I64 => Value::I64(i64::from_le_bytes(self.array(WHAT)?)),
            ValueKind::F64 => Value::F64(f64::from_le_bytes(self.array(WHAT)?)),
            ValueKind::Array => Value::Array(self.elements(key, 1)?),
        })
    }

    /// The elements of an array at nesting `depth`, which bounds the recursion.
    fn elements(&mut self, key: &str, depth: usize) -> Result<ArrayValue, GgufError> {
        if depth > MAX_ARRAY_DEPTH {
            return Err(GgufError::TooDeep { key: key.to_owned() });
        }
        let kind = self.kind(key)?;
        let count = self.u64("an array length")?;
        Ok(match kind {
            ValueKind::U8 => ArrayValue::U8(self.numbers(count, u8::from_le_bytes)?),
            ValueKind::I8 => ArrayValue::I8(self.numbers(count, i8::from_le_bytes)?),
            ValueKind::U16 => ArrayValue::U16(self.numbers(count, u16::from_le_bytes)?),
            ValueKind::I16 => ArrayValue::I16(self.numbers(count, i16::from_le_bytes)?),
            ValueKind::U32 => ArrayValue::U32(self.numbers(count, u32::from_le_bytes)?),
            ValueKind::I32 => ArrayValue::I32(self.numbers(count, i32::from_le_bytes)?),
            ValueKind::F32 => ArrayValue::F32(self.numbers(count, f32::from_le_bytes)?),
            ValueKind::U64 => ArrayValue::U64(self.numbers(count, u64::from_le_bytes)?),
            ValueKind::I64 => ArrayValue::I64(self.numbers(count, i64::from_le_bytes)?),
            ValueKind::F64 => ArrayValue::F64(self.numbers(count, f64::from_le_bytes)?),
            ValueKind::Bool => {
                let bytes = self.take("an array of bools", count)?;
                ArrayValue::Bool(bytes.iter().map(|&b| truth(key, b)).collect::<Result<_, _>>()?)
            }
            ValueKind::String => {
                self.check_count("an array of strings", count, 8)?;
                let mut list = StringList::default();
                for _ in 0..count {
                    list.push(self.string("a string in an array")?);
                }
                ArrayValue::String(list)
            }
            ValueKind::Array => {
                self.check_count("an array of arrays", count, 4 + 8)?;
                let nested = (0..count).map(|_| self.elements(key, depth + 1)).collect::<Result<_, _>>()?;
                ArrayValue::Array(nested)
            }
        })
    }

    fn numbers<const N: usize, T>(
        &mut self,
        count: u64,
        from: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>, GgufError> {
        let bytes = self.take("an array of numbers", count.saturating_mul(N as u64))?;
        Ok(bytes.as_chunks::<N>().0.iter().map(|&b| from(b)).collect())
    }

    /// A tensor description; its offset still counts from the start of the tensor data.
    fn tensor(&mut self, alignment: u64) -> Result<TensorInfo, GgufError> {
        let name = self.string("a tensor name")?.to_owned();
        let rank = self.u32("a dimension count")?;
        if rank as usize > MAX_DIMS {
            return Err(GgufError::TooManyDims { name, dims: rank });
        }
        let dims = (0..rank).map(|_| self.u64("a dimension")).collect::<Result<Vec<_>, _>>()?;
        let id = self.u32("a tensor type")?;
        let offset = self.u64("a tensor offset")?;
        let Some(ty) = GgmlType::from_id(id) else {
            return Err(GgufError::UnknownTensorType { name, id });
        };
        let bytes = tensor_size(&name, &dims, ty)?;
        if !offset.is_multiple_of(alignment) {
            return Err(GgufError::Misaligned { name, offset, alignment });
        }
        let Ok(offset) = usize::try_from(offset) else {
            return Err(GgufError::TensorOutOfRange { name, offset, bytes, file: self.file.len() as u64 });
        };
        // The casts hold: `tensor_size` admits only what fits the address space, and a zero
        // extent leaves the others bounded by the same product.
        let dims = dims.into_iter().map(|d| d as usize).collect();
        Ok(TensorInfo { name, dims, ty, offset, bytes: bytes as usize })
    }
}

fn truth(key: &str, value: u8) -> Result<bool, GgufError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(GgufError::InvalidBool { key: key.to_owned(), value }),
    }
}
