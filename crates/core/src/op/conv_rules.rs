//! Derivatives and batching of convolutions: each is a convolution again.

use super::{Conv, Grad, Op};
use crate::transforms::prefixed;
use crate::{Array, Result};
use smallvec::SmallVec;

impl Conv {
    pub(super) fn grad(&self) -> Grad {
        Grad::Multilinear(transpose)
    }
}

/// Elements from the first of `n` to the last when neighbours lie `d` apart.
fn spread(n: usize, d: usize) -> i64 {
    if n == 0 { 0 } else { (n as i64 - 1) * d as i64 + 1 }
}

/// `[a * b, rest…]` to `[b * a, rest…]`, where `axis` falls into `a` parts.
fn regroup(x: &Array, axis: usize, parts: usize) -> Result<(Array, usize)> {
    let n = x.shape()[axis];
    let mut split: Vec<usize> = x.shape().to_vec();
    split.splice(axis..=axis, [parts, n / parts]);
    Ok((x.reshape(&split)?, axis))
}

fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], i: usize) -> Result<Option<Array>> {
    let (Op::Conv(conv), Some(c)) = (op, &cotangents[0]) else { return Ok(None) };
    let (x, w) = (&inputs[0], &inputs[1]);
    if x.size() == 0 || w.size() == 0 || c.size() == 0 {
        return inputs[i].full_like(0.0).map(Some);
    }
    let conjugate = |a: &Array| if a.dtype().is_complex() { a.conjugate() } else { Ok(a.clone()) };
    let back =
        if i == 0 { by_input(conv, x, &conjugate(w)?, c) } else { by_weights(conv, &conjugate(x)?, w, c) };
    back.map(Some)
}

/// What each input met: the cotangent, with the strides between its elements, against the weights backwards.
fn by_input(conv: &Conv, x: &Array, w: &Array, c: &Array) -> Result<Array> {
    let axes = x.rank() - 2;
    let mut padding: SmallVec<[(i64, i64); 3]> = SmallVec::new();
    for a in 0..axes {
        let window = spread(w.shape()[a + 1], conv.kernel_dilation[a]);
        let before = window - 1 - conv.padding[a].0;
        let whole = window + (x.shape()[a + 1] as i64 - 1) * conv.input_dilation[a] as i64;
        padding.push((before, whole - spread(c.shape()[a + 1], conv.stride[a]) - before));
    }
    // [groups, features, kernel…, channels] to [groups, channels, kernel…, features].
    let (parts, _) = regroup(w, 0, conv.groups)?;
    let exchanged = parts.swapaxes(1, -1)?;
    let mut shape: Vec<usize> = exchanged.shape().to_vec();
    let channels = shape.remove(1) * shape[0];
    shape[0] = channels;
    let op = Conv {
        stride: conv.input_dilation.clone(),
        padding,
        kernel_dilation: conv.kernel_dilation.clone(),
        input_dilation: conv.stride.clone(),
        groups: conv.groups,
        flip: !conv.flip,
    };
    Array::from_op(Op::Conv(op), &[c.clone(), exchanged.reshape(&shape)?])
}

/// What each weight met: the input against the cotangent, summed over the batch as if it were channels.
fn by_weights(conv: &Conv, x: &Array, w: &Array, c: &Array) -> Result<Array> {
    let axes = x.rank() - 2;
    let (batch, last) = (x.shape()[0], axes + 1);
    // [batch, …, groups, channels] to [channels, …, groups * batch].
    let (parts, _) = regroup(x, last, conv.groups)?;
    let perm: Vec<i32> = std::iter::once(last + 1).chain(1..=last).chain([0]).map(|a| a as i32).collect();
    let parts = parts.transpose(&perm)?;
    let mut shape: Vec<usize> = parts.shape()[..=axes].to_vec();
    shape.push(conv.groups * batch);
    let x = parts.reshape(&shape)?;
    // [batch, …, features] to [features, …, batch].
    let c = c.swapaxes(0, -1)?;
    let mut padding: SmallVec<[(i64, i64); 3]> = SmallVec::new();
    for a in 0..axes {
        let window = spread(c.shape()[a + 1], conv.stride[a]);
        let whole = window + (w.shape()[a + 1] as i64 - 1) * conv.kernel_dilation[a] as i64;
        let before = conv.padding[a].0;
        padding.push((before, whole - spread(x.shape()[a + 1], conv.input_dilation[a]) - before));
    }
    let op = Conv {
        stride: conv.kernel_dilation.clone(),
        padding,
        kernel_dilation: conv.stride.clone(),
        input_dilation: conv.input_dilation.clone(),
        groups: conv.groups,
        flip: false,
    };
    let y = Array::from_op(Op::Conv(op), &[x, c])?.swapaxes(0, -1)?;
    if !conv.flip {
        return Ok(y);
    }
    let mut ranges = vec![(None, None, 1i64); y.rank()];
    ranges[1..=axes].fill((None, None, -1));
    y.slice(&ranges)
}

/// Elements of a batch become rows, features or groups of one convolution.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let Op::Conv(conv) = op else { return Ok(Vec::new()) };
    let (x, w) = (&inputs[0], &inputs[1]);
    let merged = |a: &Array| -> Result<Array> {
        let mut shape: Vec<usize> = a.shape()[1..].to_vec();
        shape[0] *= a.shape()[0];
        a.reshape(&shape)
    };
    if !flags[1] {
        let y = Array::from_op(op.clone(), &[merged(x)?, w.clone()])?;
        let mut shape = prefixed(n, y.shape());
        shape.dims_mut()[1] = x.shape()[1];
        return Ok(vec![y.reshape(&shape)?]);
    }
    let x = if flags[0] { x.clone() } else { x.broadcast_to(&prefixed(n, x.shape()))? };
    // [n, batch, …, channels] to [batch, …, n * channels].
    let moved = x.moveaxis(0, -2)?;
    let mut shape: Vec<usize> = moved.shape()[..moved.rank() - 2].to_vec();
    shape.push(n * x.shape()[x.rank() - 1]);
    let all = Conv { groups: n * conv.groups, ..conv.clone() };
    let y = Array::from_op(Op::Conv(all), &[moved.reshape(&shape)?, merged(w)?])?;
    let mut parted: Vec<usize> = y.shape()[..y.rank() - 1].to_vec();
    parted.extend([n, w.shape()[1]]);
    Ok(vec![y.reshape(&parted)?.moveaxis(-2, 0)?])
}
