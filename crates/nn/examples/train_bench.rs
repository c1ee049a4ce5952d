//! The Olivine side of `benches/train.py`: reads lines `ROW REPEATS`, answers with the seconds of each repeat.
//!
//! Rows of the training step count one step; `first` is the first call of a compiled chain of 40 operations.

#[path = "classifier.rs"]
#[expect(dead_code, reason = "the example's own entry is not called here")]
mod classifier;

use classifier::{Batch, State, batch, begin, finish, step};
use olivine_core::transforms::{compile, compile_step};
use olivine_core::{Array, Dtype, Error, Result, random};
use std::hint::black_box;
use std::io::{BufRead, Write};
use std::time::Instant;

/// Elements of the elementwise rows.
const N: usize = 1 << 24;

type Run = Box<dyn FnMut() -> Result<f64>>;

fn timed(mut f: impl FnMut() -> Result<()> + 'static) -> Run {
    Box::new(move || {
        let start = Instant::now();
        f()?;
        Ok(start.elapsed().as_secs_f64())
    })
}

/// One step, everything that it leaves computed.
fn training(step: impl Fn(&mut State, &Batch) -> Result<Array> + 'static) -> Result<Run> {
    let mut state = begin(784, 512)?;
    let xy = batch(0, 128, 784)?;
    olivine_core::eval(&[xy.0.clone(), xy.1.clone()])?;
    Ok(timed(move || {
        let loss = step(&mut state, &xy)?;
        finish(&loss, &state)
    }))
}

/// Ten times four operations.
fn chain(x: &Array) -> Result<Array> {
    let mut y = x.clone();
    for i in 0..10 {
        let c = f64::from(i) * 0.01;
        y = y.scale(1.0 - c)?.maximum(&y.scalar_like(-1.5))?.add(x)?.scale(0.5)?;
    }
    Ok(y)
}

/// A pass over memory by hand, for the instructions of a processor.
type Pass = fn(&[f32], &mut [f32]);

#[inline(always)]
fn chain_loop(x: &[f32], y: &mut [f32]) {
    for (y, &x) in y.iter_mut().zip(x) {
        let mut v = x;
        for i in 0..10 {
            let c = f64::from(i) * 0.01;
            v *= (1.0 - c) as f32;
            v = if v > -1.5 { v } else { -1.5 };
            v = (v + x) * 0.5;
        }
        *y = v;
    }
}

fn copy_loop(x: &[f32], y: &mut [f32]) {
    y.copy_from_slice(x);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn chain_avx512(x: &[f32], y: &mut [f32]) {
    chain_loop(x, y);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn chain_avx2(x: &[f32], y: &mut [f32]) {
    chain_loop(x, y);
}

/// The chain as a loop that the compiler made vectors of, with the widest that there are.
fn chain_by_hand(x: &[f32], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has the instructions.
            return unsafe { chain_avx512(x, y) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instructions.
            return unsafe { chain_avx2(x, y) };
        }
    }
    chain_loop(x, y);
}

/// A part of the elements for each of as many threads as there are processors.
fn by_hand(x: &[f32], y: &mut [f32], pass: Pass) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = x.len().div_ceil(threads);
    std::thread::scope(|s| {
        for (x, y) in x.chunks(part).zip(y.chunks_mut(part)) {
            s.spawn(move || pass(x, y));
        }
    });
}

fn input() -> Result<Array> {
    let x = random::uniform(-2.0, 2.0, &[N], Dtype::F32, Some(&random::key(0)?))?;
    x.eval()?;
    Ok(x)
}

fn hand(pass: Pass) -> Result<Run> {
    let x = input()?.to_vec::<f32>()?;
    let mut y = vec![0f32; N];
    Ok(timed(move || {
        by_hand(black_box(&x), black_box(&mut y), pass);
        Ok(())
    }))
}

fn row(name: &str) -> Result<Run> {
    let x = |f: fn(&Array) -> Result<Array>| -> Result<Run> {
        let x = input()?;
        Ok(timed(move || f(&x)?.eval()))
    };
    match name {
        "step" => training(compile_step(step)),
        "step_plain" => training(step),
        "first" => {
            let x = input()?.slice_axis(0, 0, 1024)?;
            Ok(timed(move || compile(chain)(&x)?.eval()))
        }
        "chain" => {
            let (x, f) = (input()?, compile(chain));
            Ok(timed(move || f(&x)?.eval()))
        }
        "chain_hand" => hand(chain_by_hand),
        "gelu" => x(olivine_nn::activations::gelu),
        "copy" => x(|x| x.add(&x.scalar_like(0.0))),
        "copy_hand" => hand(copy_loop),
        _ => Err(Error::value("bench", format!("there is no row {name}"))),
    }
}

fn main() -> Result<()> {
    olivine_cpu::register();
    let mut rows: Vec<(String, Run)> = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
        let Some((name, repeats)) = line.split_once(' ') else { break };
        let repeats: usize = repeats.parse().map_err(|_| Error::value("bench", format!("{line:?}")))?;
        if !rows.iter().any(|(n, _)| n == name) {
            rows.push((name.to_owned(), row(name)?));
        }
        let Some((_, run)) = rows.iter_mut().find(|(n, _)| n == name) else { break };
        let mut out = std::io::stdout().lock();
        for i in 0..repeats {
            let end = if i + 1 == repeats { '\n' } else { ' ' };
            let seconds = run()?;
            // A reader that is gone ends the run at the next line.
            let _ = write!(out, "{seconds:.9}{end}");
        }
        let _ = out.flush();
    }
    Ok(())
}
