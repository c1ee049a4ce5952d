//! The same elements in other places: choice, views, joining, writing parts.

use super::{Case, Row};
use crate::draw::{Draw, Profile};
use crate::host::{Host, each, place, strides};
use olivine_core::op::{Update, View};
use olivine_core::shape::Shape;
use olivine_core::{Dtype, Op};

pub(super) fn rows() -> Vec<Row> {
    let view = |key: &'static str, low: usize, f: fn(&mut Draw, &[usize]) -> View| {
        Row::new(key, Dtype::ALL, move |d, t| {
            let shape = d.shape(low, 4);
            let op = Op::View(f(d, &shape));
            Case::new(op, vec![d.numbers(&shape, t)])
        })
    };
    vec![
        Row::new("where", Dtype::ALL, |d, t| {
            let shape = d.shape(0, 4);
            let condition = d.integers(&shape, Dtype::Bool, 0, 1);
            let x = d.numbers(&shape, t);
            Case::new(Op::Select, vec![condition, x, d.numbers(&shape, t)])
        }),
        Row::new("broadcast_to", Dtype::ALL, |d, t| {
            let full = d.shape(0, 4);
            let skip = d.rng.below(full.len() + 1);
            let shape: Vec<usize> =
                full[skip..].iter().map(|&n| if d.rng.chance(50) { 1 } else { n }).collect();
            Case::new(Op::View(View::Broadcast(Shape::new(&full))), vec![d.numbers(&shape, t)])
        }),
        view("reshape", 0, |d, shape| View::Reshape(Shape::new(&regrouped(d, shape)))),
        view("transpose", 0, |d, shape| {
            let mut perm: Vec<u8> = (0..shape.len() as u8).collect();
            for i in (1..perm.len()).rev() {
                let j = d.rng.below(i + 1);
                perm.swap(i, j);
            }
            View::Transpose(perm.into_iter().collect())
        }),
        view("slice", 0, |d, shape| {
            let (start, step, size) = window(d, shape);
            View::Slice {
                start: start.into_iter().collect(),
                step: step.into_iter().collect(),
                size: Shape::new(&size),
            }
        }),
        Row::new("view", Dtype::ALL, |d, t| {
            let to = d.rng.pick(&Dtype::ALL);
            let mut shape = d.shape(usize::from(to.size() != t.size()), 4);
            if let Some(last) = shape.last_mut()
                && to.size() > t.size()
            {
                *last *= to.size() / t.size();
            }
            // Bytes other than 0 and 1 are no truth values, whose bytes are not promised.
            let x = if to == Dtype::Bool { d.integers(&shape, t, 0, 0) } else { d.numbers(&shape, t) };
            Case::new(Op::View(View::Bitcast(to)), vec![x])
        }),
        view("contiguous", 0, |_, _| View::Contiguous),
        view("identity", 0, |_, _| View::Identity),
        view("stop_gradient", 0, |_, _| View::StopGradient),
        Row::new("depends", Dtype::ALL, |d, t| {
            let (a, b) = (d.shape(0, 3), d.shape(0, 3));
            let count = d.rng.below(2) + 1;
            let inputs = vec![d.numbers(&a, t), d.numbers(&b, Dtype::I32), d.numbers(&a, Dtype::F32)];
            Case::new(Op::View(View::Depends(count)), inputs)
        }),
        view("as_strided", 1, |d, shape| {
            let n: usize = shape.iter().product();
            let (mut size, mut step, mut first, mut left) = (Vec::new(), Vec::new(), 0, n.saturating_sub(1));
            for _ in 0..d.rng.below(4) {
                let by = d.rng.below(4).min(left);
                let count =
                    if n == 0 { 0 } else { 1 + d.rng.below(left.checked_div(by).unwrap_or(3).min(6) + 1) };
                let span = by * count.saturating_sub(1);
                left -= span;
                let back = d.rng.chance(30);
                first += if back { span } else { 0 };
                size.push(count);
                step.push(if back { -(by as isize) } else { by as isize });
            }
            if n == 0 && size.is_empty() {
                size.push(0);
                step.push(1);
            }
            View::Strided { shape: Shape::new(&size), strides: step.into_iter().collect(), offset: first }
        }),
        view("split", 1, |d, shape| {
            let axis = d.rng.below(shape.len());
            let mut left = shape[axis];
            let mut sizes = Vec::new();
            for _ in 0..d.rng.below(3) {
                sizes.push(d.rng.below(left + 1));
                left -= sizes[sizes.len() - 1];
            }
            sizes.push(left);
            View::Split { axis, sizes: sizes.into_iter().collect() }
        }),
        Row::new("concatenate", Dtype::ALL, |d, t| {
            let shape = d.shape(1, 4);
            let axis = d.rng.below(shape.len());
            let count = 1 + d.rng.below(4);
            let inputs = (0..count).map(|_| {
                let mut shape = shape.clone();
                if d.profile != Profile::Big {
                    shape[axis] = d.rng.below(6);
                }
                d.numbers(&shape, t)
            });
            let inputs = inputs.collect();
            Case::new(Op::Update(Update::Concat { axis }), inputs)
        }),
        Row::new("slice_update", Dtype::ALL, |d, t| {
            let shape = d.shape(0, 4);
            let (start, step, size) = window(d, &shape);
            let op = Update::Slice { start: start.into_iter().collect(), step: step.into_iter().collect() };
            let x = d.numbers(&shape, t);
            Case::new(Op::Update(op), vec![x, d.numbers(&size, t)])
        }),
    ]
}

