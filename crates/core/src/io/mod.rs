//! Files.
//!
//! [`load_safetensors`] and [`open_gguf`] map a file and give arrays that are views of it, or that are read
//! and converted when they are first evaluated: a weight that nobody uses is never read.

pub mod ggml_blocks;
pub mod gguf;
mod gguf_file;
mod mapped;
pub mod safetensors;
#[cfg(test)]
mod test_folder;

pub use gguf_file::{GgufFile, Tensor, open_gguf};
pub use mapped::Mapped;
pub use safetensors::{SafeTensors, load_safetensors, save_safetensors};
