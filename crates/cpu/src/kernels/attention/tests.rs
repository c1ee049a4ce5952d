use super::*;
use crate::lanes::Element;
use half::{bf16, f16};

const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

fn noise(n: usize, seed: u32) -> Vec<f32> {
    (0..n as u32)
        .map(|i| ((i + 1).wrapping_mul(2_654_435_761 + 2 * seed) >> 8) as f32 / (1u32 << 23) as f32 - 1.0)
        .collect()
}

/// An attention's extents, with plain options.
fn extents(
    batch: usize,
    q_heads: usize,
    kv_heads: usize,
    q_len: usize,
    k_len: usize,
    dim: usize,
    v_dim: usize,
) -> Attention<'static> {
    Attention {
        batch,
        q_heads,
        kv_heads,
        q_len,
        k_len,
        dim,
        v_dim,
        scale: 1.5 / (dim as f32).sqrt(),
        causal: false,
        window: None,
        mask: None,
        sinks: None,
        key_ranges: None,
    }
}

/// Strides of a contiguous `[batch, heads, len, width]`, or of its transpose `[batch, len, heads, width]`.
fn strides(heads: usize, len: usize, width: usize, transposed: bool) -> [usize; 3] {
    if transposed {
        [heads * len * width, width, heads * width]
    } else {
        [heads * len * width, len * width, width]
    }
}

/// The definition, in f64.
fn reference<T: Element>(
    q: (&[T], [usize; 3]),
    k: (&[T], [usize; 3]),
    v: (&[T], [usize; 3]),
    a: &Attention<'_>,
) -> Vec<f64> {
    let get = |x: (&[T], [usize; 3]), b: usize, h: usize, l: usize, d: usize| {
        x.0[b * x.1[0] + h * x.1[1] + l * x.1[2] + d].to_f32() as f64
    };
    let mut out = Vec::new();
    for b in 0..a.batch {
        for h in 0..a.q_heads {
            let kv = h / (a.q_heads / a.kv_heads);
            for i in 0..a.q_len {
                let scores: Vec<f64> = (0..a.k_len)
                    .map(|j| {
                        let (start, end) = a.key_ranges.map_or((0, a.k_len), |r| r[b]);
                        let position = end as i64 - a.q_len as i64 + i as i64;
                        let far = a.window.is_some_and(|w| j as i64 <= position - w as i64);
                        if j < start || j >= end || a.causal && (j as i64 > position || far) {
                            return f64::NEG_INFINITY;
                        }
                        let dot: f64 = (0..a.dim).map(|d| get(q, b, h, i, d) * get(k, b, kv, j, d)).sum();
                        let at = |s: [usize; 4]| b * s[0] + h * s[1] + i * s[2] + j * s[3];
                        dot * a.scale as f64
                            + match a.mask {
                                None => 0.0,
                                Some(ArrayMask::Additive { data, strides }) => data[at(strides)] as f64,
                                Some(ArrayMask::Boolean { data, strides }) if data[at(strides)] == 0 => {
                                    f64::NEG_INFINITY
                                }
                                Some(ArrayMask::Boolean { .. }) => 0.0,
                            }
                    })
                    .collect();
                let sink = a.sinks.map_or(f64::NEG_INFINITY, |s| s[h] as f64);
                let most = scores.iter().copied().fold(sink, f64::max);
                let weights: Vec<f64> =
                    scores.iter().map(|s| if most.is_infinite() { 0.0 } else { (s - most).exp() }).collect();
                let total: f64 =
                    weights.iter().sum::<f64>() + if sink.is_finite() { (sink - most).exp() } else { 0.0 };
                for d in 0..a.v_dim {
                    let sum: f64 = weights
                        .iter()
                        .enumerate()
                        .map(|(j, w)| if *w == 0.0 { 0.0 } else { w * get(v, b, kv, j, d) })
                        .sum();
                    out.push(if total == 0.0 { 0.0 } else { sum / total });
                }
            }
        }
    }
    out
}

fn view<'a, T>(x: &'a (Vec<T>, [usize; 3])) -> Operand<'a>
where
    Floats<'a>: From<&'a [T]>,
{
    Operand { data: x.0.as_slice().into(), strides: x.1 }
}

