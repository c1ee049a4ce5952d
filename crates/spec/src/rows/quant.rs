//! Packed weights: `w = scale * q + bias` with `q` of a few bits, packed as one little-endian stream of bits
//! per row.

use super::matmul::product;
use super::{Case, Row, SMALL_FLOATS};
use crate::draw::{Draw, Input, Profile};
use crate::host::{Cx, Data, Host};
use olivine_core::op::{Affine, Quant};
use olivine_core::{Dtype, Op};

/// A way to pack, and rows that fit it.
fn drawn(d: &mut Draw) -> (Affine, Vec<usize>) {
    let spec = Affine { group: d.rng.pick(&[32, 64, 128]), bits: d.rng.pick(&[2, 3, 4, 5, 6, 8]) };
    let groups = 1 + d.rng.below(if d.profile == Profile::Big { 6 } else { 3 });
    let mut lead: Vec<usize> = (0..d.rng.below(2)).map(|_| 1 + d.rng.below(3)).collect();
    let rows = if d.profile == Profile::Empty {
        0
    } else {
        1 + d.rng.below(if d.profile == Profile::Big { 80 } else { 9 })
    };
    lead.extend([rows, groups * spec.group]);
    (spec, lead)
}

/// Packed weights, scales and biases of a shape.
fn packed(d: &mut Draw, spec: Affine, shape: &[usize], t: Dtype) -> Vec<Input> {
    let (n, lead) = (shape[shape.len() - 1], &shape[..shape.len() - 1]);
    let words = [lead, &[n * spec.bits as usize / 32]].concat();
    let groups = [lead, &[n / spec.group]].concat();
    let w = d.fill(&words, Dtype::U32, |d| (d.rng.bits() >> 32) as f64);
    let high = 2.0 / f64::from(1u32 << spec.bits);
    vec![w, d.between(&groups, t, high / 4.0, high), d.between(&groups, t, -1.0, -0.5)]
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("quantize", SMALL_FLOATS, |d, t| {
            let (spec, shape) = drawn(d);
            Case::new(Op::Quant(Quant::Quantize(spec)), vec![d.between(&shape, t, -1.0, 1.0)])
        })
        .judge(near_enough),
        Row::new("dequantize", SMALL_FLOATS, |d, t| {
            let (spec, shape) = drawn(d);
            let dtype = d.rng.pick(&SMALL_FLOATS);
            Case::new(Op::Quant(Quant::Dequantize { spec, dtype }), packed(d, spec, &shape, t))
        })
        .units(|_| 2.0),
        Row::new("quantized_matmul", SMALL_FLOATS, |d, t| {
            let (spec, shape) = drawn(d);
            let transpose = d.rng.chance(60);
            let r = shape.len();
            let inner = if transpose { shape[r - 1] } else { shape[r - 2] };
            let m = d.rng.pick(&[1, 2, 5, 8, 17]);
            let x = [&shape[..r - 2], &[m, inner]].concat();
            let mut inputs = vec![d.between(&x, t, -1.0, 1.0)];
            inputs.extend(packed(d, spec, &shape, t));
            Case::new(Op::Quant(Quant::Matmul { spec, transpose }), inputs)
        })
        // Products of few rows turn the activations into 24-bit fixed point.
        .units(|d| if d == Dtype::F32 { 24.0 } else { 2.0 }),
    ]
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

/// Packed weights as numbers, and the sizes of the two terms of each.
fn unpacked(spec: Affine, w: &Host, scales: &Host, biases: &Host) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
    let mut shape = scales.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last *= spec.group;
    }
    let q = unpack(&w.to_int(), shape[shape.len() - 1], spec.bits as usize);
    let (s, b) = (scales.to_f64(), biases.to_f64());
    let value = |(i, q): (usize, &f64)| q * s[i / spec.group] + b[i / spec.group];
    let size = |(i, q): (usize, &f64)| (q * s[i / spec.group]).abs() + b[i / spec.group].abs();
    (shape, q.iter().enumerate().map(value).collect(), q.iter().enumerate().map(size).collect())
}

pub(super) fn reference(op: &Quant, inputs: &[Host]) -> Vec<Host> {
    match op {
        // Judged by what comes back.
        Quant::Quantize(_) => Vec::new(),
        Quant::Dequantize { spec, dtype } => {
            let (shape, v, sizes) = unpacked(*spec, &inputs[0], &inputs[1], &inputs[2]);
            vec![Host::real(*dtype, &shape, v).with_magnitude(sizes)]
        }
        Quant::Matmul { spec, transpose } => {
            let x = &inputs[0];
            let (shape, w, _) = unpacked(*spec, &inputs[1], &inputs[2], &inputs[3]);
            let r = shape.len();
            let (rows, cols) = (shape[r - 2], shape[r - 1]);
            let w: Vec<Cx> = if *transpose {
                let cell = |t: usize, i: usize, j: usize| w[(t * rows + j) * cols + i];
                let batch = w.len() / (rows * cols).max(1);
                let all = (0..batch).flat_map(|t| (0..cols).map(move |i| (t, i)));
                all.flat_map(|(t, i)| (0..rows).map(move |j| (t, i, j)))
                    .map(|(t, i, j)| Cx::new(cell(t, i, j), 0.0))
                    .collect()
            } else {
                w.into_iter().map(|x| Cx::new(x, 0.0)).collect()
            };
            let m = x.shape[x.shape.len() - 2];
            let (k, n) = if *transpose { (cols, rows) } else { (rows, cols) };
            let (out, sizes) = product(&x.to_cx(), &w, m, k, n);
            let shape = [&x.shape[..x.shape.len() - 1], &[n]].concat();
            let count: usize = shape.iter().product();
            let out: Vec<f64> =
                if k == 0 { vec![0.0; count] } else { out.into_iter().map(|z| z.re).collect() };
            let sizes = if k == 0 { vec![0.0; count] } else { sizes };
            vec![Host::real(x.dtype, &shape, out).with_magnitude(sizes)]
        }
    }
}

/// Every weight comes back to within a step: half of one, and at the end of the group that the scale, adjusted
/// so that zero falls on a code, may not reach.
fn near_enough(case: &Case, got: &[Host]) -> Result<(), String> {
    let Op::Quant(Quant::Quantize(spec)) = &case.op else { return Err("no packing".into()) };
    let x = &case.inputs[0].host;
    let [w, s, b] = got else { return Err(format!("{} results, not three", got.len())) };
    if w.dtype != Dtype::U32 || s.dtype != x.dtype || b.dtype != x.dtype {
        return Err(format!("types {}, {}, {}", w.dtype, s.dtype, b.dtype));
    }
    let (shape, back, sizes) = unpacked(*spec, w, s, b);
    if shape != x.shape {
        return Err(format!("shape {shape:?}, not {:?}", x.shape));
    }
    let eps = match x.dtype {
        Dtype::F16 => 2f64.powi(-10),
        Dtype::BF16 => 2f64.powi(-7),
        _ => 2f64.powi(-22),
    };
    let Data::Real(v) = &x.data else { return Err("no floats".into()) };
    let steps = s.to_f64();
    for i in 0..v.len() {
        let bound = 1.01 * steps[i / spec.group].abs() + 2.0 * eps * (v[i].abs() + sizes[i]);
        if (v[i] - back[i]).abs() > bound {
            return Err(format!("element {i}: {} comes back as {}, off by more than {bound}", v[i], back[i]));
        }
    }
    Ok(())
}
