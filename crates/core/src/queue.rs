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
    /// The worker is executing, or an owner has the right to.
    running: bool,
    owner: Option<ThreadId>,
    /// The owner is inside a piece of work right now.
    owner_executing: bool,
    worker: Option<ThreadId>,
    worker_started: bool,
    /// Threads that sleep on `progress`.
    waiters: usize,
    /// First failed piece and its error, until a host takes it.
    failed: Option<(u64, Error)>,
    /// Ranges of pieces that failed or were skipped, and whose error was taken; in order.
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
                owner_executing: false,
                worker: None,
                worker_started: false,
                waiters: 0,
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
        if s.owner == Some(thread::current().id()) && !s.owner_executing && s.tasks.is_empty() {
            s.sent += 1;
            let seq = s.sent;
            s.owner_executing = true;
            drop(s);
            self.execute(seq, task);
            let mut s = self.lock();
            s.owner_executing = false;
            self.wake(&s);
            if !s.tasks.is_empty() {
                self.disown(&mut s);
            }
            return Ok(Event::at(self.clone(), seq));
        }
        if s.owner.is_some() && !s.owner_executing {
            // From here on the worker keeps the order. The owner may be waiting for what is sent now, so the
            // work must not wait for the owner.
            self.disown(&mut s);
        }
        self.start_worker(&mut s)?;
        while s.tasks.len() >= CAPACITY {
            s = self.sleep(s);
        }
        s.sent += 1;
        let seq = s.sent;
        s.tasks.push_back((seq, task));
        if !s.running {
            self.work.notify_one();
        }
        Ok(Event::at(self.clone(), seq))
    }

    fn start_worker(self: &Arc<Self>, s: &mut State) -> Result<()> {
        if s.worker_started {
            return Ok(());
        }
        let queue = self.clone();
        thread::Builder::new().name(format!("olivine {}", self.stream)).spawn(move || queue.run()).map_err(
            |e| Error::Device { op: "stream", device: self.stream.device, msg: format!("no thread: {e}") },
        )?;
        s.worker_started = true;
        Ok(())
    }

    /// Takes the right to execute from the owner, who is not executing.
    fn disown(&self, s: &mut State) {
        s.owner = None;
        s.running = false;
        if !s.tasks.is_empty() {
            self.work.notify_one();
        }
    }

    /// Sleeps until some work is done, or longer or shorter.
    fn sleep<'a>(&'a self, mut s: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        s.waiters += 1;
        s = self.progress.wait(s).unwrap_or_else(|e| e.into_inner());
        s.waiters -= 1;
        s
    }

    /// Wakes those who sleep until some work is done. A call of the system, so only when there are any.
    fn wake(&self, s: &State) {
        if s.waiters > 0 {
            self.progress.notify_all();
        }
    }

    fn execute(&self, seq: u64, task: Task) {
        let outcome = match task {
            // Never skipped, whatever failed before: work that is sent when that error has been taken relies
            // on this wait, or on it having been noted as the newest one.
            Task::Wait(event) => event.wait(),
            // Dropping the task frees what it holds.
            Task::Run { .. } if self.errors.load(Ordering::Acquire) && self.outcome(seq).is_err() => Ok(()),
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
        s.worker = Some(thread::current().id());
        loop {
            while s.running || s.tasks.is_empty() {
                s = self.work.wait(s).unwrap_or_else(|e| e.into_inner());
            }
            s.running = true;
            while let Some((seq, task)) = s.tasks.pop_front() {
                drop(s);
                self.execute(seq, task);
                s = self.lock();
                self.wake(&s);
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

    /// Outcome of a piece, as far as it is decided: an error when it failed or is or will be skipped.
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
        let next = s.lost.partition_point(|(first, ..)| *first <= seq);
        match s.lost[..next].last() {
            Some((_, last, e)) if seq <= *last => Err(e.clone()),
            Some(_) | None => Ok(()),
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
        let done = self.done.load(Ordering::Acquire) >= seq;
        // What will be skipped has failed already, though its turn may not have come: work that is sent now
        // would not be stopped by an error that has been taken.
        match self.outcome(seq) {
            Err(e) => Some(Err(e)),
            Ok(()) => done.then_some(Ok(())),
        }
    }

    fn wait(&self, seq: u64) -> Result<()> {
        if self.done.load(Ordering::Acquire) < seq {
            let mut s = self.lock();
            let me = thread::current().id();
            while self.done.load(Ordering::Acquire) < seq {
                if s.worker == Some(me) || (s.owner == Some(me) && s.owner_executing) {
                    let msg = "work of a stream waits for later work of the same stream".into();
                    return Err(Error::Device { op: "wait", device: self.stream.device, msg });
                }
                s = self.sleep(s);
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
            self.0.disown(&mut s);
        }
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

    #[test]
    fn an_owner_that_pauses_holds_nobody_up() {
        // The owner of a queue waits for another thread, which is held back by the queue being full.
        let q = queue();
        let own = q.own().unwrap();
        q.send("t", || Ok(())).unwrap().wait().unwrap();
        let other = q.clone();
        let filler = thread::spawn(move || {
            for _ in 1..3 * CAPACITY {
                other.send("t", || Ok(()))?;
            }
            other.send("t", || Ok(()))?.wait()
        });
        filler.join().unwrap().unwrap();
        assert!(q.send("t", || Ok(())).unwrap().wait().is_ok());
        drop(own);
        assert!(q.own().is_some());
    }

    #[test]
    fn who_waits_for_work_of_an_owner_wakes_while_it_owns() {
        let q = queue();
        let own = q.own().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let second = q.clone();
        let waiter = thread::spawn(move || {
            tell.send(()).unwrap();
            second.wait(1)
        });
        told.recv().unwrap();
        while q.lock().waiters == 0 {
            thread::yield_now();
        }
        q.send("t", || Ok(())).unwrap();
        waiter.join().unwrap().unwrap();
        drop(own);
    }

    #[test]
    fn what_others_send_while_an_owner_executes_runs_after_it_in_order() {
        let q = queue();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let own = q.own().unwrap();
        let (other, log) = (q.clone(), seen.clone());
        q.send("t", move || {
            let inner = log.clone();
            let t = thread::spawn(move || {
                other.send("t", move || {
                    inner.lock().unwrap().push(2);
                    Ok(())
                })
            });
            t.join().unwrap()?;
            thread::sleep(std::time::Duration::from_millis(5));
            log.lock().unwrap().push(1);
            Ok(())
        })
        .unwrap();
        let log = seen.clone();
        let last = q.send("t", move || {
            log.lock().unwrap().push(3);
            Ok(())
        });
        last.unwrap().wait().unwrap();
        assert_eq!(*seen.lock().unwrap(), [1, 2, 3]);
        drop(own);
    }

    #[test]
    fn waiting_for_later_work_of_the_same_stream_is_an_error_and_not_a_hang() {
        for owned in [false, true] {
            let q = queue();
            let own = owned.then(|| q.own().unwrap());
            let inner = q.clone();
            let outer = q
                .send("t", move || {
                    let later = inner.send("t", || Ok(()))?;
                    later.wait()
                })
                .unwrap();
            assert!(outer.wait().unwrap_err().to_string().contains("same stream"));
            drop(own);
        }
    }

    #[test]
    fn every_lost_range_is_remembered() {
        let q = queue();
        let events: Vec<(Event, bool)> = (0..200)
            .map(|i| {
                let e = q.send("t", move || if i % 3 == 1 { Err(Error::value("t", "x")) } else { Ok(()) });
                let e = e.unwrap();
                (e.clone(), e.wait().is_ok())
            })
            .collect();
        for (i, (e, ok)) in events.iter().enumerate() {
            assert_eq!((*ok, e.is_ok()), (i % 3 != 1, i % 3 != 1), "{i}");
        }
    }

    #[test]
    fn a_wait_between_an_error_and_its_taking_still_holds_for_later_work() {
        // The queue fails, is told to wait for slow work elsewhere, and loses its error. What is sent then
        // and needs the slow work used to run without waiting for it.
        for again in [false, true] {
            let (a, b) = (queue(), HostQueue::new(Stream { device: Device::CPU, id: 9 }, None));
            let written = Arc::new(AtomicBool::new(false));
            let (open, gate) = std::sync::mpsc::channel::<()>();
            let w = written.clone();
            let slow = a
                .send("t", move || {
                    gate.recv().expect("the test opens the gate");
                    w.store(true, Ordering::SeqCst);
                    Ok(())
                })
                .unwrap();
            let bad = b.send("t", || Err(Error::value("t", "boom"))).unwrap();
            while !bad.is_done() {
                thread::yield_now();
            }
            b.wait_for(&slow).unwrap();
            assert!(bad.wait().is_err());
            if again {
                b.wait_for(&slow).unwrap();
            }
            let seen = written.clone();
            let read = b
                .send("t", move || {
                    if seen.load(Ordering::SeqCst) { Ok(()) } else { Err(Error::value("t", "too early")) }
                })
                .unwrap();
            thread::sleep(std::time::Duration::from_millis(5));
            open.send(()).unwrap();
            read.wait().unwrap();
        }
    }

    #[test]
    fn what_will_be_skipped_counts_as_failed_before_its_turn() {
        // Work that read the result of such a piece, sent when the error had been taken, ran on garbage.
        let (a, b) = (queue(), HostQueue::new(Stream { device: Device::CPU, id: 9 }, None));
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let slow = a.send("t", move || gate.recv().map_err(|e| Error::value("t", e.to_string()))).unwrap();
        let bad = b.send("t", || Err(Error::value("t", "boom"))).unwrap();
        b.wait_for(&slow).unwrap();
        let behind = b.send("t", || Ok(())).unwrap();
        assert!(bad.wait().is_err());
        assert!(b.done.load(Ordering::Acquire) < behind.seq(), "its turn has not come");
        assert!(matches!(behind.poll(), Some(Err(_))));
        let later = b.send("t", || Ok(())).unwrap();
        assert!(later.poll().is_none());
        open.send(()).unwrap();
        assert!(later.wait().is_ok() && behind.wait().is_err());
    }
}
