//! The family of matrix products beside `matmul` of floats.

use olivine_core::{Array, Complex64, Dtype, Error, Result};

fn noise(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..n)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
        })
        .collect()
}

fn random(shape: &[usize], seed: u64) -> Result<Array> {
    olivine_cpu::register();
    Array::from_slice(&noise(shape.iter().product(), seed), shape)
}

fn assert_near(what: &str, a: &Array, b: &Array, bound: f32) -> Result<()> {
    assert_eq!(a.shape(), b.shape(), "{what}");
    if a.size() == 0 {
        return Ok(());
    }
    let diff =
        a.astype(Dtype::F32)?.subtract(&b.astype(Dtype::F32)?)?.abs()?.max(&[], false)?.item::<f32>()?;
    assert!(diff <= bound, "{what}: {diff}");
    Ok(())
}

#[test]
fn integers_multiply_and_wrap_as_in_numpy() -> Result<()> {
    olivine_cpu::register();
    let a = Array::from_slice(&[100i8, 2, 3, -128, 5, 6], &[2, 3])?;
    let b = Array::from_slice(&[2i8, 1, 3, 1, 1, 100], &[3, 2])?;
    // 100*2+2*3+3*1 = 209 wraps to -47; 100+2+300 = 402 to -110; -256+15+6 = -235 to 21; -128+5+600 = 477 to -35.
    assert_eq!(a.matmul(&b)?.to_vec::<i8>()?, [-47, -110, 21, -35]);
    let big = Array::from_slice(&[i64::MAX, 1], &[1, 2])?;
    assert_eq!(big.matmul(&Array::from_slice(&[2i64, 3], &[2, 1])?)?.item::<i64>()?, 1);
    // u8 with i32 is i32; strided, reversed and broadcast operands.
    let x = Array::arange(0.0, 24.0, 1.0, Dtype::U8)?.reshape(&[2, 3, 4])?;
    let y = Array::arange(0.0, 12.0, 1.0, Dtype::I32)?.reshape(&[3, 4])?.t()?.slice(&[(None, None, -1)])?;
    let got = x.matmul(&y)?;
    assert_eq!(got.dtype(), Dtype::I32);
    let want = x.astype(Dtype::F64)?.matmul(&y.astype(Dtype::F64)?)?;
    assert_eq!(got.astype(Dtype::F64)?.to_vec::<f64>()?, want.to_vec::<f64>()?);
    let rows = x.astype(Dtype::I64)?.matmul(&Array::from_slice(&[1i64, 0, -1, 2], &[4])?)?;
    assert_eq!((rows.shape().to_vec(), rows.to_vec::<i64>()?[0]), (vec![2, 3], 4));
    // Truth values: any pair.
    let p = Array::from_slice(&[true, false, false, false], &[2, 2])?;
    assert_eq!(p.matmul(&p)?.to_vec::<bool>()?, [true, false, false, false]);
    // A sum over nothing.
    let none = Array::zeros(&[2, 0], Dtype::I16)?.matmul(&Array::zeros(&[0, 3], Dtype::I16)?)?;
    assert_eq!(none.to_vec::<i16>()?, [0; 6]);
    Ok(())
}

#[test]
fn complex_vectors_and_zero_sizes() -> Result<()> {
    olivine_cpu::register();
    let z = |re: f32, im: f32| Complex64 { re, im };
    let a = Array::from_slice(&[z(1.0, 2.0), z(0.0, -1.0)], &[2])?;
    // (1+2i)^2 + (-i)^2, without conjugation.
    assert_eq!(a.matmul(&a)?.item::<Complex64>()?, z(-4.0, 4.0));
    for (s, t, out) in [
        (vec![0, 3], vec![3, 2], vec![0, 2]),
        (vec![2, 0], vec![0, 3], vec![2, 3]),
        (vec![4, 1, 2, 3], vec![5, 3, 0], vec![4, 5, 2, 0]),
        (vec![0], vec![0], vec![]),
        (vec![3], vec![2, 3, 4], vec![2, 4]),
        (vec![2, 4, 3], vec![3], vec![2, 4]),
    ] {
        for d in [Dtype::F32, Dtype::BF16, Dtype::C64, Dtype::F64] {
            let y = Array::ones(&s, d)?.matmul(&Array::ones(&t, d)?)?;
            assert_eq!(y.shape()[..], out[..], "{s:?} @ {t:?}");
            y.eval()?;
        }
    }
    let scalar = Array::from_scalar(1f32);
    assert!(matches!(scalar.matmul(&scalar), Err(Error::Shape { op: "matmul", .. })));
    Ok(())
}

