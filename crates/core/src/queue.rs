//! A stream whose work runs on a thread of this process: the CPU's streams, and those of the test device.

use crate::device::Stream;
use crate::event::{Event, Timeline};
use crate::{Error, Result};
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

/// Pieces of work that may wait in a queue before whoever adds more is held back.
const CAPACITY: usize = 4096;

type Work = Box<dyn FnOnce() -> Result<()> + Send>;

enum Task {
    Run { op: &'static str, work: Work },
    Wait(Event),
}

/// Called before each task; used by the test device to delay and to fail.
pub type Hook = Box<dyn Fn(&'static str, u64) -> Result<()> + Send + Sync>;

struct State {
    tasks: VecDeque<(u64, Task)>,
    sent: u64,
    /// The worker or an owner is executing.
    running: bool,
    owner: Option<ThreadId>,
    worker_started: bool,
    /// First failed piece and its error, until a host takes it.
    failed: Option<(u64, Error)>,
    /// Ranges of pieces that failed or were skipped, and whose error was taken.
    lost: Vec<(u64, u64, Error)>,
    /// Newest event of each other stream that this one has waited for.
    waited: HashMap<Stream, u64>,
}

/// An ordered queue of closures with a worker thread, started when first needed.
pub struct HostQueue {
    stream: Stream,
    state: Mutex<State>,
    done: AtomicU64,
    errors: AtomicBool,
    work: Condvar,
    progress: Condvar,
    hook: Option<Hook>,
}

impl HostQueue {
    /// An empty queue for `stream`.
    pub fn new(stream: Stream, hook: Option<Hook>) -> Arc<HostQueue> {
        Arc::new(HostQueue {
            stream,
            state: Mutex::new(State {
                tasks: VecDeque::new(),
                sent: 0,
                running: false,
                owner: None,
                worker_started: false,
                failed: None,
                lost: Vec::new(),
                waited: HashMap::new(),
            }),
            done: AtomicU64::new(0),
            errors: AtomicBool::new(false),
            work: Condvar::new(),
            progress: Condvar::new(),
            hook,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds work. It runs after everything added before, on the worker, or right here when this thread
    /// owns the idle queue ([`HostQueue::own`]).
    pub fn send(
        self: &Arc<Self>,
        op: &'static str,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<Event> {
        self.push(Task::Run { op, work: Box::new(work) })
    }

    /// Makes later work of this queue wait for an event of another stream.
    pub fn wait_for(self: &Arc<Self>, event: &Event) -> Result<()> {
        let Some(stream) = event.stream() else { return Ok(()) };
        let outcome = event.poll();
        if stream == self.stream || matches!(outcome, Some(Ok(()))) {
            return Ok(());
        }
        if outcome.is_none() {
            let mut s = self.lock();
            let newest = s.waited.entry(stream).or_insert(0);
            if *newest >= event.seq() {
                return Ok(());
            }
            *newest = event.seq();
        }
        self.push(Task::Wait(event.clone())).map(|_| ())
    }

    fn push(self: &Arc<Self>, task: Task) -> Result<Event> {
        let mut s = self.lock();
        let me = thread::current().id();
        if s.owner == Some(me) && s.tasks.is_empty() {
            s.sent += 1;
            let seq = s.sent;
            drop(s);
            self.execute(seq, task);
            return Ok(Event::at(self.clone(), seq));
        }
        if s.owner == Some(me) {
            // Somebody else got in between: from here on the worker keeps the order.
            s.owner = None;
            s.running = false;
            self.work.notify_one();
        }
        while s.tasks.len() >= CAPACITY {
            s = self.progress.wait(s).unwrap_or_else(|e| e.into_inner());
        }
        s.sent += 1;
        let seq = s.sent;
        s.tasks.push_back((seq, task));
        if !s.worker_started {
            let queue = self.clone();
            thread::Builder::new()
                .name(format!("olivine {}", self.stream))
                .spawn(move || queue.run())
                .map_err(|e| Error::Device {
                    op: "stream",
                    device: self.stream.device,
                    msg: format!("no thread: {e}"),
                })?;
            s.worker_started = true;
        }
        if !s.running {
            self.work.notify_one();
        }
        Ok(Event::at(self.clone(), seq))
    }

    fn execute(&self, seq: u64, task: Task) {
        let outcome = if self.errors.load(Ordering::Acquire) && self.outcome(seq).is_err() {
            // Skipped; dropping the task frees what it holds.
            Ok(())
        } else {
            match task {
                Task::Wait(event) => event.wait(),
                Task::Run { op, work } => {
                    let hooked = self.hook.as_ref().map_or(Ok(()), |h| h(op, seq));
                    hooked.and_then(|()| {
                        catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
                            let msg = panic
                                .downcast_ref::<String>()
                                .map(String::as_str)
                                .or_else(|| panic.downcast_ref::<&str>().copied())
                                .unwrap_or("unknown panic");
                            Err(Error::Device { op, device: self.stream.device, msg: msg.to_string() })
                        })
                    })
                }
            }
        };
        if let Err(e) = outcome {
            let mut s = self.lock();
            if s.failed.is_none() {
                s.failed = Some((seq, e));
            }
            self.errors.store(true, Ordering::Release);
        }
        self.done.store(seq, Ordering::Release);
    }

    fn run(&self) {
        let mut s = self.lock();
        loop {
            while s.running || s.tasks.is_empty() {
                s = self.work.wait(s).unwrap_or_else(|e| e.into_inner());
            }
            s.running = true;
            while let Some((seq, task)) = s.tasks.pop_front() {
                drop(s);
                self.execute(seq, task);
                s = self.lock();
                self.progress.notify_all();
            }
            s.running = false;
        }
    }

    /// Lets this thread execute what it sends to the queue by itself, when the queue is idle. Ends with
    /// the guard.
    pub fn own(self: &Arc<Self>) -> Option<Owned> {
        let mut s = self.lock();
        if s.running || !s.tasks.is_empty() {
            return None;
        }
        s.running = true;
        s.owner = Some(thread::current().id());
        Some(Owned(self.clone()))
    }

    /// Outcome of a piece that is done or was skipped.
    fn outcome(&self, seq: u64) -> Result<()> {
        if !self.errors.load(Ordering::Acquire) {
            return Ok(());
        }
        let s = self.lock();
        Self::outcome_of(&s, seq)
    }

    fn outcome_of(s: &State, seq: u64) -> Result<()> {
        if let Some((first, e)) = &s.failed
            && seq >= *first
        {
            return Err(e.clone());
        }
        match s.lost.iter().find(|(a, b, _)| (*a..=*b).contains(&seq)) {
            Some((_, _, e)) => Err(e.clone()),
            None => Ok(()),
        }
    }
}

impl Timeline for HostQueue {
    fn stream(&self) -> Stream {
        self.stream
    }

    fn last(&self) -> u64 {
        self.lock().sent
    }

    fn poll(&self, seq: u64) -> Option<Result<()>> {
        (self.done.load(Ordering::Acquire) >= seq).then(|| self.outcome(seq))
    }

    fn wait(&self, seq: u64) -> Result<()> {
        if self.done.load(Ordering::Acquire) < seq {
            let mut s = self.lock();
            while self.done.load(Ordering::Acquire) < seq {
                s = self.progress.wait(s).unwrap_or_else(|e| e.into_inner());
            }
        }
        if !self.errors.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut s = self.lock();
        let outcome = Self::outcome_of(&s, seq);
        if outcome.is_err()
            && let Some((first, e)) = s.failed.take_if(|(first, _)| seq >= *first)
        {
            let last = s.sent;
            s.lost.push((first, last, e));
        }
        outcome
    }
}

/// Right to execute on a queue's behalf; see [`HostQueue::own`].
pub struct Owned(Arc<HostQueue>);

impl Drop for Owned {
    fn drop(&mut self) {
        let mut s = self.0.lock();
        if s.owner == Some(thread::current().id()) {
            s.owner = None;
            s.running = false;
        }
        if !s.tasks.is_empty() {
            self.0.work.notify_one();
        }
        // Whoever waits for a piece that the owner executed sleeps on `progress`.
        self.0.progress.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;

    fn queue() -> Arc<HostQueue> {
        HostQueue::new(Stream::default_of(Device::CPU), None)
    }

    #[test]
    fn runs_in_order_owned_or_not() {
        let q = queue();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let add = |i: u32| {
            let seen = seen.clone();
            q.send("t", move || {
                seen.lock().unwrap().push(i);
                Ok(())
            })
            .unwrap()
        };
        {
            let _own = q.own().unwrap();
            assert!(q.own().is_none());
            assert!(add(0).is_ok());
            std::thread::scope(|s| {
                s.spawn(|| add(1));
            });
            add(2).wait().unwrap();
        }
        for i in 3..5000 {
            add(i);
        }
        add(5000).wait().unwrap();
        assert_eq!(*seen.lock().unwrap(), (0..=5000).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_sticks_until_taken_and_never_reaches_what_is_sent_after() {
        let q = queue();
        let before = q.send("t", || Ok(())).unwrap();
        let bad = q.send("t", || Err(Error::value("t", "boom"))).unwrap();
        let after = q.send("t", || Ok(())).unwrap();
        assert!(after.wait().is_err());
        let fresh = q.send("t", || Ok(())).unwrap();
        assert!(fresh.wait().is_ok());
        assert!(before.wait().is_ok());
        assert!(bad.wait().is_err() && after.wait().is_err(), "what was lost stays lost");
        let panics = q.send("t", || panic!("kernel panic")).unwrap();
        assert!(panics.wait().unwrap_err().to_string().contains("kernel panic"));
    }

    #[test]
    fn errors_travel_across_queues() {
        let (a, b) = (queue(), HostQueue::new(Stream { device: Device::CPU, id: 9 }, None));
        let bad = a.send("t", || Err(Error::value("t", "boom"))).unwrap();
        b.wait_for(&bad).unwrap();
        let dependent = b.send("t", || Ok(())).unwrap();
        assert!(dependent.wait().is_err());
        assert!(b.send("t", || Ok(())).unwrap().wait().is_ok());
        b.wait_for(&bad).unwrap();
        assert!(
            b.send("t", || Ok(())).unwrap().wait().is_err(),
            "a taken error still reaches its dependents"
        );
    }
}
