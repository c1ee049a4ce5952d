//! Gemma 3, the text model: <https://arxiv.org/abs/2503.19786>.

use crate::config::{self, RopeConfig, RopeParameters};
use crate::{KvCache, LanguageModel, model};
use olivine_core::ops::Mask;
use olivine_core::{Array, Dtype, Result};
use olivine_nn::visitors::Weights;
use olivine_nn::{Embedding, Linear, Module, RmsNorm, Rope, Weight};
use serde::Deserialize;

/// config.json, or its text part.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "names of config.json")]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: usize,
    pub head_dim: usize,
    pub hidden_activation: String,
    pub max_position_embeddings: usize,
    pub rms_norm_eps: f32,
    pub tie_word_embeddings: bool,
    pub attention_bias: bool,
    pub query_pre_attn_scalar: f32,
    pub sliding_window: usize,
    pub sliding_window_pattern: usize,
    pub layer_types: Option<Vec<String>>,
    pub final_logit_softcapping: Option<f32>,
    pub attn_logit_softcapping: Option<f32>,
    pub use_bidirectional_attention: bool,
    pub rope_local_base_freq: f32,
    pub rope_theta: f32,
    pub rope_scaling: Option<RopeParameters>,
    pub rope_parameters: Option<PerKind>,
}

/// One rotation for each kind of layer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "names of config.json")]
pub struct PerKind {
    pub full_attention: RopeParameters,
    pub sliding_attention: RopeParameters,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            vocab_size: 262_208,
            hidden_size: 2304,
            intermediate_size: 9216,
            num_hidden_layers: 26,
            num_attention_heads: 8,
            num_key_value_heads: 4,
            head_dim: 256,
            hidden_activation: "gelu_pytorch_tanh".into(),
            max_position_embeddings: 131_072,
            rms_norm_eps: 1e-6,
            tie_word_embeddings: true,
            attention_bias: false,
            query_pre_attn_scalar: 256.0,
            sliding_window: 4096,
            sliding_window_pattern: 6,
            layer_types: None,
            final_logit_softcapping: None,
            attn_logit_softcapping: None,
            use_bidirectional_attention: false,
            rope_local_base_freq: 10_000.0,
            rope_theta: 1_000_000.0,
            rope_scaling: None,
            rope_parameters: None,
        }
    }
}

impl Config {
    /// Whether a layer sees a window only. All but one in every `sliding_window_pattern` do.
    fn is_local(&self, layer: usize) -> bool {
        match &self.layer_types {
            Some(types) => types.get(layer).is_some_and(|t| t == "sliding_attention"),
            None => !(layer + 1).is_multiple_of(self.sliding_window_pattern),
        }
    }

    fn rope(&self, local: bool) -> Result<Rope> {
        let (base, scaling) = match &self.rope_parameters {
            Some(p) if local => (self.rope_local_base_freq, Some(&p.sliding_attention)),
            Some(p) => (self.rope_theta, Some(&p.full_attention)),
            None if local => (self.rope_local_base_freq, None),
            None => (self.rope_theta, self.rope_scaling.as_ref()),
        };
        let rope = RopeConfig { rope_scaling: scaling.cloned(), ..Default::default() };
        rope.build(self.head_dim, base, self.max_position_embeddings)
    }

    fn check(&self) -> Result<()> {
        config::check("num_key_value_heads > 0", self.num_key_value_heads > 0)?;
        let grouped = self.num_attention_heads.is_multiple_of(self.num_key_value_heads);
        config::check("num_attention_heads is a multiple of num_key_value_heads", grouped)?;
        config::check_heads(self.num_attention_heads, self.head_dim)?;
        config::check("sliding_window > 0", self.sliding_window > 0)?;
        config::check("sliding_window_pattern > 0", self.sliding_window_pattern > 0)?;
        config::check("query_pre_attn_scalar > 0", self.query_pre_attn_scalar > 0.0)?;
        let gelu = self.hidden_activation == "gelu_pytorch_tanh";
        config::check("hidden_activation is \"gelu_pytorch_tanh\"", gelu)?;
        config::check("attn_logit_softcapping is null", self.attn_logit_softcapping.is_none())?;
        config::check("use_bidirectional_attention is false", !self.use_bidirectional_attention)?;
        let known = |t: &String| t == "sliding_attention" || t == "full_attention";
        let types = self.layer_types.iter().all(|t| t.len() == self.num_hidden_layers && t.iter().all(known));
        config::check("layer_types names \"sliding_attention\" or \"full_attention\" per layer", types)
    }
}

