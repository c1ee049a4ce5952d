//! npy and npz files of arbitrary bytes: they may be refused but must not panic, and what is accepted must lie inside
//! the file.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run npy` from the repository root runs it with the stable compiler.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olivine_core::io::npy::Header;
use olivine_core::io::{Format, load_from};

fuzz_target!(|file: &[u8]| {
    if let Ok(header) = Header::parse(file) {
        assert!(header.data <= file.len());
        let bytes = header.bytes().expect("an accepted header has a size");
        let loaded = load_from(&mut &file[..], "fuzz", Format::Npy);
        assert_eq!(loaded.is_ok(), bytes <= file.len() - header.data);
    }
    let _ = load_from(&mut &file[..], "fuzz", Format::Npz);
});
