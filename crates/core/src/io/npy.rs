//! NumPy's `.npy` format: a header in Python's notation, then the elements.
//!
//! Versions 1, 2 and 3 are read, in either byte order and either order of axes; version 1 (2 where the header is
//! long) is written, little-endian and row-major. `bfloat16`, for which NumPy has no name, is `<V2`, as MLX and
//! ml_dtypes write it. Source: NumPy Enhancement Proposal 1 and `numpy.lib.format`.

use super::Mapped;
use super::replace::Replacement;
use crate::op::{Create, Meta, Metas, Op, Source, SourceRef};
use crate::{Array, Dtype, Error, Result, Shape};
use smallvec::SmallVec;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOAD: &str = "load_npy";
const SAVE: &str = "save";
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Axes that an array may have; what NumPy allows.
const MAX_RANK: usize = 64;
/// Bytes that a header may have: NumPy allows more only for types that are refused here.
pub(super) const MAX_HEADER: usize = 1 << 16;

/// The description of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Sizes of the axes.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: Dtype,
    /// Whether the bytes of an element come highest first.
    pub big_endian: bool,
    /// Whether the first axis, rather than the last, is the one whose elements are neighbours.
    pub fortran: bool,
    /// Offset of the elements from the start of the file.
    pub data: usize,
}

impl Header {
    /// Parses the header at the start of `file`, which need not be complete behind it.
    ///
    /// # Errors
    /// What is wrong.
    pub fn parse(file: &[u8]) -> std::result::Result<Header, String> {
        let Some(rest) = file.strip_prefix(MAGIC) else {
            return Err("the file does not begin with the magic number of npy".into());
        };
        let (length, at) = match rest {
            [1, _, a, b, ..] => (u16::from_le_bytes([*a, *b]) as usize, 10),
            [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 12),
            [1..=3, ..] | [] => return Err("the header is cut short".into()),
            [v, ..] => return Err(format!("version {v} of the format is unknown")),
        };
        if length > MAX_HEADER {
            return Err(format!("a header of {length} bytes; {MAX_HEADER} are allowed"));
        }
        let Some(text) = file.get(at..at + length) else {
            return Err(format!("the header is said to have {length} bytes, but {} follow", file.len() - at));
        };
        let text = std::str::from_utf8(text).map_err(|e| format!("the header is not UTF-8: {e}"))?;
        let (mut descr, mut fortran, mut shape) = (None, None, None);
        let mut p = Parser { rest: text };
        p.expect('{')?;
        while !p.accept('}') {
            let key = p.string()?;
            p.expect(':')?;
            let fresh = match key {
                "descr" => descr.replace(p.descr()?).is_none(),
                "fortran_order" => fortran.replace(p.truth()?).is_none(),
                "shape" => shape.replace(p.tuple()?).is_none(),
                _ => return Err(format!("the header has the unknown key {key:?}")),
            };
            if !fresh {
                return Err(format!("the header has {key:?} twice"));
            }
            if !p.accept(',') {
                p.expect('}')?;
                break;
            }
        }
        if !p.rest.trim().is_empty() {
            return Err(format!("{:?} follows the header's dictionary", p.rest.trim()));
        }
        let (Some(descr), Some(fortran), Some(shape)) = (descr, fortran, shape) else {
            return Err("the header lacks descr, fortran_order or shape".into());
        };
        let (dtype, big_endian) =
            type_of(descr).ok_or_else(|| format!("elements of type {descr:?} have no array type"))?;
        let header = Header { shape, dtype, big_endian, fortran, data: at + length };
        header.bytes()?;
        Ok(header)
    }

    /// Bytes that the elements take.
    ///
    /// # Errors
    /// When they are more than memory can hold.
    pub fn bytes(&self) -> std::result::Result<usize, String> {
        Shape::checked(LOAD, &self.shape)
            .ok()
            .and_then(|s| s.elements().checked_mul(self.dtype.size()))
            .ok_or_else(|| format!("shape {:?} of {} is more than memory can hold", self.shape, self.dtype))
    }

    /// Sizes in the order in which elements lie, slowest first.
    fn stored(&self) -> Shape {
        if self.fortran { self.shape.iter().rev().copied().collect() } else { Shape::new(&self.shape) }
    }

