//! Tokenizers from model directories in Hugging Face's layout.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::table::{TokenTable, byte_level, fallback_byte};
use crate::tokenizer::{Engine, Frame, Parts};
use crate::{ChatTemplate, Result, SpecialTokens, TokenizeError};

/// More ids than any vocabulary has; a larger one is a mistake that would only fill memory.
const MAX_IDS: u32 = 1 << 24;

/// A special token is its text or an object with it.
#[derive(Deserialize)]
#[serde(untagged)]
enum TokenName {
    Text(String),
    Object { content: String },
}

impl TokenName {
    fn text(self) -> String {
        match self {
            Self::Text(text) | Self::Object { content: text } => text,
        }
    }
}

/// `tokenizer_config.json`; `special_tokens_map.json` has the first four of its keys.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    bos_token: Option<TokenName>,
    eos_token: Option<TokenName>,
    unk_token: Option<TokenName>,
    pad_token: Option<TokenName>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    chat_template: Option<Templates>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Templates {
    One(String),
    Named(Vec<NamedTemplate>),
}

#[derive(Deserialize)]
struct NamedTemplate {
    name: String,
    template: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GenerationConfig {
    eos_token_id: Option<OneOrMany>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(u32),
    Many(Vec<u32>),
}

#[derive(Deserialize)]
struct TemplateFile {
    chat_template: Templates,
}

/// The contents of a file that may be absent.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(TokenizeError::Io { path: path.to_owned(), source }),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| TokenizeError::file(path, e))
}

pub(crate) fn load(dir: &Path) -> Result<Parts> {
    let file = dir.join("tokenizer.json");
    let bytes = std::fs::read(&file).map_err(|source| TokenizeError::Io { path: file.clone(), source })?;
    let mut tokenizer =
        tokenizers::Tokenizer::from_bytes(&bytes).map_err(|e| TokenizeError::file(&file, e))?;
    drop(bytes);
    // Limits for training batches that some files carry; a prompt is never cut or padded here.
    tokenizer.with_truncation(None).map_err(|e| TokenizeError::file(&file, e))?;
    tokenizer.with_padding(None);

    let config: Config = read_json(&dir.join("tokenizer_config.json"))?.unwrap_or_default();
    let map: Config = read_json(&dir.join("special_tokens_map.json"))?.unwrap_or_default();
    let name = |first: Option<TokenName>, second: Option<TokenName>| first.or(second).map(TokenName::text);
    let specials = SpecialTokens {
        bos: name(config.bos_token, map.bos_token),
        eos: name(config.eos_token, map.eos_token),
        unknown: name(config.unk_token, map.unk_token),
        padding: name(config.pad_token, map.pad_token),
    };
    let id = |token: &Option<String>| token.as_deref().and_then(|t| tokenizer.token_to_id(t));
    let (bos, eos) = (id(&specials.bos), id(&specials.eos));

    let mut table = token_table(&tokenizer, &file)?;
    [bos, eos, id(&specials.padding)].into_iter().flatten().for_each(|id| table.mark_special(id));

    let generation: GenerationConfig = read_json(&dir.join("generation_config.json"))?.unwrap_or_default();
    let mut ends: Vec<u32> = eos.into_iter().collect();
    match generation.eos_token_id {
        Some(OneOrMany::One(id)) => ends.push(id),
        Some(OneOrMany::Many(ids)) => ends.extend(ids),
        None => {}
    }
    let mut seen = ahash::AHashSet::new();
    ends.retain(|&id| seen.insert(id));

    let engine = Engine::Library(Box::new(tokenizer));
    let around = engine.encode("", true)?;
    let has = |id: Option<u32>, at: Option<&u32>| id.is_some() && at == id.as_ref();
    let (has_bos, has_eos) = (has(bos, around.first()), around.len() > 1 && has(eos, around.last()));
    let has_eos = has_eos || (!has_bos && has(eos, around.last()));
    let frame = Frame {
        prefix: bos.filter(|_| config.add_bos_token == Some(true) && !has_bos),
        suffix: eos.filter(|_| config.add_eos_token == Some(true) && !has_eos),
        drop_first: config.add_bos_token == Some(false) && has_bos,
        drop_last: config.add_eos_token == Some(false) && has_eos,
    };
    let chat_template = chat_template(dir, config.chat_template, specials)?;
    Ok(Parts { engine, table: Arc::new(table), bos, eos: ends, frame, chat_template })
}

