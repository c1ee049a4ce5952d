use super::*;
use crate::buffer::Buffer;
use crate::io::test_folder::Folder;
use half::{bf16, f16};
use proptest::prelude::*;
use std::fs;

/// An array of given bytes; core alone has no backend that could allocate.
fn array(bytes: &[u8], shape: &[usize], dtype: Dtype) -> Array {
    // In words, so that it is aligned for every type.
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: the words move into the owner without moving in memory, and nobody changes them.
    let buffer = unsafe { Buffer::foreign(words.as_ptr().cast(), bytes.len(), Box::new(words)) };
    Array::from_buffer(buffer, 0, Shape::new(shape), dtype).unwrap()
}

fn sample() -> BTreeMap<String, Array> {
    let bytes: Vec<u8> = (0..48).collect();
    let mut all: BTreeMap<String, Array> =
        Dtype::ALL.iter().map(|&d| (format!("a.{d}"), array(&bytes[..6 * d.size()], &[2, 3], d))).collect();
    all.insert("scalar".into(), array(&1.5f32.to_le_bytes(), &[], Dtype::F32));
    all.insert("nothing".into(), array(&[], &[4, 0], Dtype::F16));
    all.insert("näme \"quoted\"\n日本".into(), array(&[1, 2, 3], &[3], Dtype::U8));
    all
}

fn file_of(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn every_dtype_round_trips_without_a_copy() {
    let dir = Folder::new("safetensors");
    let path = dir.path.join("all.safetensors");
    let metadata = BTreeMap::from([("format".to_owned(), "pt".to_owned()), ("ä".into(), "\u{0}".into())]);
    let saved = sample();
    save_safetensors(&path, &saved, &metadata).unwrap();
    let loaded = load_safetensors(&path).unwrap();
    assert_eq!(loaded.metadata, metadata);
    assert_eq!(loaded.tensors.len(), saved.len());
    for (name, a) in &saved {
        let b = &loaded.tensors[name];
        assert_eq!((a.dtype(), a.shape()), (b.dtype(), b.shape()), "{name}");
        assert!(matches!(b.op(), crate::Op::Leaf), "{name} is a view of the file");
        assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap(), "{name}");
    }
    assert_eq!(fs::read_dir(&dir.path).unwrap().count(), 1, "no temporary file is left");

    // What was loaded can replace the file that it is a view of.
    save_safetensors(&path, &loaded.tensors, &metadata).unwrap();
    let again = load_safetensors(&path).unwrap();
    for (name, a) in &saved {
        assert_eq!(a.to_bytes().unwrap(), loaded.tensors[name].to_bytes().unwrap(), "{name}");
        assert_eq!(a.to_bytes().unwrap(), again.tensors[name].to_bytes().unwrap(), "{name}");
    }
}

#[test]
fn the_reference_library_reads_what_we_write_and_we_read_what_it_writes() {
    let dir = Folder::new("safetensors");
    let path = dir.path.join("ours.safetensors");
    let saved = sample();
    save_safetensors(&path, &saved, &BTreeMap::from([("k".into(), "v".into())])).unwrap();
    let bytes = fs::read(&path).unwrap();
    let theirs = ::safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.len(), saved.len());
    for (name, a) in &saved {
        let t = theirs.tensor(name).unwrap();
        assert_eq!(t.shape(), &a.shape()[..], "{name}");
        assert_eq!(t.dtype().to_string(), name_of(a.dtype()), "{name}");
        assert_eq!(t.data(), a.to_bytes().unwrap(), "{name}");
        assert!(
            t.data().is_empty()
                || (t.data().as_ptr().addr() - bytes.as_ptr().addr()).is_multiple_of(a.dtype().size())
        );
    }
    let written = ::safetensors::serialize(theirs.tensors(), None).unwrap();
    let loaded = load_safetensors(dir.file("theirs.safetensors", &written)).unwrap();
    for (name, a) in &saved {
        assert_eq!(a.to_bytes().unwrap(), loaded.tensors[name].to_bytes().unwrap(), "{name}");
    }
}

#[test]
fn values_are_those_of_the_bytes() {
    let dir = Folder::new("safetensors");
    let data = [
        &[f16::from_f32(0.5), f16::from_f32(-2.0)].map(f16::to_le_bytes).concat()[..],
        &[bf16::from_f32(3.0)].map(bf16::to_le_bytes).concat()[..],
        &[1, 0, 1, 0, 0, 0],
    ]
    .concat();
    let header = r#"{"h":{"dtype":"F16","shape":[2],"data_offsets":[0,4]},
        "b":{"shape":[1,1],"data_offsets":[4,6],"dtype":"BF16"},
        "t":{"dtype":"BOOL","shape":[6],"data_offsets":[6,12],"extra":{"deep":[1]}}}"#;
    let header = format!("{header}{}", " ".repeat(header.len().next_multiple_of(8) - header.len()));
    let t = load_safetensors(dir.file("v", &file_of(&header, &data))).unwrap().tensors;
    assert_eq!(t["h"].to_vec::<f16>().unwrap(), [f16::from_f32(0.5), f16::from_f32(-2.0)]);
    assert_eq!(t["b"].to_vec::<bf16>().unwrap(), [bf16::from_f32(3.0)]);
    assert_eq!(t["t"].to_vec::<bool>().unwrap(), [true, false, true, false, false, false]);
}

