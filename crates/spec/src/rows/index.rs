//! Reading and writing at positions that arrays give.

use super::{Case, Row};
use crate::draw::{Draw, Input, Placement, Profile};
use crate::host::{Cx, Data, Host, each, place, strides, wrap};
use olivine_core::op::{Index, ScatterMode, Sort};
use olivine_core::shape::Shape;
use olivine_core::{Dtype, Kind, Op};

const MODES: [(&str, &str, ScatterMode); 5] = [
    ("scatter", "put_along_axis", ScatterMode::Set),
    ("scatter_add", "put_along_axis_add", ScatterMode::Add),
    ("scatter_prod", "put_along_axis_prod", ScatterMode::Prod),
    ("scatter_max", "put_along_axis_max", ScatterMode::Max),
    ("scatter_min", "put_along_axis_min", ScatterMode::Min),
];

/// Types of index arrays, the small ones where they count far enough.
fn index_type(d: &mut Draw, n: usize) -> Dtype {
    let all = [Dtype::I32, Dtype::U32, Dtype::I64, Dtype::U64, Dtype::I16, Dtype::U8, Dtype::I8];
    d.rng.pick(if n > 100 { &all[..4] } else { &all })
}

/// Positions in an axis of `n`, also from its end.
fn positions(d: &mut Draw, shape: &[usize], n: usize) -> Input {
    let t = index_type(d, n);
    let low = if t.kind() == Kind::Signed { -(n as i64) } else { 0 };
    d.integers(shape, t, low, n as i64 - 1)
}

/// Shape, axes, shape of the index arrays, these, window.
type Drawn = (Vec<usize>, Vec<u8>, Vec<usize>, Vec<Input>, Vec<usize>);

/// An array, the axes that are indexed, index arrays of one shape, and a window that fits.
fn drawn(d: &mut Draw) -> Drawn {
    let mut shape = d.shape(1, 4);
    let axes: Vec<u8> = (0..shape.len() as u8).filter(|_| d.rng.chance(50)).collect();
    let axes = if axes.is_empty() { vec![0] } else { axes };
    let mut at: Vec<usize> = (0..d.rng.below(3)).map(|_| 1 + d.rng.below(5)).collect();
    if d.profile == Profile::Empty && d.rng.chance(50) {
        at.push(0);
    }
    let mut window = shape.clone();
    for (i, n) in shape.iter_mut().enumerate() {
        if axes.contains(&(i as u8)) {
            *n = (*n).max(1);
            window[i] = if d.rng.chance(80) { 1 } else { 1 + d.rng.below(*n) };
        } else {
            window[i] = if d.rng.chance(70) { *n } else { d.rng.below(*n + 1) };
        }
    }
    let indices = axes
        .iter()
        .map(|&a| {
            // The window has to fit behind a position.
            let room = shape[a as usize] - window[a as usize] + 1;
            if window[a as usize] == 1 {
                positions(d, &at, room)
            } else {
                d.integers(&at, Dtype::I32, 0, room as i64 - 1)
            }
        })
        .collect();
    (shape, axes, at, indices, window)
}

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        Row::new("gather", Dtype::ALL, |d, t| {
            let (shape, axes, _, indices, window) = drawn(d);
            let op = Index::Gather { axes: axes.into_iter().collect(), sizes: Shape::new(&window) };
            let mut inputs = vec![d.numbers(&shape, t)];
            inputs.extend(indices);
            Case::new(Op::Index(op), inputs)
        }),
        Row::new("take_along_axis", Dtype::ALL, |d, t| {
            let (shape, axis, indices) = along(d);
            Case::new(Op::Index(Index::TakeAlong { axis }), vec![d.numbers(&shape, t), indices])
        }),
    ];
    rows.push(Row::new(
        "searchsorted",
        Dtype::ALL.into_iter().filter(|d| d.kind() != Kind::Complex),
        |d, t| {
            let n = d.shape(1, 1)[0];
            let mut sorted = d.numbers(&[n], t);
            let op = Sort { axis: 0, indices: false, descending: false, kth: None };
            sorted.host = super::sort::reference(&op, &sorted.host);
            // Elements that are one in memory would no longer be.
            sorted.placement = Placement::Rows;
            let shape = if d.profile == Profile::Big { vec![60] } else { d.shape(0, 3) };
            let right = d.rng.chance(50);
            Case::new(Op::Index(Index::SearchSorted { right }), vec![sorted, d.numbers(&shape, t)])
        },
    ));
    let units: fn(Dtype) -> f64 = |d| if d.size() == 2 { 40.0 } else { 20.0 };
    for (scatter, put, mode) in MODES {
        let ordered = matches!(mode, ScatterMode::Max | ScatterMode::Min);
        let dtypes = || Dtype::ALL.into_iter().filter(move |d| !ordered || d.kind() != Kind::Complex);
        rows.push(
            Row::new(scatter, dtypes(), move |d, t| {
                let (shape, axes, at, indices, window) = drawn(d);
                let updates = [&at[..], &window[..]].concat();
                let mut inputs = vec![values(d, &shape, t, mode), values(d, &updates, t, mode)];
                inputs.extend(indices);
                Case::new(Op::Index(Index::Scatter { axes: axes.into_iter().collect(), mode }), inputs)
            })
            .units(units),
        );
        rows.push(
            Row::new(put, dtypes(), move |d, t| {
                let (shape, axis, indices) = along(d);
                let x = values(d, &shape, t, mode);
                let v = values(d, &indices.host.shape, t, mode);
                Case::new(Op::Index(Index::PutAlong { axis, mode }), vec![x, indices, v])
            })
            .units(units),
        );
    }
    rows
}

