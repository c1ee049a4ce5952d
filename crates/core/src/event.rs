//! Completion of work, as a place on a stream's timeline.

use crate::device::Stream;
use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// The order of work on one stream: every piece gets the next number, and they complete in order.
///
/// An error sticks: the piece that failed and every later one resolve to the error, until a waiting host
/// takes it; work sent after that runs again, and what was skipped stays failed.
pub trait Timeline: Send + Sync {
    /// The stream.
    fn stream(&self) -> Stream;
    /// Number of the newest piece of work that was sent.
    fn last(&self) -> u64;
    /// Outcome of piece `seq`, or `None` while it is open: neither done nor bound to be skipped.
    fn poll(&self, seq: u64) -> Option<Result<()>>;
    /// Blocks until piece `seq` is done. Takes the error of the stream if that is the outcome.
    fn wait(&self, seq: u64) -> Result<()>;
}

/// Completion of one piece of work.
#[derive(Clone)]
pub struct Event(Option<(Arc<dyn Timeline>, u64)>);

impl Event {
    /// Complete from the start.
    pub const READY: Event = Event(None);

    /// Piece `seq` of a timeline.
    pub fn at(timeline: Arc<dyn Timeline>, seq: u64) -> Event {
        Event(Some((timeline, seq)))
    }

    /// Stream that completes it; `None` for work that was done from the start.
    pub fn stream(&self) -> Option<Stream> {
        self.0.as_ref().map(|(t, _)| t.stream())
    }

    /// Number on the timeline of its stream; 0 when done from the start.
    pub fn seq(&self) -> u64 {
        self.0.as_ref().map_or(0, |&(_, seq)| seq)
    }

    /// Outcome, or `None` while it is not done.
    pub fn poll(&self) -> Option<Result<()>> {
        match &self.0 {
            None => Some(Ok(())),
            Some((t, seq)) => t.poll(*seq),
        }
    }

    /// Done without an error.
    pub fn is_ok(&self) -> bool {
        matches!(self.poll(), Some(Ok(())))
    }

    /// Done, well or not.
    pub fn is_done(&self) -> bool {
        self.poll().is_some()
    }

    /// Blocks the calling thread until it is done.
    pub fn wait(&self) -> Result<(), Error> {
        match &self.0 {
            None => Ok(()),
            Some((t, seq)) => t.wait(*seq),
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("Event(ready)"),
            Some((t, seq)) => write!(f, "Event({} #{seq})", t.stream()),
        }
    }
}
