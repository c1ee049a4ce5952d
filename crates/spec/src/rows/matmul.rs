//! Products of matrices.

use super::{Case, Row};
use crate::draw::Profile;
use crate::host::{Cx, Data, Host};
use olivine_core::op::Matmul;
use olivine_core::{Dtype, Op};

pub(super) fn rows() -> Vec<Row> {
    let dtypes = Dtype::ALL.into_iter().filter(|d| d.is_inexact());
    let row = Row::new("matmul", dtypes, |d, t| {
        let size = |d: &mut crate::draw::Draw| match d.profile {
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
        let lead: Vec<usize> = (0..d.rng.below(3)).map(|_| 1 + d.rng.below(3)).collect();
        let (a, b) = ([&lead[..], &[m, k]].concat(), [&lead[..], &[k, n]].concat());
        let inputs = vec![d.between(&a, t, -2.0, 2.0), d.between(&b, t, -2.0, 2.0)];
        Case::new(Op::Matmul(Matmul), inputs)
    });
    // Errors of a dot product against the sum of the sizes of its terms.
    vec![row.units(|d| match d {
        Dtype::F16 | Dtype::BF16 => 1.5,
        _ => 6.0,
    })]
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

pub(super) fn reference(a: &Host, b: &Host) -> Host {
    let (r, d) = (a.shape.len(), a.dtype);
    let (m, k, n) = (a.shape[r - 2], a.shape[r - 1], b.shape[r - 1]);
    let shape = [&a.shape[..r - 1], &[n]].concat();
    if k == 0 {
        return Host::numbers(d, &shape, &vec![0.0; shape.iter().product()]);
    }
    let (out, sizes) = product(&a.to_cx(), &b.to_cx(), m, k, n);
    match a.data {
        Data::Complex(_) => Host::complex(&shape, out),
        Data::Int(_) | Data::Real(_) => Host::real(d, &shape, out.into_iter().map(|z| z.re).collect()),
    }
    .with_magnitude(sizes)
}
