//! Times and bytes of operations.

use super::{PROFILE, switch};
use crate::Result;
use crate::buffer::View;
use crate::device::Stream;
use crate::op::Op;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// One operation that ran.
#[derive(Debug, Clone)]
pub struct Record {
    /// What it was; a fused pass with what it consists of.
    pub op: String,
    /// Where it ran.
    pub stream: Stream,
    /// When it was sent, from the beginning of the profile.
    pub start: Duration,
    /// From then to the completion of its results.
    pub time: Duration,
    /// Bytes of its arguments and results.
    pub bytes: usize,
    /// Shape of its first result.
    pub shape: String,
}

/// What ran while a function was profiled; prints as a table of the kinds of operations, the longest first.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// In the order of their start.
    pub records: Vec<Record>,
    /// From beginning to end, with what is no operation.
    pub time: Duration,
}

struct Session {
    began: Instant,
    records: Vec<Record>,
}

static SESSION: Mutex<Option<Session>> = Mutex::new(None);

fn session() -> std::sync::MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(|e| e.into_inner())
}

/// Runs `f` and tells what every operation that was evaluated meanwhile, by any thread, has cost. Operations wait for each
/// other, so the sum is above what the function takes by itself; a device's launch and completion count for each.
///
/// Only what is evaluated inside counts: `f` should evaluate its results. A profile inside another one takes over.
///
/// # Errors
/// Whatever `f` gives.
pub fn profile<T>(f: impl FnOnce() -> Result<T>) -> Result<(T, Profile)> {
    struct Off(bool);
    impl Drop for Off {
        fn drop(&mut self) {
            switch(PROFILE, self.0);
            session().take();
        }
    }
    let began = Instant::now();
    *session() = Some(Session { began, records: Vec::new() });
    let off = Off(switch(PROFILE, true));
    let value = f()?;
    let time = began.elapsed();
    let records = session().as_mut().map(|s| std::mem::take(&mut s.records)).unwrap_or_default();
    drop(off);
    Ok((value, Profile { records, time }))
}

pub(super) fn record(op: &Op, stream: Stream, started: Instant, read: usize, results: &[View]) {
    let time = started.elapsed();
    let written: usize = results.iter().map(|v| v.layout.elements() * v.dtype.size()).sum();
    let shape = results.first().map(|v| v.layout.shape().to_string()).unwrap_or_default();
    if let Some(s) = session().as_mut() {
        let start = started.saturating_duration_since(s.began);
        s.records.push(Record { op: describe(op), stream, start, time, bytes: read + written, shape });
    }
}

fn describe(op: &Op) -> String {
    let Op::Fused(e) = op else { return op.name().to_string() };
    let parts: Vec<String> = e.insts.iter().filter(|i| !i.args().is_empty()).map(|i| i.describe()).collect();
    match parts.len() {
        0 => "copy".to_string(),
        1..=6 => parts.join("+"),
        n => format!("{}+{} more", parts[..5].join("+"), n - 5),
    }
}

impl Profile {
    /// The records in the trace event format of Chrome (`chrome://tracing`, Perfetto): one complete event each, one
    /// track for each stream.
    pub fn chrome_trace(&self) -> String {
        let micros = |d: Duration| d.as_nanos() as f64 / 1e3;
        let events: Vec<serde_json::Value> = self
            .records
            .iter()
            .map(|r| {
                serde_json::json!({
                    "name": r.op, "ph": "X", "ts": micros(r.start), "dur": micros(r.time),
                    "pid": r.stream.device.to_string(), "tid": r.stream.id,
                    "args": { "bytes": r.bytes, "shape": r.shape },
                })
            })
            .collect();
        serde_json::json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<&str, (usize, Duration, usize)> = BTreeMap::new();
        for r in &self.records {
            let k = kinds.entry(&r.op).or_default();
            *k = (k.0 + 1, k.1 + r.time, k.2 + r.bytes);
        }
        let mut rows: Vec<(&str, (usize, Duration, usize))> = kinds.into_iter().collect();
        rows.sort_by_key(|(_, (_, time, _))| std::cmp::Reverse(*time));
        let busy: Duration = self.records.iter().map(|r| r.time).sum();
        writeln!(
            f,
            "{:<44} {:>7} {:>11} {:>7} {:>11} {:>8}",
            "operation", "calls", "ms", "share", "MB", "GB/s"
        )?;
        for (op, (calls, time, bytes)) in rows {
            let share = 100.0 * time.as_secs_f64() / busy.as_secs_f64().max(1e-12);
            let rate = bytes as f64 / 1e9 / time.as_secs_f64().max(1e-12);
            let (ms, mb) = (time.as_secs_f64() * 1e3, bytes as f64 / 1e6);
            writeln!(f, "{op:<44} {calls:>7} {ms:>11.3} {share:>6.1}% {mb:>11.2} {rate:>8.2}")?;
        }
        let (busy, all) = (busy.as_secs_f64() * 1e3, self.time.as_secs_f64() * 1e3);
        write!(f, "{} operations, {busy:.3} ms of {all:.3} ms", self.records.len())
    }
}
