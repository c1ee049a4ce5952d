//! Reductions over axes.

use super::{Meta, Metas, arity, one};
use crate::shape::{AxisSet, Shape};
use crate::{Dtype, Error, Result};

/// What a reduction computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Sum; accumulated wide (see the crate's policy on numerics). 0 of nothing.
    Sum,
    /// Product. 1 of nothing.
    Prod,
    /// Largest, complex numbers by real, then imaginary part; NaN when any is. Of nothing: an error.
    Max,
    /// Smallest; NaN when any is. Of nothing: an error.
    Min,
    /// All are true.
    All,
    /// Any is true.
    Any,
}

/// Reduction over some axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// What is computed.
    pub kind: ReduceKind,
    /// Over which axes.
    pub axes: AxisSet,
    /// Whether the axes stay, with size 1.
    pub keepdims: bool,
}

impl Reduce {
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ReduceKind::Sum => "sum",
            ReduceKind::Prod => "prod",
            ReduceKind::Max => "max",
            ReduceKind::Min => "min",
            ReduceKind::All => "all",
            ReduceKind::Any => "any",
        }
    }

    /// Type of the result: `bool` and small integers are summed and multiplied as `i32`, small unsigned
    /// ones as `u32`.
    pub fn output(kind: ReduceKind, d: Dtype) -> Dtype {
        match kind {
            ReduceKind::All | ReduceKind::Any => Dtype::Bool,
            ReduceKind::Max | ReduceKind::Min => d,
            ReduceKind::Sum | ReduceKind::Prod => match d {
                Dtype::Bool | Dtype::I8 | Dtype::I16 => Dtype::I32,
                Dtype::U8 | Dtype::U16 => Dtype::U32,
                Dtype::U32
                | Dtype::U64
                | Dtype::I32
                | Dtype::I64
                | Dtype::F16
                | Dtype::BF16
                | Dtype::F32
                | Dtype::F64
                | Dtype::C64 => d,
            },
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let [x] = arity(self.name(), inputs)?;
        if matches!(self.kind, ReduceKind::Max | ReduceKind::Min)
            && self.axes.iter().any(|a| x.shape.get(a) == Some(&0))
        {
            let msg = format!("no value for an empty axis of an array of shape {}", x.shape);
            return Err(Error::value(self.name(), msg));
        }
        if let Some(a) = self.axes.iter().find(|&a| a >= x.shape.rank()) {
            return Err(Error::shape(self.name(), format!("axis {a} is out of range for shape {}", x.shape)));
        }
        one(reduced(&x.shape, self.axes, self.keepdims), Self::output(self.kind, x.dtype))
    }
}

/// Shape after reducing `axes`.
pub(crate) fn reduced(shape: &Shape, axes: AxisSet, keepdims: bool) -> Shape {
    shape
        .iter()
        .enumerate()
        .filter(|&(i, _)| keepdims || !axes.contains(i))
        .map(|(i, &d)| if axes.contains(i) { 1 } else { d })
        .collect()
}