#[derive(Clone, Module)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    q_norm: RmsNorm,
    k_norm: RmsNorm,
    rope: Rope,
    heads: usize,
    kv_heads: usize,
    scale: f32,
}

impl Attention {
    fn new(c: &Config, local: bool) -> Result<Self> {
        let (q, kv) = (c.num_attention_heads * c.head_dim, c.num_key_value_heads * c.head_dim);
        Ok(Self {
            q_proj: Linear::zeros(c.hidden_size, q, c.attention_bias)?,
            k_proj: Linear::zeros(c.hidden_size, kv, c.attention_bias)?,
            v_proj: Linear::zeros(c.hidden_size, kv, c.attention_bias)?,
            o_proj: Linear::zeros(q, c.hidden_size, c.attention_bias)?,
            q_norm: RmsNorm::new(c.head_dim, c.rms_norm_eps)?,
            k_norm: RmsNorm::new(c.head_dim, c.rms_norm_eps)?,
            rope: c.rope(local)?,
            heads: c.num_attention_heads,
            kv_heads: c.num_key_value_heads,
            scale: c.query_pre_attn_scalar.powf(-0.5),
        })
    }

    fn forward(&self, x: &Array, offset: &Array, mask: &Mask, cache: &mut KvCache) -> Result<Array> {
        let q = self.q_norm.forward(&self.q_proj.forward(x)?.split_heads(self.heads)?)?;
        let k = self.k_norm.forward(&self.k_proj.forward(x)?.split_heads(self.kv_heads)?)?;
        let v = self.v_proj.forward(x)?.split_heads(self.kv_heads)?;

        let q = self.rope.forward(&q, offset)?;
        let k = self.rope.forward(&k, offset)?;
        let (k, v) = cache.update(k, v)?;

        let out = Array::scaled_dot_product_attention(&q, &k, &v, self.scale, mask, None)?;
        self.o_proj.forward(&out.merge_heads()?)
    }
}

#[derive(Clone, Module)]
struct Mlp {
    gate_proj: Linear,
    up_proj: Linear,
    down_proj: Linear,
}

impl Mlp {
    fn new(c: &Config) -> Result<Self> {
        Ok(Self {
            gate_proj: Linear::zeros(c.hidden_size, c.intermediate_size, false)?,
            up_proj: Linear::zeros(c.hidden_size, c.intermediate_size, false)?,
            down_proj: Linear::zeros(c.intermediate_size, c.hidden_size, false)?,
        })
    }

    fn forward(&self, x: &Array) -> Result<Array> {
        let gate = self.gate_proj.forward(x)?.gelu_tanh()?;
        self.down_proj.forward(&gate.multiply(&self.up_proj.forward(x)?)?)
    }
}

#[derive(Clone, Module)]
struct Block {
    self_attn: Attention,
    mlp: Mlp,
    input_layernorm: RmsNorm,
    post_attention_layernorm: RmsNorm,
    pre_feedforward_layernorm: RmsNorm,
    post_feedforward_layernorm: RmsNorm,
    local: bool,
}

impl Block {
    fn new(c: &Config, local: bool) -> Result<Self> {
        let norm = || RmsNorm::new(c.hidden_size, c.rms_norm_eps);
        Ok(Self {
            self_attn: Attention::new(c, local)?,
            mlp: Mlp::new(c)?,
            input_layernorm: norm()?,
            post_attention_layernorm: norm()?,
            pre_feedforward_layernorm: norm()?,
            post_feedforward_layernorm: norm()?,
            local,
        })
    }

