//! Folders as Hugging Face publishes them.

use super::Checkpoint;
use olivine_core::io::load_safetensors;
use olivine_core::op::Affine;
use olivine_core::{Array, Dtype, Error, Result};
use olivine_nn::visitors::Weights;
use olivine_nn::{Packed, Weight};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

const OP: &str = "load";

pub(super) fn open(folder: &Path) -> Result<Checkpoint> {
    let config = folder.join("config.json");
    if !config.is_file() {
        return Err(Error::io(OP, folder, "there is no config.json, so this is not the folder of a model"));
    }
    let config = json(&config)?;
    let arrays = arrays(folder)?;
    let weights = pack(arrays, &config)?;
    Ok(Checkpoint { path: folder.to_owned(), config, weights, sane: false, dtype: None })
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(OP, path, e))?;
    let value: Value = serde_json::from_str(&text).map_err(|e| Error::io(OP, path, e))?;
    if value.is_object() { Ok(value) } else { Err(Error::io(OP, path, "this is no JSON object")) }
}

/// All arrays of the folder: those of the shards that the index names, or of the one file.
fn arrays(folder: &Path) -> Result<BTreeMap<String, Array>> {
    let index = folder.join("model.safetensors.index.json");
    if !index.is_file() {
        let file = folder.join("model.safetensors");
        if !file.is_file() {
            let msg = "there is neither model.safetensors nor model.safetensors.index.json";
            return Err(Error::io(OP, folder, msg));
        }
        return Ok(load_safetensors(&file)?.tensors);
    }
    let content = json(&index)?;
    let Some(map) = content.get("weight_map").and_then(Value::as_object) else {
        return Err(Error::io(OP, &index, "there is no \"weight_map\""));
    };
    let mut shards = BTreeSet::new();
    for (name, shard) in map {
        // A file of this folder and no other.
        let inside = |s: &&str| {
            let mut parts = Path::new(s).components();
            matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None))
        };
        let Some(shard) = shard.as_str().filter(inside) else {
            return Err(Error::io(
                OP,
                &index,
                format!("the shard of {name:?} is {shard}, no name of a file"),
            ));
        };
        shards.insert(shard);
    }
    let mut arrays = BTreeMap::new();
    for shard in shards {
        let path = folder.join(shard);
        for (name, array) in load_safetensors(&path)?.tensors {
            if map.get(&name).and_then(Value::as_str) == Some(shard) {
                arrays.insert(name, array);
            }
        }
    }
    if let Some(name) = map.keys().find(|name| !arrays.contains_key(*name)) {
        return Err(Error::io(OP, &index, format!("the shard of {name:?} does not hold it")));
    }
    Ok(arrays)
}

/// Puts packed weights together: `x.weight` in `u32` with `x.scales` and `x.biases`, as MLX writes them,
/// group size and bits under `quantization` in config.json.
fn pack(mut arrays: BTreeMap<String, Array>, config: &Value) -> Result<Weights> {
    let owners: Vec<String> =
        arrays.keys().filter_map(|n| n.strip_suffix(".scales")).map(str::to_owned).collect();
    let mut weights = Weights::new();
    for owner in owners {
        let settings = config.get("quantization").or(config.get("quantization_config"));
        let own = settings.and_then(|s| s.get(&owner)).filter(|s| s.is_object());
        let number = |key: &str| {
            let of = |s: Option<&Value>| s.and_then(|s| s.get(key)).and_then(Value::as_u64);
            of(own).or(of(settings)).ok_or_else(|| {
                let msg = format!("{owner} is packed, but config.json has no quantization.{key}");
                Error::value(OP, msg)
            })
        };
        let group = number("group_size")? as usize;
        let bits = number("bits")?;
        let bits = u8::try_from(bits).map_err(|_| Error::value(OP, format!("{owner} has {bits} bits")))?;
        let mut part = |suffix: &str| {
            let name = format!("{owner}.{suffix}");
            arrays
                .remove(&name)
                .ok_or_else(|| Error::value(OP, format!("{owner} is packed, but {name} is missing")))
        };
        let (words, scales, biases) = (part("weight")?, part("scales")?, part("biases")?);
        let packed = Packed { words, scales, biases, spec: Affine { group, bits } };
        // What does not fit together is an error here, with a name, rather than at the first use.
        packed
            .words
            .dequantize(&packed.scales, &packed.biases, group, bits, Dtype::F32)
            .map_err(|e| Error::value(OP, format!("{owner}: {e}")))?;
        weights.insert(format!("{owner}.weight"), Weight::Packed(packed));
    }
    weights.extend(arrays.into_iter().map(|(name, a)| (name, Weight::from(a))));
    Ok(weights)
}
