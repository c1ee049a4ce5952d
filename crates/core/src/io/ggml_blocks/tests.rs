//! Decoding against llama.cpp's values, and repacking against decoding.

use half::f16;
use proptest::prelude::*;

use super::super::gguf::Gguf;
use super::*;

const REFERENCE: &[u8] = include_bytes!("../../../tests/data/ggml_blocks.gguf");

const AFFINE: [GgmlType; 8] = [
    GgmlType::Q4_0,
    GgmlType::Q4_1,
    GgmlType::Q5_0,
    GgmlType::Q5_1,
    GgmlType::Q8_0,
    GgmlType::Q4_K,
    GgmlType::Q5_K,
    GgmlType::Q6_K,
];

/// Where the half-precision numbers of a block are.
fn halves(ty: GgmlType) -> &'static [usize] {
    match ty {
        GgmlType::Q4_0 | GgmlType::Q5_0 | GgmlType::Q8_0 => &[0],
        GgmlType::Q4_1 | GgmlType::Q5_1 | GgmlType::Q4_K | GgmlType::Q5_K => &[0, 2],
        GgmlType::Q6_K => &[208],
        other => panic!("{other} has no affine form"),
    }
}

fn decoded(ty: GgmlType, src: &[u8]) -> Vec<f32> {
    let mut out = vec![f32::NAN; src.len() / ty.block_bytes() * ty.block_size()];
    dequantize(ty, src, &mut out).unwrap();
    out
}

struct Packed<S> {
    words: Vec<u32>,
    scales: Vec<S>,
    biases: Vec<S>,
}

fn packed<S: AffineScale>(ty: GgmlType, src: &[u8], rows: usize, cols: usize) -> Packed<S> {
    let format = ty.affine_format().unwrap();
    let groups = rows * format.groups_per_row(cols);
    let nan = S::from_f32(f32::NAN);
    let mut p = Packed {
        words: vec![0xdead_beef; rows * format.words_per_row(cols)],
        scales: vec![nan; groups],
        biases: vec![nan; groups],
    };
    let out = AffineOutput { words: &mut p.words, scales: &mut p.scales, biases: &mut p.biases };
    to_affine(ty, src, rows, cols, out).unwrap();
    p
}

/// `(q, scale, bias)` of each element, the integers read bit by bit from the stream.
fn unpacked<S: AffineScale + Into<f32>>(ty: GgmlType, p: &Packed<S>) -> Vec<(u32, f32, f32)> {
    let AffineFormat { bits, group_size } = ty.affine_format().unwrap();
    (0..p.scales.len() * group_size)
        .map(|i| {
            let q = (0..bits).fold(0, |q, b| {
                let bit = i * bits + b;
                q | (p.words[bit / 32] >> (bit % 32) & 1) << b
            });
            (q, p.scales[i / group_size].into(), p.biases[i / group_size].into())
        })
        .collect()
}

#[test]
fn decodes_as_llama_cpp_does() {
    let file = Gguf::parse(REFERENCE).unwrap();
    let dense = [GgmlType::F32, GgmlType::F16, GgmlType::BF16];
    for ty in dense.into_iter().chain(AFFINE) {
        let blocks = file.tensor(ty.name()).unwrap();
        assert_eq!((blocks.ty, blocks.shape()), (ty, vec![2, 512]));
        let got = decoded(ty, file.tensor_bytes(REFERENCE, blocks).unwrap());
        let expected = file.tensor(&format!("{ty}.f32")).unwrap();
        let expected = decoded(GgmlType::F32, file.tensor_bytes(REFERENCE, expected).unwrap());
        assert_eq!(got, expected, "{ty}");
    }
}

/// Checks that every element of the affine form has the value that decoding gives: exactly where
/// scales are stored as such, within the rounding of scale and bias where they are products.
fn check_affine<S: AffineScale + Into<f32>>(
    ty: GgmlType,
    src: &[u8],
    rows: usize,
    cols: usize,
    rounding: f32,
) {
    let k = matches!(ty, GgmlType::Q4_K | GgmlType::Q5_K | GgmlType::Q6_K);
    let values = unpacked(ty, &packed::<S>(ty, src, rows, cols));
    for (i, (&(q, scale, bias), want)) in values.iter().zip(decoded(ty, src)).enumerate() {
        let got = scale * q as f32 + bias;
        if k {
            let limit = rounding * ((scale * q as f32).abs() + bias.abs());
            assert!((got - want).abs() <= limit, "{ty} element {i}: {got} for {want}");
        } else {
            assert_eq!(got, want, "{ty} element {i}");
        }
    }
}

