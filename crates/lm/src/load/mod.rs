//! From a file or folder to a model and its tokenizer.

mod folder;
mod gguf;

use crate::{LanguageModel, models};
use olivine_core::{Dtype, Error, Result, alloc, default_device};
use olivine_nn::visitors::{self, Weights};
use olivine_nn::{Embedding, Weight};
use olivine_tokenize::{TokenizeError, Tokenizer};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A model that is ready to run. Its weights are read from the file when they are first used.
pub struct Loaded {
    /// The model.
    pub model: Box<dyn LanguageModel>,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// What is known about it.
    pub info: ModelInfo,
}

/// What a file says about its model.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// Where it is.
    pub path: PathBuf,
    /// `model_type` of config.json.
    pub architecture: String,
    /// Settings under the names of config.json.
    pub config: Value,
    /// Number of parameters; packed ones count as if unpacked.
    pub parameters: usize,
    /// Bytes of all weights as they are kept in memory.
    pub weight_bytes: usize,
    /// Bytes of a key and a value of one position, over all layers.
    pub kv_bytes_per_token: usize,
    /// Forms of the weights and how many bytes each takes, such as `4 bits in groups of 32`.
    pub quantization: Vec<(String, usize)>,
    /// Most positions that the model was made for.
    pub context_length: usize,
    /// Number of ids that the model knows.
    pub vocab_size: usize,
    /// Type of activations.
    pub dtype: Dtype,
}

/// A checkpoint before a model is made of it.
struct Checkpoint {
    path: PathBuf,
    /// config.json, or what it would be.
    config: Value,
    weights: Weights,
    /// Whether names and values are the model's already.
    sane: bool,
    /// Type of activations where the weights do not decide it.
    dtype: Option<Dtype>,
}

/// Opens a model: a GGUF file, or a folder as Hugging Face publishes it (config.json, safetensors in one
/// file or in shards, tokenizer.json).
///
/// # Errors
/// `Io` for files that are missing or not what they claim to be; `Value` for an architecture that is not
/// supported, and for weights that are not those of the settings; `OutOfMemory` when the weights need more
/// than the memory limit leaves. Nothing of the weights was read then.
pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
    let path = path.as_ref();
    let (checkpoint, tokenizer) = if path.is_dir() {
        let tokenizer = || Tokenizer::from_dir(path).map_err(|e| tokenizer_error(path, &e));
        let checkpoint = folder::open(path)?;
        (checkpoint, tokenizer()?)
    } else {
        gguf::open(path)?
    };
    let (model, info) = assemble(checkpoint)?;
    Ok(Loaded { model, tokenizer, info })
}

/// What a file says about its model, without its tokenizer and without a check of memory.
///
/// # Errors
/// As [`load`], except `OutOfMemory`.
pub fn inspect(path: impl AsRef<Path>) -> Result<ModelInfo> {
    let path = path.as_ref();
    let checkpoint = if path.is_dir() { folder::open(path)? } else { gguf::open_weights(path)? };
    build(checkpoint).map(|(_, info)| info)
}

impl Loaded {
    /// The ids of a text, with what the model wants around it, such as a beginning of sequence.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.tokenizer.encode(text, true).map_err(|e| Error::value("encode", e.to_string()))
    }
}

fn tokenizer_error(path: &Path, e: &TokenizeError) -> Error {
    Error::io("load", path, e)
}

fn assemble(checkpoint: Checkpoint) -> Result<(Box<dyn LanguageModel>, ModelInfo)> {
    let (model, info) = build(checkpoint)?;
    let device = default_device();
    let memory = alloc::stats(device);
    if info.weight_bytes > memory.limit.saturating_sub(memory.active) {
        return Err(Error::OutOfMemory {
            op: "load",
            device,
            requested: info.weight_bytes,
            active: memory.active,
            limit: memory.limit,
        });
    }
    Ok((model, info))
}