fn check<T: Element>(a: &Attention<'_>, transposed: bool, tolerance: f64)
where
    for<'a> Floats<'a>: From<&'a [T]>,
    for<'a> FloatsMut<'a>: From<&'a mut [T]>,
{
    let make = |heads: usize, len: usize, width: usize, seed| -> (Vec<T>, [usize; 3]) {
        (
            noise(a.batch * heads * len * width, seed).into_iter().map(T::from_f32).collect(),
            strides(heads, len, width, transposed),
        )
    };
    let q = make(a.q_heads, a.q_len, a.dim, 1);
    let k = make(a.kv_heads, a.k_len, a.dim, 2);
    let v = make(a.kv_heads, a.k_len, a.v_dim, 3);
    let want = reference((&q.0, q.1), (&k.0, k.1), (&v.0, v.1), a);
    for at in LEVELS {
        let mut got = vec![T::from_f32(9.0); want.len()];

        attention_at(at, view(&q), view(&k), view(&v), a, got.as_mut_slice().into()).unwrap();
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let got = got.to_f32() as f64;
            assert!((got - want).abs() <= tolerance, "{at:?} {a:?} at {i}: {got}, not {want}");
        }
    }
}

#[test]
fn extents_heads_and_causality() {
    for (b, hq, hkv, lq, lk, d, dv) in [
        (1, 1, 1, 1, 1, 64, 64),
        (2, 6, 2, 1, 70, 64, 64),
        (1, 4, 1, 1, 1100, 256, 256),
        (1, 9, 3, 1, 300, 64, 64),
        (1, 2, 2, 130, 130, 64, 64),
        (2, 4, 2, 37, 101, 96, 96),
        (1, 3, 1, 65, 65, 128, 128),
        (1, 1, 1, 5, 3, 16, 8),
        (1, 2, 1, 20, 200, 80, 40),
        (1, 2, 2, 9, 17, 5, 3),
        (1, 8, 1, 2, 600, 32, 48),
        (3, 2, 2, 8, 64, 256, 256),
    ] {
        for causal in [false, true] {
            for transposed in [false, true] {
                check::<f32>(&Attention { causal, ..extents(b, hq, hkv, lq, lk, d, dv) }, transposed, 3e-6);
            }
        }
    }
}

#[test]
fn storage_types() {
    for a in [extents(1, 6, 2, 33, 90, 64, 64), extents(1, 4, 2, 1, 600, 96, 40)] {
        check::<f16>(&a, true, 1e-3);
        check::<bf16>(&a, false, 8e-3);
    }
}

#[test]
fn windows_and_padding() {
    for window in [1, 2, 16, 63, 64, 65, 500] {
        check::<f32>(
            &Attention { causal: true, window: Some(window), ..extents(1, 2, 1, 140, 200, 32, 32) },
            false,
            3e-6,
        );
        check::<f32>(
            &Attention { causal: true, window: Some(window), ..extents(1, 2, 1, 1, 900, 32, 32) },
            false,
            3e-6,
        );
    }
    let ranges = [(0, 75), (3, 64), (10, 10), (70, 75), (0, 5)];
    for (causal, window) in [(false, None), (true, None), (true, Some(20))] {
        check::<f32>(
            &Attention { causal, window, key_ranges: Some(&ranges), ..extents(5, 2, 1, 30, 75, 16, 16) },
            true,
            3e-6,
        );
    }
}

#[test]
fn array_masks_with_every_broadcast() {
    let (b, h, lq, lk) = (2, 4, 19, 83);
    let add: Vec<f32> = noise(b * h * lq * lk, 5)
        .iter()
        .map(|&x| if x > 0.7 { f32::NEG_INFINITY } else { 3.0 * x })
        .collect();
    let keep: Vec<u8> = noise(b * h * lq * lk, 6).iter().map(|&x| (x < 0.5) as u8).collect();
    for strides in [
        [h * lq * lk, lq * lk, lk, 1],
        [0, 0, lk, 1],
        [lk, 0, 0, 1],
        [0, lk, 0, 1],
        [0, 0, 1, 0],
        [0, 0, 1, lq],
        [0; 4],
    ] {
        for mask in [ArrayMask::Additive { data: &add, strides }, ArrayMask::Boolean { data: &keep, strides }]
        {
            for causal in [false, true] {
                check::<f32>(
                    &Attention { causal, mask: Some(mask), ..extents(b, h, 2, lq, lk, 32, 16) },
                    false,
                    3e-6,
                );
            }
        }
    }
    let mask = Some(ArrayMask::Additive { data: &add, strides: [0, 0, 0, 1] });
    check::<f32>(&Attention { mask, ..extents(1, 3, 1, 1, 1000, 64, 64) }, false, 3e-6);
}

#[test]
fn sinks_take_their_share() {
    let sinks = [0.5, -20.0, 30.0, f32::NEG_INFINITY];
    for (lq, lk) in [(1, 40), (1, 900), (50, 70)] {
        check::<f32>(
            &Attention { causal: true, sinks: Some(&sinks), ..extents(1, 4, 2, lq, lk, 64, 64) },
            false,
            3e-6,
        );
    }
}

