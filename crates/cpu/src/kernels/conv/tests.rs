//! Against the definition, over all parameters.

use super::*;
use crate::kernels::testing::Numbers;
use olivine_core::{Dtype, Meta, Op};
use smallvec::SmallVec;

/// The definition, in `f64`.
fn direct(op: &Conv, x: &[f64], xs: &Shape, w: &[f64], ws: &Shape, ys: &Shape) -> Vec<f64> {
    let axes = op.stride.len();
    let (per_group, fg) = (ws[axes + 1], ws[0] / op.groups);
    let index = |mut i: usize, s: &[usize]| -> Vec<usize> {
        let mut at = vec![0; s.len()];
        for d in (0..s.len()).rev() {
            (at[d], i) = (i % s[d], i / s[d]);
        }
        at
    };
    let kernel = &ws[1..axes + 1];
    (0..ys.elements())
        .map(|i| {
            let at = index(i, ys);
            let f = at[axes + 1];
            let mut sum = 0.0;
            'taps: for t in 0..kernel.iter().product::<usize>() {
                let tap = index(t, kernel);
                let mut from = at[0];
                let mut weight = f;
                for d in 0..axes {
                    let p =
                        (at[d + 1] * op.stride[d] + tap[d] * op.kernel_dilation[d]) as i64 - op.padding[d].0;
                    let id = op.input_dilation[d] as i64;
                    if p < 0 || p % id != 0 || p / id >= xs[d + 1] as i64 {
                        continue 'taps;
                    }
                    from = from * xs[d + 1] + (p / id) as usize;
                    let k = if op.flip { kernel[d] - 1 - tap[d] } else { tap[d] };
                    weight = weight * kernel[d] + k;
                }
                for c in 0..per_group {
                    let channel = f / fg * per_group + c;
                    sum += x[from * xs[axes + 1] + channel] * w[weight * per_group + c];
                }
            }
            sum
        })
        .collect()
}

fn check<T: Number + PartialEq + std::fmt::Debug>(
    op: &Conv,
    xs: &Shape,
    ws: &Shape,
    from: impl Fn(f64) -> T,
    dtype: Dtype,
    numbers: &mut Numbers,
) {
    let metas = [Meta::new(xs.clone(), dtype), Meta::new(ws.clone(), dtype)];
    let Ok(outs) = Op::Conv(op.clone()).infer(&[&metas[0], &metas[1]]) else { return };
    let ys = outs[0].shape.clone();
    // Small integers, so that every order of summation gives the same.
    let mut some = |n: usize| -> Vec<f64> { (0..n).map(|_| numbers.below(5) as f64 - 2.0).collect() };
    let (x, w) = (some(xs.elements()), some(ws.elements()));
    let want: Vec<T> = direct(op, &x, xs, &w, ws, &ys).into_iter().map(&from).collect();
    let (x, w): (Vec<T>, Vec<T>) = (x.into_iter().map(&from).collect(), w.into_iter().map(&from).collect());
    let mut y = vec![from(99.0); ys.elements()];
    conv(op, (&x, xs), (&w, ws), (&mut y, &ys)).unwrap();
    assert_eq!(y, want, "{op:?} of {xs} with {ws}");
}

#[test]
fn random_parameters_of_every_type() {
    let mut numbers = Numbers::new(11);
    for round in 0..400 {
        let axes = 1 + numbers.below(3);
        let groups = [1, 1, 2, 3][numbers.below(4)];
        let (cg, fg) = (1 + numbers.below(3), 1 + numbers.below(6));
        let mut dims = |least: usize, most: usize| -> Vec<usize> {
            (0..axes).map(|_| least + numbers.below(most - least + 1)).collect()
        };
        let (input, kernel, stride) = (dims(0, 9), dims(1, 4), dims(1, 3));
        let (kd, id) = (dims(1, 3), dims(1, 3));
        let padding = dims(0, 6).into_iter().zip(dims(0, 6)).map(|(a, b)| (a as i64 - 2, b as i64 - 2));
        let op = Conv {
            stride: SmallVec::from_vec(stride),
            padding: padding.collect(),
            kernel_dilation: SmallVec::from_vec(kd),
            input_dilation: SmallVec::from_vec(id),
            groups,
            flip: numbers.below(2) == 1,
        };
        let xs: Shape = [vec![numbers.below(3)], input, vec![groups * cg]].concat().into_iter().collect();
        let ws: Shape = [vec![groups * fg], kernel, vec![cg]].concat().into_iter().collect();
        match round % 5 {
            0 | 1 => check(&op, &xs, &ws, |v| v as f32, Dtype::F32, &mut numbers),
            2 => check(&op, &xs, &ws, |v| v, Dtype::F64, &mut numbers),
            3 => {
                check(&op, &xs, &ws, f16::from_f64, Dtype::F16, &mut numbers);
                check(&op, &xs, &ws, bf16::from_f64, Dtype::BF16, &mut numbers);
            }
            _ => check(&op, &xs, &ws, |v| C64 { re: v as f32, im: 0.0 }, Dtype::C64, &mut numbers),
        }
    }
}

