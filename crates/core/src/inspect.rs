//! Tools that laziness makes necessary: where time goes, where numbers go wrong, and which line built an operation.
//!
//! All of them are for the whole process, and while one is on every operation is waited for before the next is sent.

mod profile;
mod source;

pub use profile::{Profile, Record, profile};
pub use source::set_source_hook;
pub(crate) use source::{Source, within};

use crate::buffer::View;
use crate::device::Stream;
use crate::expr::ScalarOp;
use crate::op::Op;
use crate::{Array, Dtype, Error, Result};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{LazyLock, Once};

const SOURCES: u8 = 1;
const NAN: u8 = 2;
const INFINITY: u8 = 4;
const PROFILE: u8 = 8;

static ACTIVE: AtomicU8 = AtomicU8::new(0);

/// `OLIVINE_SOURCES=1` and `OLIVINE_CHECK=nan` or `finite` switch on what [`set_sources`] and [`set_check`] do.
static FROM_ENVIRONMENT: LazyLock<u8> = LazyLock::new(|| {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|v| v == value);
    let mut flags = 0;
    if is("OLIVINE_SOURCES", "1") {
        flags |= SOURCES;
    }
    if is("OLIVINE_CHECK", "nan") {
        flags |= NAN | SOURCES;
    }
    if is("OLIVINE_CHECK", "finite") {
        flags |= NAN | INFINITY | SOURCES;
    }
    flags
});

fn flags() -> u8 {
    static READ: Once = Once::new();
    if !READ.is_completed() {
        READ.call_once(|| {
            ACTIVE.fetch_or(*FROM_ENVIRONMENT, Ordering::Relaxed);
        });
    }
    ACTIVE.load(Ordering::Relaxed)
}

fn switch(which: u8, on: bool) -> bool {
    flags();
    let before = if on {
        ACTIVE.fetch_or(which, Ordering::Relaxed)
    } else {
        ACTIVE.fetch_and(!which, Ordering::Relaxed)
    };
    before & which != 0
}

/// Whether operations remember the line that builds them, for the errors of their evaluation; returns what it was.
/// The environment variable `OLIVINE_SOURCES=1` switches it on from the start.
///
/// The line is that of the innermost function outside this crate; a program without debug information gives the name
/// of the function only.
pub fn set_sources(on: bool) -> bool {
    switch(SOURCES, on)
}

/// Numbers that evaluation takes for a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Check {
    /// None.
    #[default]
    Off,
    /// NaN.
    Nan,
    /// NaN and infinities.
    Finite,
}

/// Makes evaluation stop with a `Value` error at the first operation that gives numbers of the kind though none of its
/// arguments has any: NaN from arguments without NaN, infinity from finite arguments. The error names the operation and
/// the line that built it. Returns what it was. The environment variable `OLIVINE_CHECK` (`nan`, `finite`) switches it
/// on from the start.
///
/// Numbers that are written down are no mistake: a mask of `-inf` passes. Operations run one by one, unfused, and every
/// result is read, so this is slow.
pub fn set_check(check: Check) -> Check {
    let before = match flags() & (NAN | INFINITY) {
        0 => Check::Off,
        NAN => Check::Nan,
        _ => Check::Finite,
    };
    switch(NAN, check != Check::Off);
    switch(INFINITY, check == Check::Finite);
    switch(SOURCES, check != Check::Off || *FROM_ENVIRONMENT & SOURCES != 0);
    before
}

/// Whether new operations remember their line.
pub(crate) fn remembers() -> bool {
    flags() & SOURCES != 0
}

/// Whether each operation is computed by itself.
pub(crate) fn unfused() -> bool {
    flags() & (NAN | INFINITY) != 0
}

/// Looks at one operation while it is evaluated; `None` when nobody wants to know.
pub(crate) struct Watch {
    flags: u8,
    started: std::time::Instant,
    /// Arguments hold NaN, infinity.
    bad: (bool, bool),
    read: usize,
}

impl Watch {
    pub fn begin(args: &[View]) -> Result<Option<Watch>> {
        let flags = flags();
        if flags == 0 && !source::known() {
            return Ok(None);
        }
        let mut bad = (false, false);
        if flags & NAN != 0 {
            for v in args {
                let found = content(v)?;
                bad = (bad.0 || found.0, bad.1 || found.1);
            }
        }
        let read = args.iter().map(|v| v.layout.elements() * v.dtype.size()).sum();
        Ok(Some(Watch { flags, started: std::time::Instant::now(), bad, read }))
    }

    /// Waits for the results and judges them.
    pub fn end(self, op: &Op, stream: Stream, results: &[View]) -> Result<()> {
        for v in results {
            v.buffer.ready().wait()?;
        }
        if self.flags & PROFILE != 0 {
            profile::record(op, stream, self.started, self.read, results);
        }
        if self.flags & NAN == 0 {
            return Ok(());
        }
        for v in results {
            let found = content(v)?;
            let what = if found.0 && !self.bad.0 {
                "NaN"
            } else if found.1 && !self.bad.0 && !self.bad.1 && self.flags & INFINITY != 0 {
                "infinity"
            } else {
                continue;
            };
            let msg = format!("gives {what}, in a result of shape {} and type {}", v.layout.shape(), v.dtype);
            return Err(Error::value(name(op), msg));
        }
        Ok(())
    }
}

/// Name of an operation; of a pass of one operation, that of the operation.
fn name(op: &Op) -> &'static str {
    let Op::Fused(e) = op else { return op.name() };
    let mut computing = e.insts.iter().filter(|i| !i.args().is_empty());
    match (computing.next().map(|i| i.op), computing.next()) {
        (Some(ScalarOp::Un(u)), None) => u.name(),
        (Some(ScalarOp::Bin(b)), None) => b.name(),
        _ => op.name(),
    }
}

/// Whether NaN and infinities are among the elements.
fn content(v: &View) -> Result<(bool, bool)> {
    if !v.dtype.is_inexact() {
        return Ok((false, false));
    }
    let bytes = Array::from_view(v.clone()).to_bytes()?;
    let mut found = (false, false);
    let mut see = |x: f64| {
        found.0 |= x.is_nan();
        found.1 |= x.is_infinite();
    };
    let wide = |c: &[u8]| c.try_into().map(f64::from_le_bytes).unwrap_or(0.0);
    let single = |c: &[u8]| c.try_into().map(f32::from_le_bytes).map_or(0.0, f64::from);
    let bits = |c: &[u8]| c.try_into().map(u16::from_le_bytes).unwrap_or(0);
    match v.dtype {
        Dtype::F64 => bytes.chunks_exact(8).for_each(|c| see(wide(c))),
        Dtype::F32 | Dtype::C64 => bytes.chunks_exact(4).for_each(|c| see(single(c))),
        Dtype::F16 => bytes.chunks_exact(2).for_each(|c| see(half::f16::from_bits(bits(c)).to_f64())),
        _ => bytes.chunks_exact(2).for_each(|c| see(half::bf16::from_bits(bits(c)).to_f64())),
    }
    Ok(found)
}
