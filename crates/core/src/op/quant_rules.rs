//! Derivatives and batching of packed weights. The packed integers are constants; scales, biases and what is multiplied
//! have derivatives.

use super::{Cotangents, Grad, Op, Packing, Quant};
use crate::transforms::{fallback_jvp, fallback_vjp, prefixed};
use crate::{Array, Dtype, Error, Result};
use smallvec::SmallVec;

impl Quant {
    pub(super) fn grad(self) -> Grad {
        match self {
            Quant::Quantize(_) => Grad::NonDiff,
            Quant::Dequantize { .. } => Grad::Explicit { jvp: unpacked, vjp: unpacked_back },
            Quant::Matmul { .. } => Grad::Explicit { jvp: product, vjp: product_back },
            Quant::GatherMatmul { .. } => Grad::ViaFallback,
        }
    }
}

/// The packed integers as numbers of the scales' type, and the size of a group; nothing for small floats, whose scales
/// are no numbers that have a slope.
fn integers(op: &Op, inputs: &[Array]) -> Result<Option<(Array, usize)>> {
    let (Op::Quant(Quant::Dequantize { packing: Packing::Affine(affine), .. }), [w, scales, biases]) =
        (op, inputs)
    else {
        return Ok(None);
    };
    let plain = Quant::Dequantize { packing: Packing::Affine(*affine), dtype: scales.dtype() };
    let parts = [w.clone(), scales.full_like(1.0)?, biases.full_like(0.0)?];
    Ok(Some((Array::from_op(Op::Quant(plain), &parts)?, affine.group)))
}

/// One for every element of a group.
fn spread(a: &Array, group: usize) -> Result<Array> {
    a.repeat(group, -1)
}

fn unpacked(op: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let Some((q, group)) = integers(op, inputs)? else { return Ok(Cotangents::from_iter([None])) };
    let by_scale = tangents[1].as_ref().map(|t| spread(t, group)?.multiply(&q)).transpose()?;
    let by_bias = tangents[2].as_ref().map(|t| spread(t, group)).transpose()?;
    let y = match (by_scale, by_bias) {
        (Some(a), Some(b)) => Some(a.add(&b)?),
        (a, b) => a.or(b),
    };
    Ok(Cotangents::from_iter([y.map(|y| y.astype(outputs[0].dtype())).transpose()?]))
}

fn unpacked_back(
    op: &Op,
    inputs: &[Array],
    _: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let mut back: Cotangents = SmallVec::from_elem(None, inputs.len());
    let (Some(c), Some((q, group))) = (&cotangents[0], integers(op, inputs)?) else { return Ok(back) };
    let c = c.astype(q.dtype())?;
    let gather = |a: &Array| -> Result<Array> {
        let mut parted: Vec<usize> = a.shape()[..a.rank() - 1].to_vec();
        parted.extend([a.shape()[a.rank() - 1] / group, group]);
        a.reshape(&parted)?.sum(&[-1], false)
    };
    if wanted[1] {
        back[1] = Some(gather(&c.multiply(&q)?)?);
    }
    if wanted[2] {
        back[2] = Some(gather(&c)?);
    }
    Ok(back)
}

fn composite(op: &Op, inputs: &[Array]) -> Result<Vec<Array>> {
    op.fallback(inputs).unwrap_or_else(|| Err(Error::value(op.name(), "it has no composite")))
}

fn product(op: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    if let (Some(t), true) = (&tangents[0], tangents[1..].iter().all(Option::is_none)) {
        // Linear in what is multiplied.
        let mut all = inputs.to_vec();
        all[0] = t.clone();
        return Ok(Cotangents::from_iter([Some(
            Array::from_op(op.clone(), &all)?.astype(outputs[0].dtype())?,
        )]));
    }
    fallback_jvp(|x| composite(op, x), inputs, tangents)
}

fn product_back(
    op: &Op,
    inputs: &[Array],
    _: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    if let (Op::Quant(Quant::Matmul { packing, transpose }), Some(c), false) =
        (op, &cotangents[0], wanted[1..].contains(&true))
        && (inputs[1].rank() == 2 || inputs[1].rank() == inputs[0].rank())
    {
        // The same packed weights the other way round, never unpacked.
        let mut all = inputs.to_vec();
        all[0] = c.clone();
        let other = Quant::Matmul { packing: *packing, transpose: !transpose };
        let mut back: Cotangents = SmallVec::from_elem(None, inputs.len());
        back[0] = Some(Array::from_op(Op::Quant(other), &all)?);
        return Ok(back);
    }
    fallback_vjp(|x| composite(op, x), inputs, cotangents, wanted)
}

/// Weights in front as the operation wants them: without the batch axis, or with all leading axes of `x`. Where indices
/// choose among matrices, those of an element begin behind those of the elements before it.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let expand = |i: usize| -> Result<Array> {
        if flags[i] {
            return Ok(inputs[i].clone());
        }
        inputs[i].broadcast_to(&prefixed(n, inputs[i].shape()))
    };
    if let Op::Quant(Quant::Matmul { .. }) = op
        && !flags[1..].contains(&true)
        && inputs[1].rank() == 2
    {
        return Ok(Array::from_op_multi(op.clone(), inputs)?.into_iter().collect());
    }
    let mut all = (0..inputs.len()).map(expand).collect::<Result<Vec<_>>>()?;
    if let Op::Quant(Quant::GatherMatmul { .. }) = op {
        let at = all.len() - 2;
        for (indices, of) in [(at, 0), (at + 1, 1)] {
            let matrices: usize = all[of].shape()[1..all[of].rank() - 2].iter().product();
            let mut dims = vec![1; all[indices].rank()];
            dims[0] = n;
            let first = Array::arange_int(0, n as i64, 1, Dtype::U32)?;
            let first = first.multiply(&Array::from_scalar(matrices as u32))?.reshape(&dims)?;
            all[indices] = all[indices].add(&first)?;
        }
    }
    Ok(Array::from_op_multi(op.clone(), &all)?.into_iter().collect())
}
