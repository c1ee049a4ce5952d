//! What an array can be the result of: the closed set of operations.
//!
//! [`Op`] has one variant per family. The file of a family holds everything about it that is not a
//! kernel: its parameters, the rule for shapes and dtypes (`infer`), its derivative (`grad`), its batching
//! rule (`batch`) and, for fused operations, its composite (`fallback`). The dispatchers here have one line
//! per family and no catch-all arm, so a family without a rule does not compile.
#![deny(clippy::wildcard_enum_match_arm)]

mod arg;
mod attention;
mod binary;
mod cast;
mod conv;
mod create;
mod custom;
mod fft;
mod index;
mod linalg;
mod matmul;
mod norm;
mod quant;
mod random;
mod reduce;
mod rope;
mod scan;
mod select;
mod softmax;
mod sort;
mod unary;
mod update;
mod view;

pub use arg::{Arg, ArgKind};
pub use attention::{Attention, MaskKind};
pub use binary::Binary;
pub use conv::Conv;
pub use create::{Create, Source, SourceRef};
pub use custom::{CustomOp, CustomRef};
pub use fft::{Fft, FftKind, Hadamard};
pub use index::{Index, ScatterMode};
pub use linalg::Linalg;
pub use matmul::Matmul;
pub use norm::Norm;
pub use quant::{Affine, Packing, Quant};
pub use random::Random;
pub(crate) use reduce::reduced;
pub use reduce::{Reduce, ReduceKind};
pub use rope::Rope;
pub use scan::{Scan, ScanKind};
pub use softmax::Softmax;
pub use sort::Sort;
pub use unary::Unary;
pub use update::Update;
pub use view::View;

use crate::expr::Expr;
use crate::shape::Shape;
use crate::{Array, Dtype, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Shape and element type of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Meta {
    /// Sizes of the axes.
    pub shape: Shape,
    /// Element type.
    pub dtype: Dtype,
}

impl Meta {
    /// From parts.
    pub fn new(shape: Shape, dtype: Dtype) -> Meta {
        Meta { shape, dtype }
    }
    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.elements()
    }
    /// Bytes that the elements take without gaps.
    pub fn bytes(&self) -> usize {
        self.elements() * self.dtype.size()
    }
}

/// Results of an inference rule: nearly always one.
pub type Metas = SmallVec<[Meta; 1]>;

/// One operation with its parameters, all plain data: equal operations on equal arguments give equal
/// values. Floats are kept as bits so that `Eq` and `Hash` hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// An array that was given rather than computed.
    Leaf,
    /// Constants, ranges and data that is read when needed.
    Create(Create),
    /// Elementwise function of one array.
    Unary(Unary),
    /// Elementwise function of two arrays of one shape and type.
    Binary(Binary),
    /// Elementwise choice between two arrays.
    Select,
    /// Conversion of the elements.
    Cast(Dtype),
    /// Several elementwise operations in one pass.
    Fused(Arc<Expr>),
    /// Reduction over axes.
    Reduce(Reduce),
    /// Index of the smallest or largest element.
    Arg(Arg),
    /// Running reduction along an axis.
    Scan(Scan),
    /// Ordering along an axis.
    Sort(Sort),
    /// The same elements under another shape; never computes.
    View(View),
    /// Joining, and writing part of an array.
    Update(Update),
    /// Reading and writing at positions that arrays give.
    Index(Index),
    /// Products of matrices.
    Matmul(Matmul),
    /// Convolution.
    Conv(Conv),
    /// Fourier transform.
    Fft(Fft),
    /// Walsh-Hadamard transform.
    Hadamard(Hadamard),
    /// Factorizations and systems of equations.
    Linalg(Linalg),
    /// Random bits.
    Random(Random),
    /// Packed weights.
    Quant(Quant),
    /// Normalisation over the last axis.
    Norm(Norm),
    /// Softmax and logsumexp over the last axis.
    Softmax(Softmax),
    /// Rotary position embedding.
    Rope(Rope),
    /// Scaled dot-product attention.
    Attention(Attention),
    /// An operation that is defined outside core.
    Custom(CustomRef),
}

/// Transpose of a linear operation: cotangents of the inputs from the cotangent of the result.
pub type Transpose = fn(&Op, &[Array], &Array, &[Array]) -> Result<Vec<Option<Array>>>;

