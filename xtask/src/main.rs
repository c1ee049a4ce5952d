//! The project's chores, `cargo xtask COMMAND`. Plain `std`, so that a machine with only cargo, python3
//! and a C compiler runs all of it and the first command on a fresh clone answers in seconds.

mod bench;
mod cuda;
mod demo;
mod develop;
mod models;
mod process;
mod python;
mod spec;
mod test;
mod tidy;

use std::process::ExitCode;

/// What every command returns: an error is one sentence for the person at the terminal.
pub type Result<T> = std::result::Result<T, String>;

struct Command {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "demo",
        usage: "demo [PROMPT]",
        about: "build Olivine, fetch the default model and stream an answer",
        run: demo::run,
    },
    Command {
        name: "fetch",
        usage: "fetch [MODEL ...]",
        about: "download the models that the tests and benchmarks use (all of them without a name)",
        run: models::run,
    },
    Command {
        name: "develop",
        usage: "develop [--release]",
        about: "build the Python package into .venv at the root of the project",
        run: develop::develop,
    },
    Command {
        name: "test",
        usage: "test [--list] [--only STAGE] [--skip STAGE]",
        about: "everything that must hold before a change lands, stage by stage",
        run: test::run,
    },
    Command {
        name: "bench",
        usage: "bench llm|ops [ARGUMENTS]",
        about: "measure Olivine side by side with its peers",
        run: bench::run,
    },
    Command {
        name: "docs",
        usage: "docs",
        about: "write the pages that come from the table of operations",
        run: spec::docs,
    },
    Command {
        name: "differential",
        usage: "differential [--calls N] [--family NAME] [--seed N]",
        about: "compare random calls with MLX and NumPy",
        run: spec::differential,
    },
    Command {
        name: "fuzz-api",
        usage: "fuzz-api [--minutes N] [--seed N] [--only NAME]",
        about: "call every public function with random arguments",
        run: spec::fuzz,
    },
    Command { name: "tidy", usage: "tidy", about: "check the rules that no compiler checks", run: tidy::run },
];

fn usage() -> String {
    let width = COMMANDS.iter().map(|command| command.usage.len()).max().unwrap_or(0);
    let mut text = String::from("usage: cargo xtask COMMAND\n");
    for command in COMMANDS {
        text.push_str(&format!("\n  {:width$}  {}", command.usage, command.about));
    }
    text
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprintln!("{}", usage());
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        println!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        eprintln!("xtask: no command '{name}'\n\n{}", usage());
        return ExitCode::from(2);
    };
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}
