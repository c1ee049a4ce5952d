//! Tiny random checkpoints against the logits that transformers gives for them.

mod common;
#[path = "common/temp.rs"]
mod temp;

use common::data;
use olivine_core::{Array, Device, Stream, eval, io::load_safetensors};
use olivine_lm::{KvCache, LanguageModel, Loaded, load};
use serde_json::Value;
use std::path::Path;
use temp::TempDir;

const CHECKPOINTS: [&str; 3] = ["tiny_llama", "tiny_llama_scaled", "tiny_gemma3"];

struct Expected {
    ids: Vec<u32>,
    next: u32,
    prompt: Vec<f32>,
    step: Vec<f32>,
}

fn expected(name: &str) -> Expected {
    let text = std::fs::read_to_string(data(name).join("expected.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let ids = json["prompt_ids"].as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect();
    let logits = load_safetensors(data(name).join("expected.safetensors")).unwrap().tensors;
    Expected {
        ids,
        next: json["next_id"].as_u64().unwrap() as u32,
        prompt: logits["prompt_logits"].to_vec().unwrap(),
        step: logits["step_logits"].to_vec().unwrap(),
    }
}

fn open(path: &Path) -> Loaded {
    olivine_cpu::register();
    load(path).unwrap()
}

fn row(ids: &[u32]) -> Array {
    Array::from_slice(ids, &[1, ids.len()]).unwrap()
}

fn assert_close(name: &str, found: &Array, expected: &[f32], tolerance: f32) {
    let found: Vec<f32> = found.to_vec().unwrap();
    assert_eq!(found.len(), expected.len(), "{name}");
    let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= tolerance, "{name}: differs by {worst}");
}

fn logits_are_those_of_transformers(name: &str, path: &Path) {
    let e = expected(name);
    let model = open(path).model;
    let mut caches = model.caches();
    let prompt = model.forward(&row(&e.ids), &mut caches).unwrap();
    assert_close(name, &prompt, &e.prompt, 1e-4);
    let step = model.forward(&row(&[e.next]), &mut caches).unwrap();
    assert_close(name, &step, &e.step, 1e-4);
}

#[test]
fn logits_are_those_of_transformers_in_the_new_spelling() {
    for name in CHECKPOINTS {
        logits_are_those_of_transformers(name, &data(name));
    }
}

#[test]
fn logits_are_those_of_transformers_in_the_old_spelling() {
    for name in CHECKPOINTS {
        let copy = TempDir::copy_of(name);
        std::fs::copy(data(name).join("config_v4.json"), copy.0.join("config.json")).unwrap();
        logits_are_those_of_transformers(name, &copy.0);
    }
}

/// Logits of all positions of `ids`, taken in by parts of the given lengths.
fn by_parts(model: &dyn LanguageModel, ids: &[u32], lengths: &[usize]) -> Array {
    let mut caches = model.caches();
    let mut rest = ids;
    let mut parts = Vec::new();
    for &n in lengths.iter().cycle() {
        let (part, tail) = rest.split_at(n.min(rest.len()));
        parts.push(model.forward(&row(part), &mut caches).unwrap());
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    Array::concatenate(&parts, 1).unwrap()
}

#[test]
fn a_prompt_by_parts_gives_the_logits_of_the_whole() {
    for name in CHECKPOINTS {
        let e = expected(name);
        let model = open(&data(name)).model;
        // One by one, chunks shorter and longer than the window of 12, and mixtures that wrap its ring.
        for lengths in [&[1][..], &[7], &[16], &[39, 1], &[13, 1, 1, 1, 5], &[1, 12, 1]] {
            let logits = by_parts(&*model, &e.ids, lengths);
            assert_close(&format!("{name} by {lengths:?}"), &logits, &e.prompt, 1e-4);
        }
    }
}

#[test]
fn rows_of_a_batch_with_padding_at_the_left_are_those_of_single_sequences() {
    for name in CHECKPOINTS {
        let e = expected(name);
        let model = open(&data(name)).model;
        let lengths = [40usize, 1, 15, 33];
        let steps = 20;
        let next = |row: usize, step: usize| (6 + (row * 31 + step * 17) % 300) as u32;

        // Single sequences.
        let alone: Vec<Vec<Array>> = (0..lengths.len())
            .map(|r| {
                let mut caches = model.caches();
                let last = |logits: Array| {
                    let n = logits.dim(1).unwrap();
                    logits.slice_axis(1, n - 1, n).unwrap()
                };
                let mut out = vec![last(model.forward(&row(&e.ids[..lengths[r]]), &mut caches).unwrap())];
                for s in 0..steps {
                    out.push(model.forward(&row(&[next(r, s)]), &mut caches).unwrap());
                }
                out
            })
            .collect();

        let padding: Vec<usize> = lengths.iter().map(|n| 40 - n).collect();
        // In one chunk, and in chunks of which the first holds only padding for some rows.
        for chunks in [&[40usize][..], &[5, 34, 1], &[20, 20]] {
            let mut caches: Vec<KvCache> = model.caches();
            caches.iter_mut().for_each(|c| c.set_left_padding(&padding).unwrap());
            let mut at = 0;
            let mut last = None;
            for &n in chunks {
                let ids: Vec<u32> = padding
                    .iter()
                    .flat_map(|&pad| (at..at + n).map(move |i| i.checked_sub(pad)))
                    .map(|i| i.map_or(0, |i| e.ids[i]))
                    .collect();
                let ids = Array::from_slice(&ids, &[lengths.len(), n]).unwrap();
                last = Some(model.forward(&ids, &mut caches).unwrap().slice_axis(1, n - 1, n).unwrap());
                at += n;
            }
            let mut batch = vec![last.unwrap()];
            for s in 0..steps {
                let ids: Vec<u32> = (0..lengths.len()).map(|r| next(r, s)).collect();
                let ids = Array::from_slice(&ids, &[lengths.len(), 1]).unwrap();
                batch.push(model.forward(&ids, &mut caches).unwrap());
            }
            for (s, all) in batch.iter().enumerate() {
                for (r, single) in alone.iter().enumerate() {
                    let found = all.slice_axis(0, r, r + 1).unwrap();
                    let what = format!("{name} by {chunks:?}, row {r}, step {s}");
                    assert_close(&what, &found, &single[s].to_vec::<f32>().unwrap(), 1e-4);
                }
            }
        }
    }
}

#[test]
fn trimmed_caches_go_on_as_if_the_trimmed_ids_had_not_been() {
    for name in CHECKPOINTS {
        let e = expected(name);
        let model = open(&data(name)).model;
        let mut caches = model.caches();
        model.forward(&row(&e.ids[..8]), &mut caches).unwrap();
        model.forward(&row(&[9, 10, 11]), &mut caches).unwrap();
        eval(&caches.iter().flat_map(KvCache::arrays).collect::<Vec<_>>()).unwrap();
        caches.iter_mut().for_each(|c| c.trim(3).unwrap());
        let rest = model.forward(&row(&e.ids[8..]), &mut caches).unwrap();
        let vocabulary = e.step.len();
        assert_close(name, &rest, &e.prompt[8 * vocabulary..], 1e-4);
    }
}

#[test]
fn what_does_not_fit_a_model_is_an_error() {
    let model = open(&data("tiny_llama")).model;
    let mut caches = model.caches();
    let e = model.forward(&row(&[1]), &mut caches[..1]).unwrap_err();
    assert_eq!(e.to_string(), "[llama] 1 caches for 2 layers");
    let flat = Array::from_slice(&[1u32, 2], &[2]).unwrap();
    let e = model.forward(&flat, &mut caches).unwrap_err();
    assert_eq!(e.to_string(), "[llama] ids are [batch, length], got shape (2,)");
    // The vocabulary has 320 ids. On a stream of its own, whose error no other test of this process sees.
    Stream::new(Device::CPU).unwrap().scope(|| {
        let e = model.forward(&row(&[320]), &mut caches).unwrap().eval().unwrap_err();
        assert!(matches!(e, olivine_core::Error::Index { .. }), "{e}");
    });
}
