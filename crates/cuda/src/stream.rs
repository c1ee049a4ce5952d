//! A stream of core on a CUDA stream, and its timeline.
//!
//! Every piece of work gets the next number when it has been sent. [`GpuStream::mark`] has the GPU write the
//! newest number to memory of the host behind it, so "is it done" is a load. Marks are not set for every piece
//! but when a batch ends ([`Backend::flush`](olivine_core::backend::Backend::flush)) and when somebody waits.
//!
//! Kernels that find an index out of range write it into the stream's [`Fault`]; it becomes the error of that
//! piece and of every later one, until a waiting host takes it. Nothing was read or written outside the buffers.

use crate::api::{self, Context, Pinned, RawStream};
use crate::graph::{Batch, Call};
use olivine_core::event::Timeline;
use olivine_core::{Device, Error, Result, Stream};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Where the number of finished work is in the stream's memory.
const DONE: usize = 0;
/// Where the fault is.
const FAULT: usize = 64;
/// Where the start of the device's part of the fault is, which is copied there once.
const START: usize = 256;
/// Its size: a word that says whether somebody has reported, and an address.
const START_BYTES: usize = 16;
/// Compute capability from which on kernels can begin while the one before still runs.
const OVERLAP: i32 = 90;
/// How long a waiting thread polls before it sleeps between looks.
const SPIN: Duration = Duration::from_millis(5);

/// What a kernel says about an index, as `report` of `kernels/prelude.cuh` writes it.
#[repr(C)]
struct Fault {
    /// 0: none; 1: written.
    state: AtomicU64,
    /// Piece of work.
    seq: AtomicU64,
    index: AtomicU64,
    size: AtomicU64,
    axis: AtomicU64,
}

/// A copy to pageable memory that the host finishes.
struct Delivery {
    seq: u64,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
    slot: usize,
}
// SAFETY: addresses; the host's side is used under the lock only.
unsafe impl Send for Delivery {}

#[derive(Default)]
struct State {
    /// Newest number that the GPU was told to write.
    marked: u64,
    /// First piece that failed and its error, until a host takes it.
    failed: Option<(u64, Error)>,
    /// Ranges that failed and whose error was taken; in order.
    lost: Vec<(u64, u64, Error)>,
    /// Names of the sent operations that check indices, by number.
    checked: VecDeque<(u64, &'static str)>,
    deliveries: VecDeque<Delivery>,
    /// Work of other streams that pieces from a number on wait for, and whose errors they inherit.
    needs: Vec<(u64, Arc<GpuStream>, u64)>,
    /// Free places for downloads.
    slots: Vec<usize>,
}

/// Bytes of a place for downloads; larger ones go straight to their target.
pub(crate) const SLOT: usize = 64 << 10;
const SLOTS: usize = 32;

/// A stream of core on the GPU.
pub(crate) struct GpuStream {
    pub stream: Stream,
    raw: RawStream,
    /// Launches that are not sent yet, and the error of those that could not be.
    batch: Mutex<Batch>,
    unsent: Mutex<Option<(u64, Error)>>,
    overlap: bool,
    context: Context,
    memory: Pinned,
    downloads: Pinned,
    sent: AtomicU64,
    state: Mutex<State>,
    troubled: AtomicU64,
    /// The device's part of the fault: whether a kernel has reported, and where to.
    guard: u64,
    /// A report was taken: the next work that checks indices makes room for another.
    reported: AtomicBool,
}

impl GpuStream {
    pub(crate) fn new(stream: Stream, context: Context, arch: i32) -> Result<GpuStream> {
        let device = stream.device;
        let raw = api::new_stream(device)?;
        let (memory, downloads) = (api::pinned(device, 4096)?, api::pinned(device, SLOT * SLOTS)?);
        let state = State { slots: (0..SLOTS).collect(), ..State::default() };
        let guard = api::alloc(device, START_BYTES, raw, 0)?;
        let start: [u64; 2] = [0, memory.device + FAULT as u64];
        // SAFETY: inside the pinned memory, which stays, and of the new memory's size.
        unsafe {
            let place = memory.host.add(START);
            std::ptr::copy_nonoverlapping(start.as_ptr().cast(), place, START_BYTES);
            api::upload("stream", device, place, guard, START_BYTES, raw)?;
        }
        Ok(GpuStream {
            stream,
            raw,
            batch: Mutex::default(),
            unsent: Mutex::new(None),
            overlap: arch >= OVERLAP,
            context,
            memory,
            downloads,
            sent: AtomicU64::new(0),
            state: Mutex::new(state),
            troubled: AtomicU64::new(0),
            guard,
            reported: AtomicBool::new(false),
        })
    }

    pub(crate) fn device(&self) -> Device {
        self.stream.device
    }

    pub(crate) fn enter(&self, op: &'static str) -> Result<()> {
        self.context.enter(op, self.device())
    }

