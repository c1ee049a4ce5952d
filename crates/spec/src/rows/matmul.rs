//! Products of matrices.

use super::{Case, Row};
use crate::draw::{Draw, Placement, Profile};
use crate::host::{Cx, Data, Host, wrap};
use olivine_core::op::Matmul;
use olivine_core::{Dtype, Kind, Op};

/// Errors of a dot product against the sum of the sizes of its terms.
fn units(d: Dtype) -> f64 {
    if d.size() == 2 { 1.5 } else { 6.0 }
}

/// Rows, inner size, columns, one of them 0 where the profile wants nothing.
fn sizes(d: &mut Draw) -> (usize, usize, usize) {
    let size = |d: &mut Draw| match d.profile {
        Profile::Tail => d.rng.pick(&[1, 7, 16, 17, 31, 33, 48, 65]),
        Profile::Big => 60 + d.rng.below(80),
        _ => 1 + d.rng.below(9),
    };
    let (mut m, mut k, mut n) = (size(d), size(d), size(d));
    if d.profile == Profile::Empty {
        match d.rng.below(3) {
            0 => m = 0,
            1 => k = 0,
            _ => n = 0,
        }
    }
    (m, k, n)
}

pub(super) fn rows() -> Vec<Row> {
    let inexact = || Dtype::ALL.into_iter().filter(|d| d.is_inexact());
    let numbers = Dtype::ALL.into_iter().filter(|d| *d != Dtype::Bool);
    vec![
        Row::new("matmul", numbers, |d, t| {
            let (m, k, n) = sizes(d);
            let lead: Vec<usize> = (0..d.rng.below(3)).map(|_| 1 + d.rng.below(3)).collect();
            let (a, b) = ([&lead[..], &[m, k]].concat(), [&lead[..], &[k, n]].concat());
            let low = if t.kind() == Kind::Unsigned { 0.0 } else { -4.0 };
            let inputs = vec![d.between(&a, t, low, 4.0), d.between(&b, t, low, 4.0)];
            Case::new(Op::Matmul(Matmul::Product), inputs)
        })
        .units(units),
        Row::new("addmm", inexact(), |d, t| {
            let (m, k, n) = sizes(d);
            let lead: Vec<usize> = (0..d.rng.below(2)).map(|_| 1 + d.rng.below(3)).collect();
            let shape = |r, c| [&lead[..], &[r, c]].concat();
            let (a, b, c) = (shape(m, k), shape(k, n), shape(m, n));
            let inputs = [a, b, c].map(|s| d.between(&s, t, -2.0, 2.0)).to_vec();
            let mut factor = || d.rng.pick(&[1.0f32, 0.5, -2.0, 0.0]).to_bits();
            Case::new(Op::Matmul(Matmul::Add { alpha: factor(), beta: factor() }), inputs)
        })
        .units(units),
        Row::new("gather_mm", inexact(), |d, t| {
            let (m, k, n) = sizes(d);
            let (p, q) = (1 + d.rng.below(3), 1 + d.rng.below(4));
            let at: Vec<usize> = (0..d.rng.below(3)).map(|_| 1 + d.rng.below(4)).collect();
            let inputs = vec![
                d.between(&[p, m, k], t, -2.0, 2.0),
                d.between(&[q, k, n], t, -2.0, 2.0),
                d.integers(&at, Dtype::U32, 0, p as i64 - 1),
                d.integers(&at, Dtype::U32, 0, q as i64 - 1),
            ];
            Case::new(Op::Matmul(Matmul::Gather), inputs)
        })
        .units(units),
        Row::new("segmented_mm", inexact(), |d, t| {
            let (m, k, n) = sizes(d);
            let count = 1 + d.rng.below(3);
            let mut limits = d.integers(&[count, 2], Dtype::U32, 0, k as i64);
            if let Data::Int(v) = &mut limits.host.data {
                v.chunks_exact_mut(2).for_each(<[i128]>::sort_unstable);
            }
            limits.placement = Placement::Rows;
            let inputs = vec![d.between(&[m, k], t, -2.0, 2.0), d.between(&[k, n], t, -2.0, 2.0), limits];
            Case::new(Op::Matmul(Matmul::Segmented), inputs)
        })
        .units(units),
    ]
}

