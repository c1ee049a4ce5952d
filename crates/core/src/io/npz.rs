//! NumPy's `.npz` format: a zip archive whose members are npy files.
//!
//! Members that are stored as they are become views of the file, or are read when they are first used; compressed
//! ones are inflated then. Source: `numpy.savez`, and PKWARE's APPNOTE for the archive, which the `zip` crate reads.

use super::Mapped;
use super::npy::{self, Header, MAX_HEADER, header_of, with_extension};
use super::replace::Replacement;
use crate::op::{Create, Metas, Op, Source, SourceRef};
use crate::{Array, Error, Result};
use flate2::read::DeflateDecoder;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

const LOAD: &str = "load_npz";
const SAVE: &str = "savez";

/// The arrays of an npz file by name, that of the member without `.npy`.
///
/// # Errors
/// `Io`, with the path, the member and the cause, when the file is not what it claims to be: not an archive, two
/// members of one name, members that are no arrays, that lie outside the file, or that are encrypted or compressed
/// in another way than by deflation. The checksum of a member is compared when it is inflated.
pub fn parse_npz(file: &Arc<Mapped>) -> Result<BTreeMap<String, Array>> {
    let wrong = |msg: String| Error::io(LOAD, file.path(), msg);
    let mut archive = ZipArchive::new(Cursor::new(file.bytes())).map_err(|e| wrong(e.to_string()))?;
    let mut arrays = BTreeMap::new();
    for i in 0..archive.len() {
        let member = archive.by_index_raw(i).map_err(|e| wrong(format!("member {i}: {e}")))?;
        let name = member.name().map_err(|e| wrong(format!("member {i}: {e}")))?.into_owned();
        let bad = |msg: String| wrong(format!("member {name:?}: {msg}"));
        let Some(key) = name.strip_suffix(".npy") else {
            return Err(bad("is no npy file".into()));
        };
        if member.encrypted() {
            return Err(bad("is encrypted".into()));
        }
        let start = member.data_start().ok_or_else(|| bad("has no place in the file".into()))?;
        let packed = usize::try_from(start)
            .ok()
            .zip(usize::try_from(member.compressed_size()).ok())
            .and_then(|(from, len)| Some(from..from.checked_add(len)?))
            .filter(|r| r.end <= file.bytes().len())
            .ok_or_else(|| bad("lies outside the file".into()))?;
        let (size, crc) = (member.size(), member.crc32());
        let fits = |header: &Header| {
            let needed = header.bytes().map_err(bad)?;
            if size != (header.data + needed) as u64 {
                let msg =
                    format!("has {size} bytes, of which header and elements take {}", header.data + needed);
                return Err(bad(msg));
            }
            Ok(())
        };
        let array = match member.compression() {
            CompressionMethod::Stored => {
                let bytes = &file.bytes()[packed.clone()];
                let header = Header::parse(bytes).map_err(bad)?;
                if size != bytes.len() as u64 {
                    return Err(bad(format!("is stored in {} bytes but has {size}", bytes.len())));
                }
                fits(&header)?;
                header.arrange(npy::elements(file, packed.start + header.data, &header)?)?
            }
            CompressionMethod::Deflated => {
                let mut start = Vec::new();
                let from = DeflateDecoder::new(&file.bytes()[packed.clone()]);
                from.take(MAX_HEADER as u64 + 12)
                    .read_to_end(&mut start)
                    .map_err(|e| bad(format!("cannot be inflated: {e}")))?;
                let header = Header::parse(&start).map_err(bad)?;
                fits(&header)?;
                let source =
                    Deflated { file: file.clone(), name: name.clone(), packed, header: header.clone(), crc };
                let x = Array::from_op(Op::Create(Create::Load(SourceRef(Arc::new(source)))), &[])?;
                header.arrange(x)?
            }
            other => return Err(bad(format!("is compressed by {other:?}"))),
        };
        if arrays.insert(key.to_owned(), array).is_some() {
            return Err(bad("is there twice".into()));
        }
    }
    Ok(arrays)
}

/// A compressed member.
struct Deflated {
    file: Arc<Mapped>,
    name: String,
    /// Where it is in the file.
    packed: std::ops::Range<usize>,
    header: Header,
    crc: u32,
}

impl Source for Deflated {
    fn describe(&self) -> String {
        format!("{:?} of {}", self.name, self.file.path().display())
    }

    fn metas(&self) -> Metas {
        SmallVec::from_iter([self.header.meta()])
    }