/// Partial derivative of an elementwise operation by argument `i`, at (op, inputs, output, i); `None` where
/// it is zero.
pub type Partial = fn(&Op, &[Array], &Array, usize) -> Result<Option<Array>>;

/// How an operation is differentiated. One class gives both directions, so they cannot drift apart.
#[derive(Debug, Clone, Copy)]
pub enum Grad {
    /// No derivative, or zero almost everywhere.
    NonDiff,
    /// Elementwise: each result depends on one element of each argument.
    Pointwise(Partial),
    /// Linear in all its arguments together: the tangent goes through the operation itself, the cotangent
    /// through its transpose.
    Linear(Transpose),
    /// The composite is differentiated.
    ViaFallback,
}

/// How an operation acts on a batch of arguments, the batch axis in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Batch {
    /// The operation itself, after broadcasting.
    Pointwise,
    /// The operation with its axes moved by one.
    ShiftAxes,
    /// The operation itself: it treats leading axes as a batch.
    LeadingDims,
    /// The composite is batched.
    ViaFallback,
}

impl Op {
    /// Name that errors, prints and profiles use.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Leaf => "array",
            Op::Create(o) => o.name(),
            Op::Unary(o) => o.name(),
            Op::Binary(o) => o.name(),
            Op::Select => "where",
            Op::Cast(_) => "astype",
            Op::Fused(_) => "fused",
            Op::Reduce(o) => o.name(),
            Op::Arg(o) => o.name(),
            Op::Scan(o) => o.name(),
            Op::Sort(o) => o.name(),
            Op::View(o) => o.name(),
            Op::Update(o) => o.name(),
            Op::Index(o) => o.name(),
            Op::Matmul(o) => o.name(),
            Op::Conv(o) => o.name(),
            Op::Fft(o) => o.name(),
            Op::Hadamard(_) => "hadamard_transform",
            Op::Linalg(o) => o.name(),
            Op::Random(o) => o.name(),
            Op::Quant(o) => o.name(),
            Op::Norm(o) => o.name(),
            Op::Softmax(o) => o.name(),
            Op::Rope(_) => "rope",
            Op::Attention(_) => "scaled_dot_product_attention",
            Op::Custom(o) => o.0.name(),
        }
    }

    /// Shapes and types of the results, or why the arguments do not fit.
    pub fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        match self {
            Op::Leaf => Ok(Metas::new()),
            Op::Create(o) => o.infer(inputs),
            Op::Unary(o) => o.infer(inputs),
            Op::Binary(o) => o.infer(inputs),
            Op::Select => select::infer(inputs),
            Op::Cast(d) => cast::infer(*d, inputs),
            Op::Fused(e) => e.infer(inputs),
            Op::Reduce(o) => o.infer(inputs),
            Op::Arg(o) => o.infer(inputs),
            Op::Scan(o) => o.infer(inputs),
            Op::Sort(o) => o.infer(inputs),
            Op::View(o) => o.infer(inputs),
            Op::Update(o) => o.infer(inputs),
            Op::Index(o) => o.infer(inputs),
            Op::Matmul(o) => o.infer(inputs),
            Op::Conv(o) => o.infer(inputs),
            Op::Fft(o) => o.infer(inputs),
            Op::Hadamard(o) => o.infer(inputs),
            Op::Linalg(o) => o.infer(inputs),
            Op::Random(o) => o.infer(inputs),
            Op::Quant(o) => o.infer(inputs),
            Op::Norm(o) => o.infer(inputs),
            Op::Softmax(o) => o.infer(inputs),
            Op::Rope(o) => o.infer(inputs),
            Op::Attention(o) => o.infer(inputs),
            Op::Custom(o) => o.0.infer(inputs),
        }
    }

    /// How it is differentiated; `None` where no rule is written yet.
    pub fn grad(&self) -> Option<Grad> {
        match self {
            Op::Leaf => Some(Grad::NonDiff),
            Op::Create(_) => Some(Grad::NonDiff),
            Op::Unary(o) => Some(o.grad()),
            Op::Binary(o) => Some(o.grad()),
            Op::Select => Some(select::grad()),
            Op::Cast(d) => Some(cast::grad(*d)),
            Op::Fused(_) => Some(Grad::ViaFallback),
            Op::Reduce(_) => None,
            Op::Arg(_) => Some(Grad::NonDiff),
            Op::Scan(_) => None,
            Op::Sort(_) => None,
            Op::View(_) => None,
            Op::Update(_) => None,
            Op::Index(_) => None,
            Op::Matmul(_) => None,
            Op::Conv(_) | Op::Fft(_) | Op::Hadamard(_) | Op::Linalg(_) => None,
            Op::Random(_) => Some(Grad::NonDiff),
            Op::Quant(_) => None,
            Op::Norm(_) => Some(Grad::ViaFallback),
            Op::Softmax(_) => None,
            Op::Rope(_) => None,
            Op::Attention(_) => None,
            Op::Custom(_) => Some(Grad::ViaFallback),
        }
    }

    /// How it acts on a batch; `None` where no rule is written yet.
    pub fn batch(&self) -> Option<Batch> {
        match self {
            Op::Leaf | Op::Create(_) => Some(Batch::Pointwise),
            Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast(_) | Op::Fused(_) => Some(Batch::Pointwise),
            Op::Reduce(_) | Op::Arg(_) | Op::Scan(_) | Op::Sort(_) => Some(Batch::ShiftAxes),
            Op::View(_) | Op::Update(_) | Op::Index(_) => None,
            Op::Matmul(_) | Op::Hadamard(_) | Op::Linalg(_) => Some(Batch::LeadingDims),
            Op::Fft(_) => Some(Batch::ShiftAxes),
            Op::Conv(_) => None,
            Op::Random(_) | Op::Quant(_) => None,
            Op::Norm(_) | Op::Softmax(_) => Some(Batch::LeadingDims),
            Op::Rope(_) | Op::Attention(_) => None,
            Op::Custom(_) => Some(Batch::ViaFallback),
        }
    }

    /// The same values from simpler operations, for fused operations that a device lacks.
    pub fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        match self {
            Op::Fused(e) => Some(e.unfused(inputs)),
            Op::Norm(o) => Some(o.fallback(inputs)),
            Op::Softmax(o) => Some(o.fallback(inputs)),
            Op::Rope(o) => Some(o.fallback(inputs)),
            Op::Attention(o) => Some(o.fallback(inputs)),
            Op::Quant(o) => o.fallback(inputs),
            Op::Index(o) => o.fallback(inputs),
            Op::Matmul(o) => o.fallback(inputs),
            Op::Custom(o) => o.0.fallback(inputs),
            Op::Leaf
            | Op::Create(_)
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Select
            | Op::Cast(_)
            | Op::Reduce(_)
            | Op::Arg(_)
            | Op::Scan(_)
            | Op::Sort(_)
            | Op::View(_)
            | Op::Update(_)
            | Op::Conv(_)
            | Op::Fft(_)
            | Op::Hadamard(_)
            | Op::Linalg(_)
            | Op::Random(_) => None,
        }
    }

    /// Elementwise, so that it can join others in one pass.
    pub fn is_elementwise(&self) -> bool {
        match self {
            Op::Create(c) => matches!(c, Create::Full { .. }),
            Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast(_) => true,
            Op::Leaf
            | Op::Fused(_)
            | Op::Reduce(_)
            | Op::Arg(_)
            | Op::Scan(_)
            | Op::Sort(_)
            | Op::View(_)
            | Op::Update(_)
            | Op::Index(_)
            | Op::Matmul(_)
            | Op::Conv(_)
            | Op::Fft(_)
            | Op::Hadamard(_)
            | Op::Linalg(_)
            | Op::Random(_)
            | Op::Quant(_)
            | Op::Norm(_)
            | Op::Softmax(_)
            | Op::Rope(_)
            | Op::Attention(_)
            | Op::Custom(_) => false,
        }
    }
}

/// Checks the number of arguments, which only a bug in a caller of [`Op::infer`] gets wrong.
fn arity<'a, const N: usize>(op: &'static str, inputs: &[&'a Meta]) -> Result<[&'a Meta; N]> {
    <[&'a Meta; N]>::try_from(inputs)
        .map_err(|_| crate::Error::value(op, format!("takes {N} arrays, got {}", inputs.len())))
}

/// One result.
fn one(shape: Shape, dtype: Dtype) -> Result<Metas> {
    Ok(SmallVec::from_iter([Meta { shape, dtype }]))
}
