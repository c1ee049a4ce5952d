use super::affine::dequantize_at;
use super::*;
use crate::lanes::Element;
use half::{bf16, f16};

const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];

/// The matrix of golden/make.py.
fn weight(i: u64) -> f32 {
    let x = ((i.wrapping_mul(2_654_435_761) % (1 << 32)) >> 8) as f64 / (1u64 << 23) as f64 - 1.0;
    let w = match i {
        0..32 => 0.0,
        224.. => x.abs() + 1.0,
        _ => x * x.abs(),
    };
    w as f32
}

fn fnv(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn check_golden<T: Element + bytemuck::Pod>(line: &[&str])
where
    for<'a> Floats<'a>: From<&'a [T]>,
    for<'a> FloatsMut<'a>: From<&'a mut [T]>,
{
    let (bits, group): (usize, usize) = (line[0].parse().unwrap(), line[1].parse().unwrap());
    let x: Vec<T> = (0..256).map(|i| T::from_f32(weight(i))).collect();
    let mut words = vec![0u32; 256 * bits / 32];
    let (mut scales, mut biases) = (vec![T::default(); 256 / group], vec![T::default(); 256 / group]);
    let (s, b) = (scales.as_mut_slice().into(), biases.as_mut_slice().into());
    quantize(x.as_slice().into(), 128, group, bits, &mut words, s, b).unwrap();
    assert_eq!(hex(bytemuck::cast_slice(&words)), line[3], "codes, {line:?}");
    assert_eq!(hex(bytemuck::cast_slice(&scales)), line[4], "scales, {line:?}");
    assert_eq!(hex(bytemuck::cast_slice(&biases)), line[5], "biases, {line:?}");
    let (s, b) = (scales.as_slice().into(), biases.as_slice().into());
    let scales = Scales::Affine { scales: s, biases: b };
    let w = Quantized { words: &words, scales, rows: 2, cols: 128, group, bits };
    for at in LEVELS {
        let mut out = vec![T::default(); 256];
        dequantize_at(at, &w, out.as_mut_slice().into()).unwrap();
        assert_eq!(
            format!("{:016x}", fnv(bytemuck::cast_slice(&out))),
            line[6],
            "dequantized, {at:?} {line:?}"
        );
    }
}

#[test]
fn quantize_and_dequantize_give_the_bits_of_mlx() {
    let golden = include_str!("golden/affine.txt");
    assert_eq!(golden.lines().count(), 63);
    for line in golden.lines() {
        let line: Vec<&str> = line.split(' ').collect();
        match line[2] {
            "float32" => check_golden::<f32>(&line),
            "float16" => check_golden::<f16>(&line),
            "bfloat16" => check_golden::<bf16>(&line),
            other => panic!("unknown type {other}"),
        }
    }
}

/// Reproducible numbers in (-1, 1).
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

/// A matrix of random codes with the scales of type `T`, and its values in f64.
struct Random<T> {
    words: Vec<u32>,
    scales: Vec<T>,
    biases: Vec<T>,
    values: Vec<f64>,
    rows: usize,
    cols: usize,
    group: usize,
    bits: usize,
}

impl<T: Element> Random<T>
where
    for<'a> Floats<'a>: From<&'a [T]>,
{
    fn new(rows: usize, cols: usize, group: usize, bits: usize) -> Self {
        let seed = (rows * 31 + cols * 7 + group * 3 + bits) as u64;
        let words: Vec<u32> =
            noise(rows * cols * bits / 32, seed).iter().map(|x| (x * 2.1e9) as i32 as u32).collect();
        let groups = rows * cols / group;
        let scales: Vec<T> = noise(groups, seed + 1).iter().map(|&x| T::from_f32(x * 0.1)).collect();
        let biases: Vec<T> = noise(groups, seed + 2).iter().map(|&x| T::from_f32(x)).collect();
        let values = (0..rows * cols)
            .map(|i| {
                let (row, col) = (i / cols, i % cols);
                let code = (0..bits).fold(0, |code, b| {
                    let bit = col * bits + b;
                    code | (words[row * cols * bits / 32 + bit / 32] >> (bit % 32) & 1) << b
                });
                let g = i / group;
                scales[g].to_f32() as f64 * code as f64 + biases[g].to_f32() as f64
            })
            .collect();
        Random { words, scales, biases, values, rows, cols, group, bits }
    }

    fn view(&self) -> Quantized<'_> {
        let (scales, biases) = (self.scales.as_slice().into(), self.biases.as_slice().into());
        Quantized {
            words: &self.words,
            scales: Scales::Affine { scales, biases },
            rows: self.rows,
            cols: self.cols,
            group: self.group,
            bits: self.bits,
        }
    }
}

