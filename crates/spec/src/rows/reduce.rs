//! Reductions over axes, and indices of extremes.

use super::{Case, Row};
use crate::draw::{Draw, Profile};
use crate::host::{Cx, Data, Host, each, place, strides, wrap};
use olivine_core::op::{Arg, ArgKind, Reduce, ReduceKind};
use olivine_core::shape::AxisSet;
use olivine_core::{Dtype, Kind, Op};

/// A shape with axes to reduce; none of them of size 0 where that has no value.
fn shape_and_axes(d: &mut Draw, fill_axes: bool) -> (Vec<usize>, AxisSet) {
    let mut shape = d.shape(0, 4);
    let rank = shape.len();
    let axes: Vec<i32> = (0..rank as i32).filter(|_| d.rng.chance(60)).collect();
    if fill_axes {
        for &a in &axes {
            shape[a as usize] = shape[a as usize].max(1);
        }
    }
    let set = AxisSet::resolve("rows", &axes, rank).unwrap_or_default();
    (shape, set)
}

pub(super) fn rows() -> Vec<Row> {
    let row = |key: &'static str, kind: ReduceKind| {
        let extreme = matches!(kind, ReduceKind::Max | ReduceKind::Min);
        Row::new(key, Dtype::ALL, move |d, t| {
            let (shape, axes) = shape_and_axes(d, extreme);
            let keepdims = d.rng.chance(50);
            let x = match kind {
                // Numbers near 1, so that long products stay in range.
                ReduceKind::Prod if t.is_inexact() => d.between(&shape, t, 0.99, 1.01),
                ReduceKind::All | ReduceKind::Any => {
                    let mostly = if kind == ReduceKind::All { 95 } else { 5 };
                    d.fill(&shape, t, |d| f64::from(u8::from(d.rng.chance(mostly))))
                }
                ReduceKind::Sum if t.is_inexact() && d.profile == Profile::Special => {
                    d.between(&shape, t, -2.0, 2.0)
                }
                // Which of several complex NaN comes out is open.
                ReduceKind::Max | ReduceKind::Min if t.kind() == Kind::Complex => {
                    d.between(&shape, t, -2.0, 2.0)
                }
                _ => d.numbers(&shape, t),
            };
            Case::new(Op::Reduce(Reduce { kind, axes, keepdims }), vec![x])
        })
    };
    let arg = |key: &'static str, kind: ArgKind| {
        let dtypes = Dtype::ALL.into_iter().filter(|d| d.kind() != Kind::Complex);
        Row::new(key, dtypes, move |d, t| {
            let mut shape = d.shape(1, 4);
            let axis = d.rng.below(shape.len());
            shape[axis] = shape[axis].max(1);
            let keepdims = d.rng.chance(50);
            let x = d.numbers(&shape, t);
            Case::new(Op::Arg(Arg { kind, axis, keepdims }), vec![x])
        })
    };
    // Sums are accumulated wide: the error is that of the last rounding and a little more.
    let sums: fn(Dtype) -> f64 = |d| match d {
        Dtype::F64 => 64.0,
        Dtype::F32 | Dtype::C64 => 8.0,
        _ => 1.5,
    };
    // A product of many factors has a rounding for each in the types that nothing wider stands behind.
    let products: fn(Dtype) -> f64 = |d| match d {
        Dtype::F32 | Dtype::F64 | Dtype::C64 => 2000.0,
        _ => 4.0,
    };
    vec![
        row("sum", ReduceKind::Sum).units(sums),
        row("prod", ReduceKind::Prod).units(products),
        row("max", ReduceKind::Max),
        row("min", ReduceKind::Min),
        row("all", ReduceKind::All),
        row("any", ReduceKind::Any),
        arg("argmin", ArgKind::Min),
        arg("argmax", ArgKind::Max),
    ]
}

/// Type of a sum or product.
pub(super) fn widened(d: Dtype) -> Dtype {
    match d {
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
    }
}

/// Order of complex numbers: by the real, then the imaginary part.
pub(super) fn above(a: Cx, b: Cx) -> bool {
    (a.re, a.im) > (b.re, b.im)
}

/// For every element of the reduced shape, the places of the elements that go into it.
fn groups(shape: &[usize], axes: impl Fn(usize) -> bool, keepdims: bool) -> (Vec<usize>, Vec<Vec<usize>>) {
    let kept: Vec<usize> = (0..shape.len()).map(|i| if axes(i) { 1 } else { shape[i] }).collect();
    let (st, out) = (strides(shape), strides(&kept));
    let mut all = vec![Vec::new(); kept.iter().product()];
    each(shape, |at| {
        let to: Vec<usize> = (0..shape.len()).map(|i| if axes(i) { 0 } else { at[i] }).collect();
        all[place(&to, &out)].push(place(at, &st));
    });
    let named = (0..shape.len()).filter(|&i| keepdims || !axes(i)).map(|i| kept[i]).collect();
    (named, all)
}

