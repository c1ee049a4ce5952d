//! Graphs evaluate from end to end on the CPU backend.

use olivine_core::{Array, Dtype, Error, Result};

fn cpu() {
    olivine_cpu::register();
}

#[test]
fn elementwise_of_any_layout() -> Result<()> {
    cpu();
    let n = 3000;
    let x = Array::arange(0.0, n as f64, 1.0, Dtype::F32)?;
    let y = x.add(&x)?.multiply(&Array::from_scalar(0.5f32))?;
    assert_eq!(y.to_vec::<f32>()?, (0..n).map(|i| i as f32).collect::<Vec<_>>());
    let t = x.reshape(&[30, 100])?.transpose(&[1, 0])?;
    let z = t.add(&Array::arange(0.0, 30.0, 1.0, Dtype::F32)?)?;
    let want: Vec<f32> =
        (0..100).flat_map(|j| (0..30).map(move |i| (i * 100 + j) as f32 + i as f32)).collect();
    assert_eq!(z.to_vec::<f32>()?, want);
    // A reshape that needs a copy.
    let flat: Vec<f32> = (0..100).flat_map(|j| (0..30).map(move |i| (i * 100 + j) as f32)).collect();
    assert_eq!(t.reshape(&[3000])?.to_vec::<f32>()?, flat);
    Ok(())
}

#[test]
fn halves_round_after_every_operation() -> Result<()> {
    cpu();
    for d in [Dtype::F16, Dtype::BF16] {
        let x = Array::from_slice(&[1.0f32, 0.1, 3.0, 1000.0], &[4])?.astype(d)?;
        let y = x.add(&x.scalar_like(0.001))?.subtract(&x)?;
        let both = |fused| {
            let old = olivine_core::eval::set_fusion(fused);
            let z = y.astype(Dtype::F32)?.add(&Array::from_scalar(0.0f32))?;
            let r = z.to_vec::<f32>();
            olivine_core::eval::set_fusion(old);
            r
        };
        assert_eq!(both(true)?, both(false)?);
    }
    Ok(())
}

#[test]
fn conversions_are_defined_at_the_ends() -> Result<()> {
    cpu();
    let x = Array::from_slice(&[f32::NAN, 1e30, -1e30, -1.5, 2.5], &[5])?;
    assert_eq!(x.astype(Dtype::I32)?.to_vec::<i32>()?, [0, i32::MAX, i32::MIN, -1, 2]);
    assert_eq!(x.astype(Dtype::U8)?.to_vec::<u8>()?, [0, 255, 0, 0, 2]);
    assert_eq!(x.astype(Dtype::Bool)?.to_vec::<bool>()?, [true; 5]);
    let i = Array::from_slice(&[i32::MIN, 7, -7, 5], &[4])?;
    let d = Array::from_slice(&[-1i32, -2, 2, 0], &[4])?;
    assert_eq!(i.floor_divide(&d)?.to_vec::<i32>()?, [i32::MIN, -4, -4, 0]);
    assert_eq!(i.remainder(&d)?.to_vec::<i32>()?, [0, -1, 1, 0]);
    Ok(())
}

#[test]
fn elements_that_do_not_fit_the_host_are_an_error() -> Result<()> {
    cpu();
    for a in [Array::zeros(&[1 << 40], Dtype::F32)?, Array::ones(&[1], Dtype::F32)?.broadcast_to(&[1 << 40])?]
    {
        assert!(matches!(a.to_vec::<f32>(), Err(Error::OutOfMemory { op: "to_vec", .. })));
        assert!(matches!(a.to_bytes(), Err(Error::OutOfMemory { op: "to_bytes", .. })));
    }
    Ok(())
}

#[test]
fn steps_beyond_an_axis_leave_its_first_element() -> Result<()> {
    cpu();
    let x = Array::arange(0.0, 6.0, 1.0, Dtype::F32)?.reshape(&[2, 3])?;
    assert_eq!(x.slice(&[(None, None, i64::MAX)])?.to_vec::<f32>()?, [0.0, 1.0, 2.0]);
    assert_eq!(x.slice(&[(None, None, i64::MIN)])?.to_vec::<f32>()?, [3.0, 4.0, 5.0]);
    let all = (Some(i64::MIN), Some(i64::MAX), i64::MAX);
    assert_eq!(x.slice(&[all, all])?.to_vec::<f32>()?, [0.0]);
    Ok(())
}
