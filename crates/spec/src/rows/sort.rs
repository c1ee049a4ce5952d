//! Ordering along an axis.

use super::{Case, Row};
use crate::host::{Data, Host, strides};
use olivine_core::op::Sort;
use olivine_core::{Dtype, Op};
use std::cmp::Ordering;

pub(super) fn rows() -> Vec<Row> {
    let row = |key: &'static str, indices: bool, part: bool| {
        Row::new(key, Dtype::ALL, move |d, t| {
            let mut shape = d.shape(1, 4);
            let axis = d.rng.below(shape.len());
            if part {
                shape[axis] = shape[axis].max(1);
            }
            let kth = part.then(|| d.rng.below(shape[axis]));
            let descending = !part && d.rng.chance(40);
            let x = d.numbers(&shape, t);
            Case::new(Op::Sort(Sort { axis, indices, descending, kth }), vec![x])
        })
    };
    vec![
        row("sort", false, false),
        row("argsort", true, false),
        row("partition", false, true).judge(parted),
        row("argpartition", true, true).judge(parted),
    ]
}

/// Order of two elements: NaN comes last, complex numbers by their real and then their imaginary part.
fn order(x: &Host, i: usize, j: usize, descending: bool) -> Ordering {
    let turn = |o: Ordering| if descending { o.reverse() } else { o };
    let real = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => turn(a.partial_cmp(&b).unwrap_or(Ordering::Equal)),
    };
    match &x.data {
        Data::Int(v) => turn(v[i].cmp(&v[j])),
        Data::Real(v) => real(v[i], v[j]),
        Data::Complex(v) => {
            let nan = |k: usize| v[k].re.is_nan() || v[k].im.is_nan();
            match (nan(i), nan(j)) {
                (false, false) => real(v[i].re, v[j].re).then(real(v[i].im, v[j].im)),
                (a, b) => a.cmp(&b),
            }
        }
    }
}

/// Places of the elements of each line along the axis.
fn lines(x: &Host, axis: usize) -> Vec<Vec<usize>> {
    let (n, step) = (x.shape[axis], strides(&x.shape)[axis]);
    let starts = (0..x.len()).filter(|i| i / step % n.max(1) == 0);
    starts.map(|i| (0..n).map(|j| i + j * step).collect()).collect()
}

pub(super) fn reference(op: &Sort, x: &Host) -> Host {
    let mut at: Vec<usize> = (0..x.len()).collect();
    let mut indices = vec![0; x.len()];
    for line in lines(x, op.axis) {
        let mut sorted: Vec<usize> = (0..line.len()).collect();
        sorted.sort_by(|&i, &j| order(x, line[i], line[j], op.descending));
        for (k, &s) in sorted.iter().enumerate() {
            at[line[k]] = line[s];
            indices[line[k]] = s as i128;
        }
    }
    if op.indices { Host::int(Dtype::U32, &x.shape, indices) } else { x.pick(&x.shape, &at) }
}

/// Position `kth` is as if sorted, nothing larger stands before it and nothing smaller after it, and every
/// element is there once.
fn parted(case: &Case, got: &[Host]) -> Result<(), String> {
    let Op::Sort(op) = &case.op else { return Err("no ordering".into()) };
    let x = &case.inputs[0].host;
    let Some(kth) = op.kth else { return Err("no position".into()) };
    let got = &got[0];
    if got.shape != x.shape {
        return Err(format!("shape {:?}, not {:?}", got.shape, x.shape));
    }
    for line in lines(x, op.axis) {
        let result: Vec<usize> = if op.indices {
            let of = got.pick(&[line.len()], &line).to_int();
            let mut seen = of.clone();
            seen.sort_unstable();
            if seen != (0..line.len() as i128).collect::<Vec<_>>() {
                return Err(format!("indices {of:?} are no permutation"));
            }
            of.into_iter().map(|i| line[i as usize]).collect()
        } else {
            line.clone()
        };
        let values = if op.indices { x } else { got };
        let by = |v: &Host, l: &[usize]| {
            let mut l = l.to_vec();
            l.sort_by(|&i, &j| order(v, i, j, false));
            format!("{:?}", v.pick(&[l.len()], &l).data)
        };
        if !op.indices && by(x, &line) != by(got, &line) {
            return Err(format!(
                "elements {:?} are not those of {:?}",
                got.pick(&[line.len()], &line).data,
                x.pick(&[line.len()], &line).data
            ));
        }
        let wrong = result.iter().enumerate().find(|&(i, &r)| {
            let o = order(values, r, result[kth], false);
            (i < kth && o == Ordering::Greater) || (i > kth && o == Ordering::Less)
        });
        if let Some((i, _)) = wrong {
            return Err(format!("position {i} stands on the wrong side of position {kth}"));
        }
    }
    Ok(())
}
