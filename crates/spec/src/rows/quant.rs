//! Packed weights: `w = scale * q + bias` with `q` of a few bits, or small floats with a scale, packed as one
//! little-endian stream of bits per row.

use super::matmul::product;
use super::{Case, Row, SMALL_FLOATS};
use crate::draw::{Draw, Input, Profile};
use crate::host::{Cx, Data, Host};
use olivine_core::op::{Affine, Packing, Quant};
use olivine_core::{Dtype, Op};

/// A way to pack, and rows that fit it.
fn drawn(d: &mut Draw) -> (Packing, Vec<usize>) {
    let packing = match d.rng.below(8) {
        0 => Packing::Mxfp4,
        1 => Packing::Mxfp8,
        2 => Packing::Nvfp4,
        _ => Packing::Affine(Affine {
            group: d.rng.pick(&[32, 64, 128]),
            bits: d.rng.pick(&[2, 3, 4, 5, 6, 8]),
        }),
    };
    let big = d.profile == Profile::Big;
    let groups = 2 * (1 + d.rng.below(if big { 3 } else { 2 }));
    let mut lead: Vec<usize> = (0..d.rng.below(2)).map(|_| 1 + d.rng.below(3)).collect();
    let rows = 1 + d.rng.below(if big { 80 } else { 9 });
    lead.extend([if d.profile == Profile::Empty { 0 } else { rows }, groups * packing.group()]);
    (packing, lead)
}

/// The parts of packed weights of a shape.
fn packed(d: &mut Draw, p: Packing, shape: &[usize], t: Dtype) -> Vec<Input> {
    let (n, lead) = (shape[shape.len() - 1], &shape[..shape.len() - 1]);
    let words = [lead, &[n * p.bits() as usize / 32]].concat();
    let groups = [lead, &[n / p.group()]].concat();
    // Bytes of E4M3 whose exponents are all ones may be NaN; here they are not.
    let mask = if p == Packing::Mxfp8 { 0xb7b7_b7b7 } else { 0xffff_ffff };
    let w = d.fill(&words, Dtype::U32, move |d| ((d.rng.bits() >> 32) & mask) as f64);
    let high = 2.0 / f64::from(1u32 << p.bits());
    match p {
        Packing::Affine(_) => {
            vec![w, d.between(&groups, t, high / 4.0, high), d.between(&groups, t, -1.0, -0.5)]
        }
        Packing::Mxfp4 | Packing::Mxfp8 => vec![w, d.integers(&groups, Dtype::U8, 120, 127)],
        Packing::Nvfp4 => vec![w, d.integers(&groups, Dtype::U8, 0x20, 0x40)],
    }
}

pub(super) fn rows() -> Vec<Row> {
    // Products of few rows turn the activations into 24-bit fixed point.
    let units: fn(Dtype) -> f64 = |d| if d == Dtype::F32 { 24.0 } else { 2.0 };
    vec![
        Row::new("quantize", SMALL_FLOATS, |d, t| {
            let (packing, shape) = drawn(d);
            Case::new(Op::Quant(Quant::Quantize(packing)), vec![d.between(&shape, t, -1.0, 1.0)])
        })
        .judge(near_enough),
        Row::new("dequantize", SMALL_FLOATS, |d, t| {
            let (packing, shape) = drawn(d);
            let dtype = d.rng.pick(&SMALL_FLOATS);
            Case::new(Op::Quant(Quant::Dequantize { packing, dtype }), packed(d, packing, &shape, t))
        })
        .units(|_| 2.0),
        Row::new("quantized_matmul", SMALL_FLOATS, |d, t| {
            let (packing, shape) = drawn(d);
            let transpose = d.rng.chance(60);
            let r = shape.len();
            let inner = if transpose { shape[r - 1] } else { shape[r - 2] };
            let m = d.rng.pick(&[1, 2, 5, 8, 17]);
            let x = [&shape[..r - 2], &[m, inner]].concat();
            let mut inputs = vec![d.between(&x, t, -1.0, 1.0)];
            inputs.extend(packed(d, packing, &shape, t));
            Case::new(Op::Quant(Quant::Matmul { packing, transpose }), inputs)
        })
        .units(units),
        Row::new("gather_qmm", SMALL_FLOATS, |d, t| {
            let (packing, mut shape) = drawn(d);
            if shape.len() == 2 {
                shape.insert(0, 2);
            }
            let transpose = d.rng.chance(60);
            let inner = if transpose { shape[2] } else { shape[1] };
            let (lhs, m) = (1 + d.rng.below(3), d.rng.pick(&[1, 2, 5]));
            let at = [1 + d.rng.below(5)];
            let mut inputs = vec![d.between(&[lhs, m, inner], t, -1.0, 1.0)];
            inputs.extend(packed(d, packing, &shape, t));
            inputs.push(d.integers(&at, Dtype::U32, 0, lhs as i64 - 1));
            inputs.push(d.integers(&at, Dtype::U32, 0, shape[0] as i64 - 1));
            Case::new(Op::Quant(Quant::GatherMatmul { packing, transpose }), inputs)
        })
        .units(units),
    ]
}

