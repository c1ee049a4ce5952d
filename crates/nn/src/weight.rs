//! The matrix of a layer, in whichever form it is kept.

use crate::Param;
use olivine_core::op::Affine;
use olivine_core::{Array, Dtype, Error, Result, Shape};

/// A matrix `[out, in]`, dense or packed.
#[derive(Debug, Clone)]
pub enum Weight {
    /// Floats, the one form that is trained.
    Dense(Param),
    /// Small integers with a scale and a bias for each group; see [`Affine`].
    Packed(Packed),
}

/// A matrix of packed integers: `w = scale * q + bias`.
#[derive(Debug, Clone)]
pub struct Packed {
    /// The integers, `u32` words of shape `[out, words]`.
    pub words: Array,
    /// `[out, groups]`.
    pub scales: Array,
    /// `[out, groups]`.
    pub biases: Array,
    /// How many elements share a scale, and their width.
    pub spec: Affine,
}

impl From<Array> for Weight {
    fn from(array: Array) -> Weight {
        Weight::Dense(Param::new(array))
    }
}

impl Weight {
    /// Zeros that take no memory, to be replaced by loading.
    pub fn zeros(shape: &[usize]) -> Result<Weight> {
        Array::zeros(shape, Dtype::F32).map(Weight::from)
    }

    /// The shape of the matrix, unpacked.
    pub fn shape(&self) -> Shape {
        match self {
            Weight::Dense(w) => w.shape().clone(),
            Weight::Packed(p) => {
                let s = p.scales.shape();
                match s.split_last() {
                    Some((&groups, _)) => s.with(s.rank() - 1, groups.saturating_mul(p.spec.group)),
                    None => s.clone(),
                }
            }
        }
    }

    /// Bytes of memory that it takes.
    pub fn nbytes(&self) -> usize {
        match self {
            Weight::Dense(w) => w.nbytes(),
            Weight::Packed(p) => p.words.nbytes() + p.scales.nbytes() + p.biases.nbytes(),
        }
    }

    /// The float type that the weight speaks for: its own, or that of its scales.
    pub fn dtype(&self) -> Dtype {
        match self {
            Weight::Dense(w) => w.dtype(),
            Weight::Packed(p) => p.scales.dtype(),
        }
    }

    /// The same work done to the rows of each array that makes up the matrix. `f` may reorder or choose rows
    /// (the first axis), and nothing else: rows are packed one by one.
    pub fn map_rows(&self, f: impl Fn(&Array) -> Result<Array>) -> Result<Weight> {
        Ok(match self {
            Weight::Dense(w) => Weight::from(f(w)?),
            Weight::Packed(p) => Weight::Packed(Packed {
                words: f(&p.words)?,
                scales: f(&p.scales)?,
                biases: f(&p.biases)?,
                spec: p.spec,
            }),
        })
    }

    /// `x @ w.T` over the last axis of `x`, in the type of `x`.
    pub fn apply(&self, x: &Array) -> Result<Array> {
        match self {
            Weight::Dense(w) => x.matmul(&w.astype(x.dtype())?.t()?),
            Weight::Packed(p) => {
                x.quantized_matmul(&p.words, &p.scales, &p.biases, true, p.spec.group, p.spec.bits)
            }
        }
    }

    /// The rows at `indices`, as floats of `dtype`: shape `indices + [in]`.
    pub fn rows(&self, indices: &Array, dtype: Dtype) -> Result<Array> {
        match self {
            Weight::Dense(w) => w.take(indices, 0)?.astype(dtype),
            Weight::Packed(p) => {
                let (scales, biases) = (p.scales.take(indices, 0)?, p.biases.take(indices, 0)?);
                p.words.take(indices, 0)?.dequantize(&scales, &biases, p.spec.group, p.spec.bits, dtype)
            }
        }
    }

    /// Packs floats. A packed weight of the same form stays as it is.
    ///
    /// # Errors
    /// `Value` when it is packed in another form already.
    pub fn quantize(&self, spec: Affine) -> Result<Weight> {
        match self {
            Weight::Dense(w) => {
                let (words, scales, biases) = w.quantize(spec.group, spec.bits)?;
                Ok(Weight::Packed(Packed { words, scales, biases, spec }))
            }
            Weight::Packed(p) if p.spec == spec => Ok(self.clone()),
            Weight::Packed(p) => {
                let msg = format!(
                    "the weight {} has {} bits in groups of {} already; {} bits in groups of {} need the \
                     original floats",
                    self.shape(),
                    p.spec.bits,
                    p.spec.group,
                    spec.bits,
                    spec.group
                );
                Err(Error::value("quantize", msg))
            }
        }
    }
}