fn build(checkpoint: Checkpoint) -> Result<(Box<dyn LanguageModel>, ModelInfo)> {
    let Checkpoint { path, config, weights, sane, dtype } = checkpoint;
    let Some(model_type) = config.get("model_type").and_then(Value::as_str) else {
        return Err(Error::io("load", &path, "the settings have no \"model_type\""));
    };
    let architecture = models::find(model_type)?;
    let settings = architecture.settings(&config);
    let number = |key: &str| settings.get(key).and_then(Value::as_u64).map(|n| n as usize);
    // Every layer has weights: a number of layers beyond theirs is an error before it costs memory.
    let layers = number("num_hidden_layers").unwrap_or(0);
    if layers > weights.len() {
        let msg = format!("{layers} layers, but only {} weights", weights.len());
        return Err(Error::io("load", &path, msg));
    }
    let mut model = (architecture.build)(&settings)?;
    let mut weights = if sane { weights } else { (architecture.sanitize)(weights)? };
    drop_redundant(&mut weights, &mut *model)?;
    let forms = forms(&weights);
    visitors::load_weights(&mut *model, weights).map_err(|e| match e {
        Error::Value { op, msg } => Error::io(op, &path, msg),
        e => e,
    })?;
    let dtype = match dtype {
        Some(d) => d,
        None => embedding_dtype(&mut *model)?,
    };
    visitors::set_activation_dtype(&mut *model, dtype)?;
    let info = ModelInfo {
        architecture: model_type.to_owned(),
        parameters: visitors::count(&mut *model)?,
        weight_bytes: visitors::nbytes(&mut *model)?,
        kv_bytes_per_token: kv_bytes(&settings, dtype),
        quantization: forms,
        context_length: number("max_position_embeddings").unwrap_or(usize::MAX),
        vocab_size: number("vocab_size").unwrap_or(0),
        dtype,
        config,
        path,
    };
    Ok((model, info))
}

/// Lets go of what checkpoints hold beside parameters: frequencies of rotary embeddings, and the output
/// layer of models that tie it to the embedding.
fn drop_redundant(weights: &mut Weights, model: &mut dyn LanguageModel) -> Result<()> {
    weights.retain(|name, _| !name.ends_with("rotary_emb.inv_freq"));
    if weights.contains_key("lm_head.weight") {
        let known = visitors::parameters(model)?;
        if !known.iter().any(|(name, _)| name == "lm_head.weight") {
            weights.remove("lm_head.weight");
        }
    }
    Ok(())
}

struct FirstEmbedding(Option<Dtype>);

impl olivine_nn::Visitor for FirstEmbedding {
    fn array(&mut self, _: &str, _: &mut olivine_core::Array) -> Result<()> {
        Ok(())
    }

    fn embedding(&mut self, _: &str, layer: &mut Embedding) -> Result<()> {
        self.0.get_or_insert(layer.weight.dtype());
        Ok(())
    }
}

fn embedding_dtype(model: &mut dyn LanguageModel) -> Result<Dtype> {
    let mut first = FirstEmbedding(None);
    model.visit("", &mut first)?;
    Ok(first.0.unwrap_or(Dtype::F32))
}

/// Bytes of each form of weights, largest first.
fn forms(weights: &Weights) -> Vec<(String, usize)> {
    let mut forms: Vec<(String, usize)> = Vec::new();
    for w in weights.values() {
        let form = match w {
            Weight::Dense(a) => a.dtype().to_string(),
            Weight::Packed(p) => format!("{} bits in groups of {}", p.spec.bits, p.spec.group),
        };
        match forms.iter_mut().find(|(f, _)| *f == form) {
            Some((_, bytes)) => *bytes += w.nbytes(),
            None => forms.push((form, w.nbytes())),
        }
    }
    forms.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    forms
}

fn kv_bytes(settings: &Value, dtype: Dtype) -> usize {
    let number = |key: &str| settings.get(key).and_then(Value::as_u64).unwrap_or(0) as usize;
    let heads = number("num_attention_heads").max(1);
    let head_dim = if number("head_dim") > 0 { number("head_dim") } else { number("hidden_size") / heads };
    let kv_heads = if number("num_key_value_heads") > 0 { number("num_key_value_heads") } else { heads };
    [number("num_hidden_layers"), 2, kv_heads, head_dim, dtype.size()]
        .into_iter()
        .fold(1, |bytes: usize, n| bytes.saturating_mul(n))
}
