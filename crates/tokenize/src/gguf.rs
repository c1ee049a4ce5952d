//! Tokenizers from the vocabulary that GGUF files carry.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::{AddedToken, PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::sentencepiece::{self, Role, SentencePiece};
use crate::table::{TokenTable, byte_level, fallback_byte};
use crate::tokenizer::{Engine, Frame, Parts};
use crate::{ChatTemplate, Result, SpecialTokens, TokenizeError};

mod pretokenizer;

/// The `tokenizer.ggml.*` values of a GGUF file, named after their keys; what a file lacks stays
/// at the default.
#[derive(Clone, Debug, Default)]
pub struct GgufVocabulary<'a> {
    /// `tokenizer.ggml.model`: `gpt2` (byte-level BPE), `llama` or `gemma` (SentencePiece BPE).
    pub model: &'a str,
    /// `tokenizer.ggml.pre`: how byte-level BPE splits text into words.
    pub pre: Option<&'a str>,
    /// `tokenizer.ggml.tokens`: the token of each id.
    pub tokens: Vec<&'a str>,
    /// `tokenizer.ggml.token_type`: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused,
    /// 6 byte. Empty when the file has none: all are normal.
    pub token_types: Vec<i64>,
    /// `tokenizer.ggml.scores`, for SentencePiece.
    pub scores: Vec<f32>,
    /// `tokenizer.ggml.merges`, for byte-level BPE: pairs separated by a space, in rank order.
    pub merges: Vec<&'a str>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos_id: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos_id: Option<u32>,
    /// `tokenizer.ggml.eot_token_id`: the end of a turn.
    pub eot_id: Option<u32>,
    /// `tokenizer.ggml.eom_token_id`: the end of a message.
    pub eom_id: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unknown_id: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub padding_id: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<&'a str>,
}

/// Tokens that end a turn in the chat formats in use. Files often name only one of theirs as the
/// end of sequence, so those of this list that are control tokens end generation too.
const END_OF_TURN: &[&str] = &[
    "<|im_end|>",
    "<end_of_turn>",
    "<turn|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
];

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

struct Checked<'v, 'a> {
    vocabulary: &'v GgufVocabulary<'a>,
    kinds: Vec<Kind>,
    ids: AHashMap<&'a str, u32>,
}

pub(crate) fn load(vocabulary: &GgufVocabulary<'_>) -> Result<Parts> {
    let checked = Checked::new(vocabulary)?;
    match vocabulary.model {
        "gpt2" => checked.byte_level(),
        "llama" | "gemma" => checked.sentencepiece(),
        other => Err(TokenizeError::Unsupported(format!(
            "GGUF tokenizer model {other:?} is not supported (gpt2, llama and gemma are)"
        ))),
    }
}

impl<'v, 'a> Checked<'v, 'a> {
    fn new(vocabulary: &'v GgufVocabulary<'a>) -> Result<Self> {
        let bad = |message: String| Err(TokenizeError::Vocabulary(message));
        let count = vocabulary.tokens.len();
        if count == 0 || u32::try_from(count).is_err() {
            return bad(format!("{count} tokens"));
        }
        let types = &vocabulary.token_types;
        if !types.is_empty() && types.len() != count {
            return bad(format!("{count} tokens but {} token types", types.len()));
        }
        let kinds = types
            .iter()
            .enumerate()
            .map(|(id, t)| match t {
                // 0 is "undefined" in the format; converters use it for ordinary tokens.
                0 | 1 => Ok(Kind::Normal),
                2 => Ok(Kind::Unknown),
                3 => Ok(Kind::Control),
                4 => Ok(Kind::UserDefined),
                5 => Ok(Kind::Unused),
                6 => Ok(Kind::Byte),
                _ => Err(TokenizeError::Vocabulary(format!("token {id} has the unknown type {t}"))),
            })
            .collect::<Result<Vec<_>>>()?;
        let kinds = if kinds.is_empty() { vec![Kind::Normal; count] } else { kinds };

        let mut ids = AHashMap::with_capacity(count);
        for (id, &token) in vocabulary.tokens.iter().enumerate() {
            if let Some(first) = ids.insert(token, id as u32)
                && !token.is_empty()
            {
                return bad(format!("token {token:?} has the ids {first} and {id}"));
            }
        }
        ids.remove("");
        for (name, id) in [
            ("bos", vocabulary.bos_id),
            ("eos", vocabulary.eos_id),
            ("eot", vocabulary.eot_id),
            ("eom", vocabulary.eom_id),
            ("unknown", vocabulary.unknown_id),
        ] {
            if let Some(id) = id
                && id as usize >= count
            {
                return bad(format!("the {name} token id {id} is beyond the {count} tokens"));
            }
        }
        Ok(Self { vocabulary, kinds, ids })
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &'a str, Kind)> {
        let tokens = self.vocabulary.tokens.iter().zip(&self.kinds).enumerate();
        tokens.map(|(id, (&token, &kind))| (id as u32, token, kind))
    }

