//! Files mapped into memory, and arrays that are parts of them.

use crate::buffer::Buffer;
use crate::op::{Create, Meta, Metas, Op, Source, SourceRef};
use crate::{Array, Dtype, Error, Result, Shape};
use memmap2::{Mmap, UncheckedAdvice};
use smallvec::SmallVec;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

// The formats are little-endian, and their bytes are used as they are.
const _: () = assert!(cfg!(target_endian = "little"), "files are read on little-endian machines only");

/// Arrays below this many bytes are copied out of the mapping of a large file. The system brings in up to [`AROUND`] bytes around a page
/// that is touched, so that a view of a small array would keep much more of the file in memory than itself.
const SMALL: usize = 256 << 10;

/// A file of fewer bytes may be in memory as a whole.
const LARGE: usize = 8 << 20;

/// What the system may bring in together: a page of the largest size that it uses for files.
const AROUND: usize = 2 << 20;

/// A file that is mapped for reading. Its pages are read from storage when they are touched.
///
/// The file must not be cut short or overwritten in place while it is mapped: what arrays read would change
/// or be missing, as with any mapped file. Replacing it by renaming another over it, as
/// [`save_safetensors`](super::save_safetensors) does, is fine.
pub struct Mapped {
    content: Content,
    path: PathBuf,
}

enum Content {
    Map(Mmap),
    /// What was read from a stream; nothing for an empty file, which cannot be mapped.
    Memory(Vec<u8>),
}

impl Mapped {
    /// Maps a file.
    ///
    /// # Errors
    /// `Io` when it is not there, is not a regular file, or cannot be read.
    pub fn open(op: &'static str, path: impl AsRef<Path>) -> Result<Arc<Mapped>> {
        let path = path.as_ref();
        let io = |e: std::io::Error| Error::io(op, path, e);
        let regular = |m: std::fs::Metadata| match m.is_file() {
            true => Ok(m),
            false => Err(Error::io(op, path, "not a regular file")),
        };
        // Asked before, since opening a pipe waits for a writer, and after, since it may be another file.
        regular(std::fs::metadata(path).map_err(io)?)?;
        let file = File::open(path).map_err(io)?;
        let meta = regular(file.metadata().map_err(io)?)?;
        let content = if meta.len() == 0 {
            Content::Memory(Vec::new())
        } else {
            // SAFETY: read-only and private to this type, which hands out shared slices only; that nobody
            // changes the file meanwhile is the documented condition of every mapping.
            Content::Map(unsafe { Mmap::map(&file) }.map_err(io)?)
        };
        Ok(Arc::new(Mapped { content, path: path.to_owned() }))
    }

    /// Reads the rest of a stream into memory; `name` is what errors call it.
    ///
    /// # Errors
    /// `Io` when it cannot be read.
    pub fn read(op: &'static str, from: &mut dyn Read, name: impl AsRef<Path>) -> Result<Arc<Mapped>> {
        let path = name.as_ref();
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map_err(|e| Error::io(op, path, e))?;
        Ok(Arc::new(Mapped { content: Content::Memory(bytes), path: path.to_owned() }))
    }

    /// The whole content.
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Map(map) => map,
            Content::Memory(bytes) => bytes,
        }
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the system take back the memory that holds these bytes of the file. They are read again when
    /// somebody touches them.
    pub fn release(&self, range: Range<usize>) {
        let Content::Map(map) = &self.content else { return };
        if range.start >= range.end || range.end > map.len() {
            return;
        }
        // SAFETY: the mapping is of a file, read-only and never written: pages that are dropped come back
        // with the same content. A refusal only means that the memory stays in use.
        let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) };
    }

    /// The bytes that come into memory with a range.
    fn around(&self, range: Range<usize>) -> Range<usize> {
        let start = self.bytes().as_ptr().addr();
        let first = (start + range.start) / AROUND * AROUND;
        let last = (start + range.end).next_multiple_of(AROUND);
        first.saturating_sub(start)..(last - start).min(self.bytes().len())
    }

    /// `shape` elements in row-major order from `offset` bytes on: a view of the mapping where they are aligned for
    /// `dtype` and not a small part of a large file, else a copy that is made when it is first evaluated.
    ///
    /// # Errors
    /// `Io` when the elements do not lie inside the file.
    pub fn array(
        self: &Arc<Self>,
        op: &'static str,
        what: &str,
        offset: usize,
        shape: Shape,
        dtype: Dtype,
    ) -> Result<Array> {
        let len = shape.elements() * dtype.size();
        let file = self.bytes();
        let Some(part) = offset.checked_add(len).and_then(|end| file.get(offset..end)) else {
            let msg =
                format!("{what} takes bytes {offset} to {offset}+{len}, but the file has {}", file.len());
            return Err(Error::io(op, &self.path, msg));
        };
        let small = len < SMALL && file.len() >= LARGE && matches!(self.content, Content::Map(_));
        if !small && part.as_ptr().addr().is_multiple_of(dtype.size()) {
            // SAFETY: the bytes belong to the mapping, which the owner keeps and nobody writes to.
            let buffer = unsafe { Buffer::foreign(part.as_ptr(), len, Box::new(self.clone())) };
            if let Some(a) = Array::from_buffer(buffer, 0, shape.clone(), dtype) {
                return Ok(a);
            }
        }
        let copy = Copy { file: self.clone(), what: what.to_owned(), offset, meta: Meta::new(shape, dtype) };
        Array::from_op(Op::Create(Create::Load(SourceRef(Arc::new(copy)))), &[])
    }
}

/// Bytes of a file that are few or not aligned for their type.
struct Copy {
    file: Arc<Mapped>,
    what: String,
    offset: usize,
    meta: Meta,
}

impl Source for Copy {
    fn describe(&self) -> String {
        format!("{} of {}", self.what, self.file.path().display())
    }

    fn metas(&self) -> Metas {
        SmallVec::from_iter([self.meta.clone()])
    }

    fn read(&self, outputs: &mut [&mut [u8]]) -> Result<()> {
        let range = self.offset..self.offset + self.meta.bytes();
        match outputs {
            [out] if out.len() == range.len() => out.copy_from_slice(&self.file.bytes()[range.clone()]),
            _ => return Err(Error::value("load", format!("{} is one array", self.describe()))),
        }
        self.file.release(if range.len() < SMALL { self.file.around(range) } else { range });
        Ok(())
    }
}
