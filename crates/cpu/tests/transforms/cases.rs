//! One function for every family of operations and every way that its rules branch.

use super::{Case, F64, check_batches, check_derivatives, each_case, one, setup};
use olivine_core::op::{Index, Op, ScatterMode, Sort};
use olivine_core::ops::{self, Mask};
use olivine_core::{Array, Dtype, Result};

fn ints(v: &[i32], shape: &[usize]) -> Array {
    Array::from_slice(v, shape).unwrap()
}

fn window(mode: ScatterMode, x: &[Array]) -> Result<Vec<Array>> {
    // Positions (0, 1), (2, 0) and (0, 1) again of a [4, 3] array, windows of [1, 2].
    let at = [ints(&[0, 2, 0], &[3]), ints(&[1, 0, 1], &[3])];
    let op = Index::Scatter { axes: [0u8, 1].into_iter().collect(), mode };
    one(Array::from_op(Op::Index(op), &[x[0].clone(), x[1].clone(), at[0].clone(), at[1].clone()]))
}

fn along(mode: ScatterMode, x: &[Array]) -> Result<Vec<Array>> {
    let at = ints(&[0, 2, 0, 1, 1, 1], &[2, 3]);
    let op = Index::PutAlong { axis: 1, mode };
    one(Array::from_op(Op::Index(op), &[x[0].clone(), at, x[1].clone()]))
}

