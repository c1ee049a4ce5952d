//! Language models on Olivine: from a file to text.
//!
//! * [`load`] opens a GGUF file or a Hugging Face folder and gives a [`LanguageModel`] and its tokenizer.
//! * [`generate`] continues a prompt, token by token, as an iterator.
//! * [`KvCache`] remembers keys and values; [`Sampler`] chooses tokens; both are plain state and array
//!   functions that know nothing of text.
//! * [`models`] holds one file per family of models, mathematics only, and the registry that finds them.
//!
//! ```no_run
//! # fn main() -> olivine_core::Result<()> {
//! let loaded = olivine_lm::load("model.gguf")?;
//! let prompt = loaded.encode("Once upon a time")?;
//! let options = olivine_lm::GenerateOptions { max_tokens: 50, ..Default::default() };
//! for step in olivine_lm::generate(&*loaded.model, &loaded.tokenizer, &prompt, options)? {
//!     print!("{}", step?.text);
//! }
//! # Ok(())
//! # }
//! ```

pub mod cache;
pub mod config;
mod generate;
mod load;
mod model;
pub mod models;
pub mod sample;

pub use cache::KvCache;
pub use generate::{
    FinishReason, GenerateOptions, Generation, PromptCache, Stats, Step, generate, generate_with_cache,
};
pub use load::{Loaded, ModelInfo, inspect, load};
pub use model::LanguageModel;
pub use olivine_core::Result;
pub use sample::{Sampler, SamplerOptions};
