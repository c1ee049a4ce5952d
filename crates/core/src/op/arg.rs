//! Index of the smallest or largest element along an axis.

use super::reduce::reduced;
use super::{Meta, Metas, Op, arity, one};
use crate::shape::AxisSet;
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Which element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ArgKind {
    /// The first smallest; the first NaN when there is one.
    Min,
    /// The first largest; the first NaN when there is one.
    Max,
}

/// Index of an extreme along one axis, as `u32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Arg {
    /// Which element.
    pub kind: ArgKind,
    /// Along which axis.
    pub axis: usize,
    /// Whether the axis stays, with size 1.
    pub keepdims: bool,
}

impl Arg {
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ArgKind::Min => "argmin",
            ArgKind::Max => "argmax",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let [x] = arity(self.name(), inputs)?;
        match x.shape.get(self.axis) {
            None => {
                Err(Error::shape(self.name(), format!("axis {} is out of range for {}", self.axis, x.shape)))
            }
            Some(0) => Err(Error::value(self.name(), format!("no value for an empty axis of {}", x.shape))),
            Some(_) => one(reduced(&x.shape, AxisSet::one(self.axis), self.keepdims), Dtype::U32),
        }
    }
}

pub(super) fn batched(op: &Op, inputs: &[Array], _: usize) -> Result<Vec<Array>> {
    let Op::Arg(a) = op else { return Ok(Vec::new()) };
    Ok(vec![Array::from_op(Op::Arg(Arg { axis: a.axis + 1, ..*a }), inputs)?])
}
