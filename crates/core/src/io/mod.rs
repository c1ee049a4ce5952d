//! Files.
//!
//! [`load`] reads any of the formats; [`load_npy`], [`load_npz`], [`load_safetensors`] and [`open_gguf`] one each.
//! They map a file and give arrays that are views of it, or that are read and converted when they are first
//! evaluated: a weight that nobody uses is never read. [`load_from`] reads a stream instead; the functions called
//! `write_` write to one, those called `save` to a file.

mod any;
pub mod ggml_blocks;
pub mod gguf;
mod gguf_file;
mod mapped;
pub mod npy;
pub mod npz;
mod replace;
pub mod safetensors;
#[cfg(test)]
mod test_folder;

pub use any::{Content, Format, Loaded, Metadata, load, load_from, save_gguf, write_gguf};
pub use gguf_file::{GgufFile, Tensor, open_gguf};
pub use mapped::Mapped;
pub use npy::{load_npy, save, write_npy};
pub use npz::{load_npz, savez, savez_compressed, write_npz};
pub use safetensors::{
    SafeTensors, load_safetensors, parse_safetensors, save_safetensors, write_safetensors,
};