pub(super) fn reference(op: &Reduce, x: &Host) -> Host {
    let (shape, groups) = groups(&x.shape, |a| op.axes.contains(a), op.keepdims);
    let out = match op.kind {
        ReduceKind::Sum | ReduceKind::Prod => widened(x.dtype),
        ReduceKind::Max | ReduceKind::Min => x.dtype,
        ReduceKind::All | ReduceKind::Any => Dtype::Bool,
    };
    if out == Dtype::Bool && matches!(op.kind, ReduceKind::All | ReduceKind::Any) {
        let z = x.to_cx();
        let t = |&i: &usize| z[i].re != 0.0 || z[i].im != 0.0;
        let all = op.kind == ReduceKind::All;
        return Host::bools(
            &shape,
            groups.iter().map(|g| if all { g.iter().all(t) } else { g.iter().any(t) }),
        );
    }
    match &x.data {
        Data::Int(v) => {
            let of = |g: &Vec<usize>| {
                let g = g.iter().map(|&i| v[i]);
                match op.kind {
                    ReduceKind::Prod => g.fold(1i128, |a, b| wrap(a.wrapping_mul(b), out)),
                    ReduceKind::Max => g.max().unwrap_or(0),
                    ReduceKind::Min => g.min().unwrap_or(0),
                    ReduceKind::Sum | ReduceKind::All | ReduceKind::Any => wrap(g.sum(), out),
                }
            };
            Host::int(out, &shape, groups.iter().map(of).collect())
        }
        Data::Real(v) => {
            let nan = |g: &Vec<usize>| g.iter().any(|&i| v[i].is_nan());
            let of = |g: &Vec<usize>| {
                let n = g.iter().map(|&i| v[i]);
                match op.kind {
                    ReduceKind::Prod => n.product(),
                    ReduceKind::Max | ReduceKind::Min if nan(g) => f64::NAN,
                    ReduceKind::Max => n.fold(f64::NEG_INFINITY, f64::max),
                    ReduceKind::Min => n.fold(f64::INFINITY, f64::min),
                    ReduceKind::Sum | ReduceKind::All | ReduceKind::Any => n.sum(),
                }
            };
            let h = Host::real(out, &shape, groups.iter().map(of).collect());
            match op.kind {
                ReduceKind::Sum => {
                    let m = groups.iter().map(|g| g.iter().map(|&i| v[i].abs()).sum::<f64>());
                    // Wide accumulation: errors grow with the root of what is summed rather than with it.
                    h.with_magnitude(m.map(|m| m / 8.0).collect())
                }
                _ => h,
            }
        }
        Data::Complex(v) => {
            let of = |g: &Vec<usize>| {
                let n = g.iter().map(|&i| v[i]);
                match op.kind {
                    ReduceKind::Prod => n.fold(Cx::new(1.0, 0.0), |a, b| a * b),
                    ReduceKind::Max => n.reduce(|a, b| if above(b, a) { b } else { a }).unwrap_or_default(),
                    ReduceKind::Min => n.reduce(|a, b| if above(a, b) { b } else { a }).unwrap_or_default(),
                    _ => n.fold(Cx::default(), |a, b| a + b),
                }
            };
            let m = groups.iter().map(|g| g.iter().map(|&i| v[i].abs()).sum::<f64>() / 8.0).collect();
            let h = Host::complex(&shape, groups.iter().map(of).collect());
            if op.kind == ReduceKind::Sum { h.with_magnitude(m) } else { h }
        }
    }
}

pub(super) fn arg(op: &Arg, x: &Host) -> Host {
    let (shape, groups) = groups(&x.shape, |a| a == op.axis, op.keepdims);
    // Better than what was found so far; the first NaN beats everything.
    let first = |n: usize, better: &dyn Fn(usize, usize) -> bool| {
        let mut best = 0;
        for i in 1..n {
            if better(i, best) {
                best = i;
            }
        }
        best as i128
    };
    let max = op.kind == ArgKind::Max;
    let of = |g: &Vec<usize>| match &x.data {
        Data::Int(v) => first(g.len(), &|i, b| {
            let (i, b) = (v[g[i]], v[g[b]]);
            if max { i > b } else { i < b }
        }),
        Data::Real(_) | Data::Complex(_) => {
            let v: Vec<f64> = x.pick(&[g.len()], g).to_f64();
            first(g.len(), &|i, b| {
                !v[b].is_nan() && (v[i].is_nan() || if max { v[i] > v[b] } else { v[i] < v[b] })
            })
        }
    };
    Host::int(Dtype::U32, &shape, groups.iter().map(of).collect())
}