    /// The array whose elements, in the order in which they lie, are `x`.
    pub(super) fn arrange(&self, x: Array) -> Result<Array> {
        if self.fortran && self.shape.len() > 1 { x.t() } else { Ok(x) }
    }

    /// Shape and type of the elements as they lie.
    pub(super) fn meta(&self) -> Meta {
        Meta::new(self.stored(), self.dtype)
    }

    /// Turns the bytes of elements around where they are not in the machine's order.
    pub(super) fn to_native(&self, bytes: &mut [u8]) {
        if self.big_endian {
            // A complex number is two floats.
            let word = if self.dtype == Dtype::C64 { 4 } else { self.dtype.size() };
            bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse);
        }
    }
}

/// Python's notation for the few things that a header holds.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn accept(&mut self, c: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn wrong(&self, wanted: &str) -> String {
        let found: String = self.rest.chars().take(20).collect();
        format!("{wanted} was expected in the header at {found:?}")
    }

    fn expect(&mut self, c: char) -> std::result::Result<(), String> {
        if self.accept(c) { Ok(()) } else { Err(self.wrong(&format!("{c:?}"))) }
    }

    fn string(&mut self) -> std::result::Result<&'a str, String> {
        let quote = if self.accept('\'') {
            '\''
        } else if self.accept('"') {
            '"'
        } else {
            return Err(self.wrong("a string"));
        };
        let (text, rest) = self.rest.split_once(quote).ok_or_else(|| self.wrong("the end of a string"))?;
        self.rest = rest;
        Ok(text)
    }

    fn descr(&mut self) -> std::result::Result<&'a str, String> {
        if self.accept('[') {
            return Err("the elements are records, for which there is no array type".into());
        }
        self.string()
    }

    fn truth(&mut self) -> std::result::Result<bool, String> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err(self.wrong("True or False"))
    }

    fn tuple(&mut self) -> std::result::Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut sizes = Vec::new();
        while !self.accept(')') {
            let digits = self.rest.trim_start();
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
            let size = digits[..end].parse().map_err(|_| self.wrong("a size"))?;
            // Files of Python 2 write long integers.
            self.rest = digits[end..].strip_prefix('L').unwrap_or(&digits[end..]);
            if sizes.len() == MAX_RANK {
                return Err(format!("the array has more than {MAX_RANK} axes"));
            }
            sizes.push(size);
            if !self.accept(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(sizes)
    }
}

/// Types with NumPy's names for them, without the byte order.
const TYPES: &[(&str, Dtype)] = &[
    ("b1", Dtype::Bool),
    ("u1", Dtype::U8),
    ("u2", Dtype::U16),
    ("u4", Dtype::U32),
    ("u8", Dtype::U64),
    ("i1", Dtype::I8),
    ("i2", Dtype::I16),
    ("i4", Dtype::I32),
    ("i8", Dtype::I64),
    ("f2", Dtype::F16),
    ("V2", Dtype::BF16),
    ("f4", Dtype::F32),
    ("f8", Dtype::F64),
    ("c8", Dtype::C64),
];

/// The type of this name, and whether it is big-endian.
fn type_of(descr: &str) -> Option<(Dtype, bool)> {
    if descr == "bfloat16" {
        return Some((Dtype::BF16, false));
    }
    let name = descr.strip_prefix(['<', '>', '|', '=']).unwrap_or(descr);
    let dtype = TYPES.iter().find(|t| t.0 == name)?.1;
    Some((dtype, descr.starts_with('>') && dtype.size() > 1))
}

/// The array of an npy file. Elements that lie in the machine's byte order are a view of the file where they are
/// aligned; others are read when they are first used.
///
/// # Errors
/// `Io`, with the path and the cause, when the file is not what it claims to be, or holds elements for which there
/// is no array type.
pub fn parse_npy(file: &Arc<Mapped>) -> Result<Array> {
    let wrong = |msg: String| Error::io(LOAD, file.path(), msg);
    let header = Header::parse(file.bytes()).map_err(wrong)?;
    let needed = header.bytes().map_err(wrong)?;
    let there = file.bytes().len() - header.data;
    if there < needed {
        return Err(wrong(format!(
            "shape {:?} of {} takes {needed} bytes, but {there} follow the header",
            header.shape, header.dtype
        )));
    }
    header.arrange(elements(file, header.data, &header)?)
}

