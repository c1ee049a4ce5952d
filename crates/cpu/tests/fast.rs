//! Fused operations with MLX's parameters, against references in `f64` and values that MLX 0.32.4 gives.

use olivine_core::ops::Mask;
use olivine_core::{Array, Dtype, Error, Result, fast};

fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
        })
        .collect()
}

fn random(shape: &[usize], seed: u64) -> Result<Array> {
    olivine_cpu::register();
    Array::from_slice(&noise(shape.iter().product(), seed), shape)
}

fn assert_near(what: &str, a: &Array, b: &Array, bound: f64) -> Result<()> {
    assert_eq!(a.shape(), b.shape(), "{what}");
    let diff = a.astype(Dtype::F64)?.subtract(&b.astype(Dtype::F64)?)?.abs()?.max(&[], false)?;
    let diff = diff.item::<f64>()?;
    assert!(diff <= bound, "{what}: {diff}");
    Ok(())
}

/// Bound for a type whose numbers near 1 are this far apart.
fn unit(d: Dtype) -> f64 {
    match d {
        Dtype::F64 => 1e-14,
        Dtype::F32 => 2e-6,
        Dtype::F16 => 4e-3,
        _ => 3e-2,
    }
}

const TYPES: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];

#[test]
fn rope_takes_base_or_frequencies_and_offsets_of_each_kind() -> Result<()> {
    let x = random(&[2, 3, 4, 10], 1)?;
    let zero = Array::from_scalar(0i32);
    let freqs: Vec<f32> = (0..4).map(|i| 100f32.powf(2.0 * i as f32 / 8.0)).collect();
    let freqs = Array::from_slice(&freqs, &[4])?;
    for traditional in [false, true] {
        // Position by position, in f64.
        let values = x.to_vec::<f64>()?;
        let mut want = values.clone();
        let offsets = [5i64, 700];
        for (row, y) in want.chunks_mut(10).enumerate() {
            let position = (offsets[row / 12] + (row % 4) as i64) as f64 * 0.5;
            for i in 0..4 {
                let (a, b) = if traditional { (2 * i, 2 * i + 1) } else { (i, i + 4) };
                let angle = position / 100f64.powf(2.0 * i as f64 / 8.0);
                let (p, q) = (values[row * 10 + a], values[row * 10 + b]);
                y[a] = p * angle.cos() - q * angle.sin();
                y[b] = p * angle.sin() + q * angle.cos();
            }
        }
        let want = Array::from_slice(&want, &[2, 3, 4, 10])?;
        for d in TYPES {
            let bound = if d == Dtype::F64 { 1e-5 } else { unit(d).max(1e-4) };
            let offset = Array::from_slice(&offsets, &[2])?;
            let y = fast::rope(&x.astype(d)?, 8, traditional, Some(100.0), 0.5, &offset, None)?;
            assert_eq!(y.dtype(), d);
            assert_near("base", &y, &want, bound)?;
            let y = fast::rope(&x.astype(d)?, 8, traditional, None, 0.5, &offset, Some(&freqs))?;
            assert_near("freqs", &y, &want, bound)?;
        }
    }
    let rope = |base, freqs| fast::rope(&x, 8, false, base, 1.0, &zero, freqs);
    assert!(matches!(rope(None, None), Err(Error::Value { op: "rope", .. })));
    assert!(matches!(rope(Some(1e4), Some(&freqs)), Err(Error::Value { op: "rope", .. })));
    assert!(fast::rope(&x, 5, false, Some(1e4), 1.0, &zero, None).is_err());
    assert!(fast::rope(&x, 12, false, Some(1e4), 1.0, &zero, None).is_err());
    assert!(fast::rope(&x.astype(Dtype::I32)?, 8, false, Some(1e4), 1.0, &zero, None).is_err());
    assert!(fast::rope(&x, 8, false, Some(1e4), 1.0, &Array::from_scalar(0f32), None).is_err());
    Ok(())
}