/// A small float of one sign bit, `e` bits of exponent and `m` of mantissa, without infinities.
fn small_float(code: f64, e: u32, m: u32) -> f64 {
    let code = code as u32;
    let (sign, exponent, mantissa) = (code >> (e + m), code >> m & ((1 << e) - 1), code & ((1 << m) - 1));
    let bias = (1i32 << (e - 1)) - 1;
    let part = f64::from(mantissa) / f64::from(1u32 << m);
    let size = match exponent {
        0 => part * libm::ldexp(1.0, 1 - bias),
        x => (1.0 + part) * libm::ldexp(1.0, x as i32 - bias),
    };
    if sign == 1 { -size } else { size }
}

/// The integers of packed rows of `n`.
fn unpack(words: &[i128], n: usize, bits: usize) -> Vec<f64> {
    let per_row = n * bits / 32;
    let mut out = Vec::new();
    for row in words.chunks_exact(per_row.max(1)) {
        for i in 0..n {
            let bit = |b: usize| (row[b / 32] >> (b % 32)) & 1;
            out.push((0..bits).map(|k| bit(i * bits + k) << k).sum::<i128>() as f64);
        }
    }
    out
}

/// Packed weights as numbers, and the sizes of the terms of each.
fn unpacked(p: Packing, parts: &[Host]) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
    let mut shape = parts[1].shape.clone();
    if let Some(last) = shape.last_mut() {
        *last *= p.group();
    }
    let q = unpack(&parts[0].to_int(), shape[shape.len() - 1], p.bits() as usize);
    let s = parts[1].to_f64();
    let b = parts.get(2).map(Host::to_f64);
    let terms = |(i, &q): (usize, &f64)| {
        let s = s[i / p.group()];
        match p {
            Packing::Affine(_) => (q * s, b.as_ref().map_or(0.0, |b| b[i / p.group()])),
            Packing::Mxfp4 => (small_float(q, 2, 1) * libm::ldexp(1.0, s as i32 - 127), 0.0),
            Packing::Mxfp8 => (small_float(q, 4, 3) * libm::ldexp(1.0, s as i32 - 127), 0.0),
            Packing::Nvfp4 => (small_float(q, 2, 1) * small_float(s, 4, 3), 0.0),
        }
    };
    let all: Vec<(f64, f64)> = q.iter().enumerate().map(terms).collect();
    let sum = all.iter().map(|(a, b)| a + b).collect();
    (shape, sum, all.iter().map(|(a, b)| a.abs() + b.abs()).collect())
}

/// `x @ w`, or `x @ w.T`, for one matrix of each.
fn one(x: &[Cx], w: &[f64], (m, rows, cols): (usize, usize, usize), transpose: bool) -> (Vec<f64>, Vec<f64>) {
    let (k, n) = if transpose { (cols, rows) } else { (rows, cols) };
    if k == 0 {
        return (vec![0.0; m * n], vec![0.0; m * n]);
    }
    let at = |i: usize, j: usize| if transpose { w[j * cols + i] } else { w[i * cols + j] };
    let w: Vec<Cx> = (0..k * n).map(|p| Cx::new(at(p / n, p % n), 0.0)).collect();
    let (out, sizes) = product(x, &w, m, k, n);
    (out.into_iter().map(|z| z.re).collect(), sizes)
}

