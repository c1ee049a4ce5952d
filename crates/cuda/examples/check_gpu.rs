//! The GPU against the CPU, family by family. A program rather than a test, since it needs an NVIDIA GPU:
//! `cargo run -p olivine-cuda --example check_gpu [FAMILY ...]`. Ends with an error when anything differs.

use olivine_core::op::{Affine, Binary, MaskKind, Op, Quant, ScatterMode, Unary};
use olivine_core::{Array, Device, DeviceKind, Dtype, Result, Stream, async_eval, eval, random};

const GPU: Stream = Stream::default_of(Device::new(DeviceKind::Cuda, 0));
const CPU: Stream = Stream::default_of(Device::CPU);

fn start() {
    olivine_cpu::register();
    olivine_cuda::register();
    olivine_cuda::probe().unwrap();
}

/// What went wrong, so that one run shows all of it.
#[derive(Default)]
struct Report(Vec<String>);

impl Report {
    /// Computes on both devices. `tolerance` is relative to the largest magnitude; 0 asks for equal values.
    fn check(&mut self, what: &str, tolerance: f64, f: impl Fn() -> Result<Vec<Array>>) {
        let want = CPU.scope(&f).and_then(|a| eval(&a).map(|()| a));
        let got = GPU.scope(&f).and_then(|a| eval(&a).map(|()| a));
        let (want, got) = match (want, got) {
            (Ok(w), Ok(g)) => (w, g),
            (Err(_), Err(_)) => return,
            (w, g) => {
                return self.0.push(format!("{what}: CPU {:?}, GPU {:?}", w.err(), g.err()));
            }
        };
        for (i, (w, g)) in want.iter().zip(&got).enumerate() {
            if let Err(e) = compare(w, g, tolerance) {
                self.0.push(format!("{what} #{i} {} {}: {e}", w.dtype(), w.shape()));
            }
        }
    }

    fn end(self) {
        let all = self.0.iter().take(40).map(|s| s.chars().take(400).collect::<String>());
        assert!(self.0.is_empty(), "{} failures:\n{}", self.0.len(), all.collect::<Vec<_>>().join("\n"));
    }
}

fn values(a: &Array) -> Result<Vec<f64>> {
    CPU.scope(|| {
        if a.dtype() == Dtype::C64 {
            let mut v = a.real()?.astype(Dtype::F64)?.to_vec::<f64>()?;
            v.extend(a.imag()?.astype(Dtype::F64)?.to_vec::<f64>()?);
            return Ok(v);
        }
        a.astype(Dtype::F64)?.to_vec()
    })
}

fn compare(want: &Array, got: &Array, tolerance: f64) -> std::result::Result<(), String> {
    if want.shape() != got.shape() || want.dtype() != got.dtype() {
        return Err(format!("{} {}", got.dtype(), got.shape()));
    }
    let whole = matches!(want.dtype(), Dtype::I64 | Dtype::U64);
    if whole && want.to_bytes().map_err(|e| e.to_string())? == got.to_bytes().map_err(|e| e.to_string())? {
        return Ok(());
    }
    let (w, g) = (values(want).map_err(|e| e.to_string())?, values(got).map_err(|e| e.to_string())?);
    let mut worst = (0.0, None);
    for (i, (&a, &b)) in w.iter().zip(&g).enumerate() {
        if a.is_nan() && b.is_nan() || a == b {
            continue;
        }
        let miss = (a - b).abs() / a.abs().max(1.0);
        let miss = if miss.is_nan() || a.is_infinite() || b.is_infinite() { f64::INFINITY } else { miss };
        if miss > worst.0 || worst.1.is_none() {
            worst = (miss, Some((i, a, b)));
        }
    }
    match worst {
        (miss, Some((i, a, b))) if miss > tolerance || whole => {
            Err(format!("at {i}: {a} on the CPU, {b} on the GPU (off by {miss:.2e})"))
        }
        _ => Ok(()),
    }
}

