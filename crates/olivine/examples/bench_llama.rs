//! Tokens per second of a model of the Llama 3 8B shape with made-up weights, so that nothing has to be
//! downloaded: a prompt of 512 tokens, then 128 more one by one, one sequence. Prints medians of several runs.
//!
//! `cargo run --release -p olivine --example bench_llama -- [bf16 | 4 | 8] [LAYERS]`

use olivine::lm::models::llama::{Config, Llama};
use olivine::lm::{KvCache, LanguageModel};
use olivine::nn::{Linear, Module, Packed, Visitor, Weight};
use olivine::op::Affine;
use olivine::{Array, Dtype, Error, Result, async_eval, eval, random};
use std::time::Instant;

const PROMPT: usize = 512;
const TOKENS: usize = 128;
const RUNS: usize = 5;

/// Gives every parameter a value of the size that trained ones have.
struct MadeUp {
    packing: Option<Affine>,
}

impl MadeUp {
    fn normal(shape: &[usize], scale: f64) -> Result<Array> {
        let a = random::normal(shape, Dtype::BF16, 0.0, scale, None)?;
        eval(std::slice::from_ref(&a))?;
        Ok(a)
    }
}

impl Visitor for MadeUp {
    fn array(&mut self, _: &str, array: &mut Array) -> Result<()> {
        *array = if array.shape().rank() == 1 {
            Array::ones(array.shape(), Dtype::BF16)?
        } else {
            MadeUp::normal(array.shape(), 0.02)?
        };
        eval(std::slice::from_ref(array))
    }

    fn linear(&mut self, _: &str, layer: &mut Linear) -> Result<()> {
        let (input, output) = layer.dims();
        layer.weight = match self.packing {
            None => Weight::from(MadeUp::normal(&[output, input], 0.02)?),
            Some(spec) => {
                let words = random::bits(&[output, spec.words(input)], 4, None)?;
                let scales = MadeUp::normal(&[output, input / spec.group], 0.002)?;
                let middle = Array::from_scalar(-((1u32 << spec.bits) as f32) / 2.0).astype(Dtype::BF16)?;
                let biases = scales.multiply(&middle)?;
                eval(&[words.clone(), biases.clone()])?;
                Weight::Packed(Packed { words, scales, biases, spec })
            }
        };
        Ok(())
    }
}

/// The next token's id, sent and not waited for.
fn step(model: &Llama, ids: &Array, caches: &mut [KvCache]) -> Result<Array> {
    let hidden = model.hidden(ids, caches)?;
    let length = hidden.dim(1)?;
    let logits = model.logits(&hidden.slice_axis(1, length - 1, length)?)?;
    let token = logits.argmax(-1, false)?.astype(Dtype::I32)?;
    async_eval(std::slice::from_ref(&token))?;
    Ok(token)
}

/// Seconds of the prompt and of the tokens after it.
fn measure(model: &Llama, prompt: &Array) -> Result<(f64, f64)> {
    let mut caches = model.caches();
    let start = Instant::now();
    let mut token = step(model, prompt, &mut caches)?;
    token.item::<i32>()?;
    let prompt_time = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for _ in 0..TOKENS {
        // The next one is sent before the current one is read, as a generation does.
        let next = step(model, &token, &mut caches)?;
        token.item::<i32>()?;
        token = next;
    }
    token.item::<i32>()?;
    Ok((prompt_time, start.elapsed().as_secs_f64()))
}

fn main() -> Result<()> {
    olivine::register_backends();
    if let Ok(gpu) = olivine::gpu() {
        olivine::set_default_device(gpu)?;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let form = arguments.first().map_or("4", String::as_str);
    let packing = match form {
        "bf16" => None,
        "4" | "8" => Some(Affine { group: 64, bits: if form == "4" { 4 } else { 8 } }),
        other => return Err(Error::value("bench_llama", format!("{other} is none of bf16, 4, 8"))),
    };
    let layers = arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(32);
    let config = Config {
        vocab_size: 128_256,
        hidden_size: 4096,
        intermediate_size: 14_336,
        num_hidden_layers: layers,
        num_attention_heads: 32,
        num_key_value_heads: Some(8),
        max_position_embeddings: 8192,
        rms_norm_eps: 1e-5,
        ..Config::default()
    };
    let mut model = Llama::new(&config)?;
    model.visit("", &mut MadeUp { packing })?;
    let ids: Vec<i32> = (0..PROMPT as i32).map(|i| 1000 + 7919 * i % 100_000).collect();
    let prompt = Array::from_slice(&ids, &[1, PROMPT])?;
    let (mut prompts, mut generations) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let (p, g) = measure(&model, &prompt)?;
        // The first run compiles kernels and fills caches of memory.
        if run > 0 {
            prompts.push(PROMPT as f64 / p);
            generations.push(TOKENS as f64 / g);
        }
    }
    for (what, mut rates) in [("prompt of 512", prompts), ("generation of 128", generations)] {
        rates.sort_by(f64::total_cmp);
        let (least, most) = (rates[0], rates[RUNS - 1]);
        println!(
            "{form}, {layers} layers, {what}: {:.1} tokens/s ({least:.1} to {most:.1})",
            rates[RUNS / 2]
        );
    }
    Ok(())
}
