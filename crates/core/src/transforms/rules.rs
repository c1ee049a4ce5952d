//! What the classes of [`Grad`] and [`Batch`] mean: one place for all operations.

use super::{fallback_jvp, fallback_vjp};
use crate::op::{Batch, Cotangents, Create, Grad, Jvp, Op, Partial};
use crate::shape::Shape;
use crate::{Array, Error, Result};
use smallvec::SmallVec;

/// Cotangents of the inputs of an operation.
pub(super) fn vjp(
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let each = |f: &dyn Fn(usize) -> Result<Option<Array>>| -> Result<Cotangents> {
        (0..inputs.len()).map(|i| if wanted[i] { f(i) } else { Ok(None) }).collect()
    };
    match op.grad() {
        Grad::NonDiff => Ok(SmallVec::from_elem(None, inputs.len())),
        Grad::Pointwise(partial) => {
            let Some(c) = &cotangents[0] else { return Ok(SmallVec::from_elem(None, inputs.len())) };
            each(&|i| pointwise(partial, op, inputs, &outputs[0], i, c, true))
        }
        Grad::Linear(transpose) | Grad::Multilinear(transpose) => {
            each(&|i| transpose(op, inputs, cotangents, i))
        }
        Grad::ViaFallback => fallback_vjp(|x| composite(op, x), inputs, cotangents, wanted),
        Grad::Forward(jvp) => transposed(jvp, op, inputs, outputs, cotangents, wanted),
        Grad::Explicit { vjp, .. } => vjp(op, inputs, outputs, cotangents, wanted),
    }
}

/// Tangents of the results of an operation, at least one of whose inputs has one.
pub(super) fn jvp(
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    tangents: &[Option<Array>],
) -> Result<Cotangents> {
    let none = || SmallVec::from_elem(None, outputs.len());
    match op.grad() {
        Grad::NonDiff => Ok(none()),
        Grad::Pointwise(partial) => {
            let mut sum = None;
            for (i, t) in tangents.iter().enumerate() {
                let Some(t) = t else { continue };
                let part = pointwise(partial, op, inputs, &outputs[0], i, t, false)?;
                sum = add(sum, part)?;
            }
            Ok(SmallVec::from_iter([sum]))
        }
        Grad::Linear(_) => {
            let mut full = inputs.to_vec();
            for (x, t) in full.iter_mut().zip(tangents) {
                if x.dtype().is_inexact() {
                    *x = t.clone().map_or_else(|| x.full_like(0.0), Ok)?;
                }
            }
            Ok(Array::from_op_multi(op.clone(), &full)?.into_iter().map(Some).collect())
        }
        Grad::Multilinear(_) => {
            let mut sum: Cotangents = none();
            for (i, t) in tangents.iter().enumerate() {
                let Some(t) = t else { continue };
                let mut full = inputs.to_vec();
                full[i] = t.clone();
                for (s, y) in sum.iter_mut().zip(Array::from_op_multi(op.clone(), &full)?) {
                    *s = add(s.take(), Some(y))?;
                }
            }
            Ok(sum)
        }
        Grad::ViaFallback => fallback_jvp(|x| composite(op, x), inputs, tangents),
        Grad::Forward(jvp) | Grad::Explicit { jvp, .. } => jvp(op, inputs, outputs, tangents),
    }
}

/// The transpose of a forward rule, which is linear in the tangents wherever they are taken.
fn transposed(
    jvp: Jvp,
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let origin = inputs.iter().map(|x| x.full_like(0.0)).collect::<Result<Vec<_>>>()?;
    let forward = |t: &[Array]| -> Result<Vec<Array>> {
        let tangents: Vec<Option<Array>> = t.iter().zip(wanted).map(|(t, &w)| w.then(|| t.clone())).collect();
        let pushed = jvp(op, inputs, outputs, &tangents)?;
        pushed.into_iter().zip(outputs).map(|(p, y)| p.map_or_else(|| y.full_like(0.0), Ok)).collect()
    };
    fallback_vjp(forward, &origin, cotangents, wanted)
}

fn composite(op: &Op, inputs: &[Array]) -> Result<Vec<Array>> {
    op.fallback(inputs)
        .unwrap_or_else(|| Err(Error::value(op.name(), "it has no composite that could be differentiated")))
}

