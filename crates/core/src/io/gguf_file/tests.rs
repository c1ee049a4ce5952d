use super::*;
use crate::io::ggml_blocks::dequantize;
use crate::io::gguf::{GgufWriter, Value};
use crate::io::test_folder::Folder;
use std::fs;

const REFERENCE: &[u8] = include_bytes!("../../../tests/data/ggml_blocks.gguf");

fn source(a: &Array) -> Arc<dyn Source> {
    match a.op() {
        Op::Create(Create::Load(s)) => s.0.clone(),
        other => panic!("{} is not read from a source", other.name()),
    }
}

/// The three arrays of a packed tensor, as evaluation would read them.
fn read(w: &Array) -> Result<[Vec<u8>; 3]> {
    let source = source(w);
    // In words, so that memory is aligned as evaluation's is.
    let mut memory: Vec<Vec<u64>> = source.metas().iter().map(|m| vec![0; m.bytes().div_ceil(8)]).collect();
    let mut outs: Vec<&mut [u8]> = memory
        .iter_mut()
        .zip(source.metas())
        .map(|(v, m)| &mut bytemuck::cast_slice_mut::<u64, u8>(v)[..m.bytes()])
        .collect();
    source.read(&mut outs)?;
    let mut outs = outs.into_iter().map(|o| o.to_vec());
    Ok(std::array::from_fn(|_| outs.next().unwrap()))
}

fn floats(bytes: &[u8], dtype: Dtype) -> Vec<f32> {
    match dtype {
        Dtype::F16 => bytes.as_chunks::<2>().0.iter().map(|&b| f16::from_le_bytes(b).to_f32()).collect(),
        _ => bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect(),
    }
}

/// The weights that a packed tensor stands for, bit by bit.
fn weights(t: &Tensor) -> Vec<f32> {
    let Tensor::Affine { w, scales, biases, group, bits, shape } = t else { panic!("{t:?} is not packed") };
    let [words, s, b] = read(w).unwrap();
    assert_eq!(w.size() * 4, words.len());
    assert_eq!((scales.shape(), scales.dtype()), (biases.shape(), biases.dtype()));
    let (s, b) = (floats(&s, scales.dtype()), floats(&b, biases.dtype()));
    let cols = *shape.last().unwrap();
    let bits = usize::from(*bits);
    let row_bytes = cols * bits / 8;
    (0..shape.elements())
        .map(|i| {
            let (row, col) = (i / cols, i % cols);
            let bit = |k: usize| {
                let at = col * bits + k;
                u32::from(words[row * row_bytes + at / 8] >> (at % 8) & 1) << k
            };
            let q: u32 = (0..bits).map(bit).sum();
            let g = i / group;
            s[g] * q as f32 + b[g]
        })
        .collect()
}

#[test]
fn tensors_of_every_type_are_what_the_specification_decodes() {
    let dir = Folder::new("gguf");
    let file = open_gguf(dir.file("reference.gguf", REFERENCE)).unwrap();
    assert_eq!(file.metadata().str("general.architecture"), Ok("test"));
    let (mut dense, mut packed, mut refused) = (0, 0, 0);
    let names: Vec<String> = file.tensor_names().map(str::to_owned).collect();
    for name in &names {
        let info = file.info(name).unwrap();
        let bytes = file.header().tensor_bytes(REFERENCE, info).unwrap();
        match file.tensor(name) {
            Ok(Tensor::Dense(a)) => {
                assert_eq!(a.shape()[..], info.shape());
                assert_eq!(a.to_bytes().unwrap(), bytes, "{name}");
                dense += 1;
            }
            Ok(t @ Tensor::Affine { .. }) => {
                let mut expected = vec![0.0; info.elements()];
                dequantize(info.ty, bytes, &mut expected).unwrap();
                let exact = file.tensor_with(name, ScaleType::F32).unwrap();
                for (t, tolerance) in [(&t, 1.0 / 1024.0), (&exact, 1e-6)] {
                    let got = weights(t);
                    let range = expected.iter().fold(0f32, |m, v| m.max(v.abs()));
                    for (i, (&e, &g)) in expected.iter().zip(&got).enumerate() {
                        assert!((e - g).abs() <= tolerance * range, "{name} {i}: {e} and {g}");
                    }
                }
                packed += 1;
            }
            Err(e) => {
                let e = e.to_string();
                assert!(
                    e.contains(info.ty.name()) && e.contains(name.as_str()) && e.contains("reference.gguf"),
                    "{e}"
                );
                refused += 1;
            }
        }
    }
    assert!(dense >= 3 && packed >= 8, "{dense} {packed} {refused}");
}

