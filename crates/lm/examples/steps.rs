//! Where the time of a generated token goes: building the graph, and running it.
//!
//! `cargo run --release -p olivine-lm --example steps -- MODEL [PROMPT_TOKENS] [TOKENS]`

use olivine_core::{Array, Result, eval};
use olivine_lm::{GenerateOptions, generate, load};
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    olivine_cpu::register();
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_default();
    let mut number = |default| arguments.next().and_then(|a| a.parse().ok()).unwrap_or(default);
    let (length, tokens): (usize, usize) = (number(256), number(64));
    let loaded = load(&path)?;
    let vocabulary = loaded.info.vocab_size as u32;
    let prompt: Vec<u32> = (0..length as u32).map(|i| (i * 7919 + 11) % vocabulary).collect();

    // The first run reads the weights.
    for _ in 0..2 {
        let options = GenerateOptions { max_tokens: tokens, ignore_eos: true, ..Default::default() };
        let mut generation = generate(&*loaded.model, &loaded.tokenizer, &prompt, options)?;
        generation.by_ref().try_for_each(|s| s.map(|_| ()))?;
        println!("{:?}", generation.stats());
    }

    let model = &*loaded.model;
    let mut caches = model.caches();
    let ids = Array::from_slice(&prompt, &[1, prompt.len()])?;
    eval(&[model.forward(&ids, &mut caches)?])?;
    let (mut build, mut run) = (Vec::new(), Vec::new());
    for step in 0..tokens {
        let id = Array::from_slice(&[step as u32], &[1, 1])?;
        let start = Instant::now();
        let token = model.forward(&id, &mut caches)?.argmax(-1, false)?;
        let built = Instant::now();
        eval(&[token])?;
        build.push(built - start);
        run.push(built.elapsed());
    }
    let median = |v: &mut Vec<Duration>| {
        v.sort_unstable();
        v.get(v.len() / 2).copied().unwrap_or_default()
    };
    println!("a step: graph built in {:?}, run in {:?}", median(&mut build), median(&mut run));
    Ok(())
}