/// One rounding to a type, roughly.
fn unit(d: Dtype) -> f64 {
    match d {
        Dtype::F16 => 1e-3,
        Dtype::BF16 => 8e-3,
        Dtype::F64 => 1e-12,
        _ => 3e-6,
    }
}

const EDGES: [f64; 16] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.75,
    1e-3,
    7.0,
    -8.0,
    127.0,
    -128.0,
    300.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// Numbers of a type with its edges among them.
fn sample(n: usize, d: Dtype, salt: u64) -> Result<Array> {
    CPU.scope(|| {
        let mut s = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let v: Vec<f64> = (0..n)
            .map(|i| {
                s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if (i + salt as usize).is_multiple_of(7) {
                    EDGES[(s >> 33) as usize % EDGES.len()]
                } else {
                    ((s >> 40) as f64 / (1u64 << 24) as f64 - 0.5) * 16.0
                }
            })
            .collect();
        let a = Array::from_slice(&v, &[n])?.astype(d)?;
        a.eval()?;
        Ok(a)
    })
}

/// Finite numbers of moderate size.
fn plain(shape: &[usize], d: Dtype, salt: u64) -> Result<Array> {
    CPU.scope(|| {
        let n: usize = shape.iter().product();
        let mut s = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let v: Vec<f32> = (0..n)
            .map(|_| {
                s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((s >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * 4.0
            })
            .collect();
        let a = Array::from_slice(&v, shape)?.astype(d)?;
        a.eval()?;
        Ok(a)
    })
}

fn elementwise_of_every_type() {
    start();
    let mut r = Report::default();
    for d in Dtype::ALL {
        let (a, b) = (sample(301, d, 1).unwrap(), sample(301, d, 2).unwrap());
        // Through halves the two sides may round the same real number differently by one step.
        for u in Unary::ALL {
            if u.output(d).is_ok() {
                let tolerance = if d.is_inexact() { 4.0 * unit(d) } else { 0.0 };
                r.check(&format!("{u:?} {d}"), tolerance, || {
                    Ok(vec![Array::from_op(Op::Unary(u), std::slice::from_ref(&a))?])
                });
            }
        }
        for o in Binary::ALL {
            if o.output(d).is_ok() {
                let tolerance = if d.is_inexact() { 4.0 * unit(d) } else { 0.0 };
                r.check(&format!("{o:?} {d}"), tolerance, || {
                    Ok(vec![Array::from_op(Op::Binary(o), &[a.clone(), b.clone()])?])
                });
            }
        }
        for to in Dtype::ALL {
            r.check(&format!("{d} to {to}"), 0.0, || Ok(vec![a.astype(to)?]));
        }
        let c = sample(301, Dtype::Bool, 3).unwrap();
        r.check(&format!("where {d}"), 0.0, || Ok(vec![Array::select(&c, &a, &b)?]));
        r.check(&format!("arange {d}"), 0.0, || Ok(vec![Array::arange(1.0, 50.0, 2.0, d)?]));
    }
    r.end();
}

fn layouts_and_fusion() {
    start();
    let mut r = Report::default();
    for d in [Dtype::F32, Dtype::BF16, Dtype::U8, Dtype::F64] {
        let a = plain(&[6, 5, 8], d, 4).unwrap();
        let row = plain(&[8], d, 5).unwrap();
        r.check(&format!("transposed {d}"), 0.0, || {
            Ok(vec![a.transpose(&[2, 0, 1])?.reshape(&[40, 6])?, a.transpose(&[1, 0, 2])?.flatten()?])
        });
        r.check(&format!("row {d}"), 0.0, || Ok(vec![a.add(&row)?]));
        r.check(&format!("column {d}"), 0.0, || Ok(vec![a.add(&a.slice_axis(-1, 2, 3)?)?]));
        r.check(&format!("sliced {d}"), 0.0, || {
            let s = a.slice(&[(None, None, -1), (Some(1), None, 2), (Some(1), Some(7), 1)])?;
            Ok(vec![s.add(&s)?, s.flatten()?])
        });
        r.check(&format!("concatenate {d}"), 0.0, || {
            Ok(vec![
                Array::concatenate(&[a.clone(), a.clone()], 1)?,
                Array::concatenate(&[a.swapaxes(0, 2)?, a.swapaxes(0, 2)?.slice_axis(2, 1, 4)?], -1)?,
            ])
        });
        r.check(&format!("slice_update {d}"), 0.0, || {
            Ok(vec![a.slice_update(&a.slice_axis(0, 1, 3)?.slice_axis(2, 0, 5)?, &[2, 0, 3])?])
        });
    }
    let x = plain(&[1000, 37], Dtype::F32, 6).unwrap();
    r.check("silu", 1e-6, || Ok(vec![x.silu()?.multiply(&x)?.add(&x.scale(0.5)?)?]));
    r.check("gelu", 1e-6, || Ok(vec![x.gelu()?]));
    r.check("large", 0.0, || Ok(vec![Array::arange(0.0, 3e6, 1.0, Dtype::F32)?.scale(2.0)?]));
    r.end();
}

/// Three axes, once with edges and once with fine numbers.
fn cubes(d: Dtype) -> [(String, Array); 2] {
    let edges = sample(1200, d, 7).unwrap();
    let edges = CPU.scope(|| edges.reshape(&[3, 40, 10])).unwrap();
    [(format!("edges {d}"), edges), (format!("plain {d}"), plain(&[5, 130, 33], d, 8).unwrap())]
}

fn sums(d: Dtype) -> f64 {
    if d.is_inexact() { 64.0 * unit(d) } else { 0.0 }
}

fn reductions() {
    start();
    let mut r = Report::default();
    for d in Dtype::ALL {
        for (name, a) in &cubes(d) {
            for axes in [&[0][..], &[1], &[2], &[0, 2], &[0, 1], &[]] {
                let name = format!("{name} {axes:?}");
                r.check(&format!("sum {name}"), sums(d), || Ok(vec![a.sum(axes, false)?]));
                r.check(&format!("max {name}"), 0.0, || Ok(vec![a.max(axes, false)?, a.min(axes, true)?]));
                r.check(&format!("all {name}"), 0.0, || Ok(vec![a.all(axes, false)?, a.any(axes, false)?]));
            }
            for along in [0, 1, 2] {
                // What comes of infinite complex factors depends on their order.
                if d == Dtype::C64 && name.starts_with("edges") {
                    continue;
                }
                let t = if d.is_inexact() { 1e-2 } else { 0.0 };
                r.check(&format!("prod {name} {along}"), t, || {
                    Ok(vec![a.slice_axis(along, 0, 3)?.prod(&[along], false)?])
                });
                r.check(&format!("argmax {name} {along}"), 0.0, || {
                    Ok(vec![a.argmax(along, false)?, a.argmin(along, true)?])
                });
            }
        }
    }
    let long = plain(&[3_000_001], Dtype::F32, 9).unwrap();
    r.check("long", 1e-4, || Ok(vec![long.sum(&[], false)?, long.max(&[], false)?, long.argmax(0, false)?]));
    let wide = plain(&[3000, 130], Dtype::F32, 9).unwrap();
    r.check("wide", 1e-4, || Ok(vec![wide.sum(&[0], false)?, wide.t()?.sum(&[0], false)?]));
    r.end();
    let tenth = CPU.scope(|| Array::full(&[20_000_000], 0.1f32)).unwrap();
    let zeros = CPU.scope(|| Array::zeros(&[20_000_000], Dtype::F32)).unwrap();
    let sum = GPU.scope(|| tenth.add(&zeros)?.sum(&[], false)?.item::<f32>()).unwrap();
    assert!((f64::from(sum) / (2e7 * f64::from(0.1f32)) - 1.0).abs() < 1e-6, "{sum}");
}

fn scans() {
    start();
    let mut r = Report::default();
    for d in Dtype::ALL {
        for (name, a) in &cubes(d) {
            for along in [0, 1, 2] {
                for (reverse, inclusive) in [(false, true), (true, true), (false, false), (true, false)] {
                    let name = format!("{name} {along} {reverse} {inclusive}");
                    r.check(&format!("cumsum {name}"), 4.0 * sums(d), || {
                        Ok(vec![a.cumsum(along, reverse, inclusive)?])
                    });
                    r.check(&format!("cummax {name}"), 0.0, || {
                        Ok(vec![a.cummax(along, reverse, inclusive)?, a.cummin(along, reverse, inclusive)?])
                    });
                    r.check(&format!("logcumsumexp {name}"), sums(d).max(1e-5), || {
                        Ok(vec![a.logcumsumexp(along, reverse, inclusive)?])
                    });
                }
            }
        }
    }
    let long = plain(&[300_001], Dtype::F32, 9).unwrap();
    r.check("long cumsum", 1e-3, || Ok(vec![long.cumsum(0, false, true)?]));
    r.end();
}

fn sorts() {
    start();
    let mut r = Report::default();
    for d in Dtype::ALL {
        for (name, a) in &cubes(d) {
            for along in [0, 1, 2] {
                r.check(&format!("sort {name} {along}"), 0.0, || {
                    Ok(vec![a.sort(along, false)?, a.argsort(along, true)?, a.sort(along, true)?])
                });
            }
        }
    }
    let long = plain(&[3_000_001], Dtype::F32, 9).unwrap();
    r.check("long sort", 0.0, || Ok(vec![long.sort(0, false)?, long.argsort(0, true)?]));
    r.end();
}

fn rows_and_random() {
    start();
    let mut r = Report::default();
    for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for shape in [&[7, 5][..], &[3, 64], &[2, 3, 576], &[4, 4097], &[2, 70_000], &[300, 8192]] {
            let x = plain(shape, d, 10).unwrap();
            let n = shape[shape.len() - 1];
            let (w, b) = (plain(&[n], d, 11).unwrap(), plain(&[n], Dtype::F32, 12).unwrap());
            let t = 2.0 * unit(d);
            r.check(&format!("softmax {d} {shape:?}"), t, || {
                Ok(vec![x.softmax(-1)?, x.logsumexp(-1, true)?])
            });
            r.check(&format!("norm {d} {shape:?}"), 4.0 * t, || {
                Ok(vec![
                    x.rms_norm(Some(&w), 1e-5)?,
                    x.rms_norm(None, 1e-5)?,
                    x.layer_norm(Some(&w), Some(&b), 1e-5)?,
                    x.layer_norm(None, None, 1e-5)?,
                ])
            });
        }
        let edges = sample(4 * 100, d, 13).unwrap();
        r.check(&format!("softmax edges {d}"), 2.0 * unit(d), || {
            let e = edges.reshape(&[4, 100])?;
            Ok(vec![e.softmax(-1)?, e.logsumexp(-1, false)?])
        });
        let x = plain(&[2, 3, 9, 16], d, 14).unwrap();
        let freqs = plain(&[6], Dtype::F32, 15).unwrap();
        let at = Array::from_slice(&[5i32, 1000], &[2]).unwrap();
        for traditional in [false, true] {
            r.check(&format!("rope {d} {traditional}"), 2.0 * unit(d), || {
                Ok(vec![
                    x.rope(16, traditional, 10_000.0, 1.0, &Array::from_scalar(3i32), None)?,
                    x.rope(12, traditional, 1.0, 0.5, &at, Some(&freqs))?,
                    x.swapaxes(1, 2)?.rope(8, traditional, 500.0, 1.0, &at, None)?,
                ])
            });
        }
    }
    let key = random::key(7).unwrap();
    for (shape, width) in [(&[1001][..], 4), (&[77], 2), (&[3, 5], 1), (&[1 << 18], 4)] {
        r.check("bits", 0.0, || Ok(vec![random::bits(shape, width, Some(&key))?]));
    }
    r.check("uniform", 0.0, || Ok(vec![random::uniform(0.0, 1.0, &[999], Dtype::F32, Some(&key))?]));
    r.check("normal", 1e-5, || Ok(vec![random::normal(&[999], Dtype::F32, 0.0, 1.0, Some(&key))?]));
    r.check("split", 0.0, || Ok(vec![random::split(&key, 5)?]));
    r.end();
}

fn indexing() {
    start();
    let mut r = Report::default();
    for d in Dtype::ALL {
        let x = plain(&[50, 6, 16], d, 16).unwrap();
        let rows = Array::from_slice(&[3i32, -1, 0, 3, 49, -50], &[2, 3]).unwrap();
        let columns = Array::from_slice(&[1i64, 2, -1, 0, 5, 3], &[2, 3]).unwrap();
        r.check(&format!("take {d}"), 0.0, || {
            Ok(vec![
                x.take(&rows, 0)?,
                x.take(&Array::from_slice(&[2u32, 0], &[2])?, -1)?,
                x.swapaxes(0, 2)?.take(&rows, 2)?,
            ])
        });
        r.check(&format!("gather {d}"), 0.0, || {
            Ok(vec![
                x.gather(&[rows.clone(), columns.clone()], &[0, 1], &[1, 1, 16])?,
                x.gather(std::slice::from_ref(&columns), &[1], &[50, 1, 5])?,
            ])
        });
        let updates = plain(&[2, 3, 1, 1, 16], d, 17).unwrap();
        for mode in
            [ScatterMode::Set, ScatterMode::Add, ScatterMode::Prod, ScatterMode::Max, ScatterMode::Min]
        {
            r.check(&format!("scatter {mode:?} {d}"), 4.0 * unit(d), || {
                Ok(vec![x.scatter(&[rows.clone(), columns.clone()], &updates, &[0, 1], mode)?])
            });
        }
        let i = Array::from_slice(&[0i32, 15, -1, 3, 3, 2], &[1, 6, 1]).unwrap();
        let i = CPU.scope(|| i.broadcast_to(&[50, 6, 1])).unwrap();
        r.check(&format!("along {d}"), 0.0, || {
            let values = x.slice_axis(2, 4, 5)?;
            Ok(vec![x.take_along_axis(&i, 2)?, x.put_along_axis(&i, &values, 2)?])
        });
    }
    r.end();
    // A bad index is an error that names the operation, and the stream works afterwards.
    let x = plain(&[10, 4], Dtype::F32, 18).unwrap();
    let bad = Array::from_slice(&[3i32, 10], &[2]).unwrap();
    let y = GPU.scope(|| x.take(&bad, 0)).unwrap();
    let e = y.to_vec::<f32>().unwrap_err().to_string();
    assert!(e.contains("gather") && e.contains("index 10") && e.contains("size 10"), "{e}");
    let fine = GPU.scope(|| x.add(&x)).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(fine.len(), 40);
    assert!(y.to_vec::<f32>().is_err(), "what was lost stays lost");
}

fn products_attention_and_packed_weights() {
    start();
    let mut r = Report::default();
    for d in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::C64] {
        let t = 8.0 * unit(d);
        for (lead, m, k, n) in [(&[][..], 5, 7, 3), (&[2, 3], 4, 6, 5), (&[3], 1, 8, 9), (&[], 64, 128, 96)] {
            let dims = |a, b| [lead, &[a, b]].concat();
            let (a, b) = (plain(&dims(m, k), d, 19).unwrap(), plain(&dims(k, n), d, 20).unwrap());
            let bt = CPU.scope(|| b.swapaxes(-1, -2)?.add(&b.swapaxes(-1, -2)?)).unwrap();
            r.check(&format!("matmul {d} {lead:?} {m} {k} {n}"), t, || {
                Ok(vec![
                    a.matmul(&b)?,
                    a.matmul(&bt.swapaxes(-1, -2)?)?,
                    a.swapaxes(-1, -2)?.matmul(&a)?,
                    a.slice(
                        &vec![(None, None, 1); lead.len()]
                            .into_iter()
                            .chain([(None, None, -1), (None, None, 1)])
                            .collect::<Vec<_>>(),
                    )?
                    .matmul(&b)?,
                ])
            });
        }
    }
    for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for (lq, lk, dim, dv) in
            [(1, 1, 64, 64), (1, 777, 64, 64), (3, 40, 80, 48), (16, 300, 128, 128), (40, 40, 32, 32)]
        {
            let q = plain(&[2, 6, lq, dim], d, 21).unwrap();
            let k = plain(&[2, lk, 3, dim], d, 22).unwrap();
            let v = plain(&[2, 3, lk, dv], d, 23).unwrap();
            let truth = CPU
                .scope(|| plain(&[1, 6, lq, lk], Dtype::F32, 24)?.greater(&Array::from_scalar(0.0f32)))
                .unwrap();
            let added = plain(&[2, 1, 1, lk], Dtype::F32, 25).unwrap();
            let sinks = plain(&[6], Dtype::F32, 26).unwrap();
            r.check(&format!("attention {d} {lq} {lk}"), 4.0 * unit(d), || {
                let k = k.swapaxes(1, 2)?;
                let a = |mask, extra: Option<&Array>, sinks: Option<&Array>| {
                    let op = olivine_core::op::Attention {
                        scale: 0.125f32.to_bits(),
                        mask,
                        sinks: sinks.is_some(),
                    };
                    let mut args = vec![q.clone(), k.clone(), v.clone()];
                    args.extend(extra.cloned());
                    args.extend(sinks.cloned());
                    Array::from_op(Op::Attention(op), &args)
                };
                Ok(vec![
                    a(MaskKind::None, None, None)?,
                    a(MaskKind::Causal { window: None }, None, Some(&sinks))?,
                    a(MaskKind::Causal { window: Some(7) }, None, None)?,
                    a(MaskKind::Array, Some(&truth), None)?,
                    a(MaskKind::Array, Some(&added), Some(&sinks))?,
                ])
            });
        }
        for (bits, group) in [(4, 32), (4, 64), (8, 64), (2, 32), (3, 64), (5, 32), (6, 16)] {
            let spec = Affine { group, bits };
            let w = plain(&[96, 192], Dtype::F32, 27).unwrap();
            let (packed, s, b) = CPU.scope(|| w.astype(d)?.quantize(group, bits)).unwrap();
            for rows in [1, 3, 8, 40] {
                let x = plain(&[rows, 192], d, 28).unwrap();
                let y = plain(&[rows, 96], d, 29).unwrap();
                // Many rows go through weights that are rounded to the type of `x`.
                let t = if rows > 8 { 24.0 } else { 8.0 };
                r.check(&format!("packed {d} {bits} {group} {rows}"), t * unit(d), || {
                    let args = |x: &Array| [x.clone(), packed.clone(), s.clone(), b.clone()];
                    let product = |x, transpose| {
                        Array::from_op(Op::Quant(Quant::Matmul { packing: spec.into(), transpose }), &args(x))
                    };
                    Ok(vec![product(&x, true)?, product(&y, false)?])
                });
            }
            r.check(&format!("dequantize {d} {bits} {group}"), unit(d), || {
                let op = Op::Quant(Quant::Dequantize { packing: spec.into(), dtype: d });
                Ok(vec![Array::from_op(op, &[packed.clone(), s.clone(), b.clone()])?])
            });
        }
    }
    r.end();
}