/// Blocks with small scales and arbitrary integers.
fn blocks(ty: GgmlType, elements: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut bytes: Vec<u8> = (0..elements / ty.block_size() * ty.block_bytes())
        .map(|_| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u8
        })
        .collect();
    for block in bytes.chunks_exact_mut(ty.block_bytes()) {
        let halves: &[usize] = match ty {
            GgmlType::Q6_K => &[208],
            GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => &[0],
            _ => &[0, 2],
        };
        for &at in halves {
            let v = f16::from_f32(0.001 * f32::from(block[at]));
            block[at..at + 2].copy_from_slice(&v.to_le_bytes());
        }
    }
    bytes
}

#[test]
fn large_tensors_are_unpacked_by_several_threads_as_by_one() {
    let dir = Folder::new("gguf");
    for (ty, rows, cols) in
        [(GgmlType::Q4_K, 3000, 2048), (GgmlType::Q8_0, 7, 1 << 20), (GgmlType::Q6_K, 1, 256)]
    {
        let bytes = blocks(ty, rows * cols, 7);
        let mut w = GgufWriter::new();
        w.tensor("t", &[cols as u64, rows as u64], ty, &bytes[..]).unwrap();
        let file = open_gguf(dir.file("big.gguf", &w.to_bytes().unwrap())).unwrap();
        let Tensor::Affine { w, bits, group, shape, scales, .. } = file.tensor("t").unwrap() else {
            panic!()
        };
        assert_eq!((&shape[..], w.shape()[1]), (&[rows, cols][..], cols * usize::from(bits) / 32));
        assert_eq!(scales.shape()[..], [rows, cols / group]);
        let [words, s, b] = read(&w).unwrap();
        let mut one = (vec![0u32; w.size()], vec![f16::ZERO; scales.size()], vec![f16::ZERO; scales.size()]);
        let out = AffineOutput { words: &mut one.0, scales: &mut one.1, biases: &mut one.2 };
        to_affine(ty, &bytes, rows, cols, out).unwrap();
        assert!(words == bytemuck::cast_slice::<u32, u8>(&one.0), "{ty}");
        assert!(
            s == bytemuck::cast_slice::<f16, u8>(&one.1) && b == bytemuck::cast_slice::<f16, u8>(&one.2),
            "{ty}"
        );
    }
}

#[test]
fn scales_that_do_not_fit_are_errors_that_name_the_place() {
    let dir = Folder::new("gguf");
    let cols = 64;
    for (value, fits_f32) in [(f16::from_f32(60000.0), true), (f16::INFINITY, false), (f16::NAN, false)] {
        let mut bytes = blocks(GgmlType::Q4_0, 3 * cols, 1);
        bytes[3 * 18..][..2].copy_from_slice(&value.to_le_bytes());
        let mut w = GgufWriter::new();
        w.tensor("blk.0.w", &[cols as u64, 3], GgmlType::Q4_0, bytes).unwrap();
        let path = dir.file("scales.gguf", &w.to_bytes().unwrap());
        let file = open_gguf(&path).unwrap();
        let get = |s| match file.tensor_with("blk.0.w", s).unwrap() {
            Tensor::Affine { w, .. } => read(&w),
            Tensor::Dense(_) => panic!("Q4_0 is packed"),
        };
        let e = get(ScaleType::F16).expect_err("no half holds it").to_string();
        for part in ["blk.0.w", "row 1", "group 1", &*path.to_string_lossy()] {
            assert!(e.contains(part), "{part} is not in {e}");
        }
        assert_eq!(get(ScaleType::F32).is_ok(), fits_f32);
    }
}

#[test]
fn what_cannot_be_had_is_an_error_with_the_path() {
    let dir = Folder::new("gguf");
    let mut w = GgufWriter::new();
    w.metadata("general.architecture", Value::String("x".into())).unwrap();
    w.tensor("odd", &[256], GgmlType::IQ2_XS, vec![0; 74]).unwrap();
    w.tensor("two", &[256], GgmlType::Q2_K, vec![0; 84]).unwrap();
    w.tensor("scalar", &[], GgmlType::F32, 2.5f32.to_le_bytes().to_vec()).unwrap();
    w.tensor("none", &[32, 0], GgmlType::Q4_0, vec![]).unwrap();
    let path = dir.file("odd.gguf", &w.to_bytes().unwrap());
    let file = open_gguf(&path).unwrap();
    for (name, part) in [("odd", "IQ2_XS"), ("two", "Q2_K"), ("absent", "absent")] {
        let e = file.tensor(name).expect_err("not to be had").to_string();
        assert!(e.contains(part) && e.contains(name) && e.contains(&*path.to_string_lossy()), "{e}");
    }
    let Tensor::Dense(scalar) = file.tensor("scalar").unwrap() else { panic!() };
    assert_eq!((scalar.rank(), scalar.item::<f32>().unwrap()), (0, 2.5));
    let Tensor::Affine { w, shape, .. } = file.tensor("none").unwrap() else { panic!() };
    assert_eq!((&shape[..], read(&w).unwrap()), (&[0, 32][..], [vec![], vec![], vec![]]));
    let e = file.error(file.metadata().u64("general.architecture").unwrap_err()).to_string();
    assert!(e.contains("general.architecture") && e.contains(&*path.to_string_lossy()), "{e}");
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let dir = Folder::new("gguf");
    for i in 0..50 {
        let path = dir.file("cut.gguf", &REFERENCE[..REFERENCE.len() * i / 50]);
        let e = open_gguf(&path).err().expect("a part of a file").to_string();
        assert!(e.contains("GGUF") && e.contains(&*path.to_string_lossy()), "{e}");
    }
}

