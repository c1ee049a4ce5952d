//! A short run of the fuzzer; `cargo xtask fuzz-api` is the long one.

use olivine_core::{Device, alloc};
use std::time::Duration;

#[test]
fn random_calls_are_answered_or_refused() {
    olivine_cpu::register();
    alloc::set_limit(Device::CPU, 1 << 30);
    let outcome = olivine_spec::fuzz::run(Duration::from_secs(10), 0, None, |_| {});
    let shown: Vec<String> =
        outcome.findings.iter().take(10).map(|f| format!("{} ({}): {}", f.name, f.message, f.call)).collect();
    assert!(shown.is_empty(), "{} calls went wrong:\n{}", outcome.findings.len(), shown.join("\n"));
    assert!(outcome.succeeded > 200, "only {} calls succeeded", outcome.succeeded);
}
