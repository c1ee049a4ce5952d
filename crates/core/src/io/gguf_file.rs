//! GGUF files as lazy arrays.

use super::Mapped;
use super::ggml_blocks::{
    AffineFormat, AffineOutput, AffineScale, BlockError, GgmlType, ScaleType, to_affine,
};
use super::gguf::{Gguf, GgufError, Metadata, TensorInfo};
use crate::op::{Create, Meta, Metas, Op, Source, SourceRef};
use crate::{Array, Dtype, Error, Result, Shape};
use half::f16;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const OP: &str = "open_gguf";

/// Bytes of blocks that are converted between two requests to take back the file's pages, and the least
/// that is worth another thread.
const CHUNK: usize = 1 << 20;

/// Most threads that unpack one tensor: beyond, memory and not the processor sets the pace.
const MAX_THREADS: usize = 16;

/// Opens a GGUF file: reads its header and maps the rest.
///
/// # Errors
/// `Io`, with the path and the cause, when the file cannot be read or is not what it claims to be.
pub fn open_gguf(path: impl AsRef<Path>) -> Result<GgufFile> {
    GgufFile::parse(Mapped::open(OP, path)?)
}

/// A GGUF file whose tensors are given as lazy arrays.
pub struct GgufFile {
    map: Arc<Mapped>,
    gguf: Gguf,
}

/// A tensor of a GGUF file.
#[derive(Debug, Clone)]
pub enum Tensor {
    /// Plain numbers.
    Dense(Array),
    /// Packed integers with a scale and a bias for each group: `w = scale * q + bias`.
    Affine {
        /// `u32`, the shape of the tensor with `words = columns * bits / 32` as its last size: each row is
        /// one bit stream, least significant bits first.
        w: Array,
        /// `f16` or `f32`, the shape of the tensor with `columns / group` as its last size.
        scales: Array,
        /// As `scales`.
        biases: Array,
        /// Consecutive elements of a row that share a scale and a bias.
        group: usize,
        /// Bits of a packed integer.
        bits: u8,
        /// Shape of the weights.
        shape: Shape,
    },
}

impl GgufFile {
    /// Reads the header of a file.
    ///
    /// # Errors
    /// As for [`open_gguf`].
    pub fn parse(map: Arc<Mapped>) -> Result<GgufFile> {
        let gguf = Gguf::parse(map.bytes()).map_err(|e| Error::io(OP, map.path(), e))?;
        Ok(GgufFile { map, gguf })
    }

    /// Keys and values of the header.
    pub fn metadata(&self) -> &Metadata {
        self.gguf.metadata()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.map.path()
    }

    /// The header.
    pub fn header(&self) -> &Gguf {
        &self.gguf
    }

