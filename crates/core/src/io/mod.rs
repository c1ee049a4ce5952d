//! Files.

pub mod ggml_blocks;
pub mod gguf;