/// Other sizes for as many elements.
fn regrouped(d: &mut Draw, shape: &[usize]) -> Vec<usize> {
    let mut left: usize = shape.iter().product();
    if left == 0 {
        return [shape, &[1 + d.rng.below(3)]].concat();
    }
    let mut out = Vec::new();
    while left > 1 && out.len() < 4 {
        let divisors: Vec<usize> = (1..=left.min(70)).filter(|n| left.is_multiple_of(*n)).collect();
        let n = d.rng.pick(&divisors);
        out.push(n);
        left /= n;
    }
    if left > 1 {
        out.push(left);
    }
    out
}

type Window = (Vec<usize>, Vec<isize>, Vec<usize>);

/// A strided window within a shape.
fn window(d: &mut Draw, shape: &[usize]) -> Window {
    let (mut start, mut step, mut size) = (Vec::new(), Vec::new(), Vec::new());
    for &n in shape {
        if n == 0 || d.rng.chance(5) {
            start.push(0);
            step.push(1);
            size.push(0);
            continue;
        }
        let by = 1 + d.rng.below(3);
        let most = n.div_ceil(by);
        let count = 1 + d.rng.below(most);
        let span = (count - 1) * by;
        let first = d.rng.below(n - span);
        if d.rng.chance(40) {
            start.push(first + span);
            step.push(-(by as isize));
        } else {
            start.push(first);
            step.push(by as isize);
        }
        size.push(count);
    }
    (start, step, size)
}

pub(super) fn select(inputs: &[Host]) -> Host {
    let c = inputs[0].to_int();
    let (a, b) = (&inputs[1], &inputs[2]);
    let n = a.len();
    // Both one after the other, and for each element a place in one of them.
    let both = Host::from_bytes(a.dtype, &[2 * n], &[a.to_bytes(), b.to_bytes()].concat());
    let at: Vec<usize> = (0..n).map(|i| if c[i] != 0 { i } else { n + i }).collect();
    both.pick(&a.shape, &at)
}

/// Places of a strided window within a shape, row-major.
fn places(shape: &[usize], start: &[usize], step: &[isize], size: &[usize]) -> Vec<usize> {
    let st = strides(shape);
    let mut at = Vec::new();
    each(size, |i| {
        let j: Vec<usize> =
            (0..i.len()).map(|a| (start[a] as isize + i[a] as isize * step[a]) as usize).collect();
        at.push(place(&j, &st));
    });
    at
}

pub(super) fn view(op: &View, inputs: &[Host]) -> Vec<Host> {
    let x = &inputs[0];
    let st = strides(&x.shape);
    let mut at = Vec::new();
    let one = match op {
        View::Broadcast(to) => {
            let lead = to.rank() - x.shape.len();
            each(to, |i| {
                let j: Vec<usize> = x.shape.iter().zip(&i[lead..]).map(|(&n, &i)| i.min(n - 1)).collect();
                at.push(place(&j, &st));
            });
            x.pick(to, &at)
        }
        View::Reshape(to) => x.pick(to, &(0..x.len()).collect::<Vec<_>>()),
        View::Transpose(perm) => {
            let shape: Vec<usize> = perm.iter().map(|&p| x.shape[p as usize]).collect();
            each(&shape, |i| at.push(i.iter().zip(perm).map(|(&i, &p)| i * st[p as usize]).sum()));
            x.pick(&shape, &at)
        }
        View::Identity | View::Contiguous | View::StopGradient => x.clone(),
        View::Depends(n) => return inputs[..*n].to_vec(),
        View::Strided { shape, strides, offset } => {
            each(shape, |i| {
                let steps = i.iter().zip(strides).map(|(&i, &s)| i as isize * s).sum::<isize>();
                at.push((*offset as isize + steps) as usize);
            });
            x.pick(shape, &at)
        }
        View::Slice { start, step, size } => x.pick(size, &places(&x.shape, start, step, size)),
        View::Bitcast(to) => {
            let mut shape = x.shape.clone();
            if let Some(last) = shape.last_mut() {
                *last = *last * x.dtype.size() / to.size();
            }
            Host::from_bytes(*to, &shape, &x.to_bytes())
        }
        View::Split { axis, sizes } => {
            let mut first = 0;
            let part = |&n: &usize| {
                let (mut start, mut size) = (vec![0; x.shape.len()], x.shape.clone());
                (start[*axis], size[*axis]) = (first, n);
                first += n;
                x.pick(&size, &places(&x.shape, &start, &vec![1; start.len()], &size))
            };
            return sizes.iter().map(part).collect();
        }
    };
    vec![one]
}

pub(super) fn update(op: &Update, inputs: &[Host]) -> Host {
    // All elements one after the other, and for each of the result a place among them.
    let bytes: Vec<u8> = inputs.iter().flat_map(Host::to_bytes).collect();
    let all = Host::from_bytes(inputs[0].dtype, &[inputs.iter().map(Host::len).sum()], &bytes);
    let mut shape = inputs[0].shape.clone();
    match op {
        Update::Concat { axis } => {
            shape[*axis] = inputs.iter().map(|h| h.shape[*axis]).sum();
            let mut at = Vec::new();
            each(&shape, |i| {
                let (mut i, mut before) = (i.to_vec(), 0);
                for h in inputs {
                    if i[*axis] < h.shape[*axis] {
                        at.push(before + place(&i, &strides(&h.shape)));
                        return;
                    }
                    i[*axis] -= h.shape[*axis];
                    before += h.len();
                }
            });
            all.pick(&shape, &at)
        }
        Update::Slice { start, step } => {
            let mut at: Vec<usize> = (0..inputs[0].len()).collect();
            for (k, p) in places(&shape, start, step, &inputs[1].shape).into_iter().enumerate() {
                at[p] = inputs[0].len() + k;
            }
            all.pick(&shape, &at)
        }
    }
}
