//! Files that make no model.

mod common;
#[path = "common/temp.rs"]
mod temp;

use olivine_core::Error;
use olivine_core::io::{load_safetensors, save_safetensors};
use olivine_lm::load;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use temp::TempDir;

fn error(path: &Path) -> Error {
    olivine_cpu::register();
    match load(path) {
        Err(e) => e,
        Ok(_) => panic!("{} was loaded", path.display()),
    }
}

fn edit_config(folder: &Path, edit: impl FnOnce(&mut Value)) {
    let path = folder.join("config.json");
    let mut config: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    edit(&mut config);
    fs::write(&path, config.to_string()).unwrap();
}

#[test]
fn nothing_there() {
    let folder = TempDir::new();
    let e = error(&folder.0.join("nowhere.gguf"));
    assert!(e.to_string().ends_with("nowhere.gguf: there is no such file or folder"), "{e}");
    let e = error(&folder.0);
    assert!(e.to_string().ends_with("there is no config.json, so this is not the folder of a model"), "{e}");
    fs::write(folder.0.join("config.json"), "{}").unwrap();
    let e = error(&folder.0);
    assert!(
        e.to_string().ends_with("there is neither model.safetensors nor model.safetensors.index.json"),
        "{e}"
    );
}

#[test]
fn an_unknown_architecture_names_the_known_ones() {
    let folder = TempDir::copy_of("tiny_llama");
    edit_config(&folder.0, |c| c["model_type"] = json!("gpt5"));
    assert_eq!(
        error(&folder.0).to_string(),
        "[load] the architecture \"gpt5\" is not supported; llama, mistral, gemma3_text, gemma3 are"
    );
    edit_config(&folder.0, |c| c["model_type"] = json!(null));
    assert!(error(&folder.0).to_string().ends_with("the settings have no \"model_type\""));
}

#[test]
fn settings_that_make_no_model() {
    let cases: &[(&str, Value, &str)] = &[
        ("num_attention_heads", json!(0), "num_attention_heads > 0: this does not hold"),
        (
            "num_key_value_heads",
            json!(3),
            "num_attention_heads is a multiple of num_key_value_heads: this does not hold",
        ),
        ("head_dim", json!(13), "rotates pairs of features, got 13 features"),
        ("vocab_size", json!("many"), "invalid type: string \"many\""),
        ("hidden_size", json!(u64::MAX), "more elements than memory can hold"),
        ("num_hidden_layers", json!(1u64 << 40), "1099511627776 layers, but only"),
        ("hidden_act", json!("relu"), "hidden_act is \"silu\": this does not hold"),
        ("rope_parameters", json!({"rope_type": "magic"}), "rope type \"magic\" is not supported"),
        ("rope_parameters", json!({"rope_type": "linear"}), "rope of type linear lacks factor"),
        ("rope_parameters", json!({"rope_theta": -1.0}), "base is a positive number, got -1"),
    ];
    for (key, value, wanted) in cases {
        let folder = TempDir::copy_of("tiny_llama");
        edit_config(&folder.0, |c| c[*key] = value.clone());
        let e = error(&folder.0).to_string();
        assert!(e.contains(wanted), "{key} {value}: {e}");
    }
}

#[test]
fn weights_that_are_not_the_models() {
    let folder = TempDir::copy_of("tiny_llama");
    edit_config(&folder.0, |c| c["intermediate_size"] = json!(81));
    let e = error(&folder.0).to_string();
    let wanted = "6 parameters are of another shape: model.layers.0.mlp.gate_proj.weight (80, 48) where the \
                  model has (81, 48), ";
    assert!(e.contains(wanted), "{e}");

    let folder = TempDir::copy_of("tiny_llama");
    let file = folder.0.join("model.safetensors");
    let mut tensors = load_safetensors(&file).unwrap().tensors;
    let norm = tensors.remove("model.norm.weight").unwrap();
    tensors.insert("model.extra.weight".into(), norm);
    let other = folder.0.join("other.safetensors");
    olivine_cpu::register();
    save_safetensors(&other, &tensors, &BTreeMap::new()).unwrap();
    fs::rename(&other, &file).unwrap();
    let e = error(&folder.0).to_string();
    let wanted =
        "1 parameters are missing: model.norm.weight; 1 parameters are unexpected: model.extra.weight";
    assert!(e.contains(wanted), "{e}");
}

#[test]
fn shards_that_are_not_whole() {
    let folder = TempDir::copy_of("tiny_llama_scaled");
    fs::remove_file(folder.0.join("model-00002-of-00002.safetensors")).unwrap();
    let e = error(&folder.0);
    assert!(matches!(e, Error::Io { .. }) && e.to_string().contains("model-00002-of-00002"), "{e}");

    let folder = TempDir::copy_of("tiny_llama_scaled");
    let index = folder.0.join("model.safetensors.index.json");
    let mut content: Value = serde_json::from_str(&fs::read_to_string(&index).unwrap()).unwrap();
    content["weight_map"]["lm_head.weight"] = json!("../../etc/passwd");
    fs::write(&index, content.to_string()).unwrap();
    let e = error(&folder.0).to_string();
    assert!(e.contains("\"../../etc/passwd\", no name of a file"), "{e}");
}