/// The template of a file of its own, which newer models have, or that of the configuration.
fn chat_template(
    dir: &Path,
    configured: Option<Templates>,
    specials: SpecialTokens,
) -> Result<Option<ChatTemplate>> {
    let jinja = dir.join("chat_template.jinja");
    let (path, templates): (PathBuf, _) = if let Some(bytes) = read(&jinja)? {
        let source = String::from_utf8(bytes).map_err(|e| TokenizeError::file(&jinja, e))?;
        (jinja, Some(Templates::One(source)))
    } else {
        let json = dir.join("chat_template.json");
        match read_json::<TemplateFile>(&json)? {
            Some(file) => (json, Some(file.chat_template)),
            None => (dir.join("tokenizer_config.json"), configured),
        }
    };
    let template = match templates {
        None => return Ok(None),
        Some(Templates::One(source)) => ChatTemplate::new(&source, specials),
        Some(Templates::Named(named)) => {
            let find = |name| named.iter().find(|t| t.name == name).map(|t| t.template.as_str());
            match find("default") {
                Some(default) => ChatTemplate::with_tool_use(default, find("tool_use"), specials),
                None => return Err(TokenizeError::file(&path, "no chat template is named \"default\"")),
            }
        }
    };
    template.map(Some).map_err(|e| TokenizeError::file(&path, e))
}

/// What the decoder of a `tokenizer.json` does, reduced to bytes per token.
#[derive(Default)]
struct Decoding {
    byte_level: bool,
    byte_fallback: bool,
    replacements: Vec<(String, String)>,
    strip_left: usize,
}

impl Decoding {
    fn read(decoder: &Value) -> Result<Self, String> {
        let mut decoding = Self::default();
        decoding.step(decoder)?;
        Ok(decoding)
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        let text = |key: &str| step.get(key).and_then(Value::as_str);
        match text("type") {
            Some("Sequence") => {
                let steps =
                    step.get("decoders").and_then(Value::as_array).ok_or("a sequence without decoders")?;
                steps.iter().try_for_each(|s| self.step(s))?;
            }
            Some("ByteLevel") => self.byte_level = true,
            Some("ByteFallback") => self.byte_fallback = true,
            Some("Fuse") => {}
            Some("Replace") => {
                let from = step.pointer("/pattern/String").and_then(Value::as_str);
                let (Some(from), Some(to)) = (from, text("content")) else {
                    return Err(format!("the replacement {step} is not of a fixed text"));
                };
                if from.chars().count() != 1 {
                    return Err(format!("the replaced text {from:?} could span tokens"));
                }
                self.replacements.push((from.to_owned(), to.to_owned()));
            }
            Some("Strip") => {
                let count = |key: &str| step.get(key).and_then(Value::as_u64);
                match (text("content"), count("start"), count("stop")) {
                    (Some(" "), Some(start), Some(0)) => self.strip_left += start as usize,
                    _ => return Err(format!("stripping as in {step} is not supported")),
                }
            }
            Some("Metaspace") => {
                let replacement = text("replacement").unwrap_or("▁");
                self.replacements.push((replacement.to_owned(), " ".to_owned()));
                self.strip_left += usize::from(text("prepend_scheme").unwrap_or("always") != "never");
            }
            other => return Err(format!("decoder {} is not supported", other.unwrap_or("without a type"))),
        }
        Ok(())
    }

    fn bytes(&self, token: &str, added: bool) -> Vec<u8> {
        if let Some(byte) = fallback_byte(token).filter(|_| self.byte_fallback) {
            return vec![byte];
        }
        if added && self.byte_level {
            return token.as_bytes().to_vec();
        }
        let replace = |text: String, (from, to): &(String, String)| text.replace(from, to);
        let text = self.replacements.iter().fold(token.to_owned(), replace);
        if self.byte_level { byte_level(&text) } else { text.into_bytes() }
    }
}

fn token_table(tokenizer: &tokenizers::Tokenizer, file: &Path) -> Result<TokenTable> {
    let decoder = tokenizer.get_decoder().ok_or_else(|| TokenizeError::file(file, "there is no decoder"))?;
    let decoder = serde_json::to_value(decoder).map_err(|e| TokenizeError::file(file, e))?;
    let decoding = Decoding::read(&decoder).map_err(|e| TokenizeError::file(file, e))?;

    let added = tokenizer.get_added_tokens_decoder();
    let mut tokens: Vec<(u32, String)> =
        tokenizer.get_vocab(true).into_iter().map(|(t, id)| (id, t)).collect();
    tokens.sort_unstable();
    if let Some(&(id, _)) = tokens.last().filter(|(id, _)| *id >= MAX_IDS) {
        return Err(TokenizeError::file(file, format!("token id {id} is beyond {MAX_IDS}")));
    }
    let mut table = TokenTable::new(decoding.strip_left);
    for (id, token) in tokens {
        if table.len() as u32 > id {
            continue; // an alias of the id before
        }
        while (table.len() as u32) < id {
            table.push(None, false);
        }
        let added = added.get(&id);
        table.push(Some(&decoding.bytes(&token, added.is_some())), added.is_some_and(|a| a.special));
    }
    Ok(table)
}
