//! A seeded stream of calls gives MLX's numbers (`data/random_calls.json`, by `scripts/references/random_calls.py`), and
//! distributions of our own have the moments that they should have.

use olivine_core::{Array, Dtype, Error, Result, random};
use serde_json::Value;
use std::sync::Mutex;

/// Tests that use the default state take turns.
static STATE: Mutex<()> = Mutex::new(());

fn numbers(v: &Value) -> Vec<f64> {
    match v {
        Value::Array(a) => a.iter().flat_map(numbers).collect(),
        v => vec![v.as_f64().expect("a number")],
    }
}

fn sizes(v: &Value) -> Vec<usize> {
    numbers(v).into_iter().map(|x| x as usize).collect()
}

fn floats(v: &Value) -> Result<Array> {
    let v: Vec<f32> = numbers(v).into_iter().map(|x| x as f32).collect();
    Array::from_slice(&v, &[v.len()])
}

fn integers(v: &Value) -> Result<Array> {
    let v: Vec<i32> = numbers(v).into_iter().map(|x| x as i32).collect();
    Array::from_slice(&v, &[v.len()])
}

#[test]
fn a_seeded_stream_is_that_of_mlx() -> Result<()> {
    olivine_cpu::register();
    let _turn = STATE.lock().unwrap_or_else(|e| e.into_inner());
    let calls: Vec<Value> =
        serde_json::from_str(include_str!("data/random_calls.json")).expect("the file is JSON");
    assert!(calls.len() >= 40);
    random::seed(2026)?;
    for (i, call) in calls.iter().enumerate() {
        let (name, shape) = (call[0].as_str().expect("a name"), sizes(&call[1]));
        let d = Dtype::ALL.into_iter().find(|d| call[2] == d.to_string()).expect("a dtype");
        let p = &call[3];
        let f = |i: usize| p[i].as_f64().expect("a number");
        let x = Array::arange(0.0, 12.0, 1.0, Dtype::I32)?.reshape(&[3, 4])?;
        let logits = Array::from_slice(&[0.0f32, 1.0, 2.0, -1.0, 3.0, 0.0, 0.0, 0.0], &[2, 4])?;
        let y = match name {
            "uniform" => random::uniform(f(0), f(1), &shape, d, None)?,
            "normal" => random::normal(&shape, d, f(0), f(1), None)?,
            "randint" => random::randint(f(0) as i64, f(1) as i64, &shape, d, None)?,
            "bernoulli" => random::bernoulli(&Array::from_scalar(f(0) as f32), &shape, None)?,
            "gumbel" => random::gumbel(&shape, d, None)?,
            "laplace" => random::laplace(&shape, d, f(0), f(1), None)?,
            "truncated_normal" => {
                let (low, high) = (Array::from_scalar(f(0) as f32), Array::from_scalar(f(1) as f32));
                random::truncated_normal(&low, &high, &shape, d, None)?
            }
            "randint_between" => {
                random::randint_between(&integers(&p[0])?, &integers(&p[1])?, &shape, d, None)?
            }
            "normal_around" => {
                random::normal_around(Some(&floats(&p[0])?), Some(&floats(&p[1])?), &shape, d, None)?
            }
            "permutation" => random::permutation(f(0) as usize, None)?,
            "permutation_of" => random::permutation_of(&x, f(0) as i32, None)?,
            "categorical" if f(0) == -1.0 => random::categorical(&logits, None)?,
            "categorical" => random::categorical_shaped(&logits, f(0) as i32, &[4], None)?,
            "categorical_many" => random::categorical_many(&logits, f(0) as i32, f(1) as usize, None)?,
            "categorical_shaped" => random::categorical_shaped(&logits, f(0) as i32, &shape, None)?,
            other => panic!("unknown call {other}"),
        };
        assert_eq!(y.shape().to_vec(), sizes(&call[4]), "call {i}, {name}");
        assert_eq!(y.dtype(), d, "call {i}, {name}");
        let want = numbers(&call[5]);
        if !d.is_float() {
            let got = y.astype(Dtype::I64)?.to_vec::<i64>()?;
            assert!(got.iter().map(|&x| x as f64).eq(want), "call {i}, {name}: {got:?}");
            continue;
        }
        // Whatever passes through a function such as log may round otherwise.
        let ulps = if name == "uniform" { 0.0 } else { 8.0 };
        let digits = match d {
            Dtype::F16 => 11,
            Dtype::BF16 => 8,
            _ => 24,
        };
        let got = y.astype(Dtype::F32)?.to_vec::<f32>()?;
        for (g, w) in got.iter().zip(&want) {
            let w = f32::from_bits(*w as u32);
            let bound = ulps * w.abs().max(1.0) * 2f32.powi(1 - digits);
            assert!((g - w).abs() <= bound, "call {i}, {name} {d}: {g}, not {w}");
        }
    }
    Ok(())
}

