//! The header of safetensors files on arbitrary bytes: it may be refused but must not panic, and what is
//! accepted must describe the rest of the file byte by byte.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run safetensors` from the repository root runs it with the stable compiler.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olivine_core::io::safetensors::Header;
use std::collections::HashSet;

fuzz_target!(|file: &[u8]| {
    let Ok(header) = Header::parse(file) else { return };
    let data = &file[header.data..];
    let mut names = HashSet::new();
    let mut at = 0;
    for t in &header.tensors {
        assert!(names.insert(&t.name), "{:?} is there twice", t.name);
        assert_eq!(t.start, at, "no gap and no overlap");
        assert!(t.shape.iter().product::<usize>() <= data[t.start..t.end].len() * 8);
        at = t.end;
    }
    assert_eq!(at, data.len());
});
