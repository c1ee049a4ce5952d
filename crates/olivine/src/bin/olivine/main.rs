//! The command line of Olivine.

mod bench;
mod chat;
mod device;
mod generate;
mod info;
mod model;
mod output;
mod selftest;

use clap::{Args, Parser, Subcommand};
use olivine::lm::SamplerOptions;
use std::process::ExitCode;

/// Run language models.
#[derive(Parser)]
#[command(name = "olivine", version, arg_required_else_help = true)]
struct Cli {
    /// Most memory that arrays may use, such as 800M or 4G; the machine's by default
    #[arg(long, global = true, value_parser = model::parse_bytes)]
    memory_limit: Option<usize>,
    /// What computes: cpu, gpu, or a GPU by its number such as gpu:1; the GPU where there is one by default
    #[arg(long, global = true, value_parser = device::parse)]
    device: Option<device::Named>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answer one prompt
    Generate(generate::Arguments),
    /// Talk with a model, which remembers what was said
    Chat(chat::Arguments),
    /// Say what a model file or folder holds and what memory it needs, or what devices there are
    Info(info::Arguments),
    /// Compare every operation on this machine with its reference
    Selftest(selftest::Arguments),
    /// Measure speed
    #[command(subcommand)]
    Bench(bench::Bench),
}

/// How tokens are chosen; the same for every command that generates.
#[derive(Args)]
struct Sampling {
    /// Temperature; 0 always takes the most probable token
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    temp: f32,
    /// Draw from the fewest most probable tokens whose probabilities reach this sum
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    top_p: f32,
    /// Draw from this many most probable tokens; 0 for all
    #[arg(long, default_value_t = 0)]
    top_k: usize,
    /// Leave out tokens less probable than this part of the most probable one
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    min_p: f32,
    /// Divide the scores of tokens that occurred lately by this
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    repetition_penalty: f32,
    /// Seed of the draws; a new one each time by default
    #[arg(long)]
    seed: Option<u64>,
}

impl Sampling {
    fn options(&self) -> SamplerOptions {
        SamplerOptions {
            temperature: self.temp,
            top_p: self.top_p,
            top_k: self.top_k,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            ..SamplerOptions::default()
        }
    }
}

/// What ends a command early: a message for the user, or a reader of the output who went away.
enum Failure {
    Message(String),
    /// The output cannot be written.
    Output(String),
    OutputClosed,
}

impl From<olivine::Error> for Failure {
    fn from(e: olivine::Error) -> Self {
        Failure::Message(e.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        match e.kind() {
            std::io::ErrorKind::BrokenPipe => Failure::OutputClosed,
            _ => Failure::Output(format!("output: {e}")),
        }
    }
}

impl From<String> for Failure {
    fn from(e: String) -> Self {
        Failure::Message(e)
    }
}

type Outcome<T = ()> = Result<T, Failure>;

fn main() -> ExitCode {
    let cli = Cli::parse();
    olivine::register_backends();
    if let Err(e) = device::choose(cli.device) {
        output::note(&format!("error: {e}"));
        return ExitCode::FAILURE;
    }
    if let Some(bytes) = cli.memory_limit {
        olivine::alloc::set_limit(olivine::default_device(), bytes);
    }
    let outcome = match cli.command {
        Command::Generate(a) => generate::run(&a),
        Command::Chat(a) => chat::run(&a),
        Command::Info(a) => info::run(&a),
        Command::Selftest(a) => selftest::run(&a, cli.device),
        Command::Bench(bench::Bench::Model(a)) => bench::run(&a),
    };
    match outcome {
        // Whoever closes the pipe has seen enough.
        Ok(()) | Err(Failure::OutputClosed) => ExitCode::SUCCESS,
        Err(Failure::Message(m) | Failure::Output(m)) => {
            output::note(&format!("error: {m}"));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Cli::command().debug_assert();
    }
}
