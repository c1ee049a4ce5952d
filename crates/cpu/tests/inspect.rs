//! Profiles, checks of numbers, and lines in errors.

use olivine_core::inspect::{Check, profile, set_check, set_sources};
use olivine_core::{Array, Dtype, Error, Result, eval, fast};
use std::sync::{Mutex, MutexGuard};

/// What is switched here is switched for the process.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    olivine_cpu::register();
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn floats(v: &[f32]) -> Array {
    Array::from_slice(v, &[v.len()]).unwrap()
}

#[test]
fn a_profile_tells_each_operation() -> Result<()> {
    let _alone = alone();
    let x = Array::ones(&[64, 32], Dtype::F32)?;
    x.eval()?;
    let (y, p) = profile(|| {
        let y = x.matmul(&x.transpose(&[1, 0])?)?.exp()?.add(&Array::from_scalar(1f32))?.sum(&[], false)?;
        y.eval()?;
        Ok(y)
    })?;
    assert!(y.item::<f32>()? > 0.0);
    let names: Vec<&str> = p.records.iter().map(|r| r.op.as_str()).collect();
    assert_eq!(names, ["matmul", "exp+add", "sum"]);
    assert_eq!(p.records[0].shape, "(64, 64)");
    assert_eq!(p.records[0].bytes, 2 * 64 * 32 * 4 + 64 * 64 * 4);
    assert!(p.records.windows(2).all(|w| w[0].start + w[0].time <= w[1].start));
    let table = p.to_string();
    assert!(table.contains("matmul") && table.contains("share") && table.lines().count() == 5, "{table}");
    let trace: serde_json::Value = serde_json::from_str(&p.chrome_trace()).unwrap();
    assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 3);
    assert_eq!(trace["traceEvents"][1]["name"], "exp+add");
    // Nothing is recorded any more.
    let (_, p) = profile(|| Ok(()))?;
    x.exp()?.eval()?;
    assert!(p.records.is_empty());
    Ok(())
}

#[test]
fn an_error_in_a_profile_ends_it() -> Result<()> {
    let _alone = alone();
    let failed = profile(|| -> Result<()> { Err(Error::value("test", "no")) });
    assert!(failed.is_err());
    let (_, p) = profile(|| floats(&[1.0]).exp()?.eval())?;
    assert_eq!(p.records.len(), 1);
    Ok(())
}

#[test]
fn errors_of_evaluation_name_the_line() -> Result<()> {
    let _alone = alone();
    let x = floats(&[1.0, 2.0]);
    let bad = Array::from_slice(&[7i32], &[1])?;
    set_sources(true);
    let line = line!() + 1;
    let y = x.take(&bad, 0)?;
    set_sources(false);
    let e = y.add(&y)?.eval().unwrap_err();
    assert!(matches!(e, Error::Index { .. }));
    assert!(e.to_string().contains(&format!("inspect.rs:{line}")), "{e}");
    // Without it errors are as always.
    let e = x.take(&bad, 0)?.eval().unwrap_err();
    assert!(!e.to_string().contains("built at"), "{e}");
    Ok(())
}

#[test]
fn the_first_bad_number_is_found_where_it_arises() -> Result<()> {
    let _alone = alone();
    let x = floats(&[1.0, -1.0, 0.0]);
    set_check(Check::Nan);
    let line = line!() + 1;
    let y = x.sqrt()?;
    let z = y.exp()?.sum(&[], false)?;
    let e = z.eval().unwrap_err();
    assert!(matches!(e, Error::Value { op: "sqrt", .. }), "{e}");
    assert!(e.to_string().contains("gives NaN"), "{e}");
    assert!(e.to_string().contains(&format!("inspect.rs:{line}")), "{e}");
    // Infinity is fine, and so are numbers that were bad before.
    x.log()?.maximum(&Array::from_scalar(0f32))?.eval().unwrap_err();
    floats(&[0.0]).reciprocal()?.eval()?;
    floats(&[f32::NAN]).exp()?.eval()?;
    set_check(Check::Finite);
    let e = floats(&[0.0]).reciprocal()?.eval().unwrap_err();
    assert!(e.to_string().contains("[divide] gives infinity"), "{e}");
    // A mask of -inf is written down, and what follows from it is finite.
    let mask = floats(&[0.0, f32::NEG_INFINITY]);
    let p = floats(&[1.0, 2.0]).add(&mask)?.softmax(0)?;
    assert_eq!(p.to_vec::<f32>()?, [1.0, 0.0]);
    // Inside a composite the line is that of the user.
    let line = line!() + 1;
    let y = fast::rms_norm(&floats(&[f32::MAX, f32::MAX]), None, 0.0)?;
    let e = eval(std::slice::from_ref(&y));
    assert!(e.is_ok() || e.unwrap_err().to_string().contains(&format!("inspect.rs:{line}")));
    assert_eq!(set_check(Check::Off), Check::Finite);
    x.sqrt()?.eval()
}