#[test]
fn affine_form_has_the_values_of_the_blocks() {
    let file = Gguf::parse(REFERENCE).unwrap();
    for ty in AFFINE {
        let src = file.tensor_bytes(REFERENCE, file.tensor(ty.name()).unwrap()).unwrap();
        assert_eq!(affine_scale_type(ty, src), Ok(ScaleType::F16), "{ty}");
        check_affine::<f16>(ty, src, 2, 512, 1.0 / 1024.0);
        check_affine::<f32>(ty, src, 2, 512, 2.0f32.powi(-22));
    }
}

#[test]
fn rows_convert_alone_as_they_do_together() {
    let file = Gguf::parse(REFERENCE).unwrap();
    for ty in AFFINE {
        let src = file.tensor_bytes(REFERENCE, file.tensor(ty.name()).unwrap()).unwrap();
        let whole = packed::<f16>(ty, src, 2, 512);
        let half = src.len() / 2;
        let (a, b) = (packed::<f16>(ty, &src[..half], 1, 512), packed::<f16>(ty, &src[half..], 1, 512));
        assert_eq!(whole.words, [a.words, b.words].concat(), "{ty}");
        assert_eq!(whole.scales, [a.scales, b.scales].concat(), "{ty}");
        assert_eq!(whole.biases, [a.biases, b.biases].concat(), "{ty}");
    }
}

/// A block whose integers are all ones and whose scales are all `d` (and zero minimum).
fn block_with(ty: GgmlType, d: f16) -> Vec<u8> {
    let mut block = vec![0xff; ty.block_bytes()];
    for &at in halves(ty) {
        block[at..at + 2].copy_from_slice(&f16::ZERO.to_le_bytes());
    }
    let at = halves(ty)[0];
    block[at..at + 2].copy_from_slice(&d.to_le_bytes());
    block
}

#[test]
fn scales_switch_to_single_precision_before_half_overflows() {
    // What `d` is multiplied by, at most.
    for (ty, factor) in [
        (GgmlType::Q4_0, 8.0),
        (GgmlType::Q5_0, 16.0),
        (GgmlType::Q8_0, 128.0),
        (GgmlType::Q4_1, 1.0),
        (GgmlType::Q5_1, 1.0),
        (GgmlType::Q4_K, 63.0),
        (GgmlType::Q5_K, 63.0),
        (GgmlType::Q6_K, 128.0 * 32.0),
    ] {
        let fits = f16::from_f32(65504.0 / factor * 0.999);
        assert_eq!(affine_scale_type(ty, &block_with(ty, fits)), Ok(ScaleType::F16), "{ty} {fits}");
        if factor > 1.0 {
            let over = f16::from_f32(65504.0 / factor * 1.01);
            assert_eq!(affine_scale_type(ty, &block_with(ty, over)), Ok(ScaleType::F32), "{ty} {over}");
        }
    }
}

#[test]
fn subnormal_scales_lose_nothing_in_half_precision() {
    for bits in [1, 3, 17, 255, 1023] {
        for ty in AFFINE {
            let block = block_with(ty, f16::from_bits(bits));
            assert_eq!(affine_scale_type(ty, &block), Ok(ScaleType::F16), "{ty}");
            check_affine::<f16>(ty, &block, 1, ty.block_size(), 1.0 / 1024.0);
        }
    }
}

#[test]
fn non_finite_scales_are_refused() {
    for ty in AFFINE {
        for value in [f16::INFINITY, f16::NEG_INFINITY, f16::NAN] {
            for &at in halves(ty) {
                let mut src = block_with(ty, f16::ONE);
                src.extend(block_with(ty, f16::ONE));
                let at = ty.block_bytes() + at;
                src[at..at + 2].copy_from_slice(&value.to_le_bytes());
                let got = affine_scale_type(ty, &src);
                assert!(
                    matches!(got, Err(BlockError::NonFiniteScale { block: 1, .. })),
                    "{ty} {value}: {got:?}"
                );
            }
        }
    }
}

