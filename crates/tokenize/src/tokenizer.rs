//! The tokenizer.

use std::path::Path;
use std::sync::Arc;

use crate::sentencepiece::SentencePiece;
use crate::table::TokenTable;
use crate::{
    ChatTemplate, Detokenizer, GgufVocabulary, Message, RenderOptions, Result, TokenizeError, directory, gguf,
};

/// Text to ids and back. Cloning is cheap; all methods take `&self` from any thread.
#[derive(Clone)]
pub struct Tokenizer {
    parts: Arc<Parts>,
}

pub(crate) enum Engine {
    /// A tokenizer of the `tokenizers` crate.
    Library(Box<tokenizers::Tokenizer>),
    /// SentencePiece's BPE, from a vocabulary with scores.
    SentencePiece(Box<SentencePiece>),
}

pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) table: Arc<TokenTable>,
    pub(crate) bos: Option<u32>,
    pub(crate) eos: Vec<u32>,
    /// What `add_special` puts around the ids that the engine gives.
    pub(crate) frame: Frame,
    pub(crate) chat_template: Option<ChatTemplate>,
}

/// How special tokens are added around a text, over what the engine itself does.
#[derive(Clone, Copy, Default)]
pub(crate) struct Frame {
    pub(crate) prefix: Option<u32>,
    pub(crate) suffix: Option<u32>,
    /// The engine adds an id in front that the model's configuration does not want.
    pub(crate) drop_first: bool,
    /// Likewise at the end.
    pub(crate) drop_last: bool,
}

impl Tokenizer {
    /// Reads a model directory in Hugging Face's layout: `tokenizer.json`, and where they exist
    /// `tokenizer_config.json`, `special_tokens_map.json`, `chat_template.jinja` or
    /// `chat_template.json`, and `generation_config.json` for the ids that end generation.
    ///
    /// # Errors
    /// Files that are missing, malformed or contradictory, or a decoder that is not of the
    /// byte-level, byte-fallback or metaspace kind.
    pub fn from_dir(path: impl AsRef<Path>) -> Result<Self> {
        directory::load(path.as_ref()).map(Self::from_parts)
    }

    /// Builds the tokenizer that a GGUF file's vocabulary describes.
    ///
    /// # Errors
    /// A model or pre-tokenizer that is not known (ids would be wrong without notice), or a
    /// vocabulary that contradicts itself.
    pub fn from_gguf(vocabulary: &GgufVocabulary<'_>) -> Result<Self> {
        gguf::load(vocabulary).map(Self::from_parts)
    }

    fn from_parts(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// The ids of `text`. Special tokens that occur in it become their ids. `add_special` puts
    /// the tokens around it that the model expects around a whole input, such as a beginning of
    /// sequence; text rendered by a chat template has them already.
    ///
    /// # Errors
    /// [`TokenizeError::Encode`] where the text has no ids.
    pub fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        let frame = if add_special { self.parts.frame } else { Frame::default() };
        let ids = self.parts.engine.encode(text, add_special)?;
        let mut body = ids.as_slice();
        if frame.drop_first {
            body = body.split_first().map_or(body, |(_, rest)| rest);
        }
        if frame.drop_last {
            body = body.split_last().map_or(body, |(_, rest)| rest);
        }
        Ok(frame.prefix.into_iter().chain(body.iter().copied()).chain(frame.suffix).collect())
    }

    /// Renders a conversation with the model's chat template and encodes it.
    ///
    /// # Errors
    /// A model without a chat template, one that refuses the conversation, or text without ids.
    pub fn encode_chat(&self, messages: &[Message], options: &RenderOptions<'_>) -> Result<Vec<u32>> {
        let template =
            self.chat_template().ok_or_else(|| TokenizeError::Template("the model has none".into()))?;
        self.encode(&template.render(messages, options)?, false)
    }

    /// The text of `ids`. Bytes that are not UTF-8 become U+FFFD; `skip_special` leaves special
    /// tokens out.
    ///
    /// # Errors
    /// [`TokenizeError::UnknownId`].
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let mut stream = self.detokenizer(skip_special);
        let mut out = String::new();
        for &id in ids {
            stream.push_into(id, &mut out)?;
        }
        out.push_str(&stream.finish());
        Ok(out)
    }

    /// A streaming decoder.
    pub fn detokenizer(&self, skip_special: bool) -> Detokenizer {
        Detokenizer::new(self.parts.table.clone(), skip_special)
    }

    /// The bytes that `id` stands for; those of a whole text are joined from them.
    ///
    /// # Errors
    /// [`TokenizeError::UnknownId`].
    pub fn token_bytes(&self, id: u32) -> Result<&[u8]> {
        self.parts.table.get(id)
    }

    /// The id of a token by its name in the vocabulary, such as `<|im_end|>` or `Ġthe`.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        match &self.parts.engine {
            Engine::Library(tokenizer) => tokenizer.token_to_id(token),
            Engine::SentencePiece(encoder) => encoder.id(token),
        }
    }

    /// Whether `id` is a special token, one that carries structure rather than text.
    pub fn is_special(&self, id: u32) -> bool {
        self.parts.table.is_special(id)
    }

    /// The ids that end a generation, the model's principal one first.
    pub fn eos_ids(&self) -> &[u32] {
        &self.parts.eos
    }

    /// The id that begins a sequence, if the model has one.
    pub fn bos_id(&self) -> Option<u32> {
        self.parts.bos
    }

    /// One more than the largest id. The embedding of a model may have more rows.
    pub fn vocab_size(&self) -> usize {
        self.parts.table.len()
    }

    /// The model's chat template, if it has one.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.parts.chat_template.as_ref()
    }
}

impl Engine {
    pub(crate) fn encode(&self, text: &str, add_special: bool) -> Result<Vec<u32>> {
        match self {
            Self::Library(tokenizer) => tokenizer
                .encode_fast(text, add_special)
                .map(|encoding| encoding.get_ids().to_vec())
                .map_err(|e| TokenizeError::Encode(e.to_string())),
            Self::SentencePiece(encoder) => Ok(encoder.encode(text)),
        }
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("bos", &self.bos_id())
            .field("eos", &self.eos_ids())
            .finish_non_exhaustive()
    }
}