    /// Adds a kernel to what is sent next.
    ///
    /// # Safety
    /// As for [`Function::launch`](crate::api::Function::launch).
    pub(crate) unsafe fn launch(&self, call: Call, words: &[u64], starts: &[usize]) -> Result<()> {
        let mut batch = self.batch.lock().unwrap_or_else(|e| e.into_inner());
        if batch.push(call, words, starts) { self.send(&mut batch) } else { Ok(()) }
    }

    fn send(&self, batch: &mut Batch) -> Result<()> {
        // SAFETY: whoever added the launches has promised it.
        let sent = unsafe { batch.send(self.device(), self.overlap, self.raw) };
        if let Err(e) = &sent {
            // Work that others count as sent is lost: they must not take its results for right.
            let first = self.done() + 1;
            self.unsent.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert((first, e.clone()));
            self.troubled.store(1, Ordering::Release);
        }
        sent
    }

    /// The driver's stream, after everything that was added before has been sent to it.
    pub(crate) fn raw(&self) -> Result<RawStream> {
        let mut batch = self.batch.lock().unwrap_or_else(|e| e.into_inner());
        if !batch.is_empty() {
            self.send(&mut batch)?;
        }
        Ok(self.raw)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at + 8 <= self.memory.bytes && at.is_multiple_of(8));
        // SAFETY: inside pinned memory, aligned, never freed; the GPU writes whole words.
        unsafe { &*self.memory.host.add(at).cast::<AtomicU64>() }
    }

    fn fault(&self) -> &Fault {
        // SAFETY: as for `word`; all fields are words.
        unsafe { &*self.memory.host.add(FAULT).cast::<Fault>() }
    }

    /// Address of the fault as kernels see it.
    pub(crate) fn fault_address(&self) -> u64 {
        self.guard
    }

    /// Number that the next piece of work will have at least; what a kernel reports itself as.
    pub(crate) fn next(&self) -> u64 {
        self.sent.load(Ordering::Acquire) + 1
    }

    /// Counts the work that was just sent as one piece.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Notes that work with numbers from `seq` on may report indices under this name.
    pub(crate) fn checks(&self, seq: u64, op: &'static str) -> Result<()> {
        if self.reported.swap(false, Ordering::AcqRel) {
            // SAFETY: the first word of the guard.
            unsafe { api::fill(op, self.device(), self.guard, 0, 8, self.raw()?)? };
        }
        let done = self.done();
        let mut s = self.lock();
        // What is done and gave no fault gives none.
        while s.checked.len() > 64 && s.checked.front().is_some_and(|(q, _)| *q < done) {
            s.checked.pop_front();
        }
        s.checked.push_back((seq, op));
        Ok(())
    }

    fn done(&self) -> u64 {
        self.word(DONE).load(Ordering::Acquire)
    }

    /// Has the GPU report everything that was sent so far.
    pub(crate) fn mark(&self) -> Result<()> {
        self.mark_locked(&mut self.lock())
    }

    fn mark_locked(&self, s: &mut State) -> Result<()> {
        let sent = self.sent.load(Ordering::Acquire);
        if s.marked < sent {
            self.enter("stream")?;
            api::write_value(self.device(), &self.memory, DONE, sent, self.raw()?)?;
            s.marked = sent;
        }
        Ok(())
    }

    /// Copies from the device to host memory in stream order. Small copies go through pinned memory and are
    /// finished by whoever sees first that they arrived.
    ///
    /// # Safety
    /// Both sides hold `bytes` bytes until the piece of work that this becomes is done.
    pub(crate) unsafe fn download(&self, src: u64, dst: *mut u8, bytes: usize) -> Result<()> {
        self.enter("download")?;
        let slot = (bytes <= SLOT).then(|| self.lock().slots.pop()).flatten();
        let Some(slot) = slot else {
            // SAFETY: the caller's promise. The driver returns when pageable memory has been written.
            unsafe { api::download("download", self.device(), src, dst, bytes, self.raw()?)? };
            self.sent();
            return Ok(());
        };
        // SAFETY: inside the pinned memory.
        let from = unsafe { self.downloads.host.add(slot * SLOT) };
        // SAFETY: the slot holds `SLOT` bytes and is this copy's alone.
        let copied = self
            .raw()
            .and_then(|raw| unsafe { api::download("download", self.device(), src, from, bytes, raw) });
        let mut s = self.lock();
        if let Err(e) = copied {
            s.slots.push(slot);
            return Err(e);
        }
        let seq = self.sent();
        s.deliveries.push_back(Delivery { seq, from, to: dst, bytes, slot });
        Ok(())
    }

    /// Finishes the copies of work up to `done`.
    fn deliver(&self, s: &mut State, done: u64) {
        while s.deliveries.front().is_some_and(|d| d.seq <= done) {
            let Some(d) = s.deliveries.pop_front() else { break };
            // SAFETY: the GPU has written the slot, and core keeps the target until this piece is done, which
            // nobody is told before.
            unsafe { std::ptr::copy_nonoverlapping(d.from, d.to, d.bytes) };
            s.slots.push(d.slot);
        }
    }

