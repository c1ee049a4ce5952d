//! Fourier and Hadamard transforms.

use super::{Case, FLOATS, Row};
use crate::draw::{Draw, Profile};
use crate::host::{Cx, Host, strides};
use olivine_core::op::{Fft, FftKind, Hadamard};
use olivine_core::{Dtype, Op};

/// Errors against the sum of the sizes of the terms; they grow with the logarithm of the length.
fn units(_: Dtype) -> f64 {
    12.0
}

fn one(d: &mut Draw, t: Dtype, kind: FftKind, inverse: bool) -> Case {
    let mut shape = d.shape(1, 3);
    let axis = d.rng.below(shape.len());
    let n = match d.profile {
        Profile::Big => d.rng.pick(&[64, 100, 127, 192]),
        _ => 1 + d.rng.below(20),
    };
    if d.rng.chance(60) && d.profile != Profile::Empty {
        shape[axis] = if kind == FftKind::HalfToReal { n / 2 + 1 } else { n };
    }
    let scale = d.rng.pick(&[1.0, 1.0 / n as f64, 1.0 / (n as f64).sqrt()]).to_bits();
    let x = d.between(&shape, t, -4.0, 4.0);
    Case::new(Op::Fft(Fft { kind, inverse, axis, n, scale }), vec![x])
}

pub(super) fn rows() -> Vec<Row> {
    let row = |key: &'static str, dtypes: &[Dtype], kind: FftKind, inverse: bool| {
        Row::new(key, dtypes.to_vec(), move |d, t| one(d, t, kind, inverse)).units(units)
    };
    let all = [Dtype::F32, Dtype::F64, Dtype::C64];
    vec![
        row("fft", &all, FftKind::Complex, false),
        row("ifft", &all, FftKind::Complex, true),
        row("rfft", &all[..2], FftKind::RealToHalf, false),
        row("irfft", &all[2..], FftKind::HalfToReal, true),
        Row::new("hadamard_transform", FLOATS, |d, t| {
            let mut shape = d.shape(1, 3);
            let last = shape.len() - 1;
            shape[last] = d.rng.pick(&[1, 2, 4, 8, 12, 20, 24, 28, 40, 64]);
            let scale = d.rng.pick(&[1.0f32, 0.5, 0.3]).to_bits();
            Case::new(Op::Hadamard(Hadamard { scale }), vec![d.between(&shape, t, -2.0, 2.0)])
        })
        .judge(orthogonal),
    ]
}

pub(super) fn reference(op: &Fft, x: &Host) -> Host {
    let (n, have) = (op.n, x.shape[op.axis]);
    let (take, len) = match op.kind {
        FftKind::Complex => (n, n),
        FftKind::RealToHalf => (n, n / 2 + 1),
        FftKind::HalfToReal => (n / 2 + 1, n),
    };
    let mut shape = x.shape.clone();
    shape[op.axis] = len;
    let (from, to) = (strides(&x.shape), strides(&shape));
    let (values, scale) = (x.to_cx(), f64::from_bits(op.scale));
    let sign = if op.inverse { 1.0 } else { -1.0 };
    let turn = |p: usize| Cx::polar(1.0, sign * std::f64::consts::TAU * (p % n) as f64 / n as f64);
    let count = shape.iter().product();
    let (mut out, mut sizes) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for i in 0..count {
        let k = i / to[op.axis] % len;
        let start: usize =
            (0..shape.len()).filter(|&d| d != op.axis).map(|d| i / to[d] % shape[d] * from[d]).sum();
        let (mut sum, mut size) = (Cx::default(), 0.0);
        for j in 0..take.min(have) {
            let mut z = values[start + j * from[op.axis]];
            let mut factor = 1.0;
            if op.kind == FftKind::HalfToReal {
                // The other half of the spectrum is the conjugate of this one.
                let own = j == 0 || 2 * j == n;
                if own {
                    z = Cx::new(z.re, 0.0);
                } else {
                    factor = 2.0;
                }
            }
            let p = z * turn(j * k);
            sum = sum + Cx::new(factor * p.re, factor * p.im);
            size += factor * z.abs();
        }
        out.push(Cx::new(sum.re * scale, sum.im * scale));
        sizes.push(size * scale);
    }
    match op.kind {
        FftKind::HalfToReal => Host::real(Dtype::F32, &shape, out.into_iter().map(|z| z.re).collect()),
        FftKind::Complex | FftKind::RealToHalf => Host::complex(&shape, out),
    }
    .with_magnitude(sizes)
}

/// Hadamard matrices of one order are many; this one is right when it is Sylvester's where the order is a power
/// of two, and when it keeps the length of every row.
fn orthogonal(case: &Case, got: &[Host]) -> Result<(), String> {
    let Op::Hadamard(op) = &case.op else { return Err("no transform".into()) };
    let (x, y) = (&case.inputs[0].host, &got[0]);
    if x.shape != y.shape || x.dtype != y.dtype {
        return Err(format!("{} of shape {:?}", y.dtype, y.shape));
    }
    let n = x.shape[x.shape.len() - 1];
    let scale = f64::from(f32::from_bits(op.scale));
    let tolerance = match x.dtype {
        Dtype::F16 => 4e-3,
        Dtype::BF16 => 3e-2,
        Dtype::F32 => 1e-5,
        _ => 1e-13,
    };
    let square = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
    for (a, b) in x.to_f64().chunks(n).zip(y.to_f64().chunks(n)) {
        let want = square(a) * (n as f64).sqrt() * scale;
        if (square(b) - want).abs() > tolerance * (want + 1.0) {
            return Err(format!("length {} for {want}", square(b)));
        }
        if n.is_power_of_two() {
            for (i, v) in b.iter().enumerate() {
                let term = |j: usize| if (i & j).count_ones() % 2 == 1 { -a[j] } else { a[j] };
                let want = scale * (0..n).map(term).sum::<f64>();
                if (v - want).abs() > tolerance * (1.0 + want.abs() + square(a)) {
                    return Err(format!("element {i} is {v}, not {want}"));
                }
            }
        }
    }
    Ok(())
}
