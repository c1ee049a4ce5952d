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
mod conv_rules;
mod create;
mod custom;
mod fft;
mod fft_rules;
mod index;
mod index_rules;
mod linalg;
mod linalg_rules;
mod matmul;
mod norm;
mod quant;
mod quant_rules;
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
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::sync::Arc;

/// Shape and element type of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

/// Name of a transform.
pub type Transform = &'static str;

/// One operation with its parameters, all plain data: equal operations on equal arguments give equal
/// values. Floats are kept as bits so that `Eq` and `Hash` hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    /// An array that was given rather than computed.
    #[serde(skip)]
    Leaf,
    /// The argument of a function that the named transform traces; it has no value.
    #[serde(skip)]
    Placeholder(Transform),
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
    #[serde(skip)]
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
    #[serde(skip)]
    Custom(CustomRef),
}

/// Partial derivative of an elementwise operation by argument `i`, at (op, inputs, output, i); `None` where
/// it is zero.
pub type Partial = fn(&Op, &[Array], &Array, usize) -> Result<Option<Array>>;

/// Transpose of a linear operation, at (op, inputs, cotangents of the results, i): the cotangent of argument
/// `i`. At least one result has a cotangent; `None` stands for zeros.
pub type Transpose = fn(&Op, &[Array], &[Option<Array>], usize) -> Result<Option<Array>>;

/// Tangents of the results from those of the arguments, at (op, inputs, outputs, tangents); `None` stands for
/// zeros.
pub type Jvp = fn(&Op, &[Array], &[Array], &[Option<Array>]) -> Result<Cotangents>;

/// Cotangents of the arguments from those of the results, at (op, inputs, outputs, cotangents, which
/// arguments want one).
pub type Vjp = fn(&Op, &[Array], &[Array], &[Option<Array>], &[bool]) -> Result<Cotangents>;

/// Derivatives, one for each array; `None` stands for zeros.
pub type Cotangents = SmallVec<[Option<Array>; 2]>;

/// How an operation is differentiated. Derivatives of complex numbers are adjoint with respect to the inner
/// product `Re(conj(a) * b)`, so that a gradient points in the direction of steepest ascent.
#[derive(Debug, Clone, Copy)]
pub enum Grad {
    /// No derivative, or zero almost everywhere.
    NonDiff,
    /// Elementwise: each result depends on one element of each argument.
    Pointwise(Partial),
    /// Linear in all its inexact arguments together: tangents go through the operation itself, cotangents
    /// through its transpose.
    Linear(Transpose),
    /// Linear in each of its inexact arguments while the others stay.
    Multilinear(Transpose),
    /// The composite is differentiated.
    ViaFallback,
    /// The forward rule, which has to be linear in the tangents; backward is its transpose.
    Forward(Jvp),
    /// Both directions by rules of its own, where that is faster or more exact.
    Explicit {
        /// Forward.
        jvp: Jvp,
        /// Backward.
        vjp: Vjp,
    },
}

/// Rule of an operation for a batch of arguments, at (op, inputs, n): every input has a leading axis of size
/// `n`, and so have the results.
pub type Batched = fn(&Op, &[Array], usize) -> Result<Vec<Array>>;

/// As [`Batched`], where only some of the inputs have the leading axis; the results all have.
pub type PartlyBatched = fn(&Op, &[Array], &[bool], usize) -> Result<Vec<Array>>;

/// How an operation acts on a batch of arguments, the batch axis in front.
#[derive(Debug, Clone, Copy)]
pub enum Batch {
    /// The operation itself.
    Pointwise,
    /// The operation itself: it treats leading axes as a batch.
    LeadingDims,
    /// An operation of the same family, with its axes moved by one.
    ShiftAxes(Batched),
    /// A rule of its own for arguments that need not all have the batch axis.
    Explicit(PartlyBatched),
    /// The composite is batched.
    ViaFallback,
    /// One call for each element of the batch.
    Unrolled,
}