#[test]
fn addmm_broadcasts_scales_and_rounds_once() -> Result<()> {
    let (a, b) = (random(&[2, 4, 10], 1)?, random(&[10, 3], 2)?);
    for c in [random(&[3], 3)?, random(&[4, 1], 4)?, random(&[2, 4, 3], 5)?, random(&[], 6)?] {
        let want = a.matmul(&b)?.scale(0.5)?.add(&c.scale(-2.0)?)?;
        assert_near("addmm", &c.addmm(&a, &b, 0.5, -2.0)?, &want, 1e-5)?;
    }
    let (row, column) = (random(&[10], 7)?, random(&[10], 8)?);
    let one = random(&[], 9)?;
    assert_near("row", &one.addmm(&row, &b, 1.0, 1.0)?, &row.matmul(&b)?.add(&one)?, 1e-5)?;
    let c = random(&[2, 4], 3)?;
    assert_near("column", &c.addmm(&a, &column, 1.0, 1.0)?, &a.matmul(&column)?.add(&c)?, 1e-5)?;
    assert_near("both", &one.addmm(&row, &column, 1.0, 1.0)?, &row.matmul(&column)?.add(&one)?, 1e-5)?;
    // A product of 90,000 is beyond float16; a thousandth of it is not.
    let x = Array::full(&[1, 1], 300f32)?.astype(Dtype::F16)?;
    let y = Array::zeros(&[1, 1], Dtype::F16)?.addmm(&x, &x, 1e-3, 1.0)?;
    assert_eq!(y.astype(Dtype::F32)?.item::<f32>()?, 90.0);
    // An inner axis of nothing leaves c.
    let y = Array::ones(&[3], Dtype::F32)?.addmm(
        &Array::zeros(&[2, 0], Dtype::F32)?,
        &Array::zeros(&[0, 3], Dtype::F32)?,
        1.0,
        3.0,
    )?;
    assert_eq!(y.to_vec::<f32>()?, [3.0; 6]);
    assert!(matches!(random(&[7, 4, 3], 1)?.addmm(&a, &b, 1.0, 1.0), Err(Error::Shape { .. })));
    let i = Array::ones(&[2, 2], Dtype::I32)?;
    assert!(matches!(i.addmm(&i, &i, 1.0, 1.0), Err(Error::Dtype { op: "addmm", .. })));
    Ok(())
}

#[test]
fn gathered_products_of_strided_operands() -> Result<()> {
    // Sorted indices with a strided left operand went wrong elsewhere: rows of x against their own matrix.
    let x = random(&[8, 12], 1)?.slice(&[(None, None, 2), (None, None, -2)])?;
    let w = random(&[6, 5, 3], 2)?.swapaxes(-1, -2)?.slice(&[])?;
    let w = w.swapaxes(-1, -2)?;
    let x = x.slice_axis(1, 0, 5)?;
    let index = Array::from_slice(&[0u32, 0, 2, 5], &[4])?;
    let y = x.expand_dims(&[1])?.gather_mm(&w, None, Some(&index), true)?;
    let want = x.expand_dims(&[1])?.matmul(&w.take(&index, 0)?)?;
    assert_near("gather_mm", &y, &want, 1e-6)?;
    // Vectors, and other types.
    let row = random(&[5], 3)?;
    let y = row.gather_mm(&w, None, Some(&index), false)?;
    assert_near("row", &y, &row.matmul(&w.take(&index, 0)?)?, 1e-6)?;
    for d in [Dtype::F64, Dtype::BF16, Dtype::C64] {
        let (x, w) = (x.expand_dims(&[1])?.astype(d)?, w.astype(d)?);
        let got = x.gather_mm(&w, None, Some(&index), false)?;
        let got = if d == Dtype::C64 { got.real()? } else { got };
        assert_near("types", &got, &want, if d == Dtype::BF16 { 0.05 } else { 1e-5 })?;
    }
    Ok(())
}