fn streams_memory_and_the_host() {
    start();
    let device = Device::new(DeviceKind::Cuda, 0);
    let streams: Vec<Stream> = (0..3).map(|_| Stream::new(device).unwrap()).chain([GPU, CPU]).collect();
    // A chain that goes from stream to stream, far ahead of its execution.
    let mut x = plain(&[100_000], Dtype::F32, 30).unwrap();
    let first = x.to_vec::<f32>().unwrap();
    for i in 0..200 {
        x = streams[i % streams.len()].scope(|| x.add(&Array::from_scalar(1.0f32))).unwrap();
        if i % 10 == 0 {
            async_eval(std::slice::from_ref(&x)).unwrap();
        }
    }
    let got = x.to_vec::<f32>().unwrap();
    for (a, b) in first.iter().zip(&got) {
        assert!((a + 200.0 - b).abs() < 1e-2, "{a} {b}");
    }
    // Large copies in both directions.
    let big: Vec<f32> = (0..9_000_001).map(|i| i as f32).collect();
    let y = GPU.scope(|| Array::from_slice(&big, &[big.len()])?.scale(2.0)).unwrap().to_vec::<f32>().unwrap();
    assert!(big.iter().zip(&y).all(|(a, b)| a * 2.0 == *b));
    // More than there is.
    let memory = olivine_core::backend::get(device).unwrap().info(device).unwrap().memory;
    let huge = GPU.scope(|| Array::arange(0.0, memory as f64 / 2.0, 1.0, Dtype::F32)).unwrap();
    let e = huge.eval().unwrap_err().to_string();
    assert!(e.contains("out of memory"), "{e}");
    // The memory of a loop is used again.
    olivine_core::alloc::reset_peak(device);
    let mut z = GPU.scope(|| Array::zeros(&[1 << 20], Dtype::F32)).unwrap();
    for _ in 0..100 {
        z = GPU.scope(|| z.exp()?.add(&Array::from_scalar(-1.0f32))).unwrap();
        async_eval(std::slice::from_ref(&z)).unwrap();
    }
    assert_eq!(z.to_vec::<f32>().unwrap()[0], 0.0);
    let stats = olivine_core::alloc::stats(device);
    assert!(stats.peak < 400 << 20, "{stats:?}");
    // From several threads at once.
    std::thread::scope(|s| {
        for t in 0..4 {
            s.spawn(move || {
                for i in 0..20 {
                    let a = plain(&[1000 + i], Dtype::F32, t).unwrap();
                    let y = GPU.scope(|| a.square()?.sum(&[], false)?.item::<f32>()).unwrap();
                    let w = CPU.scope(|| a.square()?.sum(&[], false)?.item::<f32>()).unwrap();
                    assert!((y - w).abs() < 1e-3 * w.abs(), "{y} {w}");
                }
            });
        }
    });
}

const FAMILIES: &[(&str, fn())] = &[
    ("elementwise_of_every_type", elementwise_of_every_type),
    ("layouts_and_fusion", layouts_and_fusion),
    ("reductions", reductions),
    ("scans", scans),
    ("sorts", sorts),
    ("rows_and_random", rows_and_random),
    ("indexing", indexing),
    ("products_attention_and_packed_weights", products_attention_and_packed_weights),
    ("streams_memory_and_the_host", streams_memory_and_the_host),
];

fn main() -> std::process::ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let mut failed = Vec::new();
    for (name, check) in FAMILIES {
        if named.is_empty() || named.iter().any(|n| n == name) {
            // What differs is in the panic's message.
            let ok = std::panic::catch_unwind(check).is_ok();
            println!("{name}: {}", if ok { "passed" } else { "FAILED" });
            if !ok {
                failed.push(*name);
            }
        }
    }
    let unknown = named.iter().any(|n| !FAMILIES.iter().any(|(name, _)| name == n));
    if failed.is_empty() && !unknown {
        std::process::ExitCode::SUCCESS
    } else {
        std::process::ExitCode::FAILURE
    }
}
