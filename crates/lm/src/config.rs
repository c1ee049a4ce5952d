//! Settings as config.json spells them, shared by families of models.

use olivine_core::{Error, Result};
use olivine_nn::{Rope, RopeScaling};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A model's settings from JSON.
///
/// # Errors
/// `Value`, naming the architecture and what does not fit.
pub fn parse<C: DeserializeOwned>(config: &Value) -> Result<C> {
    C::deserialize(config).map_err(|e| {
        let name = config.get("model_type").and_then(Value::as_str).unwrap_or("model");
        Error::value("config", format!("the settings of this {name} model are wrong: {e}"))
    })
}

/// Refuses settings that would make no model, before anything is built from them.
pub fn check(what: &str, holds: bool) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::value("config", format!("{what}: this does not hold"))) }
}

/// Refuses heads whose features together are more than any layer has, so that sizes made of them cannot
/// overflow.
pub fn check_heads(heads: usize, features: usize) -> Result<()> {
    match heads.checked_mul(features) {
        Some(n) if n <= 1 << 31 => Ok(()),
        Some(_) | None => Err(Error::value(
            "config",
            format!("{heads} heads of {features} features are more than a layer has"),
        )),
    }
}

/// Rotary embedding: the one or the other spelling of Hugging Face transformers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RopeConfig {
    /// The base, as transformers 4 has it.
    pub rope_theta: Option<f32>,
    /// The stretching, as transformers 4 has it.
    pub rope_scaling: Option<RopeParameters>,
    /// Both, as transformers 5 has it.
    pub rope_parameters: Option<RopeParameters>,
}

/// One kind of rotation.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "names of config.json; see RopeScaling")]
pub struct RopeParameters {
    #[serde(alias = "type")]
    pub rope_type: Option<String>,
    pub rope_theta: Option<f32>,
    pub partial_rotary_factor: Option<f32>,
    pub factor: Option<f32>,
    pub low_freq_factor: Option<f32>,
    pub high_freq_factor: Option<f32>,
    pub original_max_position_embeddings: Option<usize>,
    pub beta_fast: Option<f32>,
    pub beta_slow: Option<f32>,
    pub attention_factor: Option<f32>,
    pub mscale: Option<f32>,
    pub mscale_all_dim: Option<f32>,
    pub truncate: Option<bool>,
    /// Divisor of each frequency (`rope_type` "factors"): not in config.json, but in GGUF files.
    pub factors: Option<Vec<f32>>,
}

impl RopeConfig {
    /// The rotation of heads of `head_dim` features for a model of `context` positions.
    pub fn build(&self, head_dim: usize, base: f32, context: usize) -> Result<Rope> {
        let parameters = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        let base = self.rope_theta.unwrap_or(base);
        parameters.unwrap_or(&RopeParameters::default()).build(head_dim, base, context)
    }
}

impl RopeParameters {
    /// The rotation of heads of `head_dim` features, with `base` where these settings have none, for a model
    /// of `context` positions.
    pub fn build(&self, head_dim: usize, base: f32, context: usize) -> Result<Rope> {
        let base = self.rope_theta.unwrap_or(base);
        // A whole number in sound settings, give or take rounding.
        let dims = (head_dim as f32 * self.partial_rotary_factor.unwrap_or(1.0)).round() as usize;
        Rope::new(dims, base, false, &self.scaling(context)?)
    }

    fn scaling(&self, context: usize) -> Result<RopeScaling> {
        let kind = self.rope_type.as_deref().unwrap_or("default");
        let need = |name: &str, value: Option<f32>| {
            value.ok_or_else(|| Error::value("config", format!("rope of type {kind} lacks {name}")))
        };
        let original_context = self.original_max_position_embeddings.unwrap_or(context);
        Ok(match kind {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: need("factor", self.factor)? },
            "llama3" => RopeScaling::Llama3 {
                factor: need("factor", self.factor)?,
                low_freq_factor: need("low_freq_factor", self.low_freq_factor)?,
                high_freq_factor: need("high_freq_factor", self.high_freq_factor)?,
                original_context,
            },
            "yarn" => {
                let factor = self.factor.unwrap_or(context as f32 / original_context.max(1) as f32);
                // DeepSeek's models say how much longer vectors get by two numbers.
                let length = |m: f32| if factor <= 1.0 { 1.0 } else { 0.1 * m * factor.ln() + 1.0 };
                let given = match (self.mscale, self.mscale_all_dim) {
                    (Some(m), Some(all)) if m != 0.0 && all != 0.0 => Some(length(m) / length(all)),
                    _ => None,
                };
                RopeScaling::Yarn {
                    factor,
                    beta_fast: self.beta_fast.unwrap_or(32.0),
                    beta_slow: self.beta_slow.unwrap_or(1.0),
                    original_context,
                    attention_factor: self.attention_factor.or(given),
                    truncate: self.truncate.unwrap_or(true),
                }
            }
            "factors" => RopeScaling::Divided(self.factors.clone().unwrap_or_default()),
            other => {
                let msg = format!("rope type {other:?} is not supported: default, linear, llama3, yarn are");
                return Err(Error::value("config", msg));
            }
        })
    }
}