    /// Waits until a piece is done, well or not; an error only when the device itself failed.
    pub(crate) fn settle(&self, seq: u64) -> Result<()> {
        if self.done() < seq {
            let mut s = self.lock();
            let marked = if s.marked < seq { self.mark_locked(&mut s) } else { Ok(()) };
            drop(s);
            marked?;
            let start = Instant::now();
            let mut looks = 0u32;
            while self.done() < seq {
                looks += 1;
                if !looks.is_multiple_of(256) {
                    std::hint::spin_loop();
                    continue;
                }
                // A device that failed writes no more numbers.
                self.enter("wait")?;
                if let Err(e) = api::query(self.device(), self.raw) {
                    self.broke(&mut self.lock(), &e);
                    return Err(e);
                }
                if start.elapsed() > SPIN {
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        }
        Ok(())
    }

    /// Makes work that is sent from now on wait for piece `seq` of another stream of the device.
    pub(crate) fn wait_for(&self, other: &Arc<GpuStream>, seq: u64) -> Result<()> {
        self.enter("wait")?;
        api::order(self.device(), other.raw()?, self.raw()?)?;
        let from = self.next();
        self.lock().needs.push((from, other.clone(), seq));
        Ok(())
    }

    /// Takes over errors of work that this stream waited for. Not under the lock: two streams may wait for
    /// each other's work.
    fn inherit(&self) {
        if self.troubled.load(Ordering::Acquire) != 0 {
            let unsent = self.unsent.lock().unwrap_or_else(|e| e.into_inner()).take();
            let mut s = self.lock();
            if unsent.is_some() && s.failed.is_none() {
                s.failed = unsent;
            }
        }
        let done: Vec<_> = {
            let mut s = self.lock();
            if s.needs.is_empty() {
                return;
            }
            s.needs.extract_if(.., |(_, other, seq)| other.done() >= *seq).collect()
        };
        for (from, other, seq) in done {
            if let Some(Err(e)) = other.poll(seq) {
                self.troubled.store(1, Ordering::Release);
                let mut s = self.lock();
                if s.failed.as_ref().is_none_or(|(first, _)| *first > from) {
                    s.failed = Some((from, e));
                }
            }
        }
    }

    /// Looks at the fault; a new one becomes the stream's error.
    fn look(&self, s: &mut State) {
        let f = self.fault();
        if f.state.load(Ordering::Acquire) != 1 {
            return;
        }
        let (seq, axis) = (f.seq.load(Ordering::Relaxed), f.axis.load(Ordering::Relaxed));
        let (index, size) = (f.index.load(Ordering::Relaxed) as i64, f.size.load(Ordering::Relaxed));
        f.state.store(0, Ordering::Release);
        self.reported.store(true, Ordering::Release);
        self.troubled.store(1, Ordering::Release);
        if Self::outcome_of(s, seq).is_err() {
            return;
        }
        let op = s.checked.iter().rev().find(|(q, _)| *q <= seq).map_or("index", |(_, op)| *op);
        let msg = format!("index {index} is out of range for axis {axis} with size {size}");
        s.failed = Some((seq, Error::index(op, msg)));
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

    /// The device failed: nothing that is sent to it will ever work again.
    fn broke(&self, s: &mut State, e: &Error) {
        self.troubled.store(1, Ordering::Release);
        let first = self.done() + 1;
        if s.failed.is_none() {
            s.failed = Some((first, e.clone()));
        }
    }
}

impl Timeline for GpuStream {
    fn stream(&self) -> Stream {
        self.stream
    }

    fn last(&self) -> u64 {
        self.sent.load(Ordering::Acquire)
    }

    fn poll(&self, seq: u64) -> Option<Result<()>> {
        let done = self.done();
        let quiet =
            self.troubled.load(Ordering::Acquire) == 0 && self.fault().state.load(Ordering::Acquire) == 0;
        if done < seq && quiet {
            return None;
        }
        self.inherit();
        let mut s = self.lock();
        self.deliver(&mut s, done);
        self.look(&mut s);
        match Self::outcome_of(&s, seq) {
            Err(e) => Some(Err(e)),
            Ok(()) => (done >= seq).then_some(Ok(())),
        }
    }

    fn wait(&self, seq: u64) -> Result<()> {
        self.settle(seq)?;
        self.inherit();
        let mut s = self.lock();
        let done = self.done();
        self.deliver(&mut s, done);
        self.look(&mut s);
        let outcome = Self::outcome_of(&s, seq);
        if outcome.is_err()
            && let Some((first, e)) = s.failed.take_if(|(first, _)| seq >= *first)
        {
            let last = self.last();
            s.lost.push((first, last, e));
        }
        outcome
    }
}
