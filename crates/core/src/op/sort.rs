//! Ordering along an axis. NaN comes last; equal elements keep their order.

use super::{Grad, Meta, Metas, Op, arity, one};
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Ordering along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sort {
    /// Along which axis.
    pub axis: usize,
    /// Give the indices (`u32`) rather than the elements.
    pub indices: bool,
    /// From the largest to the smallest (NaN still last).
    pub descending: bool,
    /// Only this position has to be right, with nothing larger before it and nothing smaller after it.
    pub kth: Option<usize>,
}

impl Sort {
    pub(super) fn name(&self) -> &'static str {
        match (self.indices, self.kth) {
            (false, None) => "sort",
            (true, None) => "argsort",
            (false, Some(_)) => "partition",
            (true, Some(_)) => "argpartition",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let [x] = arity(self.name(), inputs)?;
        let Some(&n) = x.shape.get(self.axis) else {
            return Err(Error::shape(
                self.name(),
                format!("axis {} is out of range for {}", self.axis, x.shape),
            ));
        };
        if let Some(k) = self.kth
            && k >= n
        {
            return Err(Error::index(self.name(), format!("position {k} is out of range for {n} elements")));
        }
        if self.indices && n > u32::MAX as usize {
            return Err(Error::shape(self.name(), format!("{n} elements are more than uint32 can index")));
        }
        one(x.shape.clone(), if self.indices { Dtype::U32 } else { x.dtype })
    }
}

impl Sort {
    pub(super) fn grad(&self) -> Grad {
        if self.indices { Grad::NonDiff } else { Grad::ViaFallback }
    }

    /// The elements at the places that order them.
    pub(super) fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        if self.indices {
            return None;
        }
        let x = &inputs[0];
        let places = Array::from_op(Op::Sort(Sort { indices: true, ..*self }), std::slice::from_ref(x));
        Some(places.and_then(|p| Ok(vec![x.take_along_axis(&p, self.axis as i32)?])))
    }
}

pub(super) fn batched(op: &Op, inputs: &[Array], _: usize) -> Result<Vec<Array>> {
    let Op::Sort(s) = op else { return Ok(Vec::new()) };
    Ok(vec![Array::from_op(Op::Sort(Sort { axis: s.axis + 1, ..*s }), inputs)?])
}