    fn read(&self, outputs: &mut [&mut [u8]]) -> Result<()> {
        let bad = |msg: String| Error::io(LOAD, self.file.path(), format!("member {:?}: {msg}", self.name));
        let [out] = outputs else {
            return Err(Error::value(LOAD, format!("{} is one array", self.describe())));
        };
        let mut from = DeflateDecoder::new(&self.file.bytes()[self.packed.clone()]);
        let mut header = vec![0; self.header.data];
        from.read_exact(&mut header)
            .and_then(|()| from.read_exact(out))
            .map_err(|e| bad(format!("cannot be inflated: {e}")))?;
        match from.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err(bad("is longer than it should be".into())),
            Err(e) => return Err(bad(format!("cannot be inflated: {e}"))),
        }
        let mut crc = flate2::Crc::new();
        crc.update(&header);
        crc.update(out);
        if crc.sum() != self.crc {
            return Err(bad(format!("has checksum {:08x}, not {:08x}", crc.sum(), self.crc)));
        }
        self.header.to_native(out);
        self.file.release(self.packed.clone());
        Ok(())
    }
}

/// Opens an npz file; see [`parse_npz`], and [`Mapped`] about changing the file meanwhile.
///
/// # Errors
/// As for [`parse_npz`], and `Io` when the file cannot be read.
pub fn load_npz(path: impl AsRef<Path>) -> Result<BTreeMap<String, Array>> {
    parse_npz(&Mapped::open(LOAD, path)?)
}

/// Names for arrays that have none: `arr_0`, `arr_1`, …, beside those that have.
///
/// # Errors
/// `Value` when a name is taken twice.
pub fn named(unnamed: &[Array], named: &[(&str, Array)]) -> Result<BTreeMap<String, Array>> {
    let numbered = unnamed.iter().enumerate().map(|(i, a)| (format!("arr_{i}"), a.clone()));
    let mut all = BTreeMap::new();
    for (name, a) in numbered.chain(named.iter().map(|(n, a)| ((*n).to_owned(), a.clone()))) {
        if all.contains_key(&name) {
            return Err(Error::value(SAVE, format!("two arrays are called {name:?}")));
        }
        all.insert(name, a);
    }
    Ok(all)
}

/// Writes arrays in the npz format to `out`, evaluating what has no value yet; `name` is what errors call it.
///
/// # Errors
/// Whatever evaluation gives; `Io` when `out` fails.
pub fn write_npz(
    out: impl Write + Seek,
    name: impl AsRef<Path>,
    arrays: &BTreeMap<String, Array>,
    compressed: bool,
) -> Result<()> {
    let path = name.as_ref();
    let io = |e: std::io::Error| Error::io(SAVE, path, e);
    let zipped = |e: zip::result::ZipError| Error::io(SAVE, path, e);
    crate::eval::async_eval(&arrays.values().cloned().collect::<Vec<_>>())?;
    let mut archive = ZipWriter::new(out);
    for (name, a) in arrays {
        let header = header_of(a);
        let method = if compressed { CompressionMethod::Deflated } else { CompressionMethod::Stored };
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .with_alignment(if compressed { 1 } else { 64 })
            .large_file(header.len() + a.nbytes() >= u32::MAX as usize / 2);
        archive.start_file(format!("{name}.npy"), options).map_err(zipped)?;
        archive.write_all(&header).map_err(io)?;
        archive.write_all(&a.to_bytes()?).map_err(io)?;
    }
    archive.finish().map_err(zipped)?.flush().map_err(io)
}

fn save(path: &Path, arrays: &BTreeMap<String, Array>, compressed: bool) -> Result<()> {
    let path = with_extension(path, "npz");
    let io = |e: std::io::Error| Error::io(SAVE, &path, e);
    let mut out = Replacement::create(&path).map_err(io)?;
    write_npz(&mut out.file, &path, arrays, compressed)?;
    out.finish().map_err(io)
}

/// Writes arrays to an npz file, as they are; `.npz` is added to a path that does not end so. The file appears
/// whole or not at all. [`named`] gives names to arrays that have none.
///
/// # Errors
/// Whatever evaluation gives; `Io` when the file cannot be written.
pub fn savez(path: impl AsRef<Path>, arrays: &BTreeMap<String, Array>) -> Result<()> {
    save(path.as_ref(), arrays, false)
}

/// [`savez`], compressed.
///
/// # Errors
/// As for [`savez`].
pub fn savez_compressed(path: impl AsRef<Path>, arrays: &BTreeMap<String, Array>) -> Result<()> {
    save(path.as_ref(), arrays, true)
}
