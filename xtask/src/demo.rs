//! `cargo xtask demo`: from a fresh clone to a streamed answer.

use crate::Result;
use crate::models;
use crate::process::{self, build_olivine, command, shown};

const PROMPT: &str = "What is the capital of France, and what is it known for?";

/// Builds the command line, fetches the default model and lets it answer.
pub fn run(arguments: &[String]) -> Result<()> {
    let prompt = match arguments {
        [] => PROMPT,
        [prompt] => prompt,
        _ => return Err("demo takes one prompt; put it in quotes".into()),
    };
    let model = models::fetch(models::DEFAULT)?;
    let olivine = build_olivine()?;
    let mut generate = command(&olivine);
    generate.args(["generate", "--model"]).arg(&model).args(["--prompt", prompt]);
    println!("$ {}\n", shown(&generate));
    process::run(&mut generate)
}