/// One term of an elementwise derivative: `factor` is the cotangent of the result (`adjoint`) or the tangent
/// of argument `i`.
fn pointwise(
    partial: Partial,
    op: &Op,
    inputs: &[Array],
    output: &Array,
    i: usize,
    factor: &Array,
    adjoint: bool,
) -> Result<Option<Array>> {
    let Some(d) = partial(op, inputs, output, i)? else { return Ok(None) };
    if let Op::Create(Create::Full { value, .. }) = d.op() {
        match value.to_f64() {
            1.0 => return Ok(Some(factor.clone())),
            -1.0 => return factor.negative().map(Some),
            _ => {}
        }
    }
    let d = if adjoint && d.dtype().is_complex() { d.conjugate()? } else { d };
    let product = factor.multiply(&d)?;
    if !op.is_singular() {
        return Ok(Some(product));
    }
    // What does not count stays without influence where the slope is infinite.
    let counts = factor.not_equal(&factor.scalar_like(0.0))?;
    Array::select(&counts, &product, &product.scalar_like(0.0)).map(Some)
}

/// Sum of two derivatives, where nothing stands for zeros.
pub(super) fn add(a: Option<Array>, b: Option<Array>) -> Result<Option<Array>> {
    match (a, b) {
        (Some(a), Some(b)) => a.add(&b).map(Some),
        (a, b) => Ok(a.or(b)),
    }
}

/// An array and whether its leading axis is the batch.
pub(super) type MaybeBatched = (Array, bool);

/// Results of an operation for a batch of `n`, the batch axis in front of all of them. At least one input is
/// batched.
pub(super) fn batch(op: &Op, inputs: &[MaybeBatched], n: usize) -> Result<Vec<Array>> {
    let all = || inputs.iter().map(|x| batched(x, n)).collect::<Result<Vec<Array>>>();
    match op.batch() {
        Batch::Pointwise | Batch::LeadingDims => {
            Ok(Array::from_op_multi(op.clone(), &all()?)?.into_iter().collect())
        }
        Batch::ShiftAxes(rule) => rule(op, &all()?, n),
        Batch::Explicit(rule) => {
            let arrays: Vec<Array> = inputs.iter().map(|(a, _)| a.clone()).collect();
            let flags: Vec<bool> = inputs.iter().map(|(_, b)| *b).collect();
            rule(op, &arrays, &flags, n)
        }
        Batch::ViaFallback => {
            let flags: Vec<bool> = inputs.iter().map(|(_, b)| *b).collect();
            let arrays: Vec<Array> = inputs.iter().map(|(a, _)| a.clone()).collect();
            super::vmap::batch_function(|x| composite(op, x), &arrays, &flags, n)
        }
        Batch::Unrolled => {
            let (arrays, flags): (Vec<Array>, Vec<bool>) = inputs.iter().cloned().unzip();
            unrolled(op, &arrays, &flags, n)
        }
    }
}

/// One call for each element.
pub(crate) fn unrolled(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let element = |(a, is_batched): (&Array, &bool), i: usize| {
        if *is_batched { a.slice_axis(0, i, i + 1)?.squeeze(&[0]) } else { Ok(a.clone()) }
    };
    if n == 0 {
        // Of nothing: the shapes come from one element of zeros.
        let one: Vec<Array> = inputs
            .iter()
            .zip(flags)
            .map(|(a, b)| if *b { Array::zeros(&a.shape()[1..], a.dtype()) } else { Ok(a.clone()) })
            .collect::<Result<_>>()?;
        let like = Array::from_op_multi(op.clone(), &one)?;
        return like.iter().map(|y| Array::zeros(&prefixed(0, y.shape()), y.dtype())).collect();
    }
    let mut columns: Vec<Vec<Array>> = Vec::new();
    for i in 0..n {
        let args: Vec<Array> = inputs.iter().zip(flags).map(|x| element(x, i)).collect::<Result<_>>()?;
        let outs = Array::from_op_multi(op.clone(), &args)?;
        columns.resize_with(outs.len(), Vec::new);
        columns.iter_mut().zip(outs).for_each(|(c, y)| c.push(y));
    }
    columns.iter().map(|c| crate::ops::stack(c, 0)).collect()
}

/// With the batch axis in front.
pub(super) fn batched((a, is_batched): &MaybeBatched, n: usize) -> Result<Array> {
    if *is_batched { Ok(a.clone()) } else { a.broadcast_to(&prefixed(n, a.shape())) }
}

/// A shape with an axis in front.
pub(crate) fn prefixed(n: usize, shape: &[usize]) -> Shape {
    std::iter::once(n).chain(shape.iter().copied()).collect()
}
