//! Families of models, one file each, and the registry that finds them by `model_type`.

pub mod gemma3;
pub mod llama;

use crate::LanguageModel;
use olivine_core::{Error, Result};
use olivine_nn::visitors::Weights;
use serde_json::{Value, json};

/// One `model_type` of config.json.
pub struct Architecture {
    /// The name.
    pub model_type: &'static str,
    /// A model without weights from settings.
    pub build: fn(&Value) -> Result<Box<dyn LanguageModel>>,
    /// Brings a checkpoint's names and values to those of the model.
    pub sanitize: fn(Weights) -> Result<Weights>,
    /// Settings that this type has where config.json is silent and that differ from the family's.
    defaults: fn() -> Value,
}

fn boxed<M: LanguageModel + 'static>(model: Result<M>) -> Result<Box<dyn LanguageModel>> {
    Ok(Box::new(model?))
}

static ARCHITECTURES: &[Architecture] = &[
    Architecture {
        model_type: "llama",
        build: |c| boxed(llama::Llama::new(&crate::config::parse(c)?)),
        sanitize: Ok,
        defaults: || json!({}),
    },
    Architecture {
        model_type: "mistral",
        build: |c| boxed(llama::Llama::new(&crate::config::parse(c)?)),
        sanitize: Ok,
        defaults: || {
            json!({"num_key_value_heads": 8, "intermediate_size": 14336, "sliding_window": 4096,
                            "max_position_embeddings": 131072})
        },
    },
    Architecture {
        model_type: "gemma3_text",
        build: |c| boxed(gemma3::Gemma3::new(&crate::config::parse(c)?)),
        sanitize: gemma3::sanitize,
        defaults: || json!({}),
    },
    Architecture {
        model_type: "gemma3",
        build: |c| boxed(gemma3::Gemma3::new(&crate::config::parse(c)?)),
        sanitize: gemma3::sanitize,
        defaults: || json!({}),
    },
];

/// The row of a `model_type`.
///
/// # Errors
/// `Value` that names the supported ones.
pub fn find(model_type: &str) -> Result<&'static Architecture> {
    ARCHITECTURES.iter().find(|a| a.model_type == model_type).ok_or_else(|| {
        let known: Vec<&str> = ARCHITECTURES.iter().map(|a| a.model_type).collect();
        let msg = format!("the architecture {model_type:?} is not supported; {} are", known.join(", "));
        Error::value("load", msg)
    })
}

impl Architecture {
    /// Settings of the language model from config.json: those of its text part where it has several parts,
    /// over the type's own defaults.
    pub fn settings(&self, config: &Value) -> Value {
        let text = config.get("text_config").filter(|v| v.is_object()).unwrap_or(config);
        let mut settings = (self.defaults)();
        if let (Some(into), Some(from)) = (settings.as_object_mut(), text.as_object()) {
            into.extend(from.iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        settings
    }
}
