//! Bandwidth and rate of single operations on the GPU, medians of many runs. Prints a table.
//!
//! `cargo run --release -p olivine-cuda --example bench_ops`

use olivine_core::op::{Affine, Op, Quant};
use olivine_core::{Array, Device, DeviceKind, Dtype, Result, Stream, async_eval, eval, random};
use std::time::Instant;

const GPU: Stream = Stream::default_of(Device::new(DeviceKind::Cuda, 0));

/// Operations that are sent together, so that sending them hides behind their execution.
const BATCH: usize = 10;
const RUNS: usize = 15;

/// Median seconds of one call; each call gets one of several sets of arguments, which together are larger
/// than the caches.
fn time(sets: &[Vec<Array>], f: impl Fn(&[Array]) -> Result<Array>) -> Result<f64> {
    let mut all = Vec::new();
    for run in 0..RUNS + 2 {
        let outs: Vec<Array> = (0..BATCH).map(|i| f(&sets[i % sets.len()])).collect::<Result<_>>()?;
        GPU.synchronize()?;
        let start = Instant::now();
        for out in outs {
            // One after the other, so that memory of results is used again.
            async_eval(&[out])?;
        }
        GPU.synchronize()?;
        // The first runs compile and fill the cache of memory.
        if run >= 2 {
            all.push(start.elapsed().as_secs_f64() / BATCH as f64);
        }
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

fn normal(shape: &[usize], dtype: Dtype) -> Result<Array> {
    let a = random::normal(shape, dtype, 0.0, 1.0, None)?;
    eval(std::slice::from_ref(&a))?;
    Ok(a)
}

fn sets(n: usize, make: impl Fn() -> Result<Vec<Array>>) -> Result<Vec<Vec<Array>>> {
    (0..n).map(|_| make()).collect()
}

fn line(what: &str, seconds: f64, figure: String) {
    println!("{what:<52} {:>10.1} us   {figure}", seconds * 1e6);
}

fn moved(bytes: usize, seconds: f64) -> String {
    format!("{:.2} TB/s", bytes as f64 / seconds / 1e12)
}

fn bench() -> Result<()> {
    let big = 1usize << 29;
    {
        let s = sets(1, || Ok(vec![normal(&[big], Dtype::BF16)?, normal(&[big], Dtype::BF16)?]))?;
        let t = time(&s, |a| a[0].add(&a[1]))?;
        line("add 2^29 bf16", t, moved(3 * 2 * big, t));
        let t = time(&s, |a| a[0].exp())?;
        line("exp 2^29 bf16", t, moved(2 * 2 * big, t));
    }
    {
        let s = sets(1, || Ok(vec![normal(&[big], Dtype::F32)?]))?;
        let t = time(&s, |a| a[0].sum(&[], false))?;
        line("sum 2^29 f32", t, moved(4 * big, t));
    }
    {
        let s = sets(1, || Ok(vec![normal(&[16_384, 8192], Dtype::BF16)?]))?;
        let t = time(&s, |a| a[0].softmax(-1))?;
        line("softmax 16384 x 8192 bf16", t, moved(2 * 2 * 16_384 * 8192, t));
        let t = time(&s, |a| a[0].rms_norm(None, 1e-5))?;
        line("rms_norm 16384 x 8192 bf16", t, moved(2 * 2 * 16_384 * 8192, t));
        let t = time(&s, |a| a[0].sum(&[0], false))?;
        line("sum over axis 0 of 16384 x 8192 bf16", t, moved(2 * 16_384 * 8192, t));
        let t = time(&s, |a| a[0].t()?.flatten())?;
        line("transpose copy 16384 x 8192 bf16", t, moved(2 * 2 * 16_384 * 8192, t));
    }
    {
        let s = sets(1, || Ok(vec![normal(&[1 << 20], Dtype::F32)?]))?;
        let t = time(&s, |a| a[0].sort(0, false))?;
        line("sort 2^20 f32", t, String::new());
        let t = time(&s, |a| a[0].cumsum(0, false, true))?;
        line("cumsum 2^20 f32", t, String::new());
    }
    for (dtype, n) in [(Dtype::BF16, 8192), (Dtype::F32, 4096)] {
        let s = sets(2, || Ok(vec![normal(&[n, n], dtype)?, normal(&[n, n], dtype)?]))?;
        let t = time(&s, |a| a[0].matmul(&a[1]))?;
        let rate = 2.0 * (n as f64).powi(3) / t / 1e12;
        line(&format!("matmul {n} cubed {dtype}"), t, format!("{rate:.0} TFLOP/s"));
    }
    // Weights of 4096 inputs and 14336 outputs; ten of them are larger than the second-level cache.
    for bits in [4u8, 8] {
        let spec = Affine { group: 64, bits };
        for rows in [1usize, 2, 8, 32, 512] {
            let s = sets(10, || {
                let words = spec.words(4096);
                let w = random::bits(&[14_336, words], 4, None)?;
                let x = normal(&[rows, 4096], Dtype::BF16)?;
                let scale = normal(&[14_336, 64], Dtype::BF16)?;
                let all = vec![x, w, scale.clone(), scale];
                eval(&all)?;
                Ok(all)
            })?;
            let t = time(&s, |a| {
                Array::from_op(Op::Quant(Quant::Matmul { packing: spec.into(), transpose: true }), a)
            })?;
            let bytes = 14_336 * 4096 * usize::from(bits) / 8 + 14_336 * 64 * 4;
            line(&format!("{bits}-bit (group 64), {rows} x 4096 by 14336, bf16"), t, moved(bytes, t));
        }
    }
    // Operations that depend on each other and cannot be fused.
    let x = normal(&[1024], Dtype::F32)?;
    let (mut all, mut sending) = (Vec::new(), Vec::new());
    for _ in 0..15 {
        let mut y = x.clone();
        for _ in 0..1000 {
            y = y.softmax(-1)?;
        }
        let start = Instant::now();
        async_eval(std::slice::from_ref(&y))?;
        sending.push(start.elapsed().as_secs_f64() / 1000.0);
        eval(&[y])?;
        all.push(start.elapsed().as_secs_f64() / 1000.0);
    }
    for (what, mut times) in [("one of them", all), ("sending one of them", sending)] {
        times.sort_by(f64::total_cmp);
        line(&format!("chain of 1,000 softmax of 1024 f32, {what}"), times[7], String::new());
    }
    Ok(())
}

fn main() -> Result<()> {
    olivine_cpu::register();
    olivine_cuda::register();
    println!("{}", olivine_cuda::probe()?.join(", "));
    GPU.scope(bench)
}
