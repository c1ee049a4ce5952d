//! Times the kernels that language models live on.
//!
//! `cargo run --release -p olivine-cpu --example lm_kernels_bench [filter]` prints the least and the median time
//! of each case, and what it means in GB/s of weights or GFLOP/s.

use half::f16;
use olivine_cpu::kernels::Floats;
use olivine_cpu::kernels::attention::{Attention, Operand, scaled_dot_product_attention};
use olivine_cpu::kernels::norm::rms_norm;
use olivine_cpu::kernels::quant::{Quantized, Scales, quantized_matmul};
use olivine_cpu::kernels::rope::{Frequencies, Rope, rope};
use olivine_cpu::kernels::softmax::softmax;
use std::hint::black_box;
use std::time::Instant;

fn time(name: &str, filter: &str, amount: f64, unit: &str, mut f: impl FnMut()) {
    if !name.contains(filter) {
        return;
    }
    f();
    let start = Instant::now();
    let mut us = Vec::new();
    while us.len() < 5 || start.elapsed().as_secs_f64() < 1.0 && us.len() < 2000 {
        let t = Instant::now();
        f();
        us.push(t.elapsed().as_secs_f64() * 1e6);
    }
    us.sort_by(f64::total_cmp);
    let (min, median) = (us[0], us[us.len() / 2]);
    println!("{name:<58} min {min:>9.1} us  median {median:>9.1} us  {:>7.1} {unit}", amount / min / 1e3);
}

fn noise(n: usize) -> Vec<f32> {
    (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / (1u32 << 23) as f32 - 1.0).collect()
}

fn quantized(filter: &str) {
    for (rows, cols, bits, group, ms) in [
        (4096, 4096, 4, 64, &[1usize, 2, 4, 8, 16, 64, 256][..]),
        (4096, 4096, 4, 32, &[1, 8]),
        (4096, 4096, 8, 32, &[1, 8]),
        (4096, 4096, 6, 16, &[1]),
        (4096, 4096, 5, 32, &[1]),
        (4096, 4096, 3, 64, &[1]),
        (4096, 4096, 2, 64, &[1]),
        (576, 576, 4, 32, &[1, 256]),
        (1536, 576, 4, 32, &[1, 256]),
        (49152, 576, 8, 32, &[1]),
        (262144, 640, 6, 16, &[1]),
    ] {
        let words: Vec<u32> =
            noise(rows * cols * bits / 32).iter().map(|x| (x * 2.1e9) as i32 as u32).collect();
        let scales: Vec<f16> = noise(rows * cols / group).iter().map(|&x| f16::from_f32(x * 0.01)).collect();
        let w = Quantized {
            words: &words,
            scales: Scales::Affine { scales: Floats::F16(&scales), biases: Floats::F16(&scales) },
            rows,
            cols,
            group,
            bits,
        };
        for &m in ms {
            for transpose in [true, false] {
                if !transpose && (m != 1 && m != 64) {
                    continue;
                }
                let (inner, outer) = if transpose { (cols, rows) } else { (rows, cols) };
                let x = noise(m * inner);
                let mut y = vec![0.0f32; m * outer];
                let name = format!(
                    "quantized_matmul {bits} bits group {group} {m} x {rows} x {cols}{}",
                    if transpose { "" } else { " plain" }
                );
                let (amount, unit) = if m <= 8 {
                    ((words.len() * 4 + scales.len() * 4) as f64, "GB/s")
                } else {
                    (2.0 * m as f64 * rows as f64 * cols as f64, "GFLOP/s")
                };
                time(&name, filter, amount, unit, || {
                    quantized_matmul(x.as_slice().into(), &w, m, transpose, y.as_mut_slice().into())
                        .expect("sizes fit");
                    black_box(&mut y);
                });
            }
        }
    }
}

/// Packed small floats: mxfp4, mxfp8, nvfp4.
fn small_floats(filter: &str) {
    let (rows, cols) = (4096, 4096);
    for (mode, bits, group) in [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)] {
        let words: Vec<u32> =
            noise(rows * cols * bits / 32).iter().map(|x| (x * 2.1e9) as i32 as u32).collect();
        let bytes = vec![if mode == "nvfp4" { 56u8 } else { 120 }; rows * cols / group];
        let scales = if mode == "nvfp4" { Scales::E4m3(&bytes) } else { Scales::E8m0(&bytes) };
        let w = Quantized { words: &words, scales, rows, cols, group, bits };
        for m in [1, 8, 64] {
            let (x, mut y) = (noise(m * cols), vec![0.0f32; m * rows]);
            let bytes = (words.len() * 4 + bytes.len()) as f64;
            time(&format!("quantized_matmul {mode} {m} x {rows} x {cols}"), filter, bytes, "GB/s", || {
                quantized_matmul(x.as_slice().into(), &w, m, true, y.as_mut_slice().into())
                    .expect("sizes fit");
                black_box(&mut y);
            });
        }
    }
}

