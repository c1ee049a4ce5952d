//! Answers calls: one line of JSON in, one line of JSON out (see `olivine_spec::wire`). For comparisons with
//! other systems, of values and, with `repeat`, of time.
//!
//! `driver names` lists the registered functions and their topics instead.

use olivine_core::{Device, alloc};
use olivine_spec::{calls, wire};
use serde_json::json;
use std::io::{BufRead, Write};

fn main() -> std::io::Result<()> {
    olivine_cpu::register();
    // Absurd sizes are errors rather than a machine without memory.
    alloc::set_limit(Device::CPU, 2 << 30);
    let mut out = std::io::stdout().lock();
    if std::env::args().nth(1).as_deref() == Some("names") {
        for c in calls::all() {
            writeln!(out, "{} {}", c.name, c.topic)?;
        }
        return Ok(());
    }
    std::panic::set_hook(Box::new(|_| {}));
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let run = || match wire::repeat(&line) {
            Some(n) => wire::time(&line, n).map(|s| json!({ "seconds": s })),
            None => wire::answer(&line).map(|arrays| json!({ "ok": arrays })),
        };
        let answer = match std::panic::catch_unwind(run) {
            Ok(Ok(answer)) => answer,
            Ok(Err(e)) => json!({ "error": e.to_string() }),
            Err(p) => {
                let text = p.downcast_ref::<String>().map(String::as_str);
                let text = text.or(p.downcast_ref::<&str>().copied()).unwrap_or("no message");
                json!({ "panic": text })
            }
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