#[test]
fn masked_blocks_count_as_zero_whatever_they_hold() -> Result<()> {
    let (mut a, b) = (noise(70 * 40, 1), random(&[40, 33], 2)?);
    a[0] = f32::NAN;
    let a = Array::from_slice(&a, &[70, 40])?;
    let mask = |v: &[bool], s: &[usize]| Array::from_slice(v, s);
    let (lhs, rhs) = (mask(&[false, true, true, true, true, false], &[3, 2])?, mask(&[true; 4], &[2, 2])?);
    let out = Array::from_slice(&[1.0f32, 2.0, 0.0, 1.0, 0.5, 1.0], &[3, 2])?;
    let y = a.block_masked_mm(&b, 32, Some(&out), Some(&lhs), Some(&rhs))?;
    let (got, av, bv) = (y.to_vec::<f32>()?, a.to_vec::<f32>()?, b.to_vec::<f32>()?);
    let (lm, om) = (lhs.to_vec::<bool>()?, out.to_vec::<f32>()?);
    for i in 0..70 {
        for j in 0..33 {
            let sum: f64 = (0..40)
                .filter(|k| lm[i / 32 * 2 + k / 32])
                .map(|k| av[i * 40 + k] as f64 * bv[k * 33 + j] as f64)
                .sum();
            let want = sum * om[i / 32 * 2 + j / 32] as f64;
            assert!((got[i * 33 + j] as f64 - want).abs() < 1e-5, "{i} {j}");
        }
    }
    assert!(matches!(a.block_masked_mm(&b, 0, None, None, None), Err(Error::Value { .. })));
    assert!(matches!(a.block_masked_mm(&b, 32, Some(&rhs), None, None), Err(Error::Shape { .. })));
    assert_near("no mask", &b.block_masked_mm(&b.t()?, 64, None, None, None)?, &b.matmul(&b.t()?)?, 0.0)?;
    Ok(())
}

#[test]
fn segments_of_the_inner_axis() -> Result<()> {
    let (a, b) = (random(&[10, 4], 1)?.t()?, random(&[10, 3], 2)?);
    let limits = Array::from_slice(&[0u32, 5, 5, 10, 7, 3, 10, 10], &[2, 2, 2])?;
    let y = a.segmented_mm(&b, &limits)?;
    assert_eq!(y.shape()[..], [2, 2, 4, 3]);
    let part = |i: usize| y.reshape(&[4, 4, 3])?.slice_axis(0, i, i + 1)?.squeeze(&[0]);
    let want = |f, t| a.slice_axis(1, f, t)?.matmul(&b.slice_axis(0, f, t)?);
    assert_near("first", &part(0)?, &want(0, 5)?, 1e-6)?;
    assert_near("second", &part(1)?, &want(5, 10)?, 1e-6)?;
    for empty in [2, 3] {
        assert_eq!(part(empty)?.to_vec::<f32>()?, [0.0; 12]);
    }
    let e = a.segmented_mm(&b, &Array::from_slice(&[0u32, 12], &[1, 2])?)?.eval();
    assert!(matches!(e, Err(Error::Index { op: "segmented_mm", .. })), "{e:?}");
    assert!(matches!(a.segmented_mm(&b, &limits.flatten()?), Err(Error::Shape { .. })));
    assert!(matches!(a.segmented_mm(&b, &limits.astype(Dtype::F32)?), Err(Error::Dtype { .. })));
    Ok(())
}
