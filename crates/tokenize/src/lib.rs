//! Text to token ids and back, streaming detokenization and chat templates.
//!
//! * [`Tokenizer`] turns text into ids and ids into text. It is read from a Hugging Face model
//!   directory ([`Tokenizer::from_dir`]) or from the vocabulary inside a GGUF file
//!   ([`Tokenizer::from_gguf`]), and gives the same ids either way.
//! * [`Detokenizer`] turns a stream of ids into text as they arrive: it never emits half a
//!   character, loses nothing, and takes time linear in the text.
//! * [`ChatTemplate`] renders a conversation with a model's own Jinja template.
//!
//! Decoding is defined by one table that gives the bytes of each id: the text of a sequence is the
//! concatenation of the bytes of its ids, with U+FFFD for what is not UTF-8. The table is what
//! makes streaming exact: the pieces of a stream, joined, are the text of the whole, for any ids.
//! Hugging Face's decoders agree wherever the bytes are valid; where they are not, those of the
//! byte-fallback kind give one U+FFFD per byte and drop intact neighbours, which this crate does
//! not imitate.
//!
//! Nothing here knows arrays or models; files are bad until they are proved good, and everything
//! wrong is a [`TokenizeError`].

mod detokenizer;
mod directory;
mod error;
mod gguf;
mod sentencepiece;
mod table;
mod template;
mod tokenizer;

pub use detokenizer::Detokenizer;
pub use error::TokenizeError;
pub use gguf::GgufVocabulary;
pub use template::{ChatTemplate, Content, Message, RenderOptions, SpecialTokens};
pub use tokenizer::Tokenizer;

/// Results of this crate.
pub type Result<T, E = TokenizeError> = std::result::Result<T, E>;