    fn byte_level(self) -> Result<Parts> {
        let v = self.vocabulary;
        let scheme = pretokenizer::scheme(v.pre)?;
        let vocab: AHashMap<String, u32> = self.ids.iter().map(|(&t, &id)| (t.to_owned(), id)).collect();
        let merges = v
            .merges
            .iter()
            .enumerate()
            .map(|(rank, merge)| {
                // A side is never empty, so the separator is not the first character; a side may
                // be a space itself in vocabularies that are not byte-level.
                let pair =
                    merge.char_indices().skip(1).find(|&(_, c)| c == ' ').map(|(at, _)| merge.split_at(at));
                let (left, right) = pair.ok_or_else(|| {
                    TokenizeError::Vocabulary(format!("merge {rank} is not a pair: {merge:?}"))
                })?;
                Ok((left.to_owned(), right[1..].to_owned()))
            })
            .collect::<Result<Vec<_>>>()?;
        let model = BPE::builder()
            .vocab_and_merges(vocab, merges)
            .ignore_merges(scheme.ignore_merges)
            .build()
            .map_err(|e| TokenizeError::Vocabulary(e.to_string()))?;

        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        for regex in scheme.splits {
            let pattern = SplitPattern::Regex((*regex).to_owned());
            let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(|e| {
                TokenizeError::Unsupported(format!("pre-tokenizer expression {regex:?}: {e}"))
            })?;
            steps.push(split.into());
        }
        steps.push(ByteLevel::new(false, false, false).into());

        let mut tokenizer = tokenizers::Tokenizer::new(model);
        tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
        let added = |special| {
            let kind = if special { Kind::Control } else { Kind::UserDefined };
            let token = move |t: &str| AddedToken::from(t, special).normalized(false);
            self.iter().filter(move |&(_, t, k)| k == kind && !t.is_empty()).map(move |(_, t, _)| token(t))
        };
        let failed = |e: tokenizers::Error| TokenizeError::Vocabulary(e.to_string());
        tokenizer.add_special_tokens(added(true)).map_err(failed)?;
        tokenizer.add_tokens(added(false)).map_err(failed)?;

        let mut table = TokenTable::new(0);
        for (_, token, kind) in self.iter() {
            match kind {
                Kind::Control | Kind::UserDefined => {
                    table.push(Some(token.as_bytes()), kind == Kind::Control)
                }
                _ => table.push(Some(&byte_level(token)), false),
            }
        }
        self.finish(Engine::Library(Box::new(tokenizer)), table, scheme.add_bos)
    }

