//! `olivine info`: what a model file or folder holds, or what devices there are.

use crate::output::{bytes, line};
use crate::{Failure, Outcome};
use clap::Args;
use olivine::{Device, DeviceKind, backend, lm};
use std::path::PathBuf;

#[derive(Args)]
pub struct Arguments {
    /// A GGUF file, or a folder with config.json and safetensors
    #[arg(required_unless_present = "devices")]
    file: Option<PathBuf>,
    /// Say what devices there are instead
    #[arg(long, conflicts_with = "file")]
    devices: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(a: &Arguments) -> Outcome {
    if a.devices {
        return devices(a.json);
    }
    let Some(file) = &a.file else { return Err(Failure::Message("name a file or folder".into())) };
    let info = lm::inspect(file)?;
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

/// The devices of this machine, and why there is no GPU when there is none.
fn devices(json: bool) -> Outcome {
    let mut all = Vec::new();
    for kind in backend::registered() {
        let b = backend::get(Device::new(kind, 0))?;
        for index in 0..b.device_count() {
            let device = Device::new(kind, index as u16);
            all.push((device, b.info(device)?));
        }
    }
    let missing = olivine::gpu().err().map(|e| e.to_string());
    if json {
        let list: Vec<_> = all
            .iter()
            .map(|(d, i)| {
                serde_json::json!({
                    "device": d.to_string(),
                    "name": i.name,
                    "memory_bytes": i.memory,
                    "details": i.details,
                })
            })
            .collect();
        line(&serde_json::json!({ "devices": list, "no_gpu": missing }).to_string())?;
        return Ok(());
    }
    for (device, info) in &all {
        let what = if device.kind == DeviceKind::Cpu { "processor" } else { "GPU" };
        line(&format!("{device:<8} {what} {}, {}", info.name, bytes(info.memory)))?;
        for (name, value) in &info.details {
            line(&format!("         {name}: {value}"))?;
        }
    }
    if let Some(why) = missing {
        line(&format!("no GPU   {why}"))?;
    }
    Ok(())
}
