//! Llama and its kin, such as Mistral and SmolLM: <https://arxiv.org/abs/2302.13971>.

use crate::config::{self, RopeConfig};
use crate::{KvCache, LanguageModel, model};
use olivine_core::ops::Mask;
use olivine_core::{Array, Result};
use olivine_nn::{Embedding, Linear, Module, RmsNorm, Rope};
use serde::Deserialize;

/// config.json.
#[derive(Debug, Clone, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "names of config.json")]
pub struct Config {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_hidden_layers: usize,
    pub num_attention_heads: usize,
    pub num_key_value_heads: Option<usize>,
    pub head_dim: Option<usize>,
    pub hidden_act: String,
    pub max_position_embeddings: usize,
    pub rms_norm_eps: f32,
    pub tie_word_embeddings: bool,
    pub attention_bias: bool,
    pub mlp_bias: bool,
    pub sliding_window: Option<usize>,
    #[serde(flatten)]
    pub rope: RopeConfig,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            vocab_size: 32000,
            hidden_size: 4096,
            intermediate_size: 11008,
            num_hidden_layers: 32,
            num_attention_heads: 32,
            num_key_value_heads: None,
            head_dim: None,
            hidden_act: "silu".into(),
            max_position_embeddings: 2048,
            rms_norm_eps: 1e-6,
            tie_word_embeddings: false,
            attention_bias: false,
            mlp_bias: false,
            sliding_window: None,
            rope: RopeConfig::default(),
        }
    }
}

impl Config {
    fn kv_heads(&self) -> usize {
        self.num_key_value_heads.unwrap_or(self.num_attention_heads)
    }

    fn head_dim(&self) -> usize {
        self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads)
    }

    fn check(&self) -> Result<()> {
        config::check("num_attention_heads > 0", self.num_attention_heads > 0)?;
        config::check("num_key_value_heads > 0", self.kv_heads() > 0)?;
        let grouped = self.num_attention_heads.is_multiple_of(self.kv_heads());
        config::check("num_attention_heads is a multiple of num_key_value_heads", grouped)?;
        config::check_heads(self.num_attention_heads, self.head_dim())?;
        config::check("sliding_window > 0", self.sliding_window != Some(0))?;
        config::check("hidden_act is \"silu\"", self.hidden_act == "silu")
    }
}

#[derive(Clone, Module)]
struct Attention {
    q_proj: Linear,
    k_proj: Linear,
    v_proj: Linear,
    o_proj: Linear,
    rope: Rope,
    heads: usize,
    kv_heads: usize,
    scale: f32,
}

impl Attention {
    fn new(c: &Config) -> Result<Self> {
        let (hidden, head) = (c.hidden_size, c.head_dim());
        let (q, kv) = (c.num_attention_heads * head, c.kv_heads() * head);
        Ok(Self {
            q_proj: Linear::zeros(hidden, q, c.attention_bias)?,
            k_proj: Linear::zeros(hidden, kv, c.attention_bias)?,
            v_proj: Linear::zeros(hidden, kv, c.attention_bias)?,
            o_proj: Linear::zeros(q, hidden, c.attention_bias)?,
            rope: c.rope.build(head, 10_000.0, c.max_position_embeddings)?,
            heads: c.num_attention_heads,
            kv_heads: c.kv_heads(),
            scale: (head as f32).powf(-0.5),
        })
    }

    fn forward(&self, x: &Array, offset: &Array, mask: &Mask, cache: &mut KvCache) -> Result<Array> {
        let q = self.q_proj.forward(x)?.split_heads(self.heads)?;
        let k = self.k_proj.forward(x)?.split_heads(self.kv_heads)?;
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
            gate_proj: Linear::zeros(c.hidden_size, c.intermediate_size, c.mlp_bias)?,
            up_proj: Linear::zeros(c.hidden_size, c.intermediate_size, c.mlp_bias)?,
            down_proj: Linear::zeros(c.intermediate_size, c.hidden_size, c.mlp_bias)?,
        })
    }

    fn forward(&self, x: &Array) -> Result<Array> {
        let gate = self.gate_proj.forward(x)?.silu()?;
        self.down_proj.forward(&gate.multiply(&self.up_proj.forward(x)?)?)
    }
}

#[derive(Clone, Module)]
struct Block {
    self_attn: Attention,
    mlp: Mlp,
    input_layernorm: RmsNorm,
    post_attention_layernorm: RmsNorm,
}

impl Block {
    fn new(c: &Config) -> Result<Self> {
        Ok(Self {
            self_attn: Attention::new(c)?,
            mlp: Mlp::new(c)?,
            input_layernorm: RmsNorm::new(c.hidden_size, c.rms_norm_eps)?,
            post_attention_layernorm: RmsNorm::new(c.hidden_size, c.rms_norm_eps)?,
        })
    }

    fn forward(&self, x: &Array, offset: &Array, mask: &Mask, cache: &mut KvCache) -> Result<Array> {
        let normed = self.input_layernorm.forward(x)?;
        let h = x.add(&self.self_attn.forward(&normed, offset, mask, cache)?)?;
        let normed = self.post_attention_layernorm.forward(&h)?;
        h.add(&self.mlp.forward(&normed)?)
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
pub struct Llama {
    model: Backbone,
    lm_head: Option<Linear>,
    window: Option<usize>,
}

impl Llama {
    /// A model without weights.
    pub fn new(c: &Config) -> Result<Self> {
        c.check()?;
        let model = Backbone {
            embed_tokens: Embedding::zeros(c.vocab_size, c.hidden_size)?,
            layers: (0..c.num_hidden_layers).map(|_| Block::new(c)).collect::<Result<_>>()?,
            norm: RmsNorm::new(c.hidden_size, c.rms_norm_eps)?,
        };
        let head = (!c.tie_word_embeddings).then(|| Linear::zeros(c.hidden_size, c.vocab_size, false));
        Ok(Self { model, lm_head: head.transpose()?, window: c.sliding_window })
    }
}

impl LanguageModel for Llama {
    fn hidden(&self, ids: &Array, caches: &mut [KvCache]) -> Result<Array> {
        let length = model::check("llama", ids, caches, self.model.layers.len())?;
        let mut h = self.model.embed_tokens.forward(ids)?;
        let Some(first) = caches.first() else { return Ok(h) };
        let (offset, mask) = (first.offset()?, first.mask(length)?);
        for (layer, cache) in self.model.layers.iter().zip(caches) {
            h = layer.forward(&h, &offset, &mask, cache)?;
        }
        self.model.norm.forward(&h)
    }

    fn logits(&self, hidden: &Array) -> Result<Array> {
        match &self.lm_head {
            Some(head) => head.forward(hidden),
            None => self.model.embed_tokens.as_linear(hidden),
        }
    }

    fn caches(&self) -> Vec<KvCache> {
        self.model.layers.iter().map(|_| self.window.map_or_else(KvCache::full, KvCache::rotating)).collect()
    }
}