/// Elements whose sums and products stay in range.
fn values(d: &mut Draw, shape: &[usize], t: Dtype, mode: ScatterMode) -> Input {
    match mode {
        ScatterMode::Prod if t.is_inexact() => d.between(shape, t, 0.9, 1.1),
        ScatterMode::Add if t.is_inexact() => d.between(shape, t, -2.0, 2.0),
        _ => d.numbers(shape, t),
    }
}

/// An array, an axis, and indices along it.
fn along(d: &mut Draw) -> (Vec<usize>, usize, Input) {
    let mut shape = d.shape(1, 4);
    let axis = d.rng.below(shape.len());
    shape[axis] = shape[axis].max(1);
    let mut at = shape.clone();
    at[axis] = d.rng.below(6);
    let indices = positions(d, &at, shape[axis]);
    (shape, axis, indices)
}

/// A position that may count from the end.
fn resolve(i: i128, n: usize) -> usize {
    (if i < 0 { i + n as i128 } else { i }) as usize
}

/// For every element of the windows, its place in the array.
fn places(x: &[usize], axes: &[u8], indices: &[Host], window: &[usize]) -> Vec<usize> {
    let st = strides(x);
    let n: usize = indices[0].shape.iter().product();
    let indices: Vec<Vec<i128>> = indices.iter().map(Host::to_int).collect();
    let mut at = Vec::new();
    for i in 0..n {
        let mut first = vec![0; x.len()];
        for (&a, v) in axes.iter().zip(&indices) {
            first[a as usize] = resolve(v[i], x[a as usize]);
        }
        each(window, |w| {
            let j: Vec<usize> = first.iter().zip(w).map(|(f, w)| f + w).collect();
            at.push(place(&j, &st));
        });
    }
    at
}

/// The same for indices along one axis.
fn places_along(x: &[usize], axis: usize, indices: &Host) -> Vec<usize> {
    let (st, v) = (strides(x), indices.to_int());
    let (mut at, mut k) = (Vec::new(), 0);
    each(&indices.shape, |i| {
        let mut j = i.to_vec();
        j[axis] = resolve(v[k], x[axis]);
        k += 1;
        at.push(place(&j, &st));
    });
    at
}