#[test]
fn streams_differ_by_seed_and_batches_by_key() -> Result<()> {
    olivine_cpu::register();
    let _turn = STATE.lock().unwrap_or_else(|e| e.into_inner());
    let draw = || random::uniform(0.0, 1.0, &[4], Dtype::F32, None)?.to_vec::<f32>();
    random::seed(1)?;
    let (a, b) = (draw()?, draw()?);
    assert_ne!(a, b);
    random::seed(1)?;
    assert_eq!((a.clone(), b), (draw()?, draw()?));
    random::seed(2)?;
    assert_ne!(a, draw()?);
    // Sizes that are no multiple of a word fill what they have and no more.
    for n in [1, 3, 5, 7] {
        assert_eq!(random::bits(&[n], 1, None)?.to_vec::<u8>()?.len(), n);
    }
    assert!(matches!(random::randint(5, 2, &[4], Dtype::I32, None), Err(Error::Value { op: "randint", .. })));
    Ok(())
}

/// Mean and variance.
fn moments(x: &Array) -> Result<(f64, f64)> {
    let v = x.astype(Dtype::F64)?.to_vec::<f64>()?;
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    Ok((mean, v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / v.len() as f64))
}

fn assert_moments(what: &str, x: &Array, mean: f64, var: f64) -> Result<()> {
    let (m, v) = moments(x)?;
    let n = x.size() as f64;
    // Five standard errors of the mean; the variance within a tenth.
    assert!((m - mean).abs() < 5.0 * (var / n).sqrt() + 1e-9, "{what}: mean {m}, not {mean}");
    assert!((v - var).abs() < 0.1 * var + 1e-9, "{what}: variance {v}, not {var}");
    Ok(())
}

#[test]
fn moments_of_distributions() -> Result<()> {
    olivine_cpu::register();
    let k = random::key(11)?;
    let (n, one) = (40_000, Array::from_scalar(1f32));
    let x = random::exponential(&Array::from_scalar(2f32), &[n], Dtype::F32, Some(&k))?;
    assert_moments("exponential", &x, 2.0, 4.0)?;
    for a in [0.2, 0.9, 1.0, 3.5, 200.0] {
        let x = random::gamma(&Array::from_scalar(a as f32), &one, &[n], Dtype::F32, Some(&k))?;
        assert_moments(&format!("gamma {a}"), &x, a, a)?;
        let b = 1.5;
        let x = random::beta(
            &Array::from_scalar(a as f32),
            &Array::from_scalar(b as f32),
            &[n],
            Dtype::F32,
            Some(&k),
        )?;
        let s = a + b;
        assert_moments(&format!("beta {a}"), &x, a / s, a * b / (s * s * (s + 1.0)))?;
    }
    for rate in [0.0, 0.3, 4.0, 9.99, 10.0, 40.0, 1e6] {
        let x = random::poisson(&Array::from_scalar(rate as f32), &[n], Dtype::I32, Some(&k))?;
        let rate = rate as f32 as f64;
        assert_moments(&format!("poisson {rate}"), &x, rate, rate)?;
    }
    let bad = random::gamma(&Array::from_scalar(-1f32), &one, &[2], Dtype::F32, Some(&k))?;
    assert!(bad.to_vec::<f32>()?.iter().all(|x| x.is_nan()));
    // Parameters broadcast, tiny ones stay inside.
    let rates = Array::from_slice(&[0.5f32, 50.0], &[2])?;
    let x = random::poisson(&rates, &[n / 2, 2], Dtype::I64, Some(&k))?;
    assert_moments("column", &x.slice_axis(1, 1, 2)?, 50.0, 50.0)?;
    let tiny = Array::from_scalar(1e-3f32);
    let x = random::beta(&tiny, &tiny, &[1000], Dtype::F32, Some(&k))?.to_vec::<f32>()?;
    assert!(x.iter().all(|x| (0.0..=1.0).contains(x)));
    Ok(())
}

