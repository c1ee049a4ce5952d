//! `olivine info`: what a model file or folder holds.

use crate::Outcome;
use crate::output::{bytes, line};
use clap::Args;
use olivine::lm;
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// A GGUF file, or a folder with config.json and safetensors
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(a: &Arguments) -> Outcome {
    let info = lm::inspect(&a.file)?;
    let context = info.context_length;
    let cache = info.kv_bytes_per_token.saturating_mul(context);
    if a.json {
        let forms: Vec<_> = info
            .quantization
            .iter()
            .map(|(form, b)| serde_json::json!({ "form": form, "bytes": b }))
            .collect();
        let report = serde_json::json!({
            "path": info.path.display().to_string(),
            "architecture": info.architecture,
            "parameters": info.parameters,
            "weights": forms,
            "weight_bytes": info.weight_bytes,
            "kv_bytes_per_token": info.kv_bytes_per_token,
            "context_length": context,
            "vocab_size": info.vocab_size,
            "dtype": info.dtype.to_string(),
            "memory_bytes": info.weight_bytes.saturating_add(cache),
        });
        line(&report.to_string())?;
        return Ok(());
    }
    line(&format!("file           {}", info.path.display()))?;
    line(&format!("architecture   {}", info.architecture))?;
    line(&format!("parameters     {:.1} M", info.parameters as f64 / 1e6))?;
    line(&format!("vocabulary     {} tokens", info.vocab_size))?;
    line(&format!("context        {context} tokens"))?;
    line(&format!("activations    {}", info.dtype))?;
    for (i, (form, size)) in info.quantization.iter().enumerate() {
        line(&format!("{:<14} {form}: {}", if i == 0 { "weights" } else { "" }, bytes(*size)))?;
    }
    line(&format!(
        "memory         {} for weights, {} for each token of context, {} with a full context",
        bytes(info.weight_bytes),
        bytes(info.kv_bytes_per_token),
        bytes(info.weight_bytes.saturating_add(cache))
    ))?;
    Ok(())
}
