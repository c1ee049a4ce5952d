//! Convolutions.

use super::{Case, Row};
use crate::draw::{Draw, Profile};
use crate::host::{Cx, Data, Host, strides};
use olivine_core::op::Conv;
use olivine_core::{Dtype, Meta, Op, Shape};

/// Errors of a sum of products against the sum of the sizes of its terms.
fn units(d: Dtype) -> f64 {
    if d.size() == 2 { 1.5 } else { 6.0 }
}

fn one(d: &mut Draw, t: Dtype) -> Case {
    // Parameters that leave no window are drawn again.
    loop {
        let axes = 1 + d.rng.below(3);
        let groups = d.rng.pick(&[1, 1, 2, 3]);
        let most = if d.profile == Profile::Big { 20 } else { 4 };
        let (per_group, features) = (1 + d.rng.below(most), groups * (1 + d.rng.below(most)));
        let mut sizes = |low: usize, high: usize| -> Vec<usize> {
            (0..axes).map(|_| low + d.rng.below(high - low + 1)).collect()
        };
        let (input, kernel) = (sizes(1, 8), sizes(1, 3));
        let (stride, kernel_dilation, input_dilation) = (sizes(1, 3), sizes(1, 2), sizes(1, 3));
        let padding = sizes(0, 5).into_iter().zip(sizes(0, 5)).map(|(a, b)| (a as i64 - 2, b as i64 - 2));
        let op = Conv {
            stride: stride.into(),
            padding: padding.collect(),
            kernel_dilation: kernel_dilation.into(),
            input_dilation: input_dilation.into(),
            groups,
            flip: d.rng.chance(50),
        };
        let batch = if d.profile == Profile::Empty { 0 } else { 1 + d.rng.below(3) };
        let xs = [&[batch], &input[..], &[groups * per_group]].concat();
        let ws = [&[features], &kernel[..], &[per_group]].concat();
        let op = Op::Conv(op);
        let metas = [Meta::new(Shape::new(&xs), t), Meta::new(Shape::new(&ws), t)];
        if op.infer(&[&metas[0], &metas[1]]).is_ok() {
            return Case::new(op, vec![d.between(&xs, t, -2.0, 2.0), d.between(&ws, t, -2.0, 2.0)]);
        }
    }
}

pub(super) fn rows() -> Vec<Row> {
    vec![Row::new("conv", Dtype::ALL.into_iter().filter(|d| d.is_inexact()), one).units(units)]
}

fn index(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (a, n) in at.iter_mut().zip(shape).rev() {
        (*a, i) = (i % n, i / n);
    }
    at
}

pub(super) fn reference(op: &Conv, inputs: &[Host]) -> Host {
    let (x, w) = (&inputs[0], &inputs[1]);
    let axes = op.stride.len();
    let metas = inputs.iter().map(|h| Meta::new(Shape::new(&h.shape), h.dtype)).collect::<Vec<_>>();
    let shape = match Op::Conv(op.clone()).infer(&[&metas[0], &metas[1]]) {
        Ok(outs) => outs[0].shape.to_vec(),
        Err(_) => vec![0],
    };
    let (xv, wv, xs, ws) = (x.to_cx(), w.to_cx(), strides(&x.shape), strides(&w.shape));
    let (own, per_feature) = (w.shape[axes + 1], w.shape[0] / op.groups);
    let kernel = &w.shape[1..=axes];
    let (mut out, mut sizes) = (Vec::new(), Vec::new());
    for i in 0..shape.iter().product() {
        let at = index(i, &shape);
        let (mut sum, mut size) = (Cx::default(), 0.0);
        for t in 0..kernel.iter().product() {
            let tap = index(t, kernel);
            let places: Option<Vec<usize>> = (0..axes)
                .map(|d| {
                    let p =
                        (at[d + 1] * op.stride[d] + tap[d] * op.kernel_dilation[d]) as i64 - op.padding[d].0;
                    let q = p / op.input_dilation[d] as i64;
                    let meets = p >= 0 && p % op.input_dilation[d] as i64 == 0;
                    (meets && q < x.shape[d + 1] as i64).then_some(q as usize)
                })
                .collect();
            let Some(places) = places else { continue };
            let k = |d: usize| if op.flip { kernel[d] - 1 - tap[d] } else { tap[d] };
            let from = at[0] * xs[0] + (0..axes).map(|d| places[d] * xs[d + 1]).sum::<usize>();
            let feature = at[axes + 1];
            let weight = feature * ws[0] + (0..axes).map(|d| k(d) * ws[d + 1]).sum::<usize>();
            for c in 0..own {
                let z = xv[from + feature / per_feature * own + c] * wv[weight + c];
                (sum, size) = (sum + z, size + z.abs());
            }
        }
        out.push(sum);
        sizes.push(size);
    }
    match x.data {
        Data::Complex(_) => Host::complex(&shape, out),
        Data::Real(_) | Data::Int(_) => Host::real(x.dtype, &shape, out.into_iter().map(|z| z.re).collect()),
    }
    .with_magnitude(sizes)
}