#[test]
fn queries_that_see_nothing_give_zeros_even_over_nan() {
    let k = [f32::NAN; 3 * 16];
    let q = [1.0f32; 2 * 16];
    let op = |x: &'static [f32], n: usize| Operand { data: Floats::F32(x), strides: [n * 16, n * 16, 16] };
    let (k, q): (&'static [f32], &'static [f32]) = (k.to_vec().leak(), q.to_vec().leak());
    for (mask, key_ranges) in [
        (Some(ArrayMask::Boolean { data: &[0], strides: [0; 4] }), None),
        (Some(ArrayMask::Additive { data: &[f32::NEG_INFINITY], strides: [0; 4] }), None),
        (None, Some(&[(1, 1)][..])),
    ] {
        let a = Attention { mask, key_ranges, ..extents(1, 1, 1, 2, 3, 16, 16) };
        let mut out = [5.0f32; 32];
        // A finite score under the mask: keys are finite here, values are not.
        scaled_dot_product_attention(op(q, 2), op(&[1.0; 48], 3), op(k, 3), &a, FloatsMut::F32(&mut out))
            .unwrap();
        assert_eq!(out, [0.0; 32], "{mask:?}");
    }
}

#[test]
fn nan_and_large_scores() {
    let a = Attention { scale: 1.0, ..extents(1, 1, 1, 2, 100, 16, 16) };
    let op = |x: &'static [f32]| Operand { data: Floats::F32(x), strides: [x.len(), x.len(), 16] };
    let mut k = noise(1600, 4);
    let v: &[f32] = noise(1600, 5).leak();
    // Scores of thousands: only the largest key counts, without overflow.
    k[16 * 80..16 * 81].fill(900.0);
    let mut out = [0.0f32; 32];
    scaled_dot_product_attention(op(&[1.0; 32]), op(k.clone().leak()), op(v), &a, FloatsMut::F32(&mut out))
        .unwrap();
    assert_eq!(out[..16], v[16 * 80..16 * 81]);
    k[16 * 3] = f32::NAN;
    scaled_dot_product_attention(op(&[1.0; 32]), op(k.leak()), op(v), &a, FloatsMut::F32(&mut out)).unwrap();
    assert!(out.iter().all(|x| x.is_nan()));
}

#[test]
fn wrong_sizes_are_errors() {
    let x = [0.0f32; 64];
    let op = |n| Operand { data: Floats::F32(&x[..n]), strides: [32, 32, 8] };
    let a = extents(1, 2, 1, 4, 4, 8, 8);
    let run = |a: &Attention<'_>, q, k, v, n: usize| {
        let mut out = [0.0f32; 128];
        scaled_dot_product_attention(op(q), op(k), op(v), a, FloatsMut::F32(&mut out[..n]))
            .map_err(|e| e.to_string())
    };
    assert_eq!(run(&a, 64, 32, 32, 64), Ok(()));
    for (result, part) in [
        (run(&a, 63, 32, 32, 64), "q has 63"),
        (run(&a, 64, 31, 32, 64), "k has 31"),
        (run(&a, 64, 32, 31, 64), "v has 31"),
        (run(&a, 64, 32, 32, 63), "63 elements"),
        (run(&Attention { q_heads: 3, kv_heads: 2, ..a }, 64, 64, 64, 96), "3 query heads"),
        (run(&Attention { kv_heads: 0, ..a }, 64, 32, 32, 64), "0 key-value heads"),
        (run(&Attention { window: Some(3), ..a }, 64, 32, 32, 64), "causal"),
        (run(&Attention { window: Some(0), causal: true, ..a }, 64, 32, 32, 64), "no keys"),
        (run(&Attention { sinks: Some(&[0.0]), ..a }, 64, 32, 32, 64), "1 sinks"),
        (run(&Attention { key_ranges: Some(&[(0, 5)]), ..a }, 64, 32, 32, 64), "0..5"),
        (run(&Attention { key_ranges: Some(&[]), ..a }, 64, 32, 32, 64), "0 key ranges"),
        (run(&Attention { k_len: usize::MAX, ..a }, 64, 32, 32, 64), "k has 32"),
        (
            run(
                &Attention { mask: Some(ArrayMask::Boolean { data: &[1; 15], strides: [0, 0, 4, 1] }), ..a },
                64,
                32,
                32,
                64,
            ),
            "mask has 15",
        ),
    ] {
        let e = result.unwrap_err();
        assert!(e.starts_with("[scaled_dot_product_attention]") && e.contains(part), "{e}");
    }
}
