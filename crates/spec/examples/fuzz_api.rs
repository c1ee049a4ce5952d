//! The fuzzer: `fuzz_api [--minutes N] [--seed N] [--only NAME]`. Prints what went wrong; status 1 if anything
//! did.

use olivine_core::{Device, alloc};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let i = arguments.iter().position(|a| a == name)?;
        arguments.get(i + 1).cloned()
    };
    let minutes: f64 = option("--minutes").and_then(|v| v.parse().ok()).unwrap_or(10.0);
    let seed: u64 = option("--seed").and_then(|v| v.parse().ok()).unwrap_or(0);
    olivine_cpu::register();
    alloc::set_limit(Device::CPU, 1 << 30);
    std::panic::set_hook(Box::new(|_| {}));
    let only = option("--only");
    let time = Duration::from_secs_f64(minutes.clamp(0.0, 1e6) * 60.0);
    let outcome = olivine_spec::fuzz::run(time, seed, only.as_deref(), |f| {
        println!("{} (seed {}): {}\n  {}", f.name, f.seed, f.message, f.call);
    });
    if !outcome.never.is_empty() {
        println!("never succeeded: {}", outcome.never.join(", "));
    }
    println!(
        "{} succeeded, {} refused, {} went wrong",
        outcome.succeeded,
        outcome.refused,
        outcome.findings.len()
    );
    if outcome.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
