//! Running reductions along an axis.

use super::reduce::{above, widened};
use super::{Case, FLOATS, Row};
use crate::draw::Profile;
use crate::host::{Cx, Data, Host, strides, wrap};
use olivine_core::op::{Scan, ScanKind};
use olivine_core::{Dtype, Kind, Op};

pub(super) fn rows() -> Vec<Row> {
    let row = |key: &'static str, kind: ScanKind, dtypes: Vec<Dtype>| {
        Row::new(key, dtypes, move |d, t| {
            let shape = d.shape(1, 4);
            let axis = d.rng.below(shape.len());
            let (reverse, inclusive) = (d.rng.chance(40), d.rng.chance(60));
            let x = match kind {
                ScanKind::Prod if t.is_inexact() => d.between(&shape, t, 0.99, 1.01),
                ScanKind::Sum if t.is_inexact() && d.profile == Profile::Special => {
                    d.between(&shape, t, -2.0, 2.0)
                }
                ScanKind::Max | ScanKind::Min if t.kind() == Kind::Complex => d.between(&shape, t, -2.0, 2.0),
                _ => d.numbers(&shape, t),
            };
            Case::new(Op::Scan(Scan { kind, axis, reverse, inclusive }), vec![x])
        })
    };
    let all = || Dtype::ALL.to_vec();
    // Running sums of a type are rounded at every step, if not accumulated wider.
    let steps: fn(Dtype) -> f64 = |d| match d {
        Dtype::F16 | Dtype::BF16 => 2.0,
        _ => 64.0,
    };
    vec![
        row("cumsum", ScanKind::Sum, all()).units(steps),
        row("cumprod", ScanKind::Prod, all()).units(|d| if d.size() == 2 { 4.0 } else { 4000.0 }),
        row("cummax", ScanKind::Max, all()),
        row("cummin", ScanKind::Min, all()),
        row("logcumsumexp", ScanKind::LogSumExp, FLOATS.to_vec()).units(|_| 64.0),
    ]
}

/// `f(so far, element)` along an axis from `first`, in order.
fn along<T: Copy>(op: &Scan, shape: &[usize], v: &[T], first: T, f: impl Fn(T, T) -> T) -> Vec<T> {
    let (n, step) = (shape[op.axis], strides(shape)[op.axis]);
    let mut out = v.to_vec();
    for i in 0..v.len() {
        if i / step % n.max(1) != 0 {
            continue;
        }
        let mut so_far = first;
        for j in 0..n {
            let at = i + step * if op.reverse { n - 1 - j } else { j };
            if !op.inclusive {
                out[at] = so_far;
            }
            so_far = f(so_far, v[at]);
            if op.inclusive {
                out[at] = so_far;
            }
        }
    }
    out
}

fn logaddexp(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return f64::NAN;
    }
    let (low, high) = (a.min(b), a.max(b));
    if high.is_infinite() || low == f64::NEG_INFINITY {
        return high;
    }
    high + (low - high).exp().ln_1p()
}

pub(super) fn reference(op: &Scan, x: &Host) -> Host {
    let d = match op.kind {
        ScanKind::Sum | ScanKind::Prod => widened(x.dtype),
        ScanKind::Max | ScanKind::Min | ScanKind::LogSumExp => x.dtype,
    };
    let shape = &x.shape;
    let inf = f64::INFINITY;
    let nan = |a: f64, b: f64, of: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { of };
    match &x.data {
        Data::Int(v) => {
            let (low, high) = crate::host::limits(d);
            let out = match op.kind {
                ScanKind::Prod => along(op, shape, v, 1, |a, b| wrap(a.wrapping_mul(b), d)),
                ScanKind::Max => along(op, shape, v, low, i128::max),
                ScanKind::Min => along(op, shape, v, high, i128::min),
                ScanKind::Sum | ScanKind::LogSumExp => along(op, shape, v, 0, |a, b| wrap(a + b, d)),
            };
            Host::int(d, shape, out)
        }
        Data::Real(v) => {
            let out = match op.kind {
                ScanKind::Sum => along(op, shape, v, 0.0, |a, b| a + b),
                ScanKind::Prod => along(op, shape, v, 1.0, |a, b| a * b),
                ScanKind::Max => along(op, shape, v, -inf, |a, b| nan(a, b, a.max(b))),
                ScanKind::Min => along(op, shape, v, inf, |a, b| nan(a, b, a.min(b))),
                ScanKind::LogSumExp => along(op, shape, v, -inf, logaddexp),
            };
            let h = Host::real(d, shape, out);
            let sizes: Vec<f64> = v.iter().map(|x| x.abs()).collect();
            match op.kind {
                ScanKind::Sum => h.with_magnitude(along(op, shape, &sizes, 0.0, |a, b| a + b)),
                ScanKind::LogSumExp => h.with_magnitude(along(op, shape, &sizes, 1.0, f64::max)),
                ScanKind::Prod | ScanKind::Max | ScanKind::Min => h,
            }
        }
        Data::Complex(v) => {
            let out = match op.kind {
                ScanKind::Prod => along(op, shape, v, Cx::new(1.0, 0.0), |a, b| a * b),
                ScanKind::Max => {
                    along(op, shape, v, Cx::new(-inf, -inf), |a, b| if above(b, a) { b } else { a })
                }
                ScanKind::Min => {
                    along(op, shape, v, Cx::new(inf, inf), |a, b| if above(a, b) { b } else { a })
                }
                _ => along(op, shape, v, Cx::default(), |a, b| a + b),
            };
            let sizes: Vec<f64> = v.iter().map(|z| z.abs()).collect();
            let h = Host::complex(shape, out);
            match op.kind {
                ScanKind::Sum => h.with_magnitude(along(op, shape, &sizes, 0.0, |a, b| a + b)),
                _ => h,
            }
        }
    }
}
