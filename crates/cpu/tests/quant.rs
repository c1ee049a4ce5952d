//! Packed weights in every mode: bits of MLX (`data/quant.json`, by `scripts/references/quant.py`), and products
//! against those of unpacked weights in `f64`.

use olivine_core::op::{Affine, Packing};
use olivine_core::ops::PackedArray;
use olivine_core::{Array, Dtype, Error, Result};
use serde_json::Value;

fn data() -> Value {
    olivine_cpu::register();
    serde_json::from_str(include_str!("data/quant.json")).expect("the file is JSON")
}

fn bytes(v: &Value) -> Vec<u8> {
    let text = v.as_str().expect("a string").as_bytes();
    let digit = |c: u8| (c as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.chunks(2).map(|p| digit(p[0]) << 4 | digit(p[1])).collect()
}

fn floats(v: &Value) -> Vec<f32> {
    bytes(v).chunks(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
}

fn dtype(name: &str) -> Dtype {
    Dtype::ALL.into_iter().find(|d| d.to_string() == name).expect("a dtype")
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn words_and_scales_are_those_of_mlx() -> Result<()> {
    let data = data();
    for case in data["cases"].as_array().expect("cases") {
        let (mode, name) = (case[0].as_str().expect("mode"), case[1].as_str().expect("type"));
        let packing = Packing::named("quantize", mode, None, None)?;
        let x = Array::from_slice(&floats(&data["inputs"][name]), &[4, 64])?.astype(dtype(name))?;
        let global = case[2].as_f64().map(|g| Array::from_scalar(g as f32));
        let p = x.pack(packing, global.as_ref())?;
        assert_eq!(p.scales.to_bytes()?, bytes(&case[4]), "scales of {mode} {name} {:?}", case[2]);
        assert_eq!(p.words.to_bytes()?, bytes(&case[3]), "words of {mode} {name} {:?}", case[2]);
        let got = p.unpack(Some(Dtype::F32), global.as_ref())?.to_vec::<f32>()?;
        assert_eq!(bits(&got), bits(&floats(&case[5])), "values of {mode} {name} {:?}", case[2]);
        // The same, found again from its parts.
        let again = PackedArray::new(&p.words, &p.scales, None, packing)?;
        assert_eq!(again.shape()[..], [4, 64]);
    }
    Ok(())
}

#[test]
fn eight_bit_floats_are_those_of_mlx() -> Result<()> {
    let data = data();
    let all: Vec<u8> = (0..=255).collect();
    let got = Array::from_slice(&all, &[256])?.from_fp8(Dtype::F32)?.to_vec::<f32>()?;
    for (g, w) in got.iter().zip(floats(&data["fp8"])) {
        assert!(g.to_bits() == w.to_bits() || (g.is_nan() && w.is_nan()), "{g} {w}");
    }
    let x = Array::from_slice(&floats(&data["inputs"]["float32"]), &[256])?;
    assert_eq!(x.to_fp8()?.to_vec::<u8>()?, bytes(&data["to_fp8"]));
    let odd = [f32::NAN, f32::INFINITY, -1e9, -0.0, 464.0, 1.0625, 1.1875, 2f32.powi(-10), 1e-45];
    let codes = Array::from_slice(&odd, &[9])?.to_fp8()?.to_vec::<u8>()?;
    // MLX makes 448 of NaN; the format has NaN.
    assert_eq!(codes, [0x7f, 0x7e, 0xfe, 0x80, 0x7e, 56, 58, 0, 0]);
    // A scalar, and a view backwards.
    assert_eq!(Array::from_scalar(1f32).to_fp8()?.item::<u8>()?, 56);
    let back = x.slice(&[(None, None, -1)])?.to_fp8()?.to_vec::<u8>()?;
    assert!(back.iter().rev().eq(bytes(&data["to_fp8"]).iter()));
    assert!(matches!(x.astype(Dtype::I32)?.to_fp8(), Err(Error::Dtype { op: "to_fp8", .. })));
    assert!(matches!(x.from_fp8(Dtype::F32), Err(Error::Dtype { op: "from_fp8", .. })));
    Ok(())
}

#[test]
fn groups_that_mlx_loses_keep_their_values() -> Result<()> {
    olivine_cpu::register();
    // A constant of 1e-8 comes back; MLX gives 0.
    for dtype in [Dtype::F32, Dtype::BF16, Dtype::F16] {
        let x = Array::full(&[1, 64], 1e-6f32)?.astype(dtype)?;
        let (w, s, b) = x.quantize(64, 4)?;
        let y = w.dequantize(&s, &b, 64, 4, Dtype::F32)?.to_vec::<f32>()?;
        let x = x.astype(Dtype::F32)?.to_vec::<f32>()?;
        assert_eq!(x, y, "{dtype}");
    }
    let tiny: Vec<f32> = (0..64).map(|i| i as f32 * 1e-9).collect();
    let (w, s, b) = Array::from_slice(&tiny, &[1, 64])?.quantize(64, 8)?;
    for (x, y) in tiny.iter().zip(w.dequantize(&s, &b, 64, 8, Dtype::F32)?.to_vec::<f32>()?) {
        assert!((x - y).abs() < 2e-10, "{x} {y}");
    }
    // One infinity or NaN takes nothing from its neighbours.
    for odd in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let mut x: Vec<f32> = (0..64).map(|i| i as f32 / 32.0 - 1.0).collect();
        x[5] = odd;
        let x = Array::from_slice(&x, &[1, 64])?;
        for packing in [Affine { group: 64, bits: 8 }.into(), Packing::Mxfp4, Packing::Mxfp8, Packing::Nvfp4]
        {
            let y = x.pack(packing, None)?.unpack(Some(Dtype::F32), None)?.to_vec::<f32>()?;
            for (i, y) in y.iter().enumerate().filter(|(i, _)| *i != 5) {
                assert!((y - (i as f32 / 32.0 - 1.0)).abs() < 0.17, "{packing:?} {odd} at {i}: {y}");
            }
        }
    }
    // Scales at the ends of what they hold.
    for (v, packing) in [(1e-38f32, Packing::Mxfp4), (1e-38, Packing::Mxfp8), (2e38, Packing::Mxfp8)] {
        let y = Array::full(&[1, 32], v)?.pack(packing, None)?.unpack(Some(Dtype::F32), None)?;
        let y = y.to_vec::<f32>()?[0];
        assert!((y / v - 1.0).abs() < 0.3, "{packing:?} {v}: {y}");
    }
    Ok(())
}

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

/// Every packing, with columns that are and are not multiples of a block of the kernels.
fn packings() -> Vec<Packing> {
    let affine = |bits| Packing::Affine(Affine { group: 32, bits });
    let mut all = vec![Packing::Mxfp4, Packing::Mxfp8, Packing::Nvfp4];
    all.extend([1, 2, 3, 4, 5, 6, 8].map(affine));
    all
}

/// `x` `[m, k]` times the values of `w`, in `f64`, with the sum of magnitudes.
fn reference(x: &[f32], w: &[f32], (m, k, n): (usize, usize, usize), transpose: bool) -> Vec<(f64, f64)> {
    let mut out = Vec::new();
    for i in 0..m {
        for j in 0..n {
            let term =
                |l: usize| x[i * k + l] as f64 * w[if transpose { j * k + l } else { l * n + j }] as f64;
            out.push(((0..k).map(term).sum(), (0..k).map(|l| term(l).abs()).sum()));
        }
    }
    out
}

fn assert_products(what: &str, got: &Array, want: &[(f64, f64)], unit: f64) -> Result<()> {
    let got = got.astype(Dtype::F32)?.to_vec::<f32>()?;
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (&g, &(w, size))) in got.iter().zip(want).enumerate() {
        assert!((g as f64 - w).abs() <= 3e-6 * size + unit * w.abs() + 1e-9, "{what} at {i}: {g}, not {w}");
    }
    Ok(())
}

#[test]
fn products_with_every_packing_type_and_number_of_rows() -> Result<()> {
    olivine_cpu::register();
    for packing in packings() {
        for (k, n) in [(64, 5), (96, 32), (288, 7), (544, 64)] {
            for transpose in [true, false] {
                let (rows, cols) = if transpose { (n, k) } else { (k, n) };
                if cols % 32 != 0 {
                    continue;
                }
                let w = Array::from_slice(&noise(rows * cols, 3), &[rows, cols])?.pack(packing, None)?;
                let values = w.unpack(Some(Dtype::F32), None)?.to_vec::<f32>()?;
                for m in [1, 2, 4, 7, 9, 33] {
                    for (d, unit) in [(Dtype::F32, 0.0), (Dtype::F16, 1e-3), (Dtype::BF16, 8e-3)] {
                        if m > 7 && d != Dtype::F32 {
                            continue;
                        }
                        let x = Array::from_slice(&noise(m * k, 5), &[m, k])?.astype(d)?;
                        let xs = x.astype(Dtype::F32)?.to_vec::<f32>()?;
                        let y = w.matmul(&x, transpose)?;
                        let what = format!("{packing:?} {m} x {k} x {n} {transpose} {d}");
                        assert_products(&what, &y, &reference(&xs, &values, (m, k, n), transpose), unit)?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn batches_broadcast_and_gathered_matrices_meet_their_weights() -> Result<()> {
    olivine_cpu::register();
    let (k, n, experts) = (64, 32, 4);
    for packing in [Packing::Mxfp4, Packing::Nvfp4, Affine { group: 32, bits: 4 }.into()] {
        for transpose in [true, false] {
            let dims = if transpose { [experts, n, k] } else { [experts, k, n] };
            let w = Array::from_slice(&noise(experts * n * k, 1), &dims)?.pack(packing, None)?;
            let values = w.unpack(Some(Dtype::F32), None)?;
            let values = if transpose { values.swapaxes(-1, -2)? } else { values };
            let x = Array::from_slice(&noise(6 * 2 * k, 2), &[6, 2, k])?;
            let compare = |what: &str, y: Array, z: Array| -> Result<()> {
                assert_eq!(y.shape(), z.shape(), "{what}");
                let diff = y.subtract(&z)?.abs()?.max(&[], false)?.item::<f32>()?;
                assert!(diff < 1e-4, "{what} {packing:?} {transpose}: {diff}");
                Ok(())
            };
            // Equal leading axes, and broadcast ones.
            let four = x.slice_axis(0, 0, 4)?;
            compare("batch", w.matmul(&four, transpose)?, four.matmul(&values)?)?;
            let wide = x.expand_dims(&[1])?;
            compare("broadcast", w.matmul(&wide, transpose)?, wide.matmul(&values)?)?;
            let row = Array::from_slice(&noise(k, 9), &[k])?;
            compare("row", w.matmul(&row, transpose)?, row.matmul(&values)?)?;
            // Weights chosen for each matrix, in and out of order, counted from the end.
            for rhs in [[0i32, 0, 1, 2, 3, 3], [3, 0, -1, 1, 0, 2]] {
                let index = Array::from_slice(&rhs, &[6])?;
                let y = w.gather_matmul(&x, None, Some(&index), transpose)?;
                compare("right", y, x.matmul(&values.take(&index, 0)?)?)?;
                let dense = x.gather_mm(&values, None, Some(&index), true)?;
                compare("dense right", dense, x.matmul(&values.take(&index, 0)?)?)?;
            }
            let lhs = Array::from_slice(&[5u32, 0, 2], &[3, 1])?;
            let rhs = Array::from_slice(&[1i64, -4], &[2])?;
            let want = x.take(&lhs, 0)?.matmul(&values.take(&rhs, 0)?)?;
            compare("both", w.gather_matmul(&x, Some(&lhs), Some(&rhs), transpose)?, want.clone())?;
            compare("dense both", x.gather_mm(&values, Some(&lhs), Some(&rhs), false)?, want)?;
            // Out of range, which is found when it runs.
            for bad in [4i64, -5, 1 << 33, i64::MIN] {
                let bad = Array::from_slice(&[bad], &[1])?;
                let e = w.gather_matmul(&x, None, Some(&bad), transpose)?.eval();
                assert!(matches!(e, Err(Error::Index { op: "gather_qmm", .. })), "{e:?}");
                let e = x.gather_mm(&values, None, Some(&bad), false)?.eval();
                assert!(matches!(e, Err(Error::Index { op: "gather_mm", .. })), "{e:?}");
            }
        }
    }
    Ok(())
}

#[test]
fn products_of_two_packed_matrices() -> Result<()> {
    olivine_cpu::register();
    let (m, k, n) = (5, 96, 7);
    let x = Array::from_slice(&noise(m * k, 1), &[m, k])?;
    let w = Array::from_slice(&noise(n * k, 2), &[n, k])?;
    for packing in [Packing::Mxfp4, Packing::Mxfp8, Packing::Nvfp4] {
        let globals = if packing == Packing::Nvfp4 { vec![None, Some(1f32)] } else { vec![None] };
        for g in globals.iter().map(|g| g.map(Array::from_scalar)) {
            let packed = w.pack(packing, g.as_ref())?;
            let xs = x.pack(packing, g.as_ref())?.unpack(Some(Dtype::F32), g.as_ref())?.to_vec::<f32>()?;
            let ws = packed.unpack(Some(Dtype::F32), g.as_ref())?.to_vec::<f32>()?;
            let want = reference(&xs, &ws, (m, k, n), true);
            assert_products("qqmm", &x.qqmm(&packed, g.as_ref(), g.as_ref())?, &want, 0.0)?;
            let rhs = Array::from_slice(&[0u32; 5], &[5])?;
            let one = PackedArray {
                words: packed.words.expand_dims(&[0])?,
                scales: packed.scales.expand_dims(&[0])?,
                ..packed.clone()
            };
            let rows = x.expand_dims(&[1])?;
            let y = rows.gather_qqmm(&one, None, Some(&rhs), g.as_ref(), g.as_ref())?;
            assert_eq!(y.shape()[..], [m, 1, n]);
            assert_products("gather_qqmm", &y, &want, 0.0)?;
        }
    }
    let affine = w.pack(Affine { group: 32, bits: 4 }.into(), None)?;
    assert!(matches!(x.qqmm(&affine, None, None), Err(Error::Value { op: "qqmm", .. })));
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<()> {
    olivine_cpu::register();
    let x = Array::zeros(&[4, 64], Dtype::F32)?;
    assert!(matches!(Packing::named("quantize", "int4", None, None), Err(Error::Value { .. })));
    assert!(matches!(Packing::named("quantize", "mxfp4", Some(64), None), Err(Error::Value { .. })));
    assert!(matches!(Packing::named("quantize", "nvfp4", None, Some(8)), Err(Error::Value { .. })));
    let g = Array::from_scalar(1f32);
    assert!(matches!(x.pack(Packing::Mxfp4, Some(&g)), Err(Error::Value { .. })));
    assert!(matches!(x.slice_axis(1, 0, 40)?.pack(Packing::Mxfp4, None), Err(Error::Shape { .. })));
    assert!(matches!(x.astype(Dtype::F64)?.pack(Packing::Mxfp8, None), Err(Error::Dtype { .. })));
    let p = x.pack(Packing::Mxfp4, None)?;
    assert!(PackedArray::new(&p.words, &p.scales, None, Packing::Nvfp4).is_err());
    assert!(PackedArray::new(&p.words, &p.words, None, Packing::Mxfp4).is_err());
    assert!(PackedArray::new(&p.words, &p.scales, Some(&p.scales), Packing::Mxfp4).is_err());
    assert!(p.matmul(&Array::zeros(&[2, 32], Dtype::F32)?, true).is_err());
    assert!(p.matmul(&Array::zeros(&[2, 64], Dtype::I32)?, true).is_err());
    // Nothing gives nothing, and a sum over nothing gives zeros.
    let none = Array::zeros(&[0, 64], Dtype::F32)?;
    assert_eq!(none.pack(Packing::Nvfp4, None)?.matmul(&x, true)?.to_vec::<f32>()?, [0f32; 0]);
    assert_eq!(p.matmul(&none, true)?.to_vec::<f32>()?, [0f32; 0]);
    let y = none.pack(Packing::Mxfp8, None)?.matmul(&Array::zeros(&[3, 0], Dtype::F32)?, false)?;
    assert_eq!(y.to_vec::<f32>()?, [0f32; 192]);
    Ok(())
}
