//! Every family of operations reaches its kernel with the right arguments, whatever their layout.

use olivine_core::op::{Affine, Op, Packing, Quant};
use olivine_core::{Array, Dtype, Result};

fn cpu() {
    olivine_cpu::register();
}

/// Small numbers that every float type holds exactly.
fn numbers(shape: &[usize], dtype: Dtype) -> Result<Array> {
    let n: usize = shape.iter().product();
    let v: Vec<f32> = (0..n).map(|i| ((i * 37 + 11) % 13) as f32 - 6.0).collect();
    Array::from_slice(&v, shape)?.astype(dtype)
}

fn floats(a: &Array) -> Result<Vec<f64>> {
    a.astype(Dtype::F64)?.to_vec()
}

/// Row-major product of `batch` matrices, on the host.
fn product(a: &[f64], b: &[f64], batch: usize, m: usize, k: usize, n: usize) -> Vec<f64> {
    let mut c = vec![0.0; batch * m * n];
    for t in 0..batch {
        for i in 0..m {
            for j in 0..n {
                c[(t * m + i) * n + j] =
                    (0..k).map(|p| a[(t * m + i) * k + p] * b[(t * k + p) * n + j]).sum();
            }
        }
    }
    c
}

#[test]
fn products_of_every_type_and_layout() -> Result<()> {
    cpu();
    for d in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::C64] {
        for (lead, m, k, n) in [(vec![], 5, 7, 3), (vec![2, 3], 4, 6, 5), (vec![3], 1, 8, 9)] {
            let batch: usize = lead.iter().product();
            let dims = |r, c| [&lead[..], &[r, c]].concat();
            let (a, b) = (numbers(&dims(m, k), d)?, numbers(&dims(k, n), d)?);
            let want = product(&floats(&a)?, &floats(&b)?, batch, m, k, n);
            assert_eq!(floats(&a.matmul(&b)?)?, want, "{d} {lead:?}");
            // The same matrices stored the other way round, and a slice of a larger one.
            let at = numbers(&dims(m, k), d)?.swapaxes(-1, -2)?.add(&a.swapaxes(-1, -2)?)?;
            at.eval()?;
            let double: Vec<f64> = want.iter().map(|v| v * 2.0).collect();
            assert_eq!(floats(&at.swapaxes(-1, -2)?.matmul(&b)?)?, double, "{d} {lead:?} transposed");
            let wide = Array::concatenate(&[a.clone(), a.clone()], -1)?;
            let part = wide.slice_axis(-1, k, 2 * k)?;
            assert_eq!(floats(&part.matmul(&b)?)?, want, "{d} {lead:?} sliced");
        }
    }
    Ok(())
}

#[test]
fn packed_products_equal_unpacked_ones() -> Result<()> {
    cpu();
    let packing = Packing::from(Affine { group: 32, bits: 4 });
    for (lead, rows, cols) in [(vec![], 24, 64), (vec![3], 8, 32)] {
        let dims = [&lead[..], &[rows, cols]].concat();
        let w = numbers(&dims, Dtype::F32)?;
        let parts = Array::from_op_multi(Op::Quant(Quant::Quantize(packing)), &[w])?;
        let unpacked = Array::from_op(Op::Quant(Quant::Dequantize { packing, dtype: Dtype::F32 }), &parts)?;
        for transpose in [true, false] {
            let (inner, full) =
                if transpose { (cols, unpacked.swapaxes(-1, -2)?) } else { (rows, unpacked.clone()) };
            let x = numbers(&[&lead[..], &[5, inner]].concat(), Dtype::F32)?;
            // Strides that the kernel cannot take.
            let x = x.swapaxes(-1, -2)?.add(&x.swapaxes(-1, -2)?)?.swapaxes(-1, -2)?;
            let args = [x.clone(), parts[0].clone(), parts[1].clone(), parts[2].clone()];
            let got = floats(&Array::from_op(Op::Quant(Quant::Matmul { packing, transpose }), &args)?)?;
            let want = floats(&x.matmul(&full)?)?;
            for (g, w) in got.iter().zip(&want) {
                assert!((g - w).abs() <= 1e-3 * (1.0 + w.abs()), "{g} for {w}, transpose {transpose}");
            }
        }
    }
    Ok(())
}
