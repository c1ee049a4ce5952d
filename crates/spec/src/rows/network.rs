//! Fused operations of neural networks.

use super::matmul::product;
use super::{Case, FLOATS, Row, SMALL_FLOATS};
use crate::draw::{Draw, Profile};
use crate::host::{Cx, Host, strides};
use olivine_core::op::{Attention, MaskKind, Norm, Rope, Softmax};
use olivine_core::{Dtype, Op};

/// A shape with a last axis that has elements.
fn rows_of(d: &mut Draw) -> Vec<usize> {
    let mut shape = d.shape(1, 4);
    if let Some(last) = shape.last_mut() {
        *last = (*last).max(1);
    }
    shape
}

/// Rounding of half types at the end, and a few of the accumulating type.
fn units(d: Dtype) -> f64 {
    match d {
        Dtype::F16 | Dtype::BF16 => 2.0,
        Dtype::F64 => 256.0,
        _ => 16.0,
    }
}

pub(super) fn rows() -> Vec<Row> {
    vec![
        Row::new("rms_norm", FLOATS, |d, t| {
            let shape = rows_of(d);
            let n = shape[shape.len() - 1];
            let mut inputs = vec![d.between(&shape, t, -3.0, 3.0)];
            if d.rng.chance(60) {
                inputs.push(d.between(&[n], t, 0.5, 1.5));
            }
            Case::new(Op::Norm(Norm::Rms { eps: 1e-5f32.to_bits() }), inputs)
        })
        .units(units),
        Row::new("layer_norm", FLOATS, |d, t| {
            let shape = rows_of(d);
            let n = shape[shape.len() - 1];
            let (weight, bias) = (d.rng.chance(60), d.rng.chance(60));
            let mut inputs = vec![d.between(&shape, t, -3.0, 3.0)];
            if weight {
                inputs.push(d.between(&[n], t, 0.5, 1.5));
            }
            if bias {
                inputs.push(d.between(&[n], t, -1.0, 1.0));
            }
            Case::new(Op::Norm(Norm::Layer { eps: 1e-5f32.to_bits(), weight, bias }), inputs)
        })
        .units(units),
        Row::new("softmax", FLOATS, |d, t| {
            let shape = rows_of(d);
            Case::new(Op::Softmax(Softmax::Softmax), vec![d.numbers(&shape, t)])
        })
        .units(units),
        Row::new("logsumexp", FLOATS, |d, t| {
            let shape = rows_of(d);
            Case::new(Op::Softmax(Softmax::LogSumExp), vec![d.numbers(&shape, t)])
        })
        .units(units),
        Row::new("rope", SMALL_FLOATS, |d, t| {
            let half = 1 + d.rng.below(9);
            let features = 2 * half + d.rng.below(3);
            let length = if d.profile == Profile::Empty { 0 } else { 1 + d.rng.below(7) };
            let mut shape: Vec<usize> = (0..1 + d.rng.below(2)).map(|_| 1 + d.rng.below(3)).collect();
            shape.extend([length, features]);
            let op = Rope {
                dims: 2 * half,
                traditional: d.rng.chance(50),
                base: 10000f32.to_bits(),
                scale: d.rng.pick(&[1.0f32, 0.5]).to_bits(),
            };
            let offset: &[usize] = if d.rng.chance(50) { &[] } else { &shape[..1] };
            let offset = d.integers(offset, Dtype::I32, 0, 50);
            let mut inputs = vec![d.between(&shape, t, -2.0, 2.0), offset];
            if d.rng.chance(40) {
                inputs.push(d.between(&[half], Dtype::F32, 0.01, 1.0));
            }
            Case::new(Op::Rope(op), inputs)
        })
        // Angles are products in `f32`, up to 57 radians.
        .units(|d| if d == Dtype::F32 { 64.0 } else { 2.0 }),
        Row::new("scaled_dot_product_attention", FLOATS, attention_case).units(|d| match d {
            Dtype::F32 => 32.0,
            Dtype::F64 => 64.0,
            _ => 3.0,
        }),
    ]
}