#[test]
fn wrong_sizes_and_types_are_refused() {
    let mut out = [0.0; 32];
    let message = dequantize(GgmlType::Q4_0, &[0; 17], &mut out).unwrap_err().to_string();
    assert_eq!(message, "dequantize: source of a Q4_0 tensor must have length 18, got 17");
    assert!(matches!(dequantize(GgmlType::Q4_0, &[0; 18], &mut out[..31]), Err(BlockError::Columns { .. })));
    assert!(matches!(
        dequantize_block(GgmlType::Q4_0, &[0; 36], &mut [0.0; 64]),
        Err(BlockError::Length { .. })
    ));
    assert!(matches!(dequantize(GgmlType::IQ4_NL, &[0; 18], &mut out), Err(BlockError::Unsupported { .. })));
    assert!(matches!(affine_scale_type(GgmlType::F16, &[]), Err(BlockError::Unsupported { .. })));
    assert!(matches!(affine_scale_type(GgmlType::Q8_0, &[0; 35]), Err(BlockError::Length { .. })));

    let convert = |ty, src: &[u8], rows, cols, words, scales, biases| {
        let (mut w, mut s, mut b) = (vec![0; words], vec![f16::ZERO; scales], vec![f16::ZERO; biases]);
        to_affine(ty, src, rows, cols, AffineOutput { words: &mut w, scales: &mut s, biases: &mut b })
    };
    assert_eq!(convert(GgmlType::Q4_0, &[0; 36], 2, 32, 8, 2, 2), Ok(()));
    assert_eq!(convert(GgmlType::Q4_0, &[], 0, 32, 0, 0, 0), Ok(()));
    for (rows, cols, words, scales, biases) in [
        (2, 33, 8, 2, 2),
        (3, 32, 8, 2, 2),
        (2, 32, 9, 2, 2),
        (2, 32, 8, 1, 2),
        (2, 32, 8, 2, 3),
        (usize::MAX, 64, 8, 2, 2),
    ] {
        assert!(
            convert(GgmlType::Q4_0, &[0; 36], rows, cols, words, scales, biases).is_err(),
            "{rows}x{cols}"
        );
    }
    assert!(convert(GgmlType::F32, &[0; 128], 1, 32, 8, 1, 1).is_err());
}

#[test]
fn ids_and_sizes_are_consistent() {
    for &ty in GgmlType::ALL {
        assert_eq!(GgmlType::from_id(ty.id()), Some(ty));
        assert_eq!(ty.row_bytes(ty.block_size() * 3), Some(ty.block_bytes() * 3));
    }
    assert_eq!(GgmlType::from_id(4), None);
    assert_eq!(GgmlType::Q6_K.block_bytes(), 210);
    assert_eq!(GgmlType::Q4_0.row_bytes(33), None);
    assert_eq!(GgmlType::Q8_0.row_bytes(usize::MAX - 31), None);
}

proptest! {
    /// Any bytes with finite scales: the promised precision in the type that is asked for.
    #[test]
    fn affine_form_is_precise_for_any_block(
        ty in proptest::sample::select(AFFINE.to_vec()),
        mut src in proptest::collection::vec(any::<u8>(), 210 * 2),
        exponents in proptest::array::uniform4(0u16..31),
    ) {
        src.truncate(ty.block_bytes() * 2);
        for (i, block) in src.chunks_exact_mut(ty.block_bytes()).enumerate() {
            for (j, &at) in halves(ty).iter().enumerate() {
                // Any sign and mantissa, any exponent but that of infinity.
                let bits = u16::from_le_bytes([block[at], block[at + 1]]) & 0x83ff | exponents[i * 2 + j] << 10;
                block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
            }
        }
        let cols = ty.block_size() * 2;
        check_affine::<f32>(ty, &src, 1, cols, 2.0f32.powi(-22));
        if affine_scale_type(ty, &src) == Ok(ScaleType::F16) {
            check_affine::<f16>(ty, &src, 1, cols, 1.0 / 1000.0);
        }
    }
}
