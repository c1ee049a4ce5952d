//! GGUF files: names and settings of llama.cpp brought to those of config.json and its checkpoints.

use super::{Checkpoint, tokenizer_error};
use olivine_core::io::gguf::{ArrayValue, GgufError, Metadata, Value as Item};
use olivine_core::io::{GgufFile, Tensor, open_gguf};
use olivine_core::op::Affine;
use olivine_core::{Array, Dtype, Error, Result};
use olivine_nn::visitors::Weights;
use olivine_nn::{Packed, Weight};
use olivine_tokenize::{GgufVocabulary, Tokenizer};
use serde_json::{Map, Value, json};
use std::path::Path;

const OP: &str = "load";

pub(super) fn open(path: &Path) -> Result<(Checkpoint, Tokenizer)> {
    let file = open_file(path)?;
    let checkpoint = checkpoint(&file)?;
    let tokenizer = tokenizer(&file)?;
    // Settings and vocabulary were copied out of the pages they came in.
    file.release();
    Ok((checkpoint, tokenizer))
}

pub(super) fn open_weights(path: &Path) -> Result<Checkpoint> {
    checkpoint(&open_file(path)?)
}

fn open_file(path: &Path) -> Result<GgufFile> {
    if !path.exists() {
        return Err(Error::io(OP, path, "there is no such file or folder"));
    }
    open_gguf(path)
}

