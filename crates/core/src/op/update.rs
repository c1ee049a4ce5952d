//! Joining arrays, and writing part of one. The written array takes over its argument's memory when
//! nobody else holds it.

use super::view::check_window;
use super::{Grad, Meta, Metas, Op, View, arity, one};
use crate::{Array, Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Joining, and writing part of an array.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Update {
    /// All arguments one after the other along an axis.
    Concat {
        /// Along which axis.
        axis: usize,
    },
    /// The first argument with the elements at `start + j * step` replaced by the second.
    Slice {
        /// First element of each axis.
        start: SmallVec<[usize; 4]>,
        /// Distance along each axis.
        step: SmallVec<[isize; 4]>,
    },
}

impl Update {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Update::Concat { .. } => "concatenate",
            Update::Slice { .. } => "slice_update",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        match self {
            Update::Concat { axis } => {
                let Some((first, rest)) = inputs.split_first() else {
                    return Err(Error::value("concatenate", "takes at least one array"));
                };
                if *axis >= first.shape.rank() {
                    let msg = format!("axis {axis} is out of range for shape {}", first.shape);
                    return Err(Error::shape("concatenate", msg));
                }
                let mut n = first.shape[*axis];
                for m in rest {
                    let same = m.shape.rank() == first.shape.rank()
                        && (0..m.shape.rank()).all(|i| i == *axis || m.shape[i] == first.shape[i]);
                    if !same {
                        let msg = format!("shapes {} and {} differ beside axis {axis}", first.shape, m.shape);
                        return Err(Error::shape("concatenate", msg));
                    }
                    if m.dtype != first.dtype {
                        let msg = format!("types {} and {} differ", first.dtype, m.dtype);
                        return Err(Error::dtype("concatenate", msg));
                    }
                    n += m.shape[*axis];
                }
                let shape = first.shape.with(*axis, n);
                one(crate::Shape::checked("concatenate", &shape)?, first.dtype)
            }
            Update::Slice { start, step } => {
                let [x, u] = arity("slice_update", inputs)?;
                if x.dtype != u.dtype {
                    return Err(Error::dtype(
                        "slice_update",
                        format!("types {} and {} differ", x.dtype, u.dtype),
                    ));
                }
                check_window("slice_update", &x.shape, start, step, &u.shape)?;
                one(x.shape.clone(), x.dtype)
            }
        }
    }
}

impl Update {
    pub(super) fn grad(&self) -> Grad {
        Grad::Linear(transpose)
    }
}

fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], i: usize) -> Result<Option<Array>> {
    let (Op::Update(update), Some(c)) = (op, &cotangents[0]) else { return Ok(None) };
    let back = match update {
        Update::Concat { axis } => {
            let before: usize = inputs[..i].iter().map(|x| x.shape()[*axis]).sum();
            c.slice_axis(*axis as i32, before, before + inputs[i].shape()[*axis])?
        }
        Update::Slice { .. } if i == 0 => {
            Array::from_op(Op::Update(update.clone()), &[c.clone(), inputs[1].full_like(0.0)?])?
        }
        Update::Slice { start, step } => {
            let read =
                View::Slice { start: start.clone(), step: step.clone(), size: inputs[1].shape().clone() };
            Array::from_op(Op::View(read), std::slice::from_ref(c))?
        }
    };
    Ok(Some(back))
}

pub(super) fn batched(op: &Op, inputs: &[Array], _: usize) -> Result<Vec<Array>> {
    let Op::Update(update) = op else { return Ok(Vec::new()) };
    let shifted = match update {
        Update::Concat { axis } => Update::Concat { axis: axis + 1 },
        Update::Slice { start, step } => Update::Slice {
            start: std::iter::once(0).chain(start.iter().copied()).collect(),
            step: std::iter::once(1).chain(step.iter().copied()).collect(),
        },
    };
    Ok(vec![Array::from_op(Op::Update(shifted), inputs)?])
}