/// Without the options, over more channels than a block of k has.
#[test]
fn many_channels_and_features() {
    let mut numbers = Numbers::new(5);
    let plain = |axes: usize, groups: usize, pad: i64| Conv {
        stride: SmallVec::from_elem(1, axes),
        padding: SmallVec::from_elem((pad, pad), axes),
        kernel_dilation: SmallVec::from_elem(1, axes),
        input_dilation: SmallVec::from_elem(1, axes),
        groups,
        flip: false,
    };
    for (x, w, groups, pad) in [
        (vec![2, 9, 9, 130], vec![70, 3, 3, 130], 1, 1),
        (vec![1, 5, 1700], vec![40, 3, 1700], 1, 1),
        (vec![1, 6, 1700], vec![40, 1, 1700], 1, 0),
        (vec![2, 12, 12, 70], vec![70, 3, 3, 1], 70, 1),
        (vec![2, 7, 7, 37], vec![74, 5, 5, 1], 37, 2),
        (vec![1, 20, 20, 64], vec![64, 3, 3, 16], 4, 1),
        (vec![1, 4, 4, 4, 8], vec![16, 3, 3, 3, 4], 2, 1),
    ] {
        let op = plain(x.len() - 2, groups, pad);
        let (xs, ws) = (Shape::new(&x), Shape::new(&w));
        check(&op, &xs, &ws, |v| v as f32, Dtype::F32, &mut numbers);
        check(&op, &xs, &ws, bf16::from_f64, Dtype::BF16, &mut numbers);
        check(&op, &xs, &ws, |v| v, Dtype::F64, &mut numbers);
        check(&op, &xs, &ws, |v| C64 { re: v as f32, im: 0.0 }, Dtype::C64, &mut numbers);
    }
}

#[test]
fn complex_numbers_multiply_as_such() {
    let i = C64 { re: 0.0, im: 1.0 };
    let op = Conv {
        stride: SmallVec::from_elem(1, 1),
        padding: SmallVec::from_elem((0, 0), 1),
        kernel_dilation: SmallVec::from_elem(1, 1),
        input_dilation: SmallVec::from_elem(1, 1),
        groups: 2,
        flip: false,
    };
    let (xs, ws, ys) = (Shape::new(&[1, 2, 2]), Shape::new(&[2, 2, 1]), Shape::new(&[1, 1, 2]));
    let mut y = [C64::default(); 2];
    conv(&op, (&[i; 4], &xs), (&[i; 4], &ws), (&mut y, &ys)).unwrap();
    assert_eq!(y, [C64 { re: -2.0, im: 0.0 }; 2]);
    let op = Conv { groups: 1, ..op };
    let (ws, ys) = (Shape::new(&[1, 2, 2]), Shape::new(&[1, 1, 1]));
    let mut y = [C64::default(); 1];
    conv(&op, (&[i; 4], &xs), (&[i; 4], &ws), (&mut y, &ys)).unwrap();
    assert_eq!(y, [C64 { re: -4.0, im: 0.0 }]);
}

#[test]
fn slices_of_other_lengths_are_refused() {
    let op = Conv {
        stride: SmallVec::from_elem(1, 1),
        padding: SmallVec::from_elem((0, 0), 1),
        kernel_dilation: SmallVec::from_elem(1, 1),
        input_dilation: SmallVec::from_elem(1, 1),
        groups: 1,
        flip: false,
    };
    let s = Shape::new(&[1, 2, 1]);
    let mut y = [0.0f32; 2];
    assert!(conv(&op, (&[0.0; 3], &s), (&[0.0; 2], &s), (&mut y, &s)).is_err());
}