/// Elements at `offset` in `file`, as they lie there.
pub(super) fn elements(file: &Arc<Mapped>, offset: usize, header: &Header) -> Result<Array> {
    let Meta { shape, dtype } = header.meta();
    if !header.big_endian {
        return file.array(LOAD, "the array", offset, shape, dtype);
    }
    let swapped = Swapped { file: file.clone(), offset, header: header.clone() };
    Array::from_op(Op::Create(Create::Load(SourceRef(Arc::new(swapped)))), &[])
}

/// Elements in the other byte order.
struct Swapped {
    file: Arc<Mapped>,
    offset: usize,
    header: Header,
}

impl Source for Swapped {
    fn describe(&self) -> String {
        self.file.path().display().to_string()
    }

    fn metas(&self) -> Metas {
        SmallVec::from_iter([self.header.meta()])
    }

    fn read(&self, outputs: &mut [&mut [u8]]) -> Result<()> {
        let [out] = outputs else {
            return Err(Error::value(LOAD, format!("{} is one array", self.describe())));
        };
        let Some(bytes) = self.file.bytes().get(self.offset..self.offset + out.len()) else {
            return Err(Error::io(LOAD, self.file.path(), "the elements lie outside the file"));
        };
        out.copy_from_slice(bytes);
        self.header.to_native(out);
        Ok(())
    }
}

/// Opens an npy file; see [`parse_npy`], and [`Mapped`] about changing the file meanwhile.
///
/// # Errors
/// As for [`parse_npy`], and `Io` when the file cannot be read.
pub fn load_npy(path: impl AsRef<Path>) -> Result<Array> {
    parse_npy(&Mapped::open(LOAD, path)?)
}

/// The header of a file with this array, its length a multiple of 64 so that elements are aligned.
pub(super) fn header_of(a: &Array) -> Vec<u8> {
    let d = a.dtype();
    let name = TYPES.iter().find(|t| t.1 == d).map_or("", |t| t.0);
    let order = if d.size() == 1 { '|' } else { '<' };
    let mut shape: String = a.shape().iter().map(|n| format!("{n}, ")).collect();
    // (3,), (3, 4): a comma ends the tuple of one only.
    shape.truncate(shape.len().saturating_sub(if a.rank() == 1 { 1 } else { 2 }));
    let text = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    // With the newline at the end. A rank that fills more than version 1 holds cannot exist in memory.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    let mut header = MAGIC.to_vec();
    header.extend([1, 0]);
    header.extend((length as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header.resize(10 + length - 1, b' ');
    header.push(b'\n');
    header
}

/// Writes an array in the npy format to `out`; `name` is what errors call it.
///
/// # Errors
/// Whatever evaluation gives; `Io` when `out` fails.
pub fn write_npy(out: &mut impl Write, name: impl AsRef<Path>, a: &Array) -> Result<()> {
    if a.rank() > MAX_RANK {
        let msg = format!("{} axes are more than the {MAX_RANK} of the format", a.rank());
        return Err(Error::shape(SAVE, msg));
    }
    let bytes = a.to_bytes()?;
    out.write_all(&header_of(a)).and_then(|()| out.write_all(&bytes)).map_err(|e| Error::io(SAVE, name, e))
}

/// Writes an array to an npy file, evaluating it if it has no value yet; `.npy` is added to a path that does not end
/// so. The file appears whole or not at all.
///
/// # Errors
/// Whatever evaluation gives; `Io` when the file cannot be written.
pub fn save(path: impl AsRef<Path>, a: &Array) -> Result<()> {
    let path = with_extension(path.as_ref(), "npy");
    let io = |e: std::io::Error| Error::io(SAVE, &path, e);
    let mut out = Replacement::create(&path).map_err(io)?;
    write_npy(&mut out.file, &path, a)?;
    out.finish().map_err(io)
}

/// The path, with `.extension` behind it unless it ends so.
pub(super) fn with_extension(path: &Path, extension: &str) -> PathBuf {
    if path.extension().is_some_and(|e| e == extension) {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}