#[test]
fn corrupted_files_are_refused_or_stay_inside_their_bounds() {
    let dir = Folder::new("gguf");
    let mut state = 1u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let header = Gguf::parse(REFERENCE).unwrap().data_offset();
    let (mut opened, mut refused) = (0, 0);
    for round in 0..600 {
        let mut bytes = REFERENCE.to_vec();
        for _ in 0..=next(3) {
            let at = next(if round % 4 == 0 { bytes.len() } else { header });
            bytes[at] = match next(3) {
                0 => 0xff,
                1 => bytes[at] ^ 1 << next(8),
                _ => next(256) as u8,
            };
        }
        let Ok(file) = open_gguf(dir.file("corrupt.gguf", &bytes)) else {
            refused += 1;
            continue;
        };
        opened += 1;
        let names: Vec<String> = file.tensor_names().map(str::to_owned).collect();
        for name in names {
            match file.tensor(&name) {
                Ok(Tensor::Dense(a)) => assert_eq!(a.to_bytes().unwrap().len(), a.nbytes()),
                Ok(Tensor::Affine { w, .. }) => {
                    // A scale may have become infinite, nothing else may go wrong.
                    if let Err(e) = read(&w) {
                        assert!(e.to_string().contains("not finite"), "{e}");
                    }
                }
                Err(e) => assert!(e.to_string().contains("corrupt.gguf"), "{e}"),
            }
        }
    }
    assert!(opened > 50 && refused > 50, "{opened} opened, {refused} refused");
}

/// Memory of this process, in bytes, that holds pages of the file.
#[cfg(target_os = "linux")]
fn resident(path: &Path) -> usize {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines();
    let mut sum = 0;
    let mut found = false;
    while let Some(l) = lines.next() {
        if l.ends_with(&*path.to_string_lossy()) {
            found = true;
            let rss = lines.find(|l| l.starts_with("Rss:")).unwrap();
            sum += rss.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024;
        }
    }
    assert!(found, "the file is mapped");
    sum
}

#[test]
#[cfg(target_os = "linux")]
fn a_weight_that_nobody_uses_is_never_read_and_one_that_was_read_leaves_no_pages() {
    let dir = Folder::new("gguf");
    let (rows, cols) = (8192, 4096);
    let bytes = blocks(GgmlType::Q4_1, rows * cols, 3);
    let mut w = GgufWriter::new();
    w.tensor("packed", &[cols as u64, rows as u64], GgmlType::Q4_1, &bytes[..]).unwrap();
    w.tensor("plain", &[cols as u64, 512], GgmlType::F32, &bytes[..cols * 512 * 4]).unwrap();
    let path = dir.file("lazy.gguf", &w.to_bytes().unwrap());
    let file = open_gguf(&path).unwrap();
    // The kernel maps pages around each one that is touched, up to a huge page on some file systems.
    let little = bytes.len() / 4;
    let Tensor::Affine { w, .. } = file.tensor("packed").unwrap() else { panic!() };
    let Tensor::Dense(plain) = file.tensor("plain").unwrap() else { panic!() };
    assert!(resident(&path) < little, "{} after opening", resident(&path));
    let [words, ..] = read(&w).unwrap();
    assert!(words.iter().any(|&b| b != 0));
    assert!(resident(&path) < little, "{} after unpacking", resident(&path));
    assert_eq!(plain.to_bytes().unwrap(), bytes[..cols * 512 * 4]);
    assert!(resident(&path) >= cols * 512 * 4, "{}: a view is the file itself", resident(&path));
    // Views keep the mapping when the file is closed and even deleted.
    drop(file);
    fs::remove_file(&path).unwrap();
    assert_eq!(plain.to_bytes().unwrap(), bytes[..cols * 512 * 4]);
}
