//! Speed of elementwise work, copies and launches. `cargo run --release -p olivine-cpu --example
//! elementwise_bench`; with a word, only the lines that contain it.

use olivine_core::{Array, Dtype, Result};
use std::time::Instant;

/// Seconds of the fastest of some runs.
fn best(mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = f64::INFINITY;
    let begun = Instant::now();
    for i in 0..200 {
        let t = Instant::now();
        f()?;
        best = best.min(t.elapsed().as_secs_f64());
        if i >= 4 && begun.elapsed().as_secs_f64() > 1.0 {
            break;
        }
    }
    Ok(best)
}

/// Prints one line: milliseconds, and GB/s for the bytes that have to move.
fn line(name: &str, bytes: usize, f: impl FnMut() -> Result<()>) -> Result<()> {
    if std::env::args().nth(1).is_some_and(|only| !name.contains(&only)) {
        return Ok(());
    }
    let s = best(f)?;
    println!("{name:<34} {:>9.3} ms {:>8.2} GB/s", s * 1e3, bytes as f64 / s / 1e9);
    Ok(())
}

fn main() -> Result<()> {
    olivine_cpu::register();
    let n = 1 << 24;
    let float = |d: Dtype, k: usize| -> Result<Array> {
        let x = Array::arange(0.0, n as f64, 1.0, Dtype::F32)?.scale(8.0 / n as f64)?;
        let x = x.subtract(&x.scalar_like(4.0 + k as f64))?.astype(d)?;
        x.eval()?;
        Ok(x)
    };
    let (a, b) = (float(Dtype::F32, 0)?, float(Dtype::F32, 1)?);
    let (h, g) = (float(Dtype::BF16, 0)?, float(Dtype::BF16, 1)?);
    let bytes = n * 4;
    line("add f32", 3 * bytes, || a.add(&b)?.eval())?;
    line("add scalar f32", 2 * bytes, || a.add(&a.scalar_like(1.5))?.eval())?;
    line("multiply bf16", 3 * bytes / 2, || h.multiply(&g)?.eval())?;
    line("astype f32 to bf16", bytes + bytes / 2, || a.astype(Dtype::BF16)?.eval())?;
    for (name, f) in [
        ("exp", Array::exp as fn(&Array) -> Result<Array>),
        ("log", |x| x.square()?.log()),
        ("sin", Array::sin),
        ("tanh", Array::tanh),
        ("sigmoid", Array::sigmoid),
        ("erf", Array::erf),
        ("silu", Array::silu),
        ("gelu", Array::gelu),
        ("gelu_tanh", Array::gelu_tanh),
    ] {
        line(&format!("{name} f32"), 2 * bytes, || f(&a)?.eval())?;
    }
    line("chain of 8 f32", 3 * bytes, || {
        let mut x = a.add(&b)?;
        for _ in 0..3 {
            x = x.multiply(&b)?.add(&a)?;
        }
        x.maximum(&a)?.eval()
    })?;
    let m = a.reshape(&[4096, 4096])?;
    m.eval()?;
    line("transpose copy f32", 2 * bytes, || m.t()?.reshape(&[n])?.eval())?;
    line("add of a transpose f32", 3 * bytes, || m.add(&m.t()?)?.eval())?;
    let row = Array::arange(0.0, 4096.0, 1.0, Dtype::F32)?;
    row.eval()?;
    line("add row f32", 2 * bytes, || m.add(&row)?.eval())?;
    let col = row.reshape(&[4096, 1])?;
    line("add column f32", 2 * bytes, || m.add(&col)?.eval())?;
    line("sum f32", bytes, || a.sum(&[], false)?.eval())?;
    line("sum over axis 0 f32", bytes, || m.sum(&[0], false)?.eval())?;
    line("softmax f32", 2 * bytes, || m.softmax(-1)?.eval())?;
    // Small arrays: the cost of a launch.
    let (s, t) = (Array::from_slice(&[1.0f32; 16], &[16])?, Array::from_slice(&[2.0f32; 16], &[16])?);
    line("1,000 adds of 16, one by one", 0, || {
        let mut x = s.clone();
        for _ in 0..1000 {
            x = x.add(&t)?;
            x.eval()?;
        }
        Ok(())
    })?;
    line("1,000 adds of 16, one graph", 0, || {
        let mut x = s.clone();
        for _ in 0..1000 {
            x = x.add(&t)?;
        }
        x.eval()
    })?;
    Ok(())
}