    fn sentencepiece(self) -> Result<Parts> {
        let v = self.vocabulary;
        if v.scores.len() != v.tokens.len() {
            let message = format!("{} tokens but {} scores", v.tokens.len(), v.scores.len());
            return Err(TokenizeError::Vocabulary(message));
        }
        let add_space_prefix = v.add_space_prefix.unwrap_or(true);
        let mut table = TokenTable::new(usize::from(add_space_prefix));
        let mut parts = sentencepiece::Parts {
            ids: self.ids.iter().map(|(&token, &id)| (token.into(), id)).collect(),
            scores: v.scores.clone(),
            roles: Vec::with_capacity(v.tokens.len()),
            bytes: None,
            unknown: v.unknown_id.or_else(|| self.iter().find(|t| t.2 == Kind::Unknown).map(|t| t.0)),
            special: Vec::new(),
            user_defined: Vec::new(),
            add_space_prefix,
        };
        let mut bytes = HashMap::new();
        for (id, token, kind) in self.iter() {
            parts.roles.push(match kind {
                Kind::Normal => Role::Piece,
                Kind::Unused => Role::Unused,
                Kind::Byte | Kind::Control | Kind::Unknown | Kind::UserDefined => Role::Apart,
            });
            match kind {
                Kind::Byte => {
                    let byte = fallback_byte(token)
                        .ok_or_else(|| TokenizeError::Vocabulary(format!("byte token {id} is {token:?}")))?;
                    bytes.insert(byte, id);
                    table.push(Some(&[byte]), false);
                }
                Kind::Control | Kind::Unknown => {
                    if !token.is_empty() {
                        parts.special.push((token, id));
                    }
                    table.push(Some(token.as_bytes()), true);
                }
                Kind::Normal | Kind::UserDefined | Kind::Unused => {
                    if kind == Kind::UserDefined && !token.is_empty() {
                        parts.user_defined.push((token, id));
                    }
                    table.push(Some(token.replace('▁', " ").as_bytes()), false);
                }
            }
        }
        if bytes.len() == 256 {
            parts.bytes = Some(Box::new(std::array::from_fn(|b| bytes[&(b as u8)])));
        } else if !bytes.is_empty() {
            return Err(TokenizeError::Vocabulary(format!("byte tokens for {} of 256 bytes", bytes.len())));
        }
        let engine = Engine::SentencePiece(Box::new(SentencePiece::new(parts)?));
        self.finish(engine, table, true)
    }

    fn finish(self, engine: Engine, table: TokenTable, add_bos: bool) -> Result<Parts> {
        let v = self.vocabulary;
        let token = |id: Option<u32>| id.and_then(|id| v.tokens.get(id as usize)).map(|&t| t.to_owned());
        let mut eos: Vec<u32> = [v.eos_id, v.eot_id, v.eom_id].into_iter().flatten().collect();
        let control = |id: &u32| self.kinds[*id as usize] == Kind::Control;
        eos.extend(END_OF_TURN.iter().filter_map(|t| self.ids.get(t)).copied().filter(control));
        let mut seen = AHashSet::new();
        eos.retain(|&id| seen.insert(id));

        let framed = |wanted: bool, explicit: Option<bool>, id: Option<u32>, name: &str| match (wanted, id) {
            (true, None) if explicit.is_some() => {
                Err(TokenizeError::Vocabulary(format!("add_{name}_token is set but {name}_token_id is not")))
            }
            (true, id) => Ok(id),
            (false, _) => Ok(None),
        };
        let frame = Frame {
            prefix: framed(v.add_bos.unwrap_or(add_bos), v.add_bos, v.bos_id, "bos")?,
            suffix: framed(v.add_eos.unwrap_or(false), v.add_eos, v.eos_id, "eos")?,
            ..Frame::default()
        };
        let specials = SpecialTokens {
            bos: token(v.bos_id),
            eos: token(v.eos_id),
            unknown: token(v.unknown_id),
            padding: token(v.padding_id),
        };
        let chat_template = v.chat_template.map(|source| ChatTemplate::new(source, specials)).transpose()?;
        Ok(Parts { engine, table: Arc::new(table), bos: v.bos_id, eos, frame, chat_template })
    }
}
