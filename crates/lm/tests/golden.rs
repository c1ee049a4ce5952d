//! Two published GGUF models against what transformers says about them (scripts/references/generate.py).

mod common;

use olivine_core::{Array, Result};
use olivine_lm::{GenerateOptions, Loaded, Stats, generate, load};
use serde::Deserialize;
use std::path::PathBuf;

#[derive(Deserialize)]
struct References {
    eos_id: u32,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    text: String,
    chat: bool,
    prompt: String,
    prompt_ids: Vec<u32>,
    continuation: Vec<u32>,
    eos_at: Option<usize>,
    gaps: Vec<f32>,
    logits: Logits,
}

#[derive(Deserialize)]
struct Logits {
    min: f32,
    max: f32,
    top_ids: Vec<usize>,
    top_values: Vec<f32>,
    sample_ids: Vec<usize>,
    sample_values: Vec<f32>,
}

/// Below this gap between the best two logits either may be chosen.
const TIE: f32 = 0.02;

fn open(name: &str) -> (Loaded, References) {
    olivine_cpu::register();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join(".cache/models").join(format!("{name}.gguf"));
    assert!(path.exists(), "{} is missing: run `cargo xtask fetch`", path.display());
    let text = std::fs::read_to_string(common::data(&format!("{name}.json"))).unwrap();
    (load(&path).unwrap(), serde_json::from_str(&text).unwrap())
}

fn logits(loaded: &Loaded, ids: &[u32]) -> Vec<f32> {
    let ids = Array::from_slice(ids, &[1, ids.len()]).unwrap();
    let hidden = loaded.model.hidden(&ids, &mut loaded.model.caches()).unwrap();
    let n = hidden.dim(1).unwrap();
    loaded.model.logits(&hidden.slice_axis(1, n - 1, n).unwrap()).unwrap().to_vec().unwrap()
}

fn last_logits(name: &str) {
    let (loaded, references) = open(name);
    let mut report = String::new();
    let mut worst: f32 = 0.0;
    for case in &references.cases {
        let found = logits(&loaded, &case.prompt_ids);
        let l = &case.logits;
        let ids = l.top_ids.iter().chain(&l.sample_ids);
        let values = l.top_values.iter().chain(&l.sample_values);
        let off = ids.zip(values).map(|(&id, v)| (found[id] - v).abs()).fold(0.0, f32::max);
        let part = off / (l.max - l.min);
        report += &format!("{}: {part:.1e} of the range\n", case.name);
        worst = worst.max(part);
    }
    assert!(worst <= 2e-3, "{name}: {report}");
}

/// The greedy continuation, all 64 tokens whatever ends a sequence.
fn continuation(loaded: &Loaded, ids: &[u32], chunk: usize) -> Result<(Vec<u32>, Stats)> {
    let options =
        GenerateOptions { max_tokens: 64, ignore_eos: true, prefill_chunk: chunk, ..Default::default() };
    let mut generation = generate(&*loaded.model, &loaded.tokenizer, ids, options)?;
    let tokens = generation.by_ref().map(|s| s.map(|s| s.token)).collect::<Result<Vec<_>>>()?;
    Ok((tokens, generation.stats().clone()))
}

fn greedy(name: &str) {
    let (loaded, references) = open(name);
    for case in &references.cases {
        let (tokens, stats) = continuation(&loaded, &case.prompt_ids, 512).unwrap();
        assert_eq!(tokens.len(), case.continuation.len());
        assert_eq!((stats.prompt_tokens, stats.generation_tokens), (case.prompt_ids.len(), 64));
        if let Some(at) = tokens.iter().zip(&case.continuation).position(|(a, b)| a != b) {
            let gap = case.gaps[at];
            let what =
                format!("{name}, {}: token {at} is {}, not {}", case.name, tokens[at], case.continuation[at]);
            assert!(gap < TIE, "{what}, and the best two logits are {gap} apart");
            println!("{what}; a tie of {gap}");
        }
    }
}

fn tokenizer(name: &str) {
    let (loaded, references) = open(name);
    assert!(loaded.tokenizer.eos_ids().contains(&references.eos_id), "{:?}", loaded.tokenizer.eos_ids());
    for case in &references.cases {
        let ids = loaded.tokenizer.encode(&case.text, !case.chat).unwrap();
        assert_eq!(ids, case.prompt_ids, "{name}, {}: {}", case.name, case.prompt);
    }
}

/// Through the end of the sequence, as a user sees it.
fn ends(name: &str) {
    let (loaded, references) = open(name);
    for case in &references.cases {
        let Some(at) = case.eos_at else { continue };
        if case.gaps[..=at].iter().any(|&g| g < TIE) {
            continue;
        }
        let options = GenerateOptions { max_tokens: 64, ..Default::default() };
        let mut generation = generate(&*loaded.model, &loaded.tokenizer, &case.prompt_ids, options).unwrap();
        let text: String = generation.by_ref().map(|s| s.unwrap().text).collect();
        assert_eq!(text, loaded.tokenizer.decode(&case.continuation[..at], true).unwrap());
        assert_eq!(generation.stats().finish_reason.unwrap().as_str(), "stop");
        assert_eq!(generation.stats().generation_tokens, at + 1);
    }
}

#[test]
fn smollm2_last_logits() {
    last_logits("smollm2");
}

#[test]
fn gemma3_last_logits() {
    last_logits("gemma3");
}

#[test]
fn smollm2_greedy_continuations() {
    greedy("smollm2");
}

#[test]
fn gemma3_greedy_continuations() {
    greedy("gemma3");
}

#[test]
fn prompts_become_the_ids_that_transformers_gives() {
    tokenizer("smollm2");
    tokenizer("gemma3");
}

#[test]
fn generation_stops_where_the_model_ends_the_sequence() {
    ends("smollm2");
}