#[test]
fn choices_with_and_without_replacement() -> Result<()> {
    olivine_cpu::register();
    let k = random::key(5)?;
    let p = Array::from_slice(&[0.0f32, 1.0, 3.0, 0.0, 4.0], &[5])?;
    let drawn = random::choice_index(5, &[8000], true, Some(&p), Some(&k))?.to_vec::<u32>()?;
    let share = |i: u32| drawn.iter().filter(|&&d| d == i).count() as f64 / 8000.0;
    for (i, want) in [(0, 0.0), (1, 0.125), (2, 0.375), (3, 0.0), (4, 0.5)] {
        assert!((share(i) - want).abs() < 0.03, "{i}: {}", share(i));
    }
    let mut three = random::choice_index(5, &[3], false, Some(&p), Some(&k))?.to_vec::<u32>()?;
    three.sort_unstable();
    assert_eq!(three, [1, 2, 4]);
    let mut all = random::choice_index(6, &[2, 3], false, None, Some(&k))?.to_vec::<u32>()?;
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3, 4, 5]);
    let x = Array::arange(0.0, 12.0, 1.0, Dtype::I32)?.reshape(&[3, 4])?;
    assert_eq!(random::choice(&x, &[2, 5], true, None, -1, Some(&k))?.shape()[..], [3, 2, 5]);
    assert!(matches!(random::choice_index(2, &[3], false, None, None), Err(Error::Value { .. })));
    assert!(matches!(random::choice_index(0, &[1], true, None, None), Err(Error::Value { .. })));
    assert!(matches!(random::choice_index(4, &[1], true, Some(&p), None), Err(Error::Shape { .. })));
    assert_eq!(random::choice_index(0, &[0], true, None, None)?.size(), 0);
    Ok(())
}

/// `mlx.core.random.multivariate_normal` with the key of seed 7, on the CPU.
#[test]
fn jointly_normal_vectors() -> Result<()> {
    olivine_cpu::register();
    let mean = Array::from_slice(&[1.0f32, -2.0], &[2])?;
    let cov = Array::from_slice(&[2.0f32, 0.6, 0.6, 1.0], &[2, 2])?;
    let draw =
        |shape: &[usize]| random::multivariate_normal(&mean, &cov, shape, Dtype::F32, Some(&random::key(7)?));
    let want = [-1.326_593_9, -3.198_002_6, 0.726_887_9, -2.325_665_5, 1.518_536_6, -2.318_803_8];
    for (got, want) in draw(&[3])?.to_vec::<f32>()?.iter().zip(want) {
        assert!((got - want).abs() < 1e-5, "{got} {want}");
    }
    assert_eq!(&draw(&[])?.shape()[..], [2]);
    assert_eq!(&draw(&[2, 3])?.shape()[..], [2, 3, 2]);
    let wrong = random::multivariate_normal(&mean, &mean, &[], Dtype::F32, None);
    assert!(matches!(wrong, Err(Error::Shape { .. })));
    Ok(())
}
