//! `cargo xtask test`: the stages of the check, in order, each timed, with a summary at the end.
//!
//! A new stage is one row of [`STAGES`].

use crate::process::{self, cargo, succeeds};
use crate::{Result, cuda, develop, models, spec, tidy};
use std::time::{Duration, Instant};

struct Stage {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<()>,
}

/// The cheap stages come first, so that a slip shows before the long ones start.
const STAGES: &[Stage] = &[
    Stage { name: "tidy", about: "rules that no compiler checks", run: tidy::check },
    Stage {
        name: "format",
        about: "cargo fmt",
        run: || process::run(cargo().args(["fmt", "--all", "--check"])),
    },
    Stage { name: "models", about: "fetch the models that tests read", run: || models::run(&[]) },
    Stage { name: "clippy", about: "lints of all targets, warnings are errors", run: clippy },
    Stage { name: "tests", about: "unit, integration and golden tests", run: tests },
    Stage {
        name: "cuda",
        about: "every GPU kernel compiles for three architectures; no GPU needed",
        run: cuda::check,
    },
    Stage {
        name: "differential",
        about: "random calls compared with MLX and NumPy",
        run: spec::differential_short,
    },
    Stage { name: "python", about: "the Python package, built and compared with MLX", run: develop::check },
    Stage { name: "doctests", about: "the examples in the documentation", run: doctests },
];

fn clippy() -> Result<()> {
    process::run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
}

fn tests() -> Result<()> {
    if succeeds(cargo().args(["nextest", "--version"])) {
        return process::run(cargo().args(["nextest", "run", "--workspace", "--locked", "--no-fail-fast"]));
    }
    println!("cargo-nextest is not installed: running `cargo test` instead, which is slower");
    // `--all-targets` leaves out the documentation's examples, which have a stage of their own.
    process::run(cargo().args(["test", "--workspace", "--locked", "--no-fail-fast", "--all-targets"]))
}

fn doctests() -> Result<()> {
    process::run(cargo().args(["test", "--workspace", "--locked", "--doc"]))
}

struct Selection {
    only: Vec<String>,
    skip: Vec<String>,
}

impl Selection {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut selection = Self { only: Vec::new(), skip: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let list = match flag.as_str() {
                "--only" => &mut selection.only,
                "--skip" => &mut selection.skip,
                _ => {
                    return Err(format!(
                        "no option '{flag}'; there are --list, --only STAGE and --skip STAGE"
                    ));
                }
            };
            let name = rest.next().ok_or_else(|| format!("{flag} needs the name of a stage"))?;
            if !STAGES.iter().any(|stage| stage.name == name) {
                return Err(format!("no stage '{name}'; --list names them"));
            }
            list.push(name.clone());
        }
        Ok(selection)
    }

    fn has(&self, stage: &Stage) -> bool {
        let named = |list: &[String]| list.iter().any(|name| name == stage.name);
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

/// `cargo xtask test [--list] [--only STAGE] [--skip STAGE]`
pub fn run(arguments: &[String]) -> Result<()> {
    if arguments == ["--list"] {
        for stage in STAGES {
            println!("{:10} {}", stage.name, stage.about);
        }
        return Ok(());
    }
    let selection = Selection::parse(arguments)?;
    let stages: Vec<_> = STAGES.iter().filter(|stage| selection.has(stage)).collect();
    let mut results = Vec::new();
    for (index, stage) in stages.iter().enumerate() {
        println!("\n=== {}/{} {}: {}", index + 1, stages.len(), stage.name, stage.about);
        let start = Instant::now();
        let result = (stage.run)();
        if let Err(message) = &result {
            println!("{message}");
        }
        // A failed stage does not stop the others: one run then shows everything that is wrong.
        results.push((stage.name, start.elapsed(), result.is_ok()));
    }
    summarise(&results)
}

fn summarise(results: &[(&str, Duration, bool)]) -> Result<()> {
    println!("\n=== summary");
    for (name, elapsed, passed) in results {
        println!("{name:10} {:>8.1} s  {}", elapsed.as_secs_f64(), if *passed { "passed" } else { "FAILED" });
    }
    let total: Duration = results.iter().map(|(_, elapsed, _)| *elapsed).sum();
    println!("{:10} {:>8.1} s", "total", total.as_secs_f64());
    let failed: Vec<_> = results.iter().filter(|(_, _, passed)| !passed).map(|(name, ..)| *name).collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn selected(line: &str) -> Vec<&'static str> {
        let selection = Selection::parse(&words(line)).unwrap();
        STAGES.iter().filter(|stage| selection.has(stage)).map(|stage| stage.name).collect()
    }

    #[test]
    fn selection_keeps_the_order_of_the_table() {
        assert_eq!(selected("").len(), STAGES.len());
        assert_eq!(selected("--only format --only tidy"), ["tidy", "format"]);
        assert!(!selected("--skip clippy").contains(&"clippy"));
    }

    #[test]
    fn unknown_stages_and_options_are_errors() {
        assert!(Selection::parse(&words("--only nothing")).is_err_and(|error| error.contains("nothing")));
        assert!(Selection::parse(&words("--only")).is_err());
        assert!(Selection::parse(&words("--fast")).is_err());
    }

    #[test]
    fn summary_names_what_failed() {
        let second = Duration::from_secs(1);
        assert!(summarise(&[("a", second, true)]).is_ok());
        let error = summarise(&[("a", second, true), ("b", second, false)]).unwrap_err();
        assert_eq!(error, "failed: b");
    }
}