#[test]
fn attention_with_every_mask_type_and_sinks() -> Result<()> {
    let (q, k, v) = (random(&[2, 4, 3, 8], 1)?, random(&[2, 2, 5, 8], 2)?, random(&[2, 2, 5, 6], 3)?);
    let sinks = random(&[4], 4)?;
    let seen: Vec<bool> = (0..15).map(|i| i % 4 != 1 && i < 10).collect();
    let added: Vec<f32> = seen.iter().map(|&s| if s { 0.25 } else { f32::NEG_INFINITY }).collect();
    let (seen, added) = (Array::from_slice(&seen, &[3, 5])?, Array::from_slice(&added, &[3, 5])?);
    for mask in [Mask::None, Mask::Causal, Mask::Array(seen), Mask::Array(added)] {
        for sinks in [None, Some(&sinks)] {
            let want = fast::scaled_dot_product_attention(&q, &k, &v, 0.3, &mask, sinks)?;
            // In f64, head by head.
            let (qv, kv, vv) = (q.to_vec::<f64>()?, k.to_vec::<f64>()?, v.to_vec::<f64>()?);
            let mv = match &mask {
                Mask::Array(m) if m.dtype() == Dtype::Bool => {
                    m.to_vec::<bool>()?.iter().map(|&s| if s { 0.0 } else { f64::NEG_INFINITY }).collect()
                }
                Mask::Array(m) => m.astype(Dtype::F64)?.to_vec::<f64>()?,
                Mask::Causal => {
                    (0..15).map(|i| if i % 5 <= i / 5 + 2 { 0.0 } else { f64::NEG_INFINITY }).collect()
                }
                _ => vec![0.0; 15],
            };
            let sv = sinks.map(|s| s.to_vec::<f64>()).transpose()?;
            let mut out = Vec::new();
            for (b, h, i) in (0..2).flat_map(|b| (0..4).flat_map(move |h| (0..3).map(move |i| (b, h, i)))) {
                let g = b * 2 + h / 2;
                let score = |j: usize| -> f64 {
                    let dot: f64 =
                        (0..8).map(|l| qv[((b * 4 + h) * 3 + i) * 8 + l] * kv[(g * 5 + j) * 8 + l]).sum();
                    // The factor is a float32.
                    dot * 0.3f32 as f64 + mv[i * 5 + j]
                };
                let w: Vec<f64> = (0..5).map(|j| score(j).exp()).collect();
                let sink = sv.as_ref().map_or(0.0, |s| (s[h] as f32 as f64).exp());
                let total = w.iter().sum::<f64>() + sink;
                for c in 0..6 {
                    let sum: f64 = (0..5).map(|j| w[j] * vv[(g * 5 + j) * 6 + c]).sum();
                    // A query that sees nothing gives zeros.
                    out.push(if total == 0.0 { 0.0 } else { sum / total });
                }
            }
            let exact = Array::from_slice(&out, &[2, 4, 3, 6])?;
            assert_near("f64", &want, &exact, 1e-13)?;
            for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
                let part = |x: &Array| x.astype(d);
                let y = fast::scaled_dot_product_attention(
                    &part(&q)?,
                    &part(&k)?,
                    &part(&v)?,
                    0.3,
                    &mask,
                    sinks,
                )?;
                assert_eq!(y.dtype(), d);
                assert_near("small", &y, &exact, unit(d))?;
            }
        }
    }
    // Mixed types meet in the wider one.
    let y = fast::scaled_dot_product_attention(
        &q.astype(Dtype::F32)?,
        &k.astype(Dtype::F16)?,
        &v.astype(Dtype::F16)?,
        0.3,
        &Mask::None,
        None,
    )?;
    assert_eq!(y.dtype(), Dtype::F32);
    Ok(())
}

#[test]
fn norms_of_f64_are_exact_and_large_values_do_not_overflow() -> Result<()> {
    let x = random(&[3, 16], 1)?.scale(1e3)?;
    let w = random(&[16], 2)?;
    let values = x.to_vec::<f64>()?;
    let wv = w.to_vec::<f64>()?;
    let want: Vec<f64> = values
        .chunks(16)
        .flat_map(|r| {
            let ms = r.iter().map(|x| x * x).sum::<f64>() / 16.0;
            let wv = &wv;
            r.iter()
                .enumerate()
                .map(move |(i, x)| x / (ms + 1e-5f32 as f64).sqrt() * wv[i])
                .collect::<Vec<_>>()
        })
        .collect();
    let want = Array::from_slice(&want, &[3, 16])?;
    for d in TYPES {
        let y = fast::rms_norm(&x.astype(d)?, Some(&w.astype(d)?), 1e-5)?;
        assert_near("rms_norm", &y, &want, unit(d))?;
    }
    // The square of 300 is beyond float16.
    let y = fast::rms_norm(&Array::full(&[1, 8], 300f32)?.astype(Dtype::F16)?, None, 1e-5)?;
    assert_eq!(y.astype(Dtype::F32)?.to_vec::<f32>()?, [1.0; 8]);
    let y = fast::layer_norm(&x, Some(&w), Some(&w), 1e-5)?;
    let mean = x.mean(&[-1], true)?;
    let c = x.subtract(&mean)?;
    let var = c.square()?.mean(&[-1], true)?;
    let want = c.divide(&var.add(&Array::from_scalar(1e-5f32 as f64))?.sqrt()?)?.multiply(&w)?.add(&w)?;
    assert_near("layer_norm", &y, &want, 1e-13)?;
    assert!(fast::rms_norm(&x, Some(&random(&[7], 1)?), 1e-5).is_err());
    assert!(fast::rms_norm(&Array::from_scalar(1f32), None, 1e-5).is_err());
    Ok(())
}