/// Compares with a product in f64; the bound is relative to the sum of magnitudes.
fn check_product<T: Element, X: Element>(w: &Random<T>, m: usize, transpose: bool, unit: f64)
where
    for<'a> Floats<'a>: From<&'a [T]> + From<&'a [X]>,
    for<'a> FloatsMut<'a>: From<&'a mut [X]>,
{
    let (inner, outer) = if transpose { (w.cols, w.rows) } else { (w.rows, w.cols) };
    let x: Vec<X> = noise(m * inner, 77).into_iter().map(X::from_f32).collect();
    for at in LEVELS {
        let mut y = vec![X::default(); m * outer];
        quantized_matmul_at(at, x.as_slice().into(), &w.view(), m, transpose, y.as_mut_slice().into())
            .unwrap();
        for i in 0..m {
            for o in 0..outer {
                let (mut want, mut size) = (0.0, 0.0);
                for k in 0..inner {
                    let v = if transpose { w.values[o * w.cols + k] } else { w.values[k * w.cols + o] };
                    let p = v * x[i * inner + k].to_f32() as f64;
                    want += p;
                    size += p.abs();
                }
                let got = y[i * outer + o].to_f32() as f64;
                assert!(
                    (got - want).abs() <= 2e-6 * size + unit * want.abs() + 1e-9,
                    "{at:?} bits {} group {} [{}, {}] m {m} transpose {transpose} at {i},{o}: {got}, not {want}",
                    w.bits,
                    w.group,
                    w.rows,
                    w.cols
                );
            }
        }
    }
}

#[test]
fn products_of_every_width_and_group() {
    for bits in 1..=8 {
        for (cols, group) in [
            (256, 16),
            (288, 32),
            (576, 32),
            (576, 64),
            (1600, 32),
            (256, 256),
            (384, 128),
            (96, 96),
            (480, 48),
            (1120, 1120),
            (512, 8),
            (160, 5),
            (32, 1),
        ] {
            let w = Random::<f16>::new(19, cols, group, bits);
            for m in [1, 2, 5, 9] {
                check_product::<f16, f32>(&w, m, true, 0.0);
            }
            check_product::<f16, f32>(&w, 3, false, 0.0);
        }
    }
}

#[test]
fn products_of_every_number_of_rows() {
    let w = Random::<f32>::new(67, 320, 32, 4);
    let odd = Random::<f32>::new(67, 192, 16, 6);
    for m in (1..=40).chain([63, 64, 65, 130]) {
        check_product::<f32, f32>(&w, m, true, 0.0);
        check_product::<f32, f32>(&odd, m, true, 0.0);
    }
    for m in [1, 2, 6, 7, 13, 40] {
        check_product::<f32, f32>(&w, m, false, 0.0);
    }
}

#[test]
fn products_of_every_type() {
    let (a, b, c) = (
        Random::<f32>::new(35, 320, 64, 4),
        Random::<f16>::new(35, 320, 64, 5),
        Random::<bf16>::new(35, 320, 64, 8),
    );
    for m in [1, 4, 17] {
        check_product::<f32, f16>(&a, m, true, 1e-3);
        check_product::<f32, bf16>(&a, m, true, 8e-3);
        check_product::<f16, f16>(&b, m, true, 1e-3);
        check_product::<bf16, f32>(&c, m, true, 0.0);
        check_product::<bf16, bf16>(&c, m, false, 8e-3);
    }
}

#[test]
fn deep_and_tall_products_cross_block_borders() {
    let w = Random::<f16>::new(130, 832, 32, 4);
    check_product::<f16, f32>(&w, 33, true, 0.0);
    check_product::<f16, f32>(&w, 2, false, 0.0);
    let w = Random::<f16>::new(300, 64, 32, 4);
    check_product::<f16, f32>(&w, 1030, true, 0.0);
    check_product::<f16, f32>(&w, 1030, false, 0.0);
}