pub(super) fn reference(op: &Quant, inputs: &[Host]) -> Vec<Host> {
    let x = &inputs[0];
    let (mut out, mut sizes) = (Vec::new(), Vec::new());
    let shape = match op {
        // Judged by what comes back.
        Quant::Quantize(_) => return Vec::new(),
        Quant::Dequantize { packing, dtype } => {
            let (shape, v, sizes) = unpacked(*packing, inputs);
            return vec![Host::real(*dtype, &shape, v).with_magnitude(sizes)];
        }
        Quant::Matmul { packing, transpose } => {
            let (full, w, _) = unpacked(*packing, &inputs[1..]);
            let r = full.len();
            let (m, rows, cols) = (x.shape[x.shape.len() - 2], full[r - 2], full[r - 1]);
            let (inner, n) = if *transpose { (cols, rows) } else { (rows, cols) };
            for t in 0..full[..r - 2].iter().product() {
                let (x, w) = (&x.to_cx()[t * m * inner..][..m * inner], &w[t * rows * cols..][..rows * cols]);
                let (o, s) = one(x, w, (m, rows, cols), *transpose);
                out.extend(o);
                sizes.extend(s);
            }
            [&x.shape[..x.shape.len() - 1], &[n]].concat()
        }
        Quant::GatherMatmul { packing, transpose } => {
            let parts = packing.parts();
            let (full, w, _) = unpacked(*packing, &inputs[1..1 + parts]);
            let (lhs, rhs) = (&inputs[1 + parts], &inputs[2 + parts]);
            let (m, rows, cols) = (x.shape[1], full[1], full[2]);
            let (inner, n) = if *transpose { (cols, rows) } else { (rows, cols) };
            for (i, j) in lhs.to_int().into_iter().zip(rhs.to_int()) {
                let (i, j) = (i as usize * m * inner, j as usize * rows * cols);
                let x = &x.to_cx()[i..i + m * inner];
                let (o, s) = one(x, &w[j..j + rows * cols], (m, rows, cols), *transpose);
                out.extend(o);
                sizes.extend(s);
            }
            [&lhs.shape[..], &[m, n]].concat()
        }
    };
    vec![Host::real(x.dtype, &shape, out).with_magnitude(sizes)]
}

/// Every weight comes back to within a step: half of one, and at the end of the group that the scale, adjusted
/// so that zero falls on a code, may not reach. Small floats come back to within a quarter of themselves, or of
/// the group's largest where the scale is a power of two that it may exceed.
fn near_enough(case: &Case, got: &[Host]) -> Result<(), String> {
    let Op::Quant(Quant::Quantize(packing)) = &case.op else { return Err("no packing".into()) };
    let x = &case.inputs[0].host;
    if got.len() != packing.parts() || got[0].dtype != Dtype::U32 {
        return Err(format!("{} results, the first of type {}", got.len(), got[0].dtype));
    }
    let scales = if packing.has_biases() { x.dtype } else { Dtype::U8 };
    if got[1..].iter().any(|h| h.dtype != scales) {
        return Err(format!("scales are of type {}, not {scales}", got[1].dtype));
    }
    let (shape, back, sizes) = unpacked(*packing, got);
    if shape != x.shape {
        return Err(format!("shape {shape:?}, not {:?}", x.shape));
    }
    let eps = match x.dtype {
        Dtype::F16 => 2f64.powi(-10),
        Dtype::BF16 => 2f64.powi(-7),
        _ => 2f64.powi(-22),
    };
    let Data::Real(v) = &x.data else { return Err("no floats".into()) };
    let (steps, group) = (got[1].to_f64(), packing.group());
    let largest: Vec<f64> =
        v.chunks_exact(group).map(|g| g.iter().fold(0.0, |m: f64, x| m.max(x.abs()))).collect();
    for i in 0..v.len() {
        let bound = match packing {
            Packing::Affine(_) => 1.01 * steps[i / group].abs() + 2.0 * eps * (v[i].abs() + sizes[i]),
            Packing::Mxfp4 | Packing::Mxfp8 | Packing::Nvfp4 => 0.26 * largest[i / group] + 1e-6,
        };
        if (v[i] - back[i]).abs() > bound {
            return Err(format!("element {i}: {} comes back as {}, off by more than {bound}", v[i], back[i]));
        }
    }
    Ok(())
}