/// How an architecture of llama.cpp is called elsewhere.
struct Names {
    /// `general.architecture`.
    architecture: &'static str,
    /// `model_type` of config.json.
    model_type: &'static str,
    /// Parts of a block: llama.cpp's name and the checkpoint's.
    block: &'static [(&'static str, &'static str)],
    /// Whether neighbouring rows of query and key heads are rotated together, where checkpoints rotate rows
    /// half a head apart.
    rows_in_pairs: bool,
    /// Settings of this architecture only.
    settings: fn(&Reader<'_>, &mut Map<String, Value>) -> Result<()>,
}

static NAMES: &[Names] = &[
    Names {
        architecture: "llama",
        model_type: "llama",
        block: &[
            ("attn_norm", "input_layernorm"),
            ("attn_q", "self_attn.q_proj"),
            ("attn_k", "self_attn.k_proj"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("ffn_norm", "post_attention_layernorm"),
            ("ffn_gate", "mlp.gate_proj"),
            ("ffn_up", "mlp.up_proj"),
            ("ffn_down", "mlp.down_proj"),
        ],
        rows_in_pairs: true,
        settings: llama_settings,
    },
    Names {
        architecture: "gemma3",
        model_type: "gemma3_text",
        block: &[
            ("attn_norm", "input_layernorm"),
            ("attn_q", "self_attn.q_proj"),
            ("attn_k", "self_attn.k_proj"),
            ("attn_v", "self_attn.v_proj"),
            ("attn_output", "self_attn.o_proj"),
            ("attn_q_norm", "self_attn.q_norm"),
            ("attn_k_norm", "self_attn.k_norm"),
            ("post_attention_norm", "post_attention_layernorm"),
            ("ffn_norm", "pre_feedforward_layernorm"),
            ("ffn_gate", "mlp.gate_proj"),
            ("ffn_up", "mlp.up_proj"),
            ("ffn_down", "mlp.down_proj"),
            ("post_ffw_norm", "post_feedforward_layernorm"),
        ],
        rows_in_pairs: false,
        settings: gemma3_settings,
    },
];

/// Tensors that frequencies of rotary embeddings are divided by; a setting rather than a weight.
const ROPE_FACTORS: &str = "rope_freqs.weight";

/// The metadata under the architecture's prefix.
struct Reader<'a> {
    file: &'a GgufFile,
    prefix: &'a str,
}

impl Reader<'_> {
    fn fail(&self, e: GgufError) -> Error {
        self.file.error(e)
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    fn need(&self, name: &str) -> Result<usize> {
        self.metadata().usize(&self.key(name)).map_err(|e| self.fail(e))
    }

    fn size(&self, name: &str) -> Result<Option<usize>> {
        self.metadata().get_usize(&self.key(name)).map_err(|e| self.fail(e))
    }

    fn float(&self, name: &str) -> Result<Option<f64>> {
        let v = self.metadata().get_f64(&self.key(name)).map_err(|e| self.fail(e))?;
        match v.filter(|v| !v.is_finite()) {
            // JSON, which settings pass through, has no such number.
            Some(bad) => Err(Error::io(OP, self.file.path(), format!("{} is {bad}", self.key(name)))),
            None => Ok(v),
        }
    }

    fn text(&self, name: &str) -> Result<Option<&str>> {
        self.metadata().get_str(&self.key(name)).map_err(|e| self.fail(e))
    }

    fn metadata(&self) -> &Metadata {
        self.file.metadata()
    }

    /// Rows of a tensor.
    fn rows(&self, tensor: &str) -> Result<usize> {
        self.file.info(tensor).map(|t| t.rows())
    }
}

fn checkpoint(file: &GgufFile) -> Result<Checkpoint> {
    let architecture = file.metadata().str("general.architecture").map_err(|e| file.error(e))?;
    let Some(names) = NAMES.iter().find(|n| n.architecture == architecture) else {
        let known: Vec<&str> = NAMES.iter().map(|n| n.architecture).collect();
        let msg = format!("the architecture {architecture:?} is not supported; {} are", known.join(", "));
        return Err(Error::io(OP, file.path(), msg));
    };
    let reader = Reader { file, prefix: architecture };
    let mut config = common_settings(&reader)?;
    config.insert("model_type".into(), json!(names.model_type));
    (names.settings)(&reader, &mut config)?;
    let (weights, dtype) = weights(&reader, names, &config)?;
    let path = file.path().to_owned();
    Ok(Checkpoint { path, config: Value::Object(config), weights, sane: true, dtype: Some(dtype) })
}

/// Settings that all decoders have, under the names of config.json.
fn common_settings(r: &Reader<'_>) -> Result<Map<String, Value>> {
    let heads = r.need("attention.head_count")?;
    let hidden = r.need("embedding_length")?;
    let kv_heads = r.size("attention.head_count_kv")?.unwrap_or(heads);
    let mut config = Map::new();
    let mut set = |name: &str, value: Value| config.insert(name.into(), value);
    set("vocab_size", json!(r.rows("token_embd.weight")?));
    set("hidden_size", json!(hidden));
    set("intermediate_size", json!(r.need("feed_forward_length")?));
    set("num_hidden_layers", json!(r.need("block_count")?));
    set("num_attention_heads", json!(heads));
    set("num_key_value_heads", json!(kv_heads));
    set("max_position_embeddings", json!(r.need("context_length")?));
    set("tie_word_embeddings", json!(!r.file.contains("output.weight")));
    set("attention_bias", json!(r.file.contains("blk.0.attn_q.bias")));
    if let Some(eps) = r.float("attention.layer_norm_rms_epsilon")? {
        set("rms_norm_eps", json!(eps));
    }
    let head_dim = match r.size("attention.key_length")? {
        Some(d) => d,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    if let Some(d) = r.size("attention.value_length")?
        && d != head_dim
    {
        let msg = format!("keys of {head_dim} and values of {d} features are not supported");
        return Err(Error::io(OP, r.file.path(), msg));
    }
    set("head_dim", json!(head_dim));
    Ok(config)
}

fn llama_settings(r: &Reader<'_>, config: &mut Map<String, Value>) -> Result<()> {
    if r.size("expert_count")?.is_some_and(|n| n > 0) {
        return Err(Error::io(OP, r.file.path(), "a mixture of experts is not supported"));
    }
    config.insert("mlp_bias".into(), json!(r.file.contains("blk.0.ffn_up.bias")));
    config.insert("rope_theta".into(), json!(r.float("rope.freq_base")?.unwrap_or(10_000.0)));
    if let Some(window) = r.size("attention.sliding_window")?.filter(|&w| w > 0) {
        config.insert("sliding_window".into(), json!(window));
    }
    let mut rope = rope_scaling(r)?.unwrap_or_default();
    let head_dim = config.get("head_dim").and_then(Value::as_u64).unwrap_or(0) as usize;
    if let Some(d) = r.size("rope.dimension_count")?
        && d != head_dim
    {
        rope.insert("partial_rotary_factor".into(), json!(d as f64 / head_dim.max(1) as f64));
    }
    if r.file.contains(ROPE_FACTORS) {
        let Tensor::Dense(factors) = r.file.tensor(ROPE_FACTORS)? else {
            return Err(Error::io(OP, r.file.path(), format!("{ROPE_FACTORS} is packed")));
        };
        let factors: Vec<f32> = factors.astype(Dtype::F32)?.to_vec()?;
        rope.insert("rope_type".into(), json!("factors"));
        rope.insert("factors".into(), json!(factors));
    }
    if !rope.is_empty() {
        config.insert("rope_scaling".into(), Value::Object(rope));
    }
    Ok(())
}

fn gemma3_settings(r: &Reader<'_>, config: &mut Map<String, Value>) -> Result<()> {
    config.insert("rope_theta".into(), json!(r.float("rope.freq_base")?.unwrap_or(1e6)));
    config.insert("rope_local_base_freq".into(), json!(r.float("rope.freq_base_swa")?.unwrap_or(1e4)));
    if let Some(scaling) = rope_scaling(r)? {
        config.insert("rope_scaling".into(), Value::Object(scaling));
    }
    config.insert("sliding_window".into(), json!(r.need("attention.sliding_window")?));
    let get = |config: &Map<String, Value>, key: &str| config.get(key).and_then(Value::as_u64).unwrap_or(0);
    // Not in files. The largest model alone scales queries by its width over its heads.
    let scalar = match get(config, "num_hidden_layers") {
        62 => get(config, "hidden_size") / get(config, "num_attention_heads").max(1),
        _ => get(config, "head_dim"),
    };
    config.insert("query_pre_attn_scalar".into(), json!(scalar));
    if let Some(cap) = r.float("final_logit_softcapping")? {
        config.insert("final_logit_softcapping".into(), json!(cap));
    }
    Ok(())
}

/// `rope_scaling` of config.json.
fn rope_scaling(r: &Reader<'_>) -> Result<Option<Map<String, Value>>> {
    let Some(kind) = r.text("rope.scaling.type")?.filter(|&k| k != "none") else { return Ok(None) };
    let mut scaling = Map::new();
    scaling.insert("rope_type".into(), json!(kind));
    let names = [
        ("rope.scaling.factor", "factor"),
        ("rope.scaling.original_context_length", "original_max_position_embeddings"),
        ("rope.scaling.attn_factor", "attention_factor"),
        ("rope.scaling.yarn_beta_fast", "beta_fast"),
        ("rope.scaling.yarn_beta_slow", "beta_slow"),
    ];
    for (theirs, ours) in names {
        if theirs.ends_with("length") {
            r.size(theirs)?.map(|n| scaling.insert(ours.into(), json!(n)));
        } else {
            r.float(theirs)?.map(|x| scaling.insert(ours.into(), json!(x)));
        }
    }
    Ok(Some(scaling))
}

/// All weights under the checkpoint's names, and the type of activations: `f32` beside packed weights, else
/// that of the embedding.
fn weights(r: &Reader<'_>, names: &Names, config: &Map<String, Value>) -> Result<(Weights, Dtype)> {
    let heads = |key: &str| config.get(key).and_then(Value::as_u64).unwrap_or(1) as usize;
    let (q_heads, kv_heads) = (heads("num_attention_heads"), heads("num_key_value_heads"));
    let mut weights = Weights::new();
    for theirs in r.file.tensor_names() {
        if theirs == ROPE_FACTORS {
            continue;
        }
        let weight = match r.file.tensor(theirs)? {
            Tensor::Dense(a) => Weight::from(a),
            Tensor::Affine { w, scales, biases, group, bits, .. } => {
                Weight::Packed(Packed { words: w, scales, biases, spec: Affine { group, bits } })
            }
        };
        let name = translate(theirs, names);
        let weight = match (names.rows_in_pairs, &name) {
            (true, n) if n.contains("self_attn.q_proj.") => halves_from_pairs(r, theirs, &weight, q_heads)?,
            (true, n) if n.contains("self_attn.k_proj.") => halves_from_pairs(r, theirs, &weight, kv_heads)?,
            _ => weight,
        };
        weights.insert(name, weight);
    }
    let packed = weights.values().any(|w| matches!(w, Weight::Packed(_)));
    let embedding = weights.get("model.embed_tokens.weight").map_or(Dtype::F32, Weight::dtype);
    if !packed {
        return Ok((weights, embedding));
    }
    // The few dense matrices beside packed ones compute in float32 too, and are converted once.
    for w in weights.values_mut() {
        if let Weight::Dense(a) = w
            && a.dtype().is_float()
        {
            a.set(a.astype(Dtype::F32)?);
        }
    }
    Ok((weights, Dtype::F32))
}

/// The checkpoint's name of a tensor; what is not known keeps its own, and is an error when it is loaded.
fn translate(name: &str, names: &Names) -> String {
    let (stem, kind) = name.rsplit_once('.').unwrap_or((name, ""));
    let whole = match stem {
        "token_embd" => Some("model.embed_tokens".to_owned()),
        "output_norm" => Some("model.norm".to_owned()),
        "output" => Some("lm_head".to_owned()),
        _ => stem.strip_prefix("blk.").and_then(|rest| {
            let (layer, part) = rest.split_once('.')?;
            let ours = names.block.iter().find(|(theirs, _)| *theirs == part)?.1;
            Some(format!("model.layers.{layer}.{ours}"))
        }),
    };
    whole.map_or_else(|| name.to_owned(), |stem| format!("{stem}.{kind}"))
}

/// Rows of a query or key projection whose heads have neighbours rotated together, in the order that rotates
/// rows half a head apart. A row keeps its values, packed or not, so the model is the same.
fn halves_from_pairs(r: &Reader<'_>, name: &str, weight: &Weight, heads: usize) -> Result<Weight> {
    weight.map_rows(|a: &Array| {
        let rows = a.dim(0)?;
        if heads == 0 || !rows.is_multiple_of(2 * heads) {
            let msg = format!("tensor {name:?} has {rows} rows, which are not {heads} heads of pairs");
            return Err(Error::io(OP, r.file.path(), msg));
        }
        let rest = a.size() / rows.max(1);
        let pairs = a.reshape(&[heads, rows / heads / 2, 2, rest])?;
        pairs.swapaxes(1, 2)?.reshape(a.shape())
    })
}

fn tokenizer(file: &GgufFile) -> Result<Tokenizer> {
    let m = file.metadata();
    let fail = |e| file.error(e);
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let id = |name: &str| m.get_u32(&key(name)).map_err(fail);
    let flag = |name: &str| m.get_bool(&key(name)).map_err(fail);
    let texts = |name: &str| m.get_strings(&key(name)).map_err(fail);
    let integers = match m.get_array(&key("token_type")).map_err(fail)? {
        Some(a) => a.to_integers().unwrap_or_default(),
        None => Vec::new(),
    };
    let scores = match m.get(&key("scores")) {
        Some(Item::Array(ArrayValue::F32(v))) => v.clone(),
        Some(Item::Array(ArrayValue::F64(v))) => v.iter().map(|&x| x as f32).collect(),
        Some(_) | None => Vec::new(),
    };
    let vocabulary = GgufVocabulary {
        model: m.str(&key("model")).map_err(fail)?,
        pre: m.get_str(&key("pre")).map_err(fail)?,
        tokens: m.strings(&key("tokens")).map_err(fail)?.iter().collect(),
        token_types: integers.into_iter().map(|i| i as i64).collect(),
        scores,
        merges: texts("merges")?.map_or_else(Vec::new, |l| l.iter().collect()),
        bos_id: id("bos_token_id")?,
        eos_id: id("eos_token_id")?,
        eot_id: id("eot_token_id")?,
        eom_id: id("eom_token_id")?,
        unknown_id: id("unknown_token_id")?,
        padding_id: id("padding_token_id")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
        chat_template: m.get_str("tokenizer.chat_template").map_err(fail)?,
    };
    Tokenizer::from_gguf(&vocabulary).map_err(|e| tokenizer_error(file.path(), &e))
}
