//! Random numbers are those of MLX: `data/random.json` is written by `scripts/references/random.py`.

use olivine_core::random::{
    bernoulli, categorical, categorical_many, categorical_shaped, gumbel, key, laplace, normal, permutation,
    randint, split, truncated_normal, uniform,
};
use olivine_core::{Array, Dtype, Error, Result};
use serde_json::Value;

fn data() -> Value {
    olivine_cpu::register();
    serde_json::from_str(include_str!("data/random.json")).expect("the file is JSON")
}

/// All numbers inside nested lists, in order; truth values as 0 and 1.
fn flat(v: &Value) -> Vec<i64> {
    match v {
        Value::Array(a) => a.iter().flat_map(flat).collect(),
        Value::Bool(b) => vec![*b as i64],
        v => vec![v.as_i64().expect("a number")],
    }
}

/// Floats whose bits as `f32` are stored.
fn floats(v: &Value) -> Vec<f32> {
    flat(v).into_iter().map(|b| f32::from_bits(b as u32)).collect()
}

fn values(x: &Array) -> Result<Vec<f32>> {
    x.astype(Dtype::F32)?.to_vec::<f32>()
}

fn integers(x: &Array) -> Result<Vec<i64>> {
    x.astype(Dtype::I64)?.to_vec::<i64>()
}

/// Equal but for `ulps` units of the last place of a type with `digits` binary digits, at the scale of at least 1:
/// samples near zero are differences of larger numbers.
fn assert_near(name: &str, got: &[f32], want: &[f32], digits: i32, ulps: f32) {
    assert_eq!(got.len(), want.len(), "{name}");
    for (g, w) in got.iter().zip(want) {
        let bound = ulps * w.abs().max(1.0) * 2f32.powi(1 - digits);
        assert!((g - w).abs() <= bound, "{name}: {g} {w}");
    }
}

#[test]
fn keys_and_draws_are_those_of_mlx() -> Result<()> {
    let data = data();
    let sizes = flat(&data["sizes"]);
    for row in data["rows"].as_array().expect("rows") {
        let k = key(row["seed"].as_u64().expect("a seed"))?;
        assert_eq!(integers(&k)?, flat(&row["key"]));
        assert_eq!(integers(&split(&k, 2)?)?, flat(&row["split"]));
        assert_eq!(integers(&split(&k, 5)?)?, flat(&row["split5"]));
        for (&n, want) in sizes.iter().zip(row["uniform"].as_array().expect("one list a size")) {
            let u = uniform(0.0, 1.0, &[n as usize], Dtype::F32, Some(&k))?;
            assert_eq!(values(&u)?, floats(want), "{n}");
        }
        let batch = split(&k, 4)?;
        assert_eq!(values(&uniform(0.0, 1.0, &[3], Dtype::F32, Some(&batch))?)?, floats(&row["batch"]));
        assert_eq!(integers(&randint(-5, 9, &[40], Dtype::I32, Some(&k))?)?, flat(&row["randint"]));
        let p = Array::from_slice(&[0.0f32, 0.1, 0.5, 0.9, 1.0], &[5])?;
        assert_eq!(integers(&bernoulli(&p, &[5], Some(&k))?)?, flat(&row["bernoulli"]));
        assert_eq!(integers(&permutation(41, Some(&k))?)?, flat(&row["permutation"]));
        let logits = Array::from_slice(&floats(&row["logits"]), &[3, 5])?;
        assert_eq!(integers(&categorical(&logits, Some(&k))?)?, flat(&row["categorical"]));
        let many = categorical_many(&logits, 0, 4, Some(&k))?;
        assert_eq!(many.shape()[..], [5, 4]);
        assert_eq!(integers(&many)?, flat(&row["categorical_many"]));
        let shaped = categorical_shaped(&logits, -1, &[4, 3], Some(&k))?;
        assert_eq!(integers(&shaped)?, flat(&row["categorical_shaped"]));
    }
    Ok(())
}