#[test]
fn cross_entropy_sums_wide_and_checks_its_targets() -> Result<()> {
    let logits = random(&[3, 7], 1)?.scale(4.0)?;
    let targets = Array::from_slice(&[0i32, 6, 3], &[3])?;
    let v = logits.to_vec::<f64>()?;
    let want: Vec<f64> = [0, 6, 3]
        .iter()
        .zip(v.chunks(7))
        .map(|(&t, r): (&usize, _)| r.iter().map(|x| x.exp()).sum::<f64>().ln() - r[t])
        .collect();
    let want = Array::from_slice(&want, &[3])?;
    for d in TYPES {
        let y = fast::cross_entropy(&logits.astype(d)?, &targets)?;
        assert_eq!(y.dtype(), if d == Dtype::F64 { Dtype::F64 } else { Dtype::F32 });
        assert_near("cross_entropy", &y, &want, 4.0 * unit(d))?;
    }
    let far = Array::from_slice(&[1e4f32, 0.0, -1e4], &[1, 3])?;
    let y = fast::cross_entropy(&far, &Array::from_slice(&[2u8], &[1])?)?;
    assert_eq!(y.item::<f32>()?, 2e4);
    let e = fast::cross_entropy(&logits, &Array::from_slice(&[0i32, 7, 0], &[3])?)?.eval();
    assert!(matches!(e, Err(Error::Index { .. })), "{e:?}");
    assert!(matches!(fast::cross_entropy(&logits, &targets.expand_dims(&[1])?), Err(Error::Shape { .. })));
    assert!(matches!(fast::cross_entropy(&logits, &logits), Err(Error::Dtype { .. })));
    Ok(())
}

#[test]
fn gated_delta_rule_step_by_step() -> Result<()> {
    let (b, t, hk, hv, dk, dv) = (2, 5, 2, 4, 8, 6);
    let (q, k) = (random(&[b, t, hk, dk], 1)?, random(&[b, t, hk, dk], 2)?);
    let (v, state) = (random(&[b, t, hv, dv], 3)?, random(&[b, hv, dv, dk], 4)?);
    let (gamma, beta) = (random(&[b, t, hv], 5)?.abs()?, random(&[b, t, hv], 6)?.abs()?);
    let seen: Vec<bool> = (0..b * t).map(|i| i % 3 != 1).collect();
    let mask = Array::from_slice(&seen, &[b, t])?;
    for masked in [false, true] {
        let (qv, kv, vv) = (q.to_vec::<f64>()?, k.to_vec::<f64>()?, v.to_vec::<f64>()?);
        let (gv, bv) = (gamma.to_vec::<f64>()?, beta.to_vec::<f64>()?);
        let mut s = state.to_vec::<f64>()?;
        let mut y = vec![0.0; b * t * hv * dv];
        for (i, step, h) in (0..b).flat_map(|i| (0..t).flat_map(move |s| (0..hv).map(move |h| (i, s, h)))) {
            if masked && !seen[i * t + step] {
                continue;
            }
            let at = ((i * t + step) * hk + h / 2) * dk;
            let (key, query) = (&kv[at..at + dk], &qv[at..at + dk]);
            let gate = (i * t + step) * hv + h;
            for r in 0..dv {
                let row = &mut s[((i * hv + h) * dv + r) * dk..][..dk];
                row.iter_mut().for_each(|x| *x *= gv[gate]);
                let known: f64 = row.iter().zip(key).map(|(x, k)| x * k).sum();
                let delta = (vv[gate * dv + r] - known) * bv[gate];
                row.iter_mut().zip(key).for_each(|(x, k)| *x += delta * k);
                y[gate * dv + r] = row.iter().zip(query).map(|(x, q)| x * q).sum();
            }
        }
        let (y, s) = (Array::from_slice(&y, v.shape())?, Array::from_slice(&s, state.shape())?);
        for d in [Dtype::F64, Dtype::F32, Dtype::BF16] {
            let part = |x: &Array| x.astype(d);
            let (got, last) = fast::gated_delta_update(
                &part(&q)?,
                &part(&k)?,
                &part(&v)?,
                &part(&gamma)?,
                &part(&beta)?,
                Some(&state),
                masked.then_some(&mask),
            )?;
            assert_eq!(got.dtype(), d);
            assert_eq!(last.dtype(), if d == Dtype::F64 { Dtype::F64 } else { Dtype::F32 });
            let bound = if d == Dtype::BF16 { 0.2 } else { 10.0 * unit(d) };
            assert_near("outputs", &got, &y, bound)?;
            assert_near("state", &last, &s, bound)?;
        }
    }
    // One decay for each key feature, all equal, is one for the head.
    let wide = gamma.expand_dims(&[-1])?.broadcast_to(&[b, t, hv, dk])?;
    let one = fast::gated_delta_update(&q, &k, &v, &gamma, &beta, None, None)?;
    let many = fast::gated_delta_update(&q, &k, &v, &wide, &beta, None, None)?;
    assert_near("wide", &one.0, &many.0, 1e-14)?;
    let odd = v.slice_axis(2, 0, 3)?;
    let e = fast::gated_delta_update(&q, &k, &odd, &gamma, &beta, None, None);
    assert!(matches!(e, Err(Error::Shape { op: "gated_delta_update", .. })));
    Ok(())
}