fn attention_case(d: &mut Draw, t: Dtype) -> Case {
    let big = d.profile == Profile::Big;
    let (b, kv, rep) = (1 + d.rng.below(2), 1 + d.rng.below(2), 1 + d.rng.below(3));
    let lq = if d.profile == Profile::Empty { 0 } else { d.rng.pick(&[1, 2, 5, if big { 70 } else { 9 }]) };
    let lk = lq.max(1) + d.rng.below(if big { 90 } else { 6 });
    let width = d.rng.pick(&[4, 8, 16, 5, if big { 64 } else { 3 }]);
    let dv = if d.rng.chance(80) { width } else { 6 };
    let h = kv * rep;
    let q = d.between(&[b, h, lq, width], t, -1.0, 1.0);
    let k = d.between(&[b, kv, lk, width], t, -1.0, 1.0);
    let v = d.between(&[b, kv, lk, dv], t, -1.0, 1.0);
    let mut inputs = vec![q, k, v];
    let mask = match d.rng.below(5) {
        0 => MaskKind::None,
        1 => MaskKind::Causal { window: None },
        2 => MaskKind::Causal { window: Some(1 + d.rng.below(6)) },
        n => {
            let full = [b, h, lq, lk];
            let shape: Vec<usize> = full.iter().map(|&n| if d.rng.chance(40) { 1 } else { n }).collect();
            inputs.push(if n == 3 {
                d.integers(&shape, Dtype::Bool, 0, 1)
            } else {
                d.between(&shape, Dtype::F32, -2.0, 2.0)
            });
            MaskKind::Array
        }
    };
    let sinks = d.rng.chance(30);
    if sinks {
        inputs.push(d.between(&[h], Dtype::F32, -1.0, 1.0));
    }
    Case::new(Op::Attention(Attention { scale: 0.5f32.to_bits(), mask, sinks }), inputs)
}

/// Applies `f` to every run of elements along the last axis.
fn by_row(x: &Host, mut f: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let n = x.shape[x.shape.len() - 1];
    x.to_f64().chunks_exact(n.max(1)).flat_map(&mut f).collect()
}

pub(super) fn norm(op: &Norm, inputs: &[Host]) -> Host {
    let x = &inputs[0];
    let param = |i: usize| inputs[i].to_f64();
    let (eps, mean, weight, bias) = match op {
        Norm::Rms { eps } => (eps, false, (inputs.len() > 1).then(|| param(1)), None),
        Norm::Layer { eps, weight, bias } => {
            (eps, true, weight.then(|| param(1)), bias.then(|| param(inputs.len() - 1)))
        }
    };
    let eps = f64::from(f32::from_bits(*eps));
    let mut sizes = Vec::new();
    let out = by_row(x, |r| {
        let n = r.len() as f64;
        let m = if mean { r.iter().sum::<f64>() / n } else { 0.0 };
        let var = r.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n;
        let inv = 1.0 / (var + eps).sqrt();
        let one = |(i, x): (usize, &f64)| {
            let w = weight.as_ref().map_or(1.0, |w| w[i]);
            let b = bias.as_ref().map_or(0.0, |b| b[i]);
            sizes.push((x.abs() + m.abs()) * inv * w.abs() + b.abs());
            (x - m) * inv * w + b
        };
        r.iter().enumerate().map(one).collect()
    });
    Host::real(x.dtype, &x.shape, out).with_magnitude(sizes)
}

pub(super) fn softmax(op: &Softmax, x: &Host) -> Host {
    let max = |r: &[f64]| r.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let nan = |r: &[f64]| r.iter().any(|x| x.is_nan());
    match op {
        Softmax::Softmax => {
            let mut sizes = Vec::new();
            let out = by_row(x, |r| {
                if nan(r) {
                    sizes.extend(vec![1.0; r.len()]);
                    return vec![f64::NAN; r.len()];
                }
                let m = max(r);
                let e: Vec<f64> = r.iter().map(|x| (x - m).exp()).collect();
                let sum: f64 = e.iter().sum();
                // The exponent is rounded, and its error is a factor.
                sizes.extend(r.iter().zip(&e).map(|(x, e)| e / sum * (1.0 + (x - m).abs())));
                e.into_iter().map(|e| e / sum).collect()
            });
            Host::real(x.dtype, &x.shape, out).with_magnitude(sizes)
        }
        Softmax::LogSumExp => {
            let mut shape = x.shape.clone();
            if let Some(last) = shape.last_mut() {
                *last = 1;
            }
            let mut sizes = Vec::new();
            let out = by_row(x, |r| {
                let m = max(r);
                sizes.push(m.abs().max(1.0));
                if nan(r) {
                    return vec![f64::NAN];
                }
                if m.is_infinite() {
                    return vec![m];
                }
                vec![m + r.iter().map(|x| (x - m).exp()).sum::<f64>().ln()]
            });
            Host::real(x.dtype, &shape, out).with_magnitude(sizes)
        }
    }
}

