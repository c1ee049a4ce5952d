//! What can go wrong between text and ids.

use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a tokenizer could not be read or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TokenizeError {
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file has contents that make no sense.
    #[error("{}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// A vocabulary that contradicts itself.
    #[error("vocabulary: {0}")]
    Vocabulary(String),
    /// Something that exists but is not supported here.
    #[error("tokenizer: {0}")]
    Unsupported(String),
    /// An id that the vocabulary does not have.
    #[error("token id {id} is not in the vocabulary (ids 0 to {}{})", .size.saturating_sub(1), if id < size { ", with gaps" } else { "" })]
    UnknownId {
        /// The id.
        id: u32,
        /// One more than the largest id.
        size: u32,
    },
    /// Text that could not be encoded.
    #[error("encode: {0}")]
    Encode(String),
    /// A chat template that is malformed or refused a conversation.
    #[error("chat template: {0}")]
    Template(String),
}

impl TokenizeError {
    pub(crate) fn file(path: &Path, message: impl ToString) -> Self {
        Self::File { path: path.to_owned(), message: message.to_string() }
    }
}