    /// Names of the tensors, in the order of the file.
    pub fn tensor_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.gguf.tensors().iter().map(|t| t.name.as_str())
    }

    /// Whether there is a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.gguf.find(name).is_some()
    }

    /// Shape, type and place of a tensor.
    ///
    /// # Errors
    /// `Io` when there is none of this name.
    pub fn info(&self, name: &str) -> Result<&TensorInfo> {
        self.gguf.tensor(name).map_err(|e| self.error(e))
    }

    /// Lets the system take back the memory of all pages that were read so far, once what was needed of the
    /// header has been copied. Whatever is still used is read again.
    pub fn release(&self) {
        self.map.release(0..self.map.bytes().len());
    }

    /// An error about this file, such as a missing key of the metadata.
    pub fn error(&self, e: GgufError) -> Error {
        Error::io(OP, self.map.path(), e)
    }

    /// A tensor. Plain numbers are a view of the mapped file; packed ones are converted to the affine form,
    /// without requantizing, when one of the three arrays is first evaluated.
    ///
    /// Scales and biases are `f16`: for the types whose scale is stored as it is (`Q4_0`, `Q4_1`, `Q5_0`,
    /// `Q5_1`, `Q8_0`) that is exact, for those whose scale is a product (`Q4_K`, `Q5_K`, `Q6_K`) it rounds
    /// by at most 2^-11. [`GgufFile::tensor_with`] chooses.
    ///
    /// # Errors
    /// `Io`, naming tensor and type, when there is no tensor of this name or arrays cannot represent its
    /// type. Evaluating gives `Io` when a scale is infinite, NaN, or too large for its type.
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        self.tensor_with(name, ScaleType::F16)
    }

    /// A tensor, with scales and biases of a given type where it has such: `F32` is exact for all types.
    ///
    /// # Errors
    /// As [`GgufFile::tensor`].
    pub fn tensor_with(&self, name: &str, scales: ScaleType) -> Result<Tensor> {
        let info = self.info(name)?;
        let bad = |msg: String| Error::io(OP, self.map.path(), format!("tensor {name:?}: {msg}"));
        let shape = Shape::checked(OP, &info.shape()).map_err(|e| bad(e.to_string()))?;
        if let Some(dtype) = dense(info.ty) {
            let what = format!("tensor {name:?}");
            return self.map.array(OP, &what, info.offset, shape, dtype).map(Tensor::Dense);
        }
        let Some(format) = info.ty.affine_format() else {
            return Err(bad(format!("type {} is not supported", info.ty)));
        };
        let (rows, cols) = (info.rows(), info.cols());
        // The parser has seen to it that rows are whole blocks inside the file, so nothing overflows.
        let last = |size: usize| shape.with(shape.rank() - 1, size);
        let scale = match scales {
            ScaleType::F16 => Dtype::F16,
            ScaleType::F32 => Dtype::F32,
        };
        let metas = Metas::from_iter([
            Meta::new(last(format.words_per_row(cols)), Dtype::U32),
            Meta::new(last(format.groups_per_row(cols)), scale),
            Meta::new(last(format.groups_per_row(cols)), scale),
        ]);
        let unpack = Unpack { file: self.map.clone(), info: info.clone(), rows, cols, format, scales, metas };
        let arrays = Array::from_op_multi(Op::Create(Create::Load(SourceRef(Arc::new(unpack)))), &[])?;
        let mut arrays = arrays.into_iter();
        let (Some(w), Some(scales), Some(biases)) = (arrays.next(), arrays.next(), arrays.next()) else {
            return Err(bad("three arrays were expected".into()));
        };
        Ok(Tensor::Affine { w, scales, biases, group: format.group_size, bits: format.bits as u8, shape })
    }
}

/// All tensors by name: the parts of a packed one under its name, and under `scales` and `biases` in place of the
/// last part of it.
///
/// # Errors
/// As [`GgufFile::tensor`], and `Io` when two arrays would have one name.
pub(super) fn gguf_arrays(file: &GgufFile) -> Result<BTreeMap<String, Array>> {
    let mut arrays = BTreeMap::new();
    let mut put = |name: String, a: Array| {
        if arrays.contains_key(&name) {
            return Err(Error::io(OP, file.path(), format!("two arrays would be called {name:?}")));
        }
        arrays.insert(name, a);
        Ok(())
    };
    for name in file.tensor_names() {
        match file.tensor(name)? {
            Tensor::Dense(a) => put(name.to_owned(), a)?,
            Tensor::Affine { w, scales, biases, .. } => {
                let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
                let part =
                    |what: &str| if stem.is_empty() { what.to_owned() } else { format!("{stem}.{what}") };
                put(name.to_owned(), w)?;
                put(part("scales"), scales)?;
                put(part("biases"), biases)?;
            }
        }
    }
    Ok(arrays)
}

/// Type of the array that holds a tensor's bytes as they are.
fn dense(ty: GgmlType) -> Option<Dtype> {
    match ty {
        GgmlType::F32 => Some(Dtype::F32),
        GgmlType::F16 => Some(Dtype::F16),
        GgmlType::BF16 => Some(Dtype::BF16),
        GgmlType::F64 => Some(Dtype::F64),
        GgmlType::I8 => Some(Dtype::I8),
        GgmlType::I16 => Some(Dtype::I16),
        GgmlType::I32 => Some(Dtype::I32),
        GgmlType::I64 => Some(Dtype::I64),
        _ => None,
    }
}

/// A tensor of blocks as three arrays.
struct Unpack {
    file: Arc<Mapped>,
    info: TensorInfo,
    rows: usize,
    cols: usize,
    format: AffineFormat,
    scales: ScaleType,
    metas: Metas,
}

/// Some rows: where their blocks are, and where the results go.
struct Part<'a> {
    first: usize,
    rows: usize,
    words: &'a mut [u32],
    scales: &'a mut [u8],
    biases: &'a mut [u8],
}

impl Source for Unpack {
    fn describe(&self) -> String {
        format!("tensor {:?} of {}", self.info.name, self.file.path().display())
    }

    fn metas(&self) -> Metas {
        self.metas.clone()
    }

