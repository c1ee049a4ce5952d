//! Round trips, llama.cpp's own files, and hostile ones.

use proptest::prelude::*;

use super::*;

const REFERENCE: &[u8] = include_bytes!("../../../tests/data/ggml_blocks.gguf");

/// A file of raw parts, for what the writer refuses to write.
#[derive(Default)]
struct Raw {
    metadata: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    data: usize,
}

fn text(s: impl AsRef<[u8]>) -> Vec<u8> {
    let s = s.as_ref();
    [&(s.len() as u64).to_le_bytes(), s].concat()
}

fn entry(key: &str, kind: u32, payload: &[u8]) -> Vec<u8> {
    [&text(key)[..], &kind.to_le_bytes(), payload].concat()
}

fn tensor(name: &str, dims: &[u64], ty: u32, offset: u64) -> Vec<u8> {
    let mut out = text(name);
    out.extend((dims.len() as u32).to_le_bytes());
    dims.iter().for_each(|d| out.extend(d.to_le_bytes()));
    out.extend(ty.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

impl Raw {
    fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend((self.tensors.len() as u64).to_le_bytes());
        out.extend((self.metadata.len() as u64).to_le_bytes());
        out.extend(self.metadata.concat());
        out.extend(self.tensors.concat());
        out.resize(out.len().next_multiple_of(32) + self.data, 0);
        out
    }

    fn metadata(entry: Vec<u8>) -> Result<Gguf, GgufError> {
        Gguf::parse(&Self { metadata: vec![entry], ..Self::default() }.bytes())
    }

    fn tensors(tensors: Vec<Vec<u8>>, data: usize) -> Result<Gguf, GgufError> {
        Gguf::parse(&Self { tensors, data, ..Self::default() }.bytes())
    }
}

macro_rules! assert_error {
    ($result:expr, $pattern:pat) => {
        let result = $result;
        assert!(matches!(result, Err($pattern)), "{:?}", result.err());
    };
}

#[test]
fn reads_what_llama_cpp_writes() {
    let file = Gguf::parse(REFERENCE).unwrap();
    let m = file.metadata();
    assert_eq!((file.version(), file.alignment()), (3, 32));
    assert_eq!(m.str("general.architecture"), Ok("test"));
    assert_eq!(m.u64("k.u8"), Ok(200));
    assert_eq!(m.i64("k.i8"), Ok(-100));
    assert_eq!(m.u32("k.u16"), Ok(60000));
    assert_eq!(m.i64("k.i16"), Ok(-30000));
    assert_eq!(m.u32("k.u32"), Ok(4_000_000_000));
    assert_eq!(m.i64("k.i32"), Ok(-2_000_000_000));
    assert_eq!(m.f32("k.f32"), Ok(0.1));
    assert_eq!(m.bool("k.bool"), Ok(true));
    assert_eq!(m.str("k.string"), Ok("naïve 😀"));
    assert_eq!(m.u64("k.u64"), Ok((1 << 63) + 1));
    assert_eq!(m.i64("k.i64"), Ok(-(1 << 62)));
    assert_eq!(m.f64("k.f64"), Ok(0.1));
    assert_eq!(m.strings("k.strings").unwrap().iter().collect::<Vec<_>>(), ["", "a", "日本"]);
    assert_eq!(m.i64s("k.ints"), Ok(vec![1, -2, 3]));
    assert_eq!(m.f32s("k.floats"), Ok(&[0.5, -1.5][..]));
    assert_eq!(m.array("k.bools"), Ok(&ArrayValue::Bool(vec![true, false])));
    assert_eq!(file.tensors().len(), 22);
    let t = file.tensor("Q6_K").unwrap();
    assert_eq!((t.dims.as_slice(), t.rows(), t.cols(), t.bytes), (&[512, 2][..], 2, 512, 840));
}

#[test]
fn typed_access_tells_missing_from_wrong_and_from_too_large() {
    let file = Gguf::parse(REFERENCE).unwrap();
    let m = file.metadata();
    assert_error!(m.u64("absent"), GgufError::MissingKey { .. });
    assert_eq!(m.get_u64("absent"), Ok(None));
    assert_error!(m.get_u64("k.string"), GgufError::WrongKind { .. });
    assert_error!(m.u64("k.i8"), GgufError::OutOfRange { value: -100, .. });
    assert_error!(m.u32("k.u64"), GgufError::OutOfRange { .. });
    assert_error!(m.i64("k.u64"), GgufError::OutOfRange { .. });
    assert_error!(m.strings("k.ints"), GgufError::WrongKind { found: ValueKind::I32, .. });
    assert_error!(m.bool("k.u8"), GgufError::WrongKind { .. });
    assert_eq!(
        m.u64("k.f32").unwrap_err().to_string(),
        r#"GGUF: metadata value "k.f32" is an f32, expected an integer"#
    );
    assert_error!(file.tensor("absent"), GgufError::MissingTensor { .. });
    assert_error!(
        file.tensor_bytes(&REFERENCE[..2000], &file.tensors()[3]),
        GgufError::TensorOutOfRange { .. }
    );
}

#[test]
fn a_cut_at_any_byte_is_an_error() {
    let file = Gguf::parse(REFERENCE).unwrap();
    let end = file.tensors().iter().map(|t| t.offset + t.bytes).max().unwrap();
    // Every byte of the header, a sample of the data.
    let cuts = (0..file.data_offset()).chain((file.data_offset()..end).step_by(997)).chain([end - 1]);
    for cut in cuts {
        assert!(Gguf::parse(&REFERENCE[..cut]).is_err(), "cut at {cut}");
    }
    assert!(Gguf::parse(&REFERENCE[..end]).is_ok());
}

#[test]
fn wrong_magic_versions_and_byte_order_are_named() {
    assert_error!(Gguf::parse(b"GGML\x03\0\0\0"), GgufError::BadMagic { .. });
    assert_error!(Gguf::parse(b""), GgufError::Truncated { .. });
    for version in [0u32, 1, 4, u32::MAX] {
        let file = [b"GGUF", &version.to_le_bytes()[..], &[0; 16]].concat();
        assert_error!(Gguf::parse(&file), GgufError::UnsupportedVersion { big_endian: false, .. });
    }
    let message = Gguf::parse(b"GGUF\0\0\0\x03").unwrap_err().to_string();
    assert!(message.ends_with("the file is big-endian"), "{message}");
}

#[test]
fn huge_counts_are_refused_before_anything_is_allocated() {
    for (tensors, metadata) in [(u64::MAX, 0), (0, u64::MAX), (1 << 40, 1), (1, 1 << 40)] {
        let file =
            [b"GGUF\x03\0\0\0", &tensors.to_le_bytes()[..], &metadata.to_le_bytes(), &[0; 64]].concat();
        assert_error!(Gguf::parse(&file), GgufError::CountTooLarge { .. });
    }
    for (kind, count) in [(8u32, u64::MAX), (9, u64::MAX), (8, 1 << 50), (9, 3)] {
        let payload = [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
        assert_error!(Raw::metadata(entry("k", 9, &payload)), GgufError::CountTooLarge { .. });
    }
    for (kind, count) in [(0u32, u64::MAX), (12, u64::MAX), (7, 1 << 50), (10, u64::MAX / 8 + 2)] {
        let payload = [&kind.to_le_bytes()[..], &count.to_le_bytes()].concat();
        assert_error!(Raw::metadata(entry("k", 9, &payload)), GgufError::Truncated { .. });
    }
    assert_error!(Raw::metadata(entry("k", 8, &u64::MAX.to_le_bytes())), GgufError::Truncated { .. });
}

#[test]
fn bad_metadata_is_named() {
    assert_error!(Raw::metadata(entry("k", 13, &[0; 8])), GgufError::UnknownValueType { id: 13, .. });
    assert_error!(Raw::metadata(entry("k", 7, &[2])), GgufError::InvalidBool { value: 2, .. });
    assert_error!(Raw::metadata(entry("k", 8, &text([0xff, 0xfe]))), GgufError::InvalidUtf8 { .. });
    assert_error!(
        Raw::metadata([text([0xc0]), 0u32.to_le_bytes().to_vec(), vec![0]].concat()),
        GgufError::InvalidUtf8 { what: "a metadata key", .. }
    );
    let twice = Raw { metadata: vec![entry("k", 0, &[1]), entry("k", 0, &[2])], ..Raw::default() };
    assert_error!(Gguf::parse(&twice.bytes()), GgufError::DuplicateKey { .. });
    for alignment in [0u32, 1, 7, 12] {
        let e = entry(ALIGNMENT_KEY, 4, &alignment.to_le_bytes());
        assert_error!(Raw::metadata(e), GgufError::BadAlignment { .. });
    }
    assert_error!(Raw::metadata(entry(ALIGNMENT_KEY, 8, &text("32"))), GgufError::WrongKind { .. });
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let inner = [9u32.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec()].concat();
        let last = [0u32.to_le_bytes().to_vec(), 0u64.to_le_bytes().to_vec()].concat();
        entry("k", 9, &[inner.repeat(depth - 1), last].concat())
    };
    assert!(Raw::metadata(nested(MAX_ARRAY_DEPTH)).is_ok());
    assert_error!(Raw::metadata(nested(MAX_ARRAY_DEPTH + 1)), GgufError::TooDeep { .. });
    assert_error!(Raw::metadata(nested(1_000_000)), GgufError::TooDeep { .. });
}

#[test]
fn bad_tensors_are_named() {
    assert_error!(Raw::tensors(vec![tensor("t", &[1; 5], 0, 0)], 64), GgufError::TooManyDims { dims: 5, .. });
    assert_error!(
        Raw::tensors(vec![tensor("t", &[4], 4, 0)], 64),
        GgufError::UnknownTensorType { id: 4, .. }
    );
    assert_error!(Raw::tensors(vec![tensor("t", &[33], 2, 0)], 64), GgufError::PartialBlock { cols: 33, .. });
    assert_error!(Raw::tensors(vec![tensor("t", &[], 2, 0)], 64), GgufError::PartialBlock { cols: 1, .. });
    assert_error!(Raw::tensors(vec![tensor("t", &[4], 0, 8)], 64), GgufError::Misaligned { offset: 8, .. });
    for dims in [&[1 << 32, 1 << 32][..], &[u64::MAX], &[1 << 62], &[0, 1 << 40, 1 << 40], &[1 << 21; 4]] {
        assert_error!(Raw::tensors(vec![tensor("t", dims, 0, 0)], 64), GgufError::SizeOverflow { .. });
    }
    for offset in [64, 32, 1 << 40, u64::MAX - 31] {
        let t = tensor("t", &[16], 0, offset);
        assert_error!(Raw::tensors(vec![t], 64), GgufError::TensorOutOfRange { .. });
    }
    let pair = |a, b| Raw::tensors(vec![tensor("a", &[9], 0, a), tensor("b", &[8], 0, b)], 128);
    assert_error!(pair(0, 0), GgufError::Overlap { .. });
    assert_error!(pair(0, 32), GgufError::Overlap { .. });
    assert_error!(pair(32, 32), GgufError::Overlap { .. });
    assert!(pair(32, 0).is_ok());
    assert!(pair(0, 64).is_ok());
    let same = vec![tensor("a", &[8], 0, 0), tensor("a", &[8], 0, 32)];
    assert_error!(Raw::tensors(same, 64), GgufError::DuplicateTensor { .. });
}

#[test]
fn scalars_and_empty_tensors_are_tensors() {
    let tensors =
        vec![tensor("scalar", &[], 0, 0), tensor("empty", &[0, 5], 0, 0), tensor("row", &[3], 0, 32)];
    let file = Raw::tensors(tensors, 64).unwrap();
    let of = |name| file.tensor(name).unwrap();
    assert_eq!((of("scalar").bytes, of("scalar").elements(), of("scalar").cols()), (4, 1, 1));
    assert_eq!((of("empty").bytes, of("empty").elements(), of("empty").shape()), (0, 0, vec![5, 0]));
}

#[test]
fn version_2_reads_like_version_3() {
    let mut file = REFERENCE.to_vec();
    file[4] = 2;
    assert_eq!(Gguf::parse(&file).unwrap().version(), 2);
}

#[test]
fn the_writer_refuses_what_the_reader_would() {
    let mut w = GgufWriter::new();
    w.metadata("k", Value::U8(1)).unwrap();
    assert_error!(w.metadata("k", Value::U8(2)), GgufError::DuplicateKey { .. });
    assert_error!(w.metadata(ALIGNMENT_KEY, Value::U32(12)), GgufError::BadAlignment { alignment: 12 });
    let mut w = GgufWriter::new();
    assert_error!(w.tensor("t", &[8], GgmlType::F32, vec![0; 31]), GgufError::WrongByteCount { .. });
    assert_error!(w.tensor("t", &[8; 5], GgmlType::F32, vec![]), GgufError::TooManyDims { .. });
    assert_error!(w.tensor("t", &[8], GgmlType::Q4_0, vec![0; 18]), GgufError::PartialBlock { .. });
    w.tensor("t", &[8], GgmlType::F32, vec![0; 32]).unwrap();
    assert_error!(w.tensor("t", &[8], GgmlType::F32, vec![0; 32]), GgufError::DuplicateTensor { .. });
    let deep = (0..MAX_ARRAY_DEPTH).fold(ArrayValue::U8(vec![]), |a, _| ArrayValue::Array(vec![a]));
    assert_error!(w.metadata("deep", Value::Array(deep)), GgufError::TooDeep { .. });
}

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i8>().prop_map(Value::I8),
        any::<u16>().prop_map(Value::U16),
        any::<i16>().prop_map(Value::I16),
        any::<u32>().prop_map(Value::U32),
        any::<i32>().prop_map(Value::I32),
        (-1e9f32..1e9).prop_map(Value::F32),
        any::<bool>().prop_map(Value::Bool),
        ".{0,8}".prop_map(Value::String),
        any::<u64>().prop_map(Value::U64),
        any::<i64>().prop_map(Value::I64),
        (-1e9f64..1e9).prop_map(Value::F64),
    ];
    let flat = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(ArrayValue::U8),
        proptest::collection::vec(any::<i16>(), 0..9).prop_map(ArrayValue::I16),
        proptest::collection::vec(any::<bool>(), 0..9).prop_map(ArrayValue::Bool),
        proptest::collection::vec(any::<i64>(), 0..9).prop_map(ArrayValue::I64),
        proptest::collection::vec(-1e9f32..1e9, 0..9).prop_map(ArrayValue::F32),
        proptest::collection::vec(".{0,4}", 0..9).prop_map(|v| ArrayValue::String(v.iter().collect())),
    ];
    let array = flat.prop_recursive(MAX_ARRAY_DEPTH as u32 - 1, 16, 4, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(ArrayValue::Array)
    });
    prop_oneof![scalar, array.prop_map(Value::Array)]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        entries in proptest::collection::hash_map("[a-z.]{1,8}", values(), 0..8),
        sizes in proptest::collection::vec((0usize..3, 1usize..4), 0..6),
        alignment in proptest::option::of(proptest::sample::select(vec![8u32, 24, 32, 4096])),
    ) {
        let types = [GgmlType::F32, GgmlType::Q4_1, GgmlType::Q6_K];
        let mut w = GgufWriter::new();
        for (k, v) in &entries {
            w.metadata(k, v.clone()).unwrap();
        }
        if let Some(alignment) = alignment {
            w.metadata(ALIGNMENT_KEY, Value::U32(alignment)).unwrap();
        }
        let mut tensors = vec![];
        for (i, &(ty, rows)) in sizes.iter().enumerate() {
            let ty = types[ty];
            let bytes: Vec<u8> = (0..rows * ty.block_bytes()).map(|b| (b * 7 + i) as u8).collect();
            w.tensor(format!("t{i}"), &[ty.block_size() as u64, rows as u64], ty, bytes.clone()).unwrap();
            tensors.push((ty, rows, bytes));
        }
        let file = w.to_bytes().unwrap();
        let read = Gguf::parse(&file).unwrap();
        prop_assert_eq!(read.alignment() as u32, alignment.unwrap_or(32));
        prop_assert_eq!(read.metadata().len(), entries.len() + usize::from(alignment.is_some()));
        for (k, v) in &entries {
            prop_assert_eq!(read.metadata().get(k), Some(v));
        }
        for (t, (ty, rows, bytes)) in read.tensors().iter().zip(&tensors) {
            prop_assert_eq!((t.ty, t.rows()), (*ty, *rows));
            prop_assert_eq!(read.tensor_bytes(&file, t).unwrap(), &bytes[..]);
        }
        prop_assert_eq!(read.tensors().len(), tensors.len());
    }

    /// Flipped bytes never panic, and whatever is still accepted stays inside the file.
    #[test]
    fn damaged_files_are_refused_or_stay_in_bounds(
        edits in proptest::collection::vec((0usize..1600, any::<u8>()), 1..6),
    ) {
        let mut file = REFERENCE.to_vec();
        for (at, byte) in edits {
            file[at] = byte;
        }
        if let Ok(read) = Gguf::parse(&file) {
            for t in read.tensors() {
                prop_assert_eq!(read.tensor_bytes(&file, t).unwrap().len(), t.bytes);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Gguf::parse(&[b"GGUF\x03\0\0\0", &bytes[..]].concat());
    }
}
