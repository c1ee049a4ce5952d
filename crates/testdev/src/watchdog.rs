//! Tests that hang must end, with a message.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Runs `f`; when it takes longer than `limit`, ends the process with a message that names it.
///
/// Aborting is the only way out of a hang: a thread that waits for ever cannot be stopped.
pub fn within<T>(name: &str, limit: Duration, f: impl FnOnce() -> T) -> T {
    let (done, waiting) = channel::<()>();
    let what = name.to_owned();
    let watchdog = std::thread::spawn(move || {
        if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{what} did not end within {limit:?}: it hangs");
            std::process::abort();
        }
    });
    let out = f();
    // Also a panic of `f` lets go of the sender, which ends the watchdog.
    drop(done);
    watchdog.join().expect("the watchdog does not panic");
    out
}
