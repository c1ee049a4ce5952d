//! Reductions over axes.

use super::{Cotangents, Grad, Meta, Metas, Op, arity, one};
use crate::shape::{AxisSet, Shape};
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// What a reduction computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
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

impl Reduce {
    pub(super) fn grad(&self) -> Grad {
        match self.kind {
            ReduceKind::Sum => Grad::Linear(transpose),
            ReduceKind::Prod => Grad::ViaFallback,
            ReduceKind::Max | ReduceKind::Min => Grad::Explicit { jvp, vjp },
            ReduceKind::All | ReduceKind::Any => Grad::NonDiff,
        }
    }

    /// A product by halves, whose derivative is right where factors are 0.
    pub(super) fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        match self.kind {
            ReduceKind::Prod => Some(self.product_by_halves(&inputs[0]).map(|y| vec![y])),
            ReduceKind::Sum | ReduceKind::Max | ReduceKind::Min | ReduceKind::All | ReduceKind::Any => None,
        }
    }

    fn product_by_halves(&self, x: &Array) -> Result<Array> {
        let x = x.astype(Self::output(self.kind, x.dtype()))?;
        let kept: Vec<usize> = (0..x.rank()).filter(|&a| !self.axes.contains(a)).collect();
        let perm: Vec<i32> = kept.iter().copied().chain(self.axes.iter()).map(|a| a as i32).collect();
        let n: usize = self.axes.iter().map(|a| x.shape()[a]).product();
        let rows: Vec<usize> = kept.iter().map(|&a| x.shape()[a]).chain([n]).collect();
        let mut y = x.transpose(&perm)?.reshape(&rows)?;
        let mut n = n;
        while n > 1 {
            let half = n / 2;
            let mut next = y.slice_axis(-1, 0, half)?.multiply(&y.slice_axis(-1, half, 2 * half)?)?;
            if n % 2 == 1 {
                next = crate::ops::concatenate(&[next, y.slice_axis(-1, n - 1, n)?], -1)?;
            }
            (y, n) = (next, n.div_ceil(2));
        }
        let to = reduced(x.shape(), self.axes, self.keepdims);
        if n == 0 { Array::ones(&to, y.dtype()) } else { y.reshape(&to) }
    }
}

/// A result of the reduction beside each element that it came from.
fn spread(reduce: &Reduce, y: &Array, to: &Shape) -> Result<Array> {
    y.reshape(&reduced(to, reduce.axes, true))?.broadcast_to(to)
}

fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], _: usize) -> Result<Option<Array>> {
    let (Op::Reduce(r), Some(c)) = (op, &cotangents[0]) else { return Ok(None) };
    spread(r, c, inputs[0].shape())?.astype(inputs[0].dtype()).map(Some)
}

/// The share of each element in the extreme: equal ones share alike.
fn shares(r: &Reduce, x: &Array, y: &Array) -> Result<Array> {
    let hit = x.equal(&spread(r, y, x.shape())?)?.astype(x.dtype())?;
    let axes: Vec<i32> = r.axes.iter().map(|a| a as i32).collect();
    if axes.is_empty() {
        return Ok(hit);
    }
    // All NaN: nobody shares.
    let count = hit.sum(&axes, true)?;
    hit.divide(&count.maximum(&count.scalar_like(1.0))?)
}

fn jvp(op: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let (Op::Reduce(r), Some(t)) = (op, &tangents[0]) else { return Ok(Cotangents::from_iter([None])) };
    let part = shares(r, &inputs[0], &outputs[0])?.multiply(t)?;
    let sum = Reduce { kind: ReduceKind::Sum, ..*r };
    Ok(Cotangents::from_iter([Some(Array::from_op(Op::Reduce(sum), &[part])?)]))
}

fn vjp(
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    _: &[bool],
) -> Result<Cotangents> {
    let (Op::Reduce(r), Some(c)) = (op, &cotangents[0]) else { return Ok(Cotangents::from_iter([None])) };
    let c = spread(r, c, inputs[0].shape())?;
    Ok(Cotangents::from_iter([Some(shares(r, &inputs[0], &outputs[0])?.multiply(&c)?)]))
}

pub(super) fn batched(op: &Op, inputs: &[Array], _: usize) -> Result<Vec<Array>> {
    let Op::Reduce(r) = op else { return Ok(Vec::new()) };
    let shifted = Reduce { axes: r.axes.shifted(inputs[0].rank())?, ..*r };
    Ok(vec![Array::from_op(Op::Reduce(shifted), inputs)?])
}