pub(super) fn reference(op: &Index, inputs: &[Host]) -> Host {
    let x = &inputs[0];
    match op {
        Index::Gather { axes, sizes } => {
            let at = places(&x.shape, axes, &inputs[1..], sizes);
            x.pick(&[&inputs[1].shape[..], sizes].concat(), &at)
        }
        Index::Scatter { axes, mode } => {
            let window = &inputs[1].shape[inputs[2].shape.len()..];
            combine(x, &inputs[1], &places(&x.shape, axes, &inputs[2..], window), *mode)
        }
        Index::TakeAlong { axis } => x.pick(&inputs[1].shape, &places_along(&x.shape, *axis, &inputs[1])),
        Index::SearchSorted { right } => search(x, &inputs[1], *right),
        Index::PutAlong { axis, mode } => {
            combine(x, &inputs[2], &places_along(&x.shape, *axis, &inputs[1]), *mode)
        }
    }
}

/// How many elements are before each value; also those that equal it when `right`. NaN is after all numbers.
fn search(s: &Host, v: &Host, right: bool) -> Host {
    let less = |a: f64, b: f64| a < b || (b.is_nan() && !a.is_nan());
    let count = |before: &dyn Fn(usize) -> bool| (0..s.len()).filter(|&j| before(j)).count() as i128;
    let out = match (&s.data, &v.data) {
        (Data::Int(s), Data::Int(v)) => {
            v.iter().map(|&v| count(&|j| if right { s[j] <= v } else { s[j] < v })).collect()
        }
        (_, _) => {
            let (s, v) = (s.to_f64(), v.to_f64());
            v.iter().map(|&v| count(&|j| if right { !less(v, s[j]) } else { less(s[j], v) })).collect()
        }
    };
    Host::int(Dtype::U32, &v.shape, out)
}

/// Writes `v` into `x` at these places, in order.
fn combine(x: &Host, v: &Host, at: &[usize], mode: ScatterMode) -> Host {
    let mut out = x.clone();
    let d = x.dtype;
    match (&mut out.data, &v.data) {
        (Data::Int(x), Data::Int(v)) => {
            for (&p, &v) in at.iter().zip(v) {
                x[p] = match mode {
                    ScatterMode::Set => v,
                    ScatterMode::Add if d == Dtype::Bool => x[p] | v,
                    ScatterMode::Add => wrap(x[p] + v, d),
                    ScatterMode::Prod => wrap(x[p].wrapping_mul(v), d),
                    ScatterMode::Max => x[p].max(v),
                    ScatterMode::Min => x[p].min(v),
                };
            }
        }
        (Data::Real(x), Data::Real(v)) => {
            let mut sizes: Vec<f64> = x.iter().map(|x| x.abs()).collect();
            for (&p, &v) in at.iter().zip(v) {
                sizes[p] += v.abs();
                let nan = x[p].is_nan() || v.is_nan();
                x[p] = match mode {
                    ScatterMode::Set => v,
                    ScatterMode::Add => x[p] + v,
                    ScatterMode::Prod => x[p] * v,
                    ScatterMode::Max | ScatterMode::Min if nan => f64::NAN,
                    ScatterMode::Max => x[p].max(v),
                    ScatterMode::Min => x[p].min(v),
                };
            }
            if mode == ScatterMode::Add {
                out.magnitude = Some(sizes);
            }
        }
        (Data::Complex(x), Data::Complex(v)) => {
            let mut sizes: Vec<f64> = x.iter().map(|x| x.abs()).collect();
            for (&p, &v) in at.iter().zip(v) {
                sizes[p] += v.abs();
                x[p] = match mode {
                    ScatterMode::Add => x[p] + v,
                    ScatterMode::Prod => x[p] * v,
                    ScatterMode::Set | ScatterMode::Max | ScatterMode::Min => v,
                };
            }
            if mode == ScatterMode::Add {
                out.magnitude = Some(sizes);
            }
        }
        (_, _) => out.data = Data::Complex(vec![Cx::new(f64::NAN, f64::NAN); x.len()]),
    }
    out
}
