//! `olivine bench model`: tokens per second of a model.

use crate::model::ModelArgument;
use crate::output::{bytes, line};
use crate::{Failure, Outcome};
use clap::{Args, Subcommand};
use olivine::lm::{self, GenerateOptions, Loaded};

#[derive(Subcommand)]
pub enum Bench {
    /// Tokens per second of a prompt and of what follows it
    Model(Arguments),
}

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArgument,
    /// Tokens of the prompt
    #[arg(long, default_value_t = 256)]
    prompt_tokens: usize,
    /// Tokens that are generated after it
    #[arg(long, default_value_t = 64)]
    gen_tokens: usize,
    /// Times that both are measured, after one that does not count
    #[arg(long, default_value_t = 5)]
    repetitions: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(a: &Arguments) -> Outcome {
    if a.prompt_tokens == 0 || a.gen_tokens == 0 || a.repetitions == 0 {
        return Err(Failure::Message("[bench] the numbers of tokens and repetitions are at least 1".into()));
    }
    let loaded = a.model.open()?;
    let context = loaded.info.context_length;
    if a.prompt_tokens.saturating_add(a.gen_tokens) >= context {
        return Err(too_long(a, context));
    }
    let (mut prompt, mut generation, mut peak) = (Vec::new(), Vec::new(), 0);
    for repetition in 0..=a.repetitions {
        let stats = measure(&loaded, a)?;
        peak = peak.max(stats.peak_memory);
        // The first time reads the weights and fills caches.
        if repetition > 0 {
            prompt.push(stats.prompt_tps);
            generation.push(stats.generation_tps);
        }
    }
    let (p, g) = (Summary::of(&mut prompt), Summary::of(&mut generation));
    if a.json {
        let report = serde_json::json!({
            "model": loaded.info.path.display().to_string(),
            "prompt_tokens": a.prompt_tokens,
            "generation_tokens": a.gen_tokens,
            "repetitions": a.repetitions,
            "prompt_tps": p.median,
            "generation_tps": g.median,
            "prompt_tps_all": prompt,
            "generation_tps_all": generation,
            "peak_memory_bytes": peak,
        });
        line(&report.to_string())?;
        return Ok(());
    }
    line(&format!("{:<24} {:>10} {:>10} {:>10}", "tokens/s", "median", "least", "most"))?;
    for (what, n, s) in [("prompt of", a.prompt_tokens, p), ("generation of", a.gen_tokens, g)] {
        line(&format!(
            "{:<24} {:>10.1} {:>10.1} {:>10.1}",
            format!("{what} {n}"),
            s.median,
            s.least,
            s.most
        ))?;
    }
    line(&format!("peak memory of arrays    {}", bytes(peak)))?;
    Ok(())
}

fn measure(loaded: &Loaded, a: &Arguments) -> Outcome<lm::Stats> {
    let vocabulary = loaded.info.vocab_size.max(2);
    let low = 1000.min(vocabulary / 2);
    // Any ordinary tokens will do; a stride that is prime to the vocabulary keeps them from repeating.
    let ids: Vec<u32> = (0..a.prompt_tokens).map(|i| (low + 7919 * i % (vocabulary - low)) as u32).collect();
    let options = GenerateOptions {
        // The first token belongs to the prompt's time.
        max_tokens: a.gen_tokens + 1,
        ignore_eos: true,
        context_length: Some(loaded.info.context_length),
        ..GenerateOptions::default()
    };
    let mut generation = lm::generate(&*loaded.model, &loaded.tokenizer, &ids, options)?;
    for step in &mut generation {
        step?;
    }
    let stats = generation.stats().clone();
    if stats.generation_tokens <= a.gen_tokens {
        return Err(too_long(a, loaded.info.context_length));
    }
    Ok(stats)
}

fn too_long(a: &Arguments, context: usize) -> Failure {
    Failure::Message(format!(
        "[bench] {} prompt and {} generated tokens do not fit the context of {context}",
        a.prompt_tokens, a.gen_tokens
    ))
}

struct Summary {
    median: f64,
    least: f64,
    most: f64,
}

impl Summary {
    /// Of at least one figure; sorts them.
    fn of(figures: &mut [f64]) -> Summary {
        figures.sort_by(f64::total_cmp);
        let n = figures.len();
        Summary {
            median: (figures[(n - 1) / 2] + figures[n / 2]) / 2.0,
            least: figures[0],
            most: figures[n - 1],
        }
    }
}