pub(super) fn rope(op: &Rope, inputs: &[Host]) -> Host {
    let (x, offset) = (&inputs[0], inputs[1].to_f64());
    let (rank, half) = (x.shape.len(), op.dims / 2);
    let (length, features) = (x.shape[rank - 2], x.shape[rank - 1]);
    let base = f64::from(f32::from_bits(op.base));
    let freqs: Vec<f64> = match inputs.get(2) {
        Some(f) => f.to_f64(),
        None => (0..half).map(|i| base.powf(-2.0 * i as f64 / op.dims as f64)).collect(),
    };
    let scale = f64::from(f32::from_bits(op.scale));
    let per_batch = strides(&x.shape)[0].max(1);
    let v = x.to_f64();
    let mut out = v.clone();
    let mut sizes: Vec<f64> = v.iter().map(|x| x.abs()).collect();
    for start in (0..v.len()).step_by(features.max(1)) {
        let row = (start / features) % length.max(1);
        let first = if inputs[1].shape.is_empty() { offset[0] } else { offset[start / per_batch] };
        for (i, f) in freqs.iter().enumerate() {
            let angle = (row as f64 + first) * scale * f;
            let (a, b) = if op.traditional { (2 * i, 2 * i + 1) } else { (i, half + i) };
            let (p, q) = (v[start + a], v[start + b]);
            out[start + a] = p * angle.cos() - q * angle.sin();
            out[start + b] = p * angle.sin() + q * angle.cos();
            sizes[start + a] = p.hypot(q);
            sizes[start + b] = p.hypot(q);
        }
    }
    Host::real(x.dtype, &x.shape, out).with_magnitude(sizes)
}

/// The weights of one query: a softmax over the keys that it sees, with one more logit that has no value.
fn weights(scores: &[f64], sink: Option<f64>) -> Vec<f64> {
    let m = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
    if m == f64::NEG_INFINITY {
        return vec![0.0; scores.len()];
    }
    let sum: f64 = scores.iter().copied().chain(sink).map(|s| (s - m).exp()).sum();
    scores.iter().map(|s| (s - m).exp() / sum).collect()
}

pub(super) fn attention(op: &Attention, inputs: &[Host]) -> Host {
    let (q, k, v) = (&inputs[0], &inputs[1], &inputs[2]);
    let (b, h, lq, width) = (q.shape[0], q.shape[1], q.shape[2], q.shape[3]);
    let (kv, lk, dv) = (k.shape[1], k.shape[2], v.shape[3]);
    let scale = f64::from(f32::from_bits(op.scale));
    let mask = matches!(op.mask, MaskKind::Array).then(|| &inputs[3]);
    let sinks = op.sinks.then(|| inputs[inputs.len() - 1].to_f64());
    let (qv, kf, vf) = (q.to_f64(), k.to_f64(), v.to_cx());
    let masks = mask.map(Host::to_f64);
    let mut out: Vec<Cx> = Vec::new();
    for t in 0..b {
        for head in 0..h {
            let group = t * kv + head / (h / kv);
            for i in 0..lq {
                let query = &qv[((t * h + head) * lq + i) * width..][..width];
                let score = |j: usize| {
                    let key = &kf[(group * lk + j) * width..][..width];
                    let s = scale * query.iter().zip(key).map(|(a, b)| a * b).sum::<f64>();
                    let last = (lk + i) as i64 - lq as i64;
                    let seen = match op.mask {
                        MaskKind::None | MaskKind::Array => true,
                        MaskKind::Causal { window } => {
                            let j = j as i64;
                            j <= last && window.is_none_or(|w| j > last - w as i64)
                        }
                    };
                    let added = match (mask, &masks) {
                        (Some(m), Some(values)) => {
                            let at = [t, head, i, j];
                            let st = strides(&m.shape);
                            let p: usize = (0..4).map(|a| at[a].min(m.shape[a] - 1) * st[a]).sum();
                            match m.dtype {
                                Dtype::Bool if values[p] == 0.0 => f64::NEG_INFINITY,
                                Dtype::Bool => 0.0,
                                _ => values[p],
                            }
                        }
                        _ => 0.0,
                    };
                    if seen { s + added } else { f64::NEG_INFINITY }
                };
                let scores: Vec<f64> = (0..lk).map(score).collect();
                let w: Vec<Cx> = weights(&scores, sinks.as_ref().map(|s| s[head]))
                    .iter()
                    .map(|&w| Cx::new(w, 0.0))
                    .collect();
                out.extend(product(&w, &vf[group * lk * dv..][..lk * dv], 1, lk, dv).0);
            }
        }
    }
    let sizes = vec![1.0; out.len()];
    Host::real(q.dtype, &[b, h, lq, dv], out.iter().map(|z| z.re).collect()).with_magnitude(sizes)
}