#[test]
fn samples_of_every_type_are_those_of_mlx() -> Result<()> {
    for row in data()["rows"].as_array().expect("rows") {
        let k = key(row["seed"].as_u64().expect("a seed"))?;
        for (dtype, digits) in [(Dtype::F32, 24), (Dtype::F16, 11), (Dtype::BF16, 8)] {
            let want = &row[&dtype.to_string()];
            let k = Some(&k);
            assert_eq!(values(&uniform(0.0, 1.0, &[9], dtype, k)?)?, floats(&want["uniform"]), "{dtype}");
            assert_eq!(values(&uniform(-3.0, 7.0, &[9], dtype, k)?)?, floats(&want["between"]), "{dtype}");
            let near = |name: &str, x: Array, ulps| -> Result<()> {
                assert_eq!(x.dtype(), dtype);
                assert_near(name, &values(&x)?, &floats(&want[name]), digits, ulps);
                Ok(())
            };
            // The functions behind these differ in the last places.
            near("normal", normal(&[9], dtype, 0.0, 1.0, k)?, 8.0)?;
            near("normal_moved", normal(&[9], dtype, 0.5, 2.5, k)?, 8.0)?;
            near("gumbel", gumbel(&[9], dtype, k)?, 8.0)?;
            near("laplace", laplace(&[9], dtype, 0.0, 1.0, k)?, 8.0)?;
            let (low, high) = (Array::full(&[], -1.0f32)?, Array::full(&[], 2.0f32)?);
            near("truncated", truncated_normal(&low, &high, &[9], dtype, k)?, 16.0)?;
        }
    }
    Ok(())
}

#[test]
fn draws_stay_within_their_ends() -> Result<()> {
    olivine_cpu::register();
    let k = key(3)?;
    let n = 1 << 16;
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        let u = values(&uniform(0.0, 1.0, &[n], dtype, Some(&k))?)?;
        assert!(u.iter().all(|&u| (0.0..1.0).contains(&u)), "{dtype}");
        let z = values(&normal(&[n], dtype, 1.0, 2.0, Some(&k))?)?;
        assert!(z.iter().all(|z| z.is_finite()));
        let mean = z.iter().map(|&z| z as f64).sum::<f64>() / n as f64;
        let variance = z.iter().map(|&z| (z as f64 - mean).powi(2)).sum::<f64>() / n as f64;
        assert!((mean - 1.0).abs() < 0.03 && (variance - 4.0).abs() < 0.1, "{dtype} {mean} {variance}");
    }
    for (low, high, dtype) in [
        (0, 256, Dtype::U8),
        (-128, 128, Dtype::I8),
        (i64::MIN, i64::MAX, Dtype::I64),
        (-(1 << 40), 1 << 40, Dtype::I64),
        ((1 << 30) - 3, (1 << 30) + 3, Dtype::I32),
        (0, 1 << 32, Dtype::U32),
    ] {
        let x = integers(&randint(low, high, &[5000], dtype, Some(&k))?)?;
        assert!(x.iter().all(|&x| x >= low && x < high), "{low} {high}");
        // Both halves, and both ends of short ranges, are reached.
        let middle = ((low as i128 + high as i128) / 2) as i64;
        let above = x.iter().filter(|&&x| x >= middle).count();
        assert!((2200..2800).contains(&above), "{low} {high} {above}");
        if high.abs_diff(low) <= 256 {
            assert!(x.contains(&low) && x.contains(&(high - 1)));
        }
    }
    Ok(())
}

#[test]
fn senseless_draws_are_errors() -> Result<()> {
    olivine_cpu::register();
    let k = key(0)?;
    assert!(matches!(randint(5, 2, &[4], Dtype::I32, Some(&k)), Err(Error::Value { op: "randint", .. })));
    assert!(matches!(randint(0, 300, &[4], Dtype::U8, Some(&k)), Err(Error::Value { op: "randint", .. })));
    assert!(matches!(randint(0, 3, &[4], Dtype::F32, Some(&k)), Err(Error::Dtype { op: "randint", .. })));
    assert!(matches!(uniform(0.0, 1.0, &[4], Dtype::I32, Some(&k)), Err(Error::Dtype { op: "uniform", .. })));
    assert!(matches!(
        categorical(&Array::from_scalar(1.0f32), Some(&k)),
        Err(Error::Shape { op: "categorical", .. })
    ));
    let logits = Array::zeros(&[3, 5], Dtype::F32)?;
    assert!(categorical_shaped(&logits, -1, &[4, 2], Some(&k)).is_err());
    Ok(())
}

#[test]
fn the_default_key_advances_and_can_be_set() -> Result<()> {
    olivine_cpu::register();
    let draw = || values(&uniform(0.0, 1.0, &[4], Dtype::F32, None)?);
    assert_ne!(draw()?, draw()?);
    Ok(())
}