#[test]
fn no_text_may_be_written_as_null_as_mlx_does() {
    let header = r#"{"__metadata__":null,"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    let parsed = Header::parse(&file_of(header, &[1, 2])).unwrap();
    assert!(parsed.metadata.is_empty());
    assert_eq!(parsed.tensors.len(), 1);
}

#[test]
fn misaligned_data_is_copied_when_first_read() {
    let dir = Folder::new("safetensors");
    let header = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"f":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}}"#;
    let header = format!("{header}{}", " ".repeat(header.len().next_multiple_of(8) - header.len()));
    let data = [&[7][..], &1.5f32.to_le_bytes(), &(-8f32).to_le_bytes()].concat();
    let loaded = load_safetensors(dir.file("m", &file_of(&header, &data))).unwrap();
    let crate::Op::Create(crate::op::Create::Load(source)) = loaded.tensors["f"].op() else {
        panic!("bytes at an odd address cannot be a view");
    };
    let mut out = [0u8; 8];
    source.0.read(&mut [&mut out]).unwrap();
    assert_eq!(out, data[1..]);
    assert!(source.0.read(&mut [&mut out[..7]]).is_err());
    assert_eq!(loaded.tensors["a"].to_vec::<u8>().unwrap(), [7]);
}

/// Loads and gives the message, which must carry the path.
fn refused(dir: &Folder, bytes: &[u8]) -> String {
    let path = dir.file("bad.safetensors", bytes);
    let e = load_safetensors(&path).expect_err("a broken file");
    assert!(e.to_string().contains(&*path.to_string_lossy()), "{e}");
    e.to_string()
}