/// `[batch, m, k] @ [batch, k, n]` with the sums of the sizes of the terms.
pub(super) fn product(a: &[Cx], b: &[Cx], m: usize, k: usize, n: usize) -> (Vec<Cx>, Vec<f64>) {
    let batch = a.len().checked_div(m * k).or(b.len().checked_div(k * n)).unwrap_or(0);
    let (mut out, mut sizes) = (Vec::new(), Vec::new());
    for t in 0..batch {
        for i in 0..m {
            for j in 0..n {
                let terms = (0..k).map(|p| a[(t * m + i) * k + p] * b[(t * k + p) * n + j]);
                let (z, size) = terms.fold((Cx::default(), 0.0), |(z, s), x| (z + x, s + x.abs()));
                out.push(z);
                sizes.push(size);
            }
        }
    }
    (out, sizes)
}

pub(super) fn reference(op: &Matmul, inputs: &[Host]) -> Host {
    let (a, b) = (&inputs[0], &inputs[1]);
    let (r, d) = (a.shape.len(), a.dtype);
    let (m, k, n) = (a.shape[r - 2], a.shape[r - 1], b.shape[b.shape.len() - 1]);
    let (x, y) = (a.to_cx(), b.to_cx());
    let (shape, mut out, mut sizes) = match op {
        Matmul::Product | Matmul::Add { .. } => {
            let shape = [&a.shape[..r - 1], &[n]].concat();
            let count = shape.iter().product();
            if k == 0 {
                (shape, vec![Cx::default(); count], vec![0.0; count])
            } else {
                let (out, sizes) = product(&x, &y, m, k, n);
                (shape, out, sizes)
            }
        }
        Matmul::Gather => {
            let (mut out, mut sizes) = (Vec::new(), Vec::new());
            for (i, j) in inputs[2].to_int().into_iter().zip(inputs[3].to_int()) {
                let (i, j) = (i as usize * m * k, j as usize * k * n);
                let (o, s) = one(&x[i..i + m * k], &y[j..j + k * n], m, k, n);
                out.extend(o);
                sizes.extend(s);
            }
            ([&inputs[2].shape[..], &[m, n]].concat(), out, sizes)
        }
        Matmul::Segmented => {
            let (mut out, mut sizes) = (Vec::new(), Vec::new());
            for limits in inputs[2].to_int().chunks_exact(2) {
                let inside = |p: usize| p as i128 >= limits[0] && (p as i128) < limits[1];
                let part: Vec<Cx> =
                    (0..m * k).map(|i| if inside(i % k) { x[i] } else { Cx::default() }).collect();
                let (o, s) = one(&part, &y, m, k, n);
                out.extend(o);
                sizes.extend(s);
            }
            let lead = &inputs[2].shape[..inputs[2].shape.len() - 1];
            ([lead, &[m, n]].concat(), out, sizes)
        }
    };
    if let Matmul::Add { alpha, beta } = op {
        let factor = |bits: u32| f64::from(f32::from_bits(bits));
        let (alpha, beta) = (factor(*alpha), factor(*beta));
        for (i, c) in inputs[2].to_cx().into_iter().enumerate() {
            out[i] = Cx::new(alpha * out[i].re + beta * c.re, alpha * out[i].im + beta * c.im);
            sizes[i] = alpha.abs() * sizes[i] + beta.abs() * c.abs();
        }
    }
    match a.data {
        Data::Complex(_) => Host::complex(&shape, out),
        Data::Real(_) => Host::real(d, &shape, out.into_iter().map(|z| z.re).collect()),
        Data::Int(_) => {
            return Host::int(d, &shape, out.into_iter().map(|z| wrap(z.re as i128, d)).collect());
        }
    }
    .with_magnitude(sizes)
}

/// One product, also over nothing.
fn one(a: &[Cx], b: &[Cx], m: usize, k: usize, n: usize) -> (Vec<Cx>, Vec<f64>) {
    if k == 0 { (vec![Cx::default(); m * n], vec![0.0; m * n]) } else { product(a, b, m, k, n) }
}
