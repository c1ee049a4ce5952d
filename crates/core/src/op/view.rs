//! The same elements under another shape. Views share memory; only a reshape that strides do not allow
//! copies.

use super::{Cotangents, Grad, Index, Meta, Metas, Op, ScatterMode, Update, arity, one};
use crate::layout::Layout;
use crate::shape::Shape;
use crate::transforms::prefixed;
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// The same elements under another shape.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum View {
    /// The argument.
    Identity,
    /// The argument, as a constant for derivatives.
    StopGradient,
    /// Repeated along axes of size 1 and new leading axes.
    Broadcast(Shape),
    /// Other sizes for as many elements, in row-major order.
    Reshape(Shape),
    /// Axes reordered: axis `i` of the result is axis `perm[i]` of the argument.
    Transpose(SmallVec<[u8; 8]>),
    /// Elements `start + j * step` for `j < size` along each axis.
    Slice {
        /// First element of each axis.
        start: SmallVec<[usize; 4]>,
        /// Distance along each axis; negative ones walk backwards.
        step: SmallVec<[isize; 4]>,
        /// Sizes of the result.
        size: Shape,
    },
    /// The bytes read as another type; the last axis scales with the element size.
    Bitcast(Dtype),
    /// Elements at `offset + i * strides[0] + j * strides[1] + …` of the argument in row-major order.
    Strided {
        /// Sizes of the result.
        shape: Shape,
        /// Distance along each axis of the result.
        strides: SmallVec<[isize; 4]>,
        /// First element.
        offset: usize,
    },
    /// Row-major in memory, copied where the argument is not.
    Contiguous,
    /// The first arguments, as many as stated, once the others are scheduled too.
    Depends(usize),
    /// Parts of the given sizes along an axis, one result each.
    Split {
        /// Along which axis.
        axis: usize,
        /// Size of each part; they add up to the axis.
        sizes: SmallVec<[usize; 4]>,
    },
}

impl View {
    pub(super) fn name(&self) -> &'static str {
        match self {
            View::Identity => "identity",
            View::StopGradient => "stop_gradient",
            View::Broadcast(_) => "broadcast_to",
            View::Reshape(_) => "reshape",
            View::Transpose(_) => "transpose",
            View::Slice { .. } => "slice",
            View::Bitcast(_) => "view",
            View::Strided { .. } => "as_strided",
            View::Contiguous => "contiguous",
            View::Depends(_) => "depends",
            View::Split { .. } => "split",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        if let View::Depends(n) = self {
            let Some(kept) = inputs.get(..*n) else {
                return Err(Error::value(name, format!("{n} results of {} arrays", inputs.len())));
            };
            return Ok(kept.iter().map(|&m| m.clone()).collect());
        }
        let [x] = arity(name, inputs)?;
        let refuse = |msg: String| Err(Error::shape(name, msg));
        match self {
            View::Identity | View::StopGradient => one(x.shape.clone(), x.dtype),
            View::Broadcast(to) => {
                let lead = to.rank().checked_sub(x.shape.rank());
                let fits =
                    lead.is_some_and(|l| x.shape.iter().zip(&to[l..]).all(|(&a, &b)| a == b || a == 1));
                if !fits {
                    return refuse(format!("shape {} does not broadcast to {to}", x.shape));
                }
                one(Shape::checked(name, to)?, x.dtype)
            }
            View::Reshape(to) => {
                let to = Shape::checked(name, to)?;
                if to.elements() != x.elements() {
                    return refuse(format!(
                        "{} elements of shape {} do not fill {to}",
                        x.elements(),
                        x.shape
                    ));
                }
                one(to, x.dtype)
            }
            View::Transpose(perm) => {
                let mut seen: SmallVec<[bool; 8]> = SmallVec::from_elem(false, x.shape.rank());
                let ok = perm.len() == x.shape.rank()
                    && perm
                        .iter()
                        .all(|&p| seen.get_mut(p as usize).is_some_and(|s| !std::mem::replace(s, true)));
                if !ok {
                    return refuse(format!("axes {perm:?} are not a permutation for shape {}", x.shape));
                }
                one(perm.iter().map(|&p| x.shape[p as usize]).collect(), x.dtype)
            }
            View::Slice { start, step, size } => {
                check_window(name, &x.shape, start, step, size)?;
                one(size.clone(), x.dtype)
            }
            View::Bitcast(to) => {
                let (from, to_size) = (x.dtype.size(), to.size());
                if from == to_size {
                    return one(x.shape.clone(), *to);
                }
                let Some((&last, _)) = x.shape.split_last() else {
                    return refuse(format!("a scalar of {} cannot be seen as {to}", x.dtype));
                };
                if !(last * from).is_multiple_of(to_size) {
                    return refuse(format!(
                        "last axis of {} ({last} x {}) is no multiple of {to}",
                        x.shape, x.dtype
                    ));
                }
                one(x.shape.with(x.shape.rank() - 1, last * from / to_size), *to)
            }
            View::Strided { shape, strides, offset } => {
                let shape = Shape::checked(name, shape)?;
                let layout = Layout::strided(shape.clone(), strides, *offset, x.elements());
                if layout.is_none() || *offset > x.elements() {
                    let msg = format!(
                        "shape {shape} with strides {:?} from {offset} does not lie within {} elements",
                        &strides[..],
                        x.elements()
                    );
                    return Err(Error::index(name, msg));
                }
                one(shape, x.dtype)
            }
            View::Contiguous | View::Depends(_) => one(x.shape.clone(), x.dtype),
            View::Split { axis, sizes } => {
                let Some(&n) = x.shape.get(*axis) else {
                    return refuse(format!("axis {axis} is out of range for shape {}", x.shape));
                };
                if sizes.is_empty() || sizes.iter().try_fold(0usize, |a, &s| a.checked_add(s)) != Some(n) {
                    return refuse(format!(
                        "parts {:?} do not add up to axis {axis} of {}",
                        &sizes[..],
                        x.shape
                    ));
                }
                Ok(sizes.iter().map(|&s| Meta { shape: x.shape.with(*axis, s), dtype: x.dtype }).collect())
            }
        }
    }
}