impl Op {
    /// Name that errors, prints and profiles use.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Leaf => "array",
            Op::Placeholder(transform) => transform,
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
            Op::Leaf | Op::Placeholder(_) => Ok(Metas::new()),
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

    /// How it is differentiated.
    pub fn grad(&self) -> Grad {
        match self {
            Op::Leaf | Op::Placeholder(_) | Op::Create(_) | Op::Arg(_) | Op::Random(_) => Grad::NonDiff,
            Op::Unary(o) => o.grad(),
            Op::Binary(o) => o.grad(),
            Op::Select => select::grad(),
            Op::Cast(d) => cast::grad(*d),
            Op::Fused(_) => Grad::ViaFallback,
            Op::Reduce(o) => o.grad(),
            Op::Scan(o) => o.grad(),
            Op::Sort(o) => o.grad(),
            Op::View(o) => o.grad(),
            Op::Update(o) => o.grad(),
            Op::Index(o) => o.grad(),
            Op::Matmul(o) => o.grad(),
            Op::Conv(o) => o.grad(),
            Op::Fft(o) => o.grad(),
            Op::Hadamard(o) => o.grad(),
            Op::Linalg(o) => o.grad(),
            Op::Quant(o) => o.grad(),
            Op::Norm(_) | Op::Rope(_) | Op::Attention(_) => Grad::ViaFallback,
            Op::Softmax(o) => o.grad(),
            Op::Custom(o) => o.grad(),
        }
    }

    /// Whether one of its partial derivatives is infinite somewhere, so that what does not count must be
    /// kept from becoming NaN.
    pub(crate) fn is_singular(&self) -> bool {
        match self {
            Op::Unary(o) => o.is_singular(),
            Op::Binary(o) => o.is_singular(),
            Op::Leaf
            | Op::Placeholder(_)
            | Op::Create(_)
            | Op::Select
            | Op::Cast(_)
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

    /// How it acts on a batch.
    pub fn batch(&self) -> Batch {
        match self {
            // Without arguments there is nothing to batch.
            Op::Leaf | Op::Placeholder(_) | Op::Create(_) => Batch::Pointwise,
            Op::Unary(_) | Op::Binary(_) | Op::Select | Op::Cast(_) | Op::Fused(_) => Batch::Pointwise,
            Op::Reduce(_) => Batch::ShiftAxes(reduce::batched),
            Op::Arg(_) => Batch::ShiftAxes(arg::batched),
            Op::Scan(_) => Batch::ShiftAxes(scan::batched),
            Op::Sort(_) => Batch::ShiftAxes(sort::batched),
            Op::View(_) => Batch::ShiftAxes(view::batched),
            Op::Update(_) => Batch::ShiftAxes(update::batched),
            Op::Index(_) => Batch::Explicit(index_rules::batched),
            Op::Matmul(_) => Batch::Explicit(matmul::batched),
            Op::Conv(_) => Batch::Explicit(conv_rules::batched),
            Op::Fft(_) => Batch::ShiftAxes(fft_rules::batched),
            Op::Hadamard(_) | Op::Linalg(_) => Batch::LeadingDims,
            Op::Random(_) => Batch::LeadingDims,
            Op::Quant(_) => Batch::Explicit(quant_rules::batched),
            Op::Norm(_) => Batch::Explicit(norm::batched),
            Op::Softmax(_) => Batch::LeadingDims,
            Op::Rope(_) => Batch::Explicit(rope::batched),
            Op::Attention(_) => Batch::Explicit(attention::batched),
            Op::Custom(_) => Batch::Explicit(custom::batched),
        }
    }

    /// The same values from simpler operations, for what a device lacks and for derivatives.
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
            Op::Reduce(o) => o.fallback(inputs),
            Op::Scan(o) => o.fallback(inputs),
            Op::Sort(o) => o.fallback(inputs),
            Op::Leaf
            | Op::Placeholder(_)
            | Op::Create(_)
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Select
            | Op::Cast(_)
            | Op::Arg(_)
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
            | Op::Placeholder(_)
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
