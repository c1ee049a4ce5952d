//! The files that fuzzing starts from, through the parsers, as an ordinary test.

use std::path::PathBuf;

use olivine_core::io::ggml_blocks::dequantize;
use olivine_core::io::gguf::Gguf;
use olivine_core::io::safetensors::Header;
use olivine_core::io::{Format, load_from};

/// What the corpus holds that must be refused; all other files must be read.
const BAD_GGUF: &[&str] = &[
    "huge_counts",
    "huge_array",
    "deep",
    "overflow",
    "overlap",
    "outside",
    "duplicate",
    "bad_utf8",
    "truncated",
    "big_endian",
];

/// The safetensors files that must be read; all others must be refused.
const GOOD_SAFETENSORS: &[&str] = &["empty", "metadata", "several", "small_floats", "spaces"];

#[test]
fn safetensors_corpus() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/safetensors");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let read = Header::parse(&std::fs::read(&path).unwrap());
        let found = is_found_by_fuzzing(&name);
        assert!(found || read.is_ok() == GOOD_SAFETENSORS.contains(&&*name), "{name}: {read:?}");
        seen += 1;
    }
    assert!(seen >= 19, "{} has {seen} files", folder.display());
}

#[test]
fn gguf_corpus() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/gguf");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file = std::fs::read(&path).unwrap();
        match Gguf::parse(&file) {
            Err(e) => assert!(BAD_GGUF.contains(&&*name) || is_found_by_fuzzing(&name), "{name}: {e}"),
            Ok(header) => {
                assert!(!BAD_GGUF.contains(&&*name), "{name} was accepted");
                for tensor in header.tensors().iter().filter(|t| t.ty.can_dequantize()) {
                    let bytes = header.tensor_bytes(&file, tensor).unwrap();
                    dequantize(tensor.ty, bytes, &mut vec![0.0; tensor.elements()]).unwrap();
                }
            }
        }
        seen += 1;
    }
    assert!(seen >= 20, "{} has {seen} files", folder.display());
}

#[test]
fn npy_and_npz_corpus() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/npy");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let format = if name.ends_with(".npz") { Format::Npz } else { Format::Npy };
        let read = load_from(&mut &std::fs::read(&path).unwrap()[..], &name, format);
        let found = is_found_by_fuzzing(&name);
        assert!(found || read.is_ok() != name.starts_with("bad_"), "{name}: {read:?}");
        seen += 1;
    }
    assert!(seen >= 27, "{} has {seen} files", folder.display());
}

/// The fuzzer names its finds by the SHA-1 of their contents.
fn is_found_by_fuzzing(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|b| b.is_ascii_hexdigit())
}