/// Checks that a strided window lies inside a shape.
pub(super) fn check_window(
    op: &'static str,
    shape: &Shape,
    start: &[usize],
    step: &[isize],
    size: &Shape,
) -> Result<()> {
    if start.len() != shape.rank() || step.len() != shape.rank() || size.rank() != shape.rank() {
        return Err(Error::shape(op, format!("a window of {} axes for shape {shape}", start.len())));
    }
    for i in 0..shape.rank() {
        if size[i] == 0 {
            continue;
        }
        let last = start[i] as i128 + (size[i] as i128 - 1) * step[i] as i128;
        if start[i] >= shape[i] || last < 0 || last >= shape[i] as i128 {
            let msg = format!(
                "axis {i}: start {}, step {}, {} elements do not lie within shape {shape}",
                start[i], step[i], size[i]
            );
            return Err(Error::index(op, msg));
        }
    }
    Ok(())
}

impl View {
    pub(super) fn grad(&self) -> Grad {
        match self {
            View::StopGradient => Grad::NonDiff,
            View::Bitcast(_) => Grad::Explicit { jvp: recast, vjp: recast_back },
            View::Identity
            | View::Broadcast(_)
            | View::Reshape(_)
            | View::Transpose(_)
            | View::Slice { .. }
            | View::Strided { .. }
            | View::Contiguous
            | View::Depends(_)
            | View::Split { .. } => Grad::Linear(transpose),
        }
    }
}

/// Complex numbers and pairs of their parts are the same vectors; other bits seen as numbers have no slope.
fn is_linear(from: Dtype, to: Dtype) -> bool {
    from == to || matches!((from, to), (Dtype::F32, Dtype::C64) | (Dtype::C64, Dtype::F32))
}

fn recast(_: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let y = match &tangents[0] {
        Some(t) if is_linear(inputs[0].dtype(), outputs[0].dtype()) => Some(t.view_as(outputs[0].dtype())?),
        Some(_) | None => None,
    };
    Ok(Cotangents::from_iter([y]))
}

fn recast_back(
    _: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    _: &[bool],
) -> Result<Cotangents> {
    recast(&Op::Leaf, outputs, inputs, cotangents)
}

fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], i: usize) -> Result<Option<Array>> {
    let x = &inputs[0];
    let Op::View(view) = op else { return Ok(None) };
    if let View::Depends(_) = view {
        return Ok(cotangents.get(i).cloned().flatten());
    }
    if let View::Split { axis, sizes } = view {
        let parts = cotangents
            .iter()
            .zip(sizes)
            .map(|(c, &n)| match c {
                Some(c) => Ok(c.clone()),
                None => Array::zeros(&x.shape().with(*axis, n), x.dtype()),
            })
            .collect::<Result<Vec<_>>>()?;
        return crate::ops::concatenate(&parts, *axis as i32).map(Some);
    }
    let Some(c) = &cotangents[0] else { return Ok(None) };
    let back = match view {
        View::Identity | View::Contiguous => c.clone(),
        View::Strided { shape, strides, offset } => {
            // What was read adds up where it was read.
            let all = Array::arange_int(0, x.size() as i64, 1, Dtype::I64)?;
            let read = View::Strided { shape: shape.clone(), strides: strides.clone(), offset: *offset };
            let at = Array::from_op(Op::View(read), &[all])?;
            let add = Index::Scatter { axes: SmallVec::from_slice(&[0]), mode: ScatterMode::Add };
            let zeros = Array::zeros(&[x.size()], x.dtype())?;
            Array::from_op(Op::Index(add), &[zeros, c.expand_dims(&[-1])?, at])?.reshape(x.shape())?
        }
        View::Broadcast(to) => {
            let lead = to.rank() - x.rank();
            let axes: Vec<i32> = (0..to.rank())
                .filter(|&a| a < lead || x.shape()[a - lead] != to[a])
                .map(|a| a as i32)
                .collect();
            if axes.is_empty() { c.clone() } else { c.sum(&axes, true)?.reshape(x.shape())? }
        }
        View::Reshape(_) => c.reshape(x.shape())?,
        View::Transpose(perm) => {
            let mut inverse: SmallVec<[u8; 8]> = SmallVec::from_elem(0, perm.len());
            for (i, &p) in perm.iter().enumerate() {
                inverse[p as usize] = i as u8;
            }
            Array::from_op(Op::View(View::Transpose(inverse)), std::slice::from_ref(c))?
        }
        View::Slice { start, step, .. } => {
            let write = Update::Slice { start: start.clone(), step: step.clone() };
            Array::from_op(Op::Update(write), &[x.full_like(0.0)?, c.clone()])?
        }
        View::StopGradient | View::Bitcast(_) | View::Depends(_) | View::Split { .. } => return Ok(None),
    };
    Ok(Some(back))
}

pub(super) fn batched(op: &Op, inputs: &[Array], n: usize) -> Result<Vec<Array>> {
    let Op::View(view) = op else { return Ok(Vec::new()) };
    let x = &inputs[0];
    let shifted = match view {
        View::Identity => View::Identity,
        View::StopGradient => View::StopGradient,
        View::Contiguous => View::Contiguous,
        View::Depends(kept) => View::Depends(*kept),
        View::Strided { shape, strides, offset } => View::Strided {
            shape: prefixed(n, shape),
            strides: std::iter::once((x.size() / n.max(1)) as isize).chain(strides.iter().copied()).collect(),
            offset: *offset,
        },
        View::Broadcast(to) => {
            // New axes go between the batch and the rest.
            let mut dims: Vec<usize> = vec![1; to.rank() + 2 - x.rank()];
            dims[0] = n;
            dims.extend_from_slice(&x.shape()[1..]);
            return Ok(vec![x.reshape(&dims)?.broadcast_to(&prefixed(n, to))?]);
        }
        View::Reshape(to) => View::Reshape(prefixed(n, to)),
        View::Transpose(perm) => {
            View::Transpose(std::iter::once(0).chain(perm.iter().map(|p| p + 1)).collect())
        }
        View::Slice { start, step, size } => View::Slice {
            start: std::iter::once(0).chain(start.iter().copied()).collect(),
            step: std::iter::once(1).chain(step.iter().copied()).collect(),
            size: prefixed(n, size),
        },
        View::Bitcast(to) if x.rank() == 1 && to.size() != x.dtype().size() => {
            return Err(Error::shape("view", format!("a scalar of {} cannot be seen as {to}", x.dtype())));
        }
        View::Bitcast(to) => View::Bitcast(*to),
        View::Split { axis, sizes } => View::Split { axis: axis + 1, sizes: sizes.clone() },
    };
    Ok(Array::from_op_multi(Op::View(shifted), inputs)?.into_iter().collect())
}