    fn read(&self, outputs: &mut [&mut [u8]]) -> Result<()> {
        let fits = outputs.len() == 3 && outputs.iter().zip(&self.metas).all(|(o, m)| o.len() == m.bytes());
        let [words, scales, biases] = outputs else {
            return Err(Error::value("load", format!("{} is three arrays", self.describe())));
        };
        let Ok(words) = bytemuck::try_cast_slice_mut::<u8, u32>(words) else {
            return Err(Error::value("load", format!("{}: memory is not aligned", self.describe())));
        };
        if !fits {
            return Err(Error::value("load", format!("{}: memory of another size", self.describe())));
        }
        if self.rows == 0 || self.cols == 0 {
            return Ok(());
        }
        let row_bytes = self.info.bytes / self.rows;
        let per_part = (CHUNK / row_bytes).clamp(1, self.rows);
        let (row_words, row_scales) = (words.len() / self.rows, scales.len() / self.rows);
        let parts: Vec<Part<'_>> = words
            .chunks_mut(per_part * row_words)
            .zip(scales.chunks_mut(per_part * row_scales))
            .zip(biases.chunks_mut(per_part * row_scales))
            .enumerate()
            .map(|(i, ((words, scales), biases))| {
                let first = i * per_part;
                Part { first, rows: per_part.min(self.rows - first), words, scales, biases }
            })
            .collect();
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(MAX_THREADS);
        in_parallel(threads, parts, |part| match self.scales {
            ScaleType::F16 => self.unpack::<f16>(row_bytes, part),
            ScaleType::F32 => self.unpack::<f32>(row_bytes, part),
        })
    }
}

impl Unpack {
    fn unpack<S: AffineScale + bytemuck::Pod + Into<f32>>(
        &self,
        row_bytes: usize,
        part: Part<'_>,
    ) -> Result<()> {
        let start = self.info.offset + part.first * row_bytes;
        let range = start..start + part.rows * row_bytes;
        let error =
            |msg: String| Error::io("load", self.file.path(), format!("tensor {:?}: {msg}", self.info.name));
        let src =
            self.file.bytes().get(range.clone()).ok_or_else(|| error("lies outside the file".into()))?;
        let (Ok(scales), Ok(biases)) = (
            bytemuck::try_cast_slice_mut::<u8, S>(part.scales),
            bytemuck::try_cast_slice_mut::<u8, S>(part.biases),
        ) else {
            return Err(error("memory is not aligned".into()));
        };
        let out = AffineOutput { words: part.words, scales, biases };
        to_affine(self.info.ty, src, part.rows, self.cols, out)
            .map_err(|e: BlockError| error(e.to_string()))?;
        for (kind, values) in [("scale", &*scales), ("bias", &*biases)] {
            let sound = values.iter().all(|&v| Into::<f32>::into(v).is_finite());
            if !sound && let Some(at) = values.iter().position(|&v| !Into::<f32>::into(v).is_finite()) {
                let groups = self.format.groups_per_row(self.cols);
                let (row, group) = (part.first + at / groups, at % groups);
                return Err(error(format!(
                    "the {kind} of group {group} in row {row} is not finite as {:?}",
                    self.scales
                )));
            }
        }
        self.file.release(range);
        Ok(())
    }
}

/// Runs `work` on all items, on several threads where that pays; the first error of the first failing item.
fn in_parallel<T: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    if threads <= 1 || items.len() <= 1 {
        return items.into_iter().try_for_each(work);
    }
    let threads = threads.min(items.len());
    let items: Vec<std::sync::Mutex<Option<T>>> =
        items.into_iter().map(|i| std::sync::Mutex::new(Some(i))).collect();
    let next = AtomicUsize::new(0);
    let drain = || -> Result<()> {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = items.get(i) else { return Ok(()) };
            if let Some(item) = slot.lock().unwrap_or_else(|e| e.into_inner()).take() {
                work(item)?;
            }
        }
    };
    std::thread::scope(|s| {
        // A thread that cannot be had is no error: whoever is there does the work.
        let others: Vec<_> =
            (1..threads).filter_map(|_| std::thread::Builder::new().spawn_scoped(s, drain).ok()).collect();
        let mine = drain();
        others.into_iter().fold(mine, |outcome, t| {
            outcome.and(t.join().unwrap_or_else(|_| Err(Error::value("load", "a reader panicked"))))
        })
    })
}

#[cfg(test)]
mod tests;
