//! The GGUF parser on arbitrary bytes: it may refuse them but must not panic, and what it accepts
//! must stay inside the file and survive decoding.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run gguf` from the repository root runs it with the stable
//! compiler.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olivine_core::io::ggml_blocks::{affine_scale_type, dequantize};
use olivine_core::io::gguf::Gguf;

fuzz_target!(|file: &[u8]| {
    let Ok(header) = Gguf::parse(file) else { return };
    for tensor in header.tensors() {
        let bytes = header.tensor_bytes(file, tensor).expect("an accepted tensor lies inside the file");
        assert_eq!(bytes.len(), tensor.bytes);
        if tensor.ty.can_dequantize() {
            // The file bounds the elements: a block holds 256 of them in at least 144 bytes.
            let mut out = vec![0.0; tensor.elements()];
            dequantize(tensor.ty, bytes, &mut out).expect("an accepted tensor has the bytes of its shape");
            if tensor.ty.affine_format().is_some() {
                let _ = affine_scale_type(tensor.ty, bytes);
            }
        }
    }
    for (key, value) in header.metadata().iter() {
        assert_eq!(header.metadata().get(key).map(|v| v.kind()), Some(value.kind()));
    }
});