#[test]
fn hostile_headers_are_refused_with_path_and_cause() {
    let dir = Folder::new("safetensors");
    let ok = r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#;
    load_safetensors(dir.file("ok", &file_of(ok, &[0; 4]))).unwrap();
    let two = |a: &str, b: &str| {
        format!(
            r#"{{"a":{{"dtype":"U8","shape":[4],"data_offsets":{a}}},"b":{{"dtype":"U8","shape":[4],"data_offsets":{b}}}}}"#
        )
    };
    for (header, data, cause) in [
        (r#"{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#.to_owned(), 4, "\"a\" is there twice"),
        (r#"{"__metadata__":{"k":"1","k":"2"}}"#.into(), 0, "\"k\" is there twice"),
        (r#"{"__metadata__":{},"__metadata__":{}}"#.into(), 0, "twice"),
        (r#"{"__metadata__":{"k":1}}"#.into(), 0, "string"),
        (r#"{"a":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}}"#.into(), 4, "duplicate field"),
        (two("[0,4]", "[2,6]"), 6, "inside another"),
        (two("[0,4]", "[0,4]"), 4, "inside another"),
        (two("[0,4]", "[5,9]"), 9, "belong to no tensor"),
        (two("[0,4]", "[4,8]"), 9, "the tensors end at byte 8"),
        (two("[0,4]", "[4,8]"), 7, "which has 7 bytes"),
        (two("[0,4]", "[4,9]"), 9, "takes 4 bytes"),
        (two("[0,4]", "[8,4]"), 8, "takes bytes 8 to 4"),
        (two("[0,4]", "[18446744073709551612,18446744073709551615]"), 8, "which has 8 bytes"),
        (two("[0,4]", "[4,18446744073709551616]"), 8, "header is wrong"),
        (two("[0,4]", "[-4,8]"), 8, "header is wrong"),
        (two("[0,4]", "[4.0,8]"), 8, "header is wrong"),
        (two("[0,4]", "[4,8,12]"), 8, "header is wrong"),
        (r#"{"a":{"dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,0]}}"#.into(), 0, "not whole bytes in memory"),
        (r#"{"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}}"#.into(), 0, "not whole bytes in memory"),
        // Together with the header's length this end wraps to the length of the file.
        (r#"{"a":{"dtype":"U8","shape":[18446744073709551600],"data_offsets":[0,18446744073709551600]}}"#.into(), 0, "not whole bytes"),
        (r#"{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}"#.into(), 2, "not whole bytes"),
        (r#"{"a":{"dtype":"Q4","shape":[4],"data_offsets":[0,4]}}"#.into(), 4, "unknown type \"Q4\""),
        (r#"{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}}"#.into(), 4, "F8_E4M3"),
        (format!(r#"{{"a":{{"dtype":"U8","shape":[{}1],"data_offsets":[0,1]}}}}"#, "1,".repeat(64)), 1, "65 axes"),
        (r#"{"a":{"dtype":"U8","shape":[4]}}"#.into(), 4, "data_offsets"),
        (r#"{"a":7}"#.into(), 0, "header is wrong"),
        (r#"[]"#.into(), 0, "does not begin"),
        ("{\"a\":".to_owned() + &"[".repeat(100_000), 0, "header is wrong"),
        (r#"{"a":{"x":"#.to_owned() + &"[".repeat(100_000), 0, "header is wrong"),
        (r#"{} {}"#.into(), 0, "trailing"),
        (String::new(), 0, "does not begin"),
    ] {
        let e = refused(&dir, &file_of(&header, &vec![0; data]));
        assert!(e.contains(cause), "{cause:?} is not in {e:?}");
    }
    for length in [5, 100_000_001, 1 << 40, u64::MAX - 7, u64::MAX] {
        let e = refused(&dir, &[&length.to_le_bytes()[..], b"{}  "].concat());
        assert!(e.contains(&length.to_string()), "{e}");
    }
    assert!(refused(&dir, &[]).contains("0 bytes"));
    assert!(refused(&dir, &[2, 0, 0, 0, 0, 0, 0, 0, b'{', 0xff]).contains("UTF-8"));
}

#[test]
fn paths_that_are_no_files_are_refused() {
    let dir = Folder::new("safetensors");
    for path in [dir.path.join("absent"), dir.path.clone()] {
        let e = load_safetensors(&path).expect_err("no file").to_string();
        assert!(e.contains("load_safetensors") && e.contains(&*path.to_string_lossy()), "{e}");
        assert!(super::super::open_gguf(&path).is_err());
    }
    let arrays = sample();
    let none = BTreeMap::new();
    assert!(save_safetensors(dir.path.join("no/such/folder"), &arrays, &none).is_err());
    assert!(save_safetensors("/", &arrays, &none).is_err());
    assert!(save_safetensors(&dir.path, &arrays, &none).is_err(), "a folder is not replaced");
    let reserved = BTreeMap::from([(METADATA.to_owned(), arrays["scalar"].clone())]);
    assert!(
        save_safetensors(dir.path.join("x"), &reserved, &none).unwrap_err().to_string().contains(METADATA)
    );
    assert_eq!(fs::read_dir(&dir.path).unwrap().count(), 0, "nothing is left behind");
}

fn valid() -> Vec<u8> {
    let header = r#"{"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[5],"data_offsets":[24,34]},"c":{"dtype":"I64","shape":[],"data_offsets":[34,42]}}"#;
    file_of(header, &(0..42).collect::<Vec<u8>>())
}

#[test]
fn a_file_cut_off_anywhere_is_refused() {
    let dir = Folder::new("safetensors");
    let whole = valid();
    load_safetensors(dir.file("whole", &whole)).unwrap();
    for n in 0..whole.len() {
        refused(&dir, &whole[..n]);
    }
}

/// What a parsed header must promise, whatever the bytes.
fn check(bytes: &[u8]) {
    let Ok(h) = Header::parse(bytes) else { return };
    for t in &h.tensors {
        let part = &bytes[h.data..][t.start..t.end];
        let bits: usize = t.shape.iter().product::<usize>() * bits_of(&t.dtype).unwrap();
        assert_eq!(part.len() * 8, bits);
    }
    assert_eq!(h.tensors.iter().map(|t| t.end - t.start).sum::<usize>(), bytes.len() - h.data);
}

proptest! {
    #[test]
    fn corrupted_files_never_break_the_promise(
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut bytes = valid();
        for (at, value) in hits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        check(&bytes);
    }

    #[test]
    fn any_header_text_is_read_or_refused(text in "\\PC{0,80}", data in 0usize..20) {
        check(&file_of(&text, &vec![0; data]));
    }

    #[test]
    fn any_tensors_round_trip(
        sizes in prop::collection::btree_map("\\PC{0,12}", (0usize..14, prop::collection::vec(0usize..4, 0..4)), 0..6),
        metadata in prop::collection::btree_map("\\PC{0,6}", "\\PC{0,6}", 0..3),
    ) {
        let arrays: BTreeMap<String, Array> = sizes.into_iter().filter(|(n, _)| n != METADATA).map(|(name, (d, shape))| {
            let dtype = Dtype::ALL[d];
            let bytes: Vec<u8> = (0..shape.iter().product::<usize>() * dtype.size()).map(|i| i as u8).collect();
            (name, array(&bytes, &shape, dtype))
        }).collect();
        let dir = Folder::new("safetensors");
        let path = dir.path.join("f");
        save_safetensors(&path, &arrays, &metadata).unwrap();
        let loaded = load_safetensors(&path).unwrap();
        prop_assert_eq!(loaded.metadata, metadata);
        prop_assert_eq!(loaded.tensors.len(), arrays.len());
        for (name, a) in arrays {
            let b = &loaded.tensors[&name];
            prop_assert_eq!((a.dtype(), a.shape()), (b.dtype(), b.shape()));
            prop_assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap());
        }
    }
}
