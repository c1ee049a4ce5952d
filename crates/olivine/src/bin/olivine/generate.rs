//! `olivine generate`: one prompt, one answer.

use crate::model::ModelArgument;
use crate::output::{bytes, line, note, print};
use crate::{Failure, Outcome, Sampling};
use clap::Args;
use olivine::lm::{self, GenerateOptions, Loaded};
use olivine::tokenize::{Message, RenderOptions};
use std::io::Read;

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    model: ModelArgument,
    /// What to answer; `-` reads standard input
    #[arg(long, short)]
    prompt: String,
    /// Instructions that come before the prompt
    #[arg(long)]
    system_prompt: Option<String>,
    /// Most tokens to generate
    #[arg(long, short, default_value_t = 256)]
    max_tokens: usize,
    #[command(flatten)]
    sampling: Sampling,
    /// Continue the prompt as it is, without the model's chat template
    #[arg(long)]
    ignore_chat_template: bool,
    /// Stop where this text comes; may be given several times
    #[arg(long)]
    stop: Vec<String>,
    /// Print one JSON object at the end instead of text as it comes
    #[arg(long)]
    json: bool,
}

pub fn run(a: &Arguments) -> Outcome {
    let prompt = read_prompt(&a.prompt)?;
    let loaded = a.model.open()?;
    let ids = encode(&loaded, &prompt, a)?;
    let options = GenerateOptions {
        max_tokens: a.max_tokens,
        sampler: a.sampling.options(),
        stop: a.stop.clone(),
        context_length: Some(loaded.info.context_length),
        ..GenerateOptions::default()
    };
    let mut generation = lm::generate(&*loaded.model, &loaded.tokenizer, &ids, options)?;
    let (mut text, mut tokens) = (String::new(), Vec::new());
    for step in &mut generation {
        let step = step?;
        tokens.push(step.token);
        text.push_str(&step.text);
        if !a.json {
            print(&step.text)?;
        }
    }
    let s = generation.stats();
    let reason = s.finish_reason.map_or("length", |r| r.as_str());
    if a.json {
        let report = serde_json::json!({
            "text": text,
            "tokens": tokens,
            "prompt_tokens": s.prompt_tokens,
            "generation_tokens": s.generation_tokens,
            "prompt_tps": s.prompt_tps,
            "generation_tps": s.generation_tps,
            "peak_memory_bytes": s.peak_memory,
            "finish_reason": reason,
        });
        line(&report.to_string())?;
    } else {
        if !text.ends_with('\n') {
            print("\n")?;
        }
        note(&format!(
            "\nprompt: {} tokens, {:.1} tokens/s; generation: {} tokens, {:.1} tokens/s; peak memory {}; {reason}",
            s.prompt_tokens,
            s.prompt_tps,
            s.generation_tokens,
            s.generation_tps,
            bytes(s.peak_memory)
        ));
    }
    Ok(())
}

fn read_prompt(argument: &str) -> Outcome<String> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut raw = Vec::new();
    std::io::stdin()
        .lock()
        .read_to_end(&mut raw)
        .map_err(|e| Failure::Message(format!("reading the prompt from standard input: {e}")))?;
    String::from_utf8(raw).map_err(|e| {
        Failure::Message(format!(
            "the prompt on standard input is not UTF-8 from byte {} on",
            e.utf8_error().valid_up_to()
        ))
    })
}

/// The ids of the prompt, through the chat template where there is one and it is wanted.
fn encode(loaded: &Loaded, prompt: &str, a: &Arguments) -> Outcome<Vec<u32>> {
    if a.ignore_chat_template || loaded.tokenizer.chat_template().is_none() {
        return match &a.system_prompt {
            None => Ok(loaded.encode(prompt)?),
            Some(_) if a.ignore_chat_template => {
                Err("--system-prompt needs the chat template that --ignore-chat-template leaves out"
                    .to_owned()
                    .into())
            }
            Some(_) => {
                Err("--system-prompt needs a chat template, which this model does not have".to_owned().into())
            }
        };
    }
    let mut messages = Vec::new();
    messages.extend(a.system_prompt.as_deref().map(|s| Message::new("system", s)));
    messages.push(Message::new("user", prompt));
    let options = RenderOptions { add_generation_prompt: true, ..RenderOptions::default() };
    loaded.tokenizer.encode_chat(&messages, &options).map_err(|e| Failure::Message(e.to_string()))
}