#[test]
fn activations_of_very_different_size_and_odd_values() {
    for bits in [2, 4, 6, 8] {
        let w = Random::<f32>::new(40, 256, 32, bits);
        let mut x = noise(256, 5);
        x[7] = 3e4;
        x[100] = -1e-12;
        for special in [None, Some(0.0), Some(f32::NAN), Some(f32::INFINITY), Some(1e-38)] {
            match special {
                Some(s) if s == 0.0 || s == 1e-38 => x.fill(s),
                Some(s) => x[3] = s,
                None => {}
            }
            for at in LEVELS {
                let mut y = vec![0.0f32; 40];
                quantized_matmul_at(at, x.as_slice().into(), &w.view(), 1, true, y.as_mut_slice().into())
                    .unwrap();
                for (row, &got) in y.iter().enumerate() {
                    let terms = (0..256).map(|k| w.values[row * 256 + k] * x[k] as f64);
                    let want: f64 = terms.sum();
                    // Codes and biases are summed apart, so that their sizes count where they cancel.
                    let size = |k: usize| {
                        (w.values[row * 256 + k].abs() + 2.0 * w.biases[row * 8 + k / 32].abs() as f64)
                            * x[k].abs() as f64
                    };
                    let size: f64 = (0..256).map(size).sum();
                    let fine = if size.is_finite() {
                        (got as f64 - want).abs() <= 1e-6 * size + 1e-42
                    } else {
                        !got.is_finite()
                    };
                    assert!(fine, "{at:?} {bits} bits {special:?} row {row}: {got}, not {want}");
                }
            }
        }
    }
}

#[test]
fn empty_products() {
    let none = Quantized {
        words: &[],
        scales: Scales::Affine { scales: Floats::F32(&[]), biases: Floats::F32(&[]) },
        rows: 0,
        cols: 64,
        group: 32,
        bits: 4,
    };
    let mut y = [1.0f32; 64];
    quantized_matmul(Floats::F32(&[]), &none, 1, false, FloatsMut::F32(&mut y)).unwrap();
    assert_eq!(y, [0.0; 64]);
    quantized_matmul(Floats::F32(&y), &none, 1, true, FloatsMut::F32(&mut [])).unwrap();
    quantized_matmul(Floats::F32(&[]), &none, 0, true, FloatsMut::F32(&mut [])).unwrap();
}

#[test]
fn wrong_sizes_are_errors_that_name_them() {
    let w = Random::<f32>::new(4, 64, 32, 4);
    let x = [0.0f32; 64];
    let run = |w: Quantized<'_>, n: usize| {
        let mut y = [0.0f32; 4];
        quantized_matmul(Floats::F32(&x), &w, 1, true, FloatsMut::F32(&mut y[..n])).map_err(|e| e.to_string())
    };
    assert_eq!(run(w.view(), 4), Ok(()));
    let short = Scales::Affine { scales: Floats::F32(&w.scales[1..]), biases: Floats::F32(&w.biases) };
    for (w, n, part) in [
        (w.view(), 3, "3 elements"),
        (Quantized { bits: 9, ..w.view() }, 4, "not 9"),
        (Quantized { bits: 0, ..w.view() }, 4, "not 0"),
        (Quantized { group: 0, ..w.view() }, 4, "group size 0"),
        (Quantized { group: 24, ..w.view() }, 4, "24 does not divide 64"),
        (Quantized { words: &w.words[1..], ..w.view() }, 4, "31 packed words"),
        (Quantized { scales: short, ..w.view() }, 4, "7 scales"),
        (
            Quantized { scales: Scales::E8m0(&[127; 8]), bits: 2, words: &w.words[..16], ..w.view() },
            4,
            "not 2",
        ),
        (Quantized { cols: 65, group: 65, ..w.view() }, 4, "65 columns of 4 bits"),
        (Quantized { rows: usize::MAX, ..w.view() }, 4, "packed words"),
        (Quantized { cols: usize::MAX, group: 1, ..w.view() }, 4, "whole 32-bit words"),
    ] {
        let e = run(w, n).unwrap_err();
        assert!(e.starts_with("[quantized_matmul]") && e.contains(part), "{e}");
    }
}