each_case! {
    unary_everywhere: F64, &[&[2, 3]], (-2.0, 2.0), |x| {
        let x = &x[0];
        Ok(vec![
            x.sin()?, x.cos()?, x.tanh()?, x.exp()?, x.expm1()?, x.sigmoid()?, x.erf()?, x.arctan()?, x.arcsinh()?,
            x.sinh()?, x.cosh()?, x.square()?, x.negative()?, x.abs()?, x.tan()?, x.sign()?, x.floor()?,
        ])
    };
    unary_inside: F64, &[&[5]], (0.1, 0.9), |x| {
        let x = &x[0];
        Ok(vec![
            x.sqrt()?, x.rsqrt()?, x.log()?, x.log2()?, x.log10()?, x.log1p()?, x.arcsin()?, x.arccos()?, x.arctanh()?,
            x.erfinv()?, x.reciprocal()?, x.add(&x.scalar_like(1.0))?.arccosh()?,
        ])
    };
    binary_everywhere: F64, &[&[2, 3], &[3]], (0.2, 2.0), |x| {
        let (a, b) = (&x[0], &x[1]);
        Ok(vec![
            a.add(b)?, a.subtract(b)?, a.multiply(b)?, a.divide(b)?, a.power(b)?, a.maximum(b)?, a.minimum(b)?,
            a.arctan2(b)?, a.logaddexp(b)?, a.remainder(b)?, a.less(b)?, a.floor_divide(b)?,
        ])
    };
    choice: F64, &[&[4], &[4]], (-1.0, 1.0), |x| {
        one(Array::select(&x[0].less(&x[1])?, &x[0].square()?, &x[1].sin()?))
    };
    casts: F64, &[&[4]], (-1.0, 1.0), |x| {
        Ok(vec![x[0].astype(Dtype::I32)?, x[0].square()?.astype(F64)?])
    };
    sums: F64, &[&[2, 3, 4]], (-1.0, 1.0), |x| {
        Ok(vec![
            x[0].sum(&[], false)?, x[0].sum(&[1], false)?, x[0].sum(&[0, 2], true)?, x[0].mean(&[-1], false)?,
            x[0].argmax(1, false)?, x[0].less(&x[0].scalar_like(0.0))?.all(&[0], false)?,
        ])
    };
    products: F64, &[&[2, 3, 5]], (-1.0, 1.0), |x| {
        Ok(vec![x[0].prod(&[], false)?, x[0].prod(&[1], true)?, x[0].prod(&[0, 2], false)?])
    };
    extremes: F64, &[&[2, 3, 4]], (-1.0, 1.0), |x| {
        Ok(vec![x[0].max(&[], false)?, x[0].min(&[1], false)?, x[0].max(&[0, 2], true)?])
    };
    scans: F64, &[&[2, 5]], (-1.0, 1.0), |x| {
        let x = &x[0];
        Ok(vec![
            x.cumsum(1, false, true)?, x.cumsum(0, true, false)?, x.cumprod(1, false, true)?, x.cumprod(1, true, false)?,
            x.cummax(1, false, true)?, x.cummin(1, true, true)?, x.logcumsumexp(1, false, true)?,
            x.logcumsumexp(1, true, true)?,
        ])
    };
    sorts: F64, &[&[3, 5]], (-1.0, 1.0), |x| {
        let x = &x[0];
        Ok(vec![x.sort(1, false)?, x.sort(0, true)?, x.argsort(1, false)?, x.topk(2, 1)?.sum(&[1], false)?])
    };
    views: F64, &[&[2, 3, 4]], (-1.0, 1.0), |x| {
        let x = &x[0];
        let mut all = vec![
            x.reshape(&[6, 4])?, x.transpose(&[2, 0, 1])?, x.slice(&[(None, None, 1), (Some(2), None, -1), (Some(1), None, 2)])?,
            x.expand_dims(&[1])?.broadcast_to(&[2, 5, 3, 4])?, x.slice_axis(1, 1, 3)?,
            x.slice_axis(0, 0, 1)?.broadcast_to(&[7, 3, 4])?,
        ];
        let parts = x.split_sizes(&[1, 3], 2)?;
        all.push(parts[1].square()?);
        Ok(all)
    };
    joins: F64, &[&[2, 3], &[2, 2]], (-1.0, 1.0), |x| {
        Ok(vec![
            ops::concatenate(&[x[0].clone(), x[1].clone(), x[0].clone()], 1)?,
            x[0].slice_update(&x[1], &[0, 1])?,
        ])
    };
    gathers: F64, &[&[4, 3]], (-1.0, 1.0), |x| {
        let at = ints(&[3, -1, 0, 1, 1, 1], &[2, 3]);
        Ok(vec![x[0].take(&at, 0)?, x[0].take(&at.slice_axis(0, 1, 2)?, 1)?, x[0].take_along_axis(&ints(&[0, 3, 0], &[1, 3]), 0)?])
    };
    // Both the array and the positions depend on the element.
    gathers_at_values: F64, &[&[4], &[3]], (0.0, 3.9), |x| {
        one(x[0].take(&x[1].astype(Dtype::I32)?, 0)?.multiply(&x[1]))
    };
    scatters_set: F64, &[&[4, 3], &[3, 1, 2]], (-1.0, 1.0), |x| window(ScatterMode::Set, x);
    scatters_add: F64, &[&[4, 3], &[3, 1, 2]], (-1.0, 1.0), |x| window(ScatterMode::Add, x);
    scatters_prod: F64, &[&[4, 3], &[3, 1, 2]], (-1.0, 1.0), |x| window(ScatterMode::Prod, x);
    scatters_max: F64, &[&[4, 3], &[3, 1, 2]], (-1.0, 1.0), |x| window(ScatterMode::Max, x);
    scatters_min: F64, &[&[4, 3], &[3, 1, 2]], (-1.0, 1.0), |x| window(ScatterMode::Min, x);
    puts_set: F64, &[&[2, 4], &[2, 3]], (-1.0, 1.0), |x| along(ScatterMode::Set, x);
    puts_add: F64, &[&[2, 4], &[2, 3]], (-1.0, 1.0), |x| along(ScatterMode::Add, x);
    puts_prod: F64, &[&[2, 4], &[2, 3]], (-1.0, 1.0), |x| along(ScatterMode::Prod, x);
    puts_max: F64, &[&[2, 4], &[2, 3]], (-1.0, 1.0), |x| along(ScatterMode::Max, x);
    matrices: F64, &[&[2, 3], &[3, 4]], (-1.0, 1.0), |x| one(x[0].matmul(&x[1]));
    matrices_of_a_batch: F64, &[&[2, 2, 3], &[2, 3, 2]], (-1.0, 1.0), |x| one(x[0].matmul(&x[1]));
    vectors: F64, &[&[3], &[3, 2]], (-1.0, 1.0), |x| one(x[0].matmul(&x[1]));
    softmaxes: F64, &[&[2, 4]], (-2.0, 2.0), |x| {
        Ok(vec![x[0].softmax(-1)?, x[0].softmax(0)?, x[0].logsumexp(1, false)?, x[0].logsumexp(0, true)?])
    };
    norms: F64, &[&[2, 4], &[4], &[4]], (0.1, 1.0), |x| {
        Ok(vec![
            x[0].rms_norm(Some(&x[1]), 1e-5)?, x[0].layer_norm(Some(&x[1]), Some(&x[2]), 1e-5)?,
            x[0].layer_norm(None, Some(&x[2]), 1e-5)?, x[0].rms_norm(None, 1e-5)?,
        ])
    };
    rotations: Dtype::F32, &[&[2, 3, 4, 6]], (-1.0, 1.0), |x| {
        let offsets = ints(&[1, 5], &[2]);
        Ok(vec![x[0].rope(4, true, 100.0, 1.0, &offsets, None)?, x[0].rope(6, false, 100.0, 0.5, &ints(&[2], &[]), None)?])
    };
    attentions: Dtype::F32, &[&[1, 4, 3, 4], &[1, 2, 5, 4], &[1, 2, 5, 3]], (-1.0, 1.0), |x| {
        let causal = Array::scaled_dot_product_attention(&x[0], &x[1], &x[2], 0.5, &Mask::Causal, None)?;
        Ok(vec![causal, Array::scaled_dot_product_attention(&x[0], &x[1], &x[2], 0.7, &Mask::None, None)?])
    };
}

#[test]
fn partitions_differentiate_as_sorts_do() {
    setup();
    let c = Case {
        name: "partition",
        shapes: &[&[6]],
        range: (-1.0, 1.0),
        dtype: F64,
        f: |x| {
            let op = Sort { axis: 0, indices: false, descending: false, kth: Some(2) };
            let y = Array::from_op(Op::Sort(op), &[x[0].clone()])?;
            one(y.slice_axis(0, 2, 3)?.square())
        },
    };
    check_derivatives(&c);
    check_batches(&c);
}