    fn forward(&self, x: &Array, offset: &Array, mask: &Mask, cache: &mut KvCache) -> Result<Array> {
        let out = self.self_attn.forward(&self.input_layernorm.forward(x)?, offset, mask, cache)?;
        let h = x.add(&self.post_attention_layernorm.forward(&out)?)?;
        let out = self.mlp.forward(&self.pre_feedforward_layernorm.forward(&h)?)?;
        h.add(&self.post_feedforward_layernorm.forward(&out)?)
    }
}

#[derive(Clone, Module)]
struct Backbone {
    embed_tokens: Embedding,
    layers: Vec<Block>,
    norm: RmsNorm,
}

/// The model.
#[derive(Clone, Module)]
pub struct Gemma3 {
    model: Backbone,
    lm_head: Option<Linear>,
    window: usize,
    softcap: Option<f32>,
    embed_scale: f64,
}

impl Gemma3 {
    /// A model without weights.
    pub fn new(c: &Config) -> Result<Self> {
        c.check()?;
        let layers = (0..c.num_hidden_layers).map(|i| Block::new(c, c.is_local(i)));
        let model = Backbone {
            embed_tokens: Embedding::zeros(c.vocab_size, c.hidden_size)?,
            layers: layers.collect::<Result<_>>()?,
            norm: RmsNorm::new(c.hidden_size, c.rms_norm_eps)?,
        };
        let head = (!c.tie_word_embeddings).then(|| Linear::zeros(c.hidden_size, c.vocab_size, false));
        Ok(Self {
            model,
            lm_head: head.transpose()?,
            window: c.sliding_window,
            softcap: c.final_logit_softcapping,
            embed_scale: (c.hidden_size as f64).sqrt(),
        })
    }
}

impl LanguageModel for Gemma3 {
    fn hidden(&self, ids: &Array, caches: &mut [KvCache]) -> Result<Array> {
        let length = model::check("gemma3", ids, caches, self.model.layers.len())?;
        let mut h = self.model.embed_tokens.forward(ids)?.scale(self.embed_scale)?;
        let Some(first) = caches.first() else { return Ok(h) };
        let offset = first.offset()?;
        // One mask for the layers of each kind.
        let of_kind = |local| self.model.layers.iter().position(|l| l.local == local);
        let mask_of = |local| of_kind(local).map_or(Ok(Mask::None), |i| caches[i].mask(length));
        let (global, local) = (mask_of(false)?, mask_of(true)?);
        for (layer, cache) in self.model.layers.iter().zip(caches) {
            h = layer.forward(&h, &offset, if layer.local { &local } else { &global }, cache)?;
        }
        self.model.norm.forward(&h)
    }

    fn logits(&self, hidden: &Array) -> Result<Array> {
        let logits = match &self.lm_head {
            Some(head) => head.forward(hidden)?,
            None => self.model.embed_tokens.as_linear(hidden)?,
        };
        match self.softcap {
            Some(cap) => logits.scale(1.0 / cap as f64)?.tanh()?.scale(cap as f64),
            None => Ok(logits),
        }
    }

    fn caches(&self) -> Vec<KvCache> {
        let cache = |l: &Block| if l.local { KvCache::rotating(self.window) } else { KvCache::full() };
        self.model.layers.iter().map(cache).collect()
    }
}

/// Checkpoints store the factors of norms minus one, and beside the text model perhaps a vision model.
pub fn sanitize(weights: Weights) -> Result<Weights> {
    let mut out = Weights::new();
    for (name, weight) in weights {
        let name = match name.split_once("language_model.") {
            // `language_model.model.layers…` in older files, `model.language_model.layers…` in newer ones.
            Some(("", rest)) => rest.to_owned(),
            Some((before, rest)) => format!("{before}{rest}"),
            None => name,
        };
        if ["vision_tower.", "multi_modal_projector."].iter().any(|part| name.contains(part)) {
            continue;
        }
        let weight = match weight {
            // In float32, as the reference does: near one a bfloat16 has only two digits.
            Weight::Dense(w) if name.ends_with("norm.weight") => {
                let w = w.astype(Dtype::F32)?;
                Weight::from(w.add(&w.scalar_like(1.0))?)
            }
            w => w,
        };
        out.insert(name, weight);
    }
    Ok(out)
}