fn attention(filter: &str) {
    for (batch, q_heads, kv_heads, q_len, k_len, dim) in [
        (1, 8, 8, 1024, 1024, 64),
        (1, 32, 8, 512, 512, 128),
        (1, 9, 3, 256, 256, 64),
        (1, 9, 3, 1, 300, 64),
        (1, 4, 1, 1, 300, 256),
        (1, 32, 8, 1, 4096, 128),
    ] {
        let a = Attention {
            batch,
            q_heads,
            kv_heads,
            q_len,
            k_len,
            dim,
            v_dim: dim,
            scale: 1.0 / (dim as f32).sqrt(),
            causal: true,
            window: None,
            mask: None,
            sinks: None,
            key_ranges: None,
        };
        let (q, kv) = (noise(batch * q_heads * q_len * dim), noise(batch * kv_heads * k_len * dim));
        let half: Vec<f16> = kv.iter().map(|&x| f16::from_f32(x)).collect();
        for (kind, kv) in [("f32", Floats::F32(&kv)), ("f16", Floats::F16(&half))] {
            let mut out = vec![0.0f32; q.len()];
            let name = format!(
                "attention {q_heads}({kv_heads}) heads {q_len} x {k_len} x {dim} causal, keys {kind}"
            );
            let (amount, unit) = if q_len > 1 {
                let seen = q_len as f64 * (k_len as f64 - (q_len as f64 - 1.0) / 2.0);
                ((4 * batch * q_heads * dim) as f64 * seen, "GFLOP/s")
            } else {
                (2.0 * kv.len() as f64 * if kind == "f32" { 4.0 } else { 2.0 }, "GB/s")
            };
            let kv_operand = Operand { data: kv, strides: [kv_heads * k_len * dim, k_len * dim, dim] };
            let q_operand =
                Operand { data: Floats::F32(&q), strides: [q_heads * q_len * dim, q_len * dim, dim] };
            time(&name, filter, amount, unit, || {
                scaled_dot_product_attention(
                    q_operand,
                    kv_operand,
                    kv_operand,
                    &a,
                    out.as_mut_slice().into(),
                )
                .expect("sizes fit");
                black_box(&mut out);
            });
        }
    }
}

fn rows(filter: &str) {
    for (rows, n) in [(4096, 4096), (256, 576), (1, 576)] {
        let x = noise(rows * n);
        let mut y = vec![0.0f32; rows * n];
        let bytes = (8 * rows * n) as f64;
        time(&format!("softmax {rows} x {n}"), filter, bytes, "GB/s", || {
            softmax(x.as_slice().into(), n, y.as_mut_slice().into()).expect("sizes fit");
            black_box(&mut y);
        });
        time(&format!("rms_norm {rows} x {n}"), filter, bytes, "GB/s", || {
            let weight = Some(Floats::F32(&x[..n]));
            rms_norm(x.as_slice().into(), weight, 1e-5, n, y.as_mut_slice().into()).expect("sizes fit");
            black_box(&mut y);
        });
    }
    for (heads, len) in [(9, 256), (9, 1), (32, 2048)] {
        let x = noise(heads * len * 64);
        let mut y = vec![0.0f32; x.len()];
        let frequencies = Frequencies::Base(10_000.0);
        let offsets = &[100][..];
        let r = Rope {
            batch: 1,
            heads,
            len,
            dim: 64,
            dims: 64,
            traditional: false,
            frequencies,
            scale: 1.0,
            offsets,
        };
        time(&format!("rope {heads} heads {len} x 64"), filter, (8 * x.len()) as f64, "GB/s", || {
            rope(x.as_slice().into(), [x.len(), 64, heads * 64], &r, y.as_mut_slice().into())
                .expect("sizes fit");
            black_box(&mut y);
        });
    }
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    quantized(&filter);
    small_floats(&filter);
    attention(&filter);
    rows(&filter);
}
