//! Memory of arrays: buffers that are written once, with replicas on the devices that read them.

use crate::alloc;
use crate::backend;
use crate::device::{Device, DeviceKind, Stream};
use crate::dtype::Dtype;
use crate::event::Event;
use crate::layout::Layout;
use crate::{Error, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

/// A piece of device memory. On the host it is an address that may be read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DevMem {
    /// Address on the device.
    pub ptr: u64,
    /// Size.
    pub bytes: usize,
}

/// The content of a [`Buffer`] on one device.
#[derive(Debug)]
struct Replica {
    device: Device,
    mem: DevMem,
    /// When its content is there.
    ready: Event,
    /// Stream in whose order the memory may be used and reused without waiting.
    home: Stream,
    /// Last use by each other stream.
    uses: SmallVec<[Event; 1]>,
    owner: Owner,
    /// A copy that failed and was made anew. Its memory stays until the buffer goes: somebody may have been
    /// told its address and not have sent the work yet.
    dead: bool,
}

#[derive(Debug)]
enum Owner {
    /// The allocator of the device.
    Pool,
    /// Somebody else, such as a mapped file; dropped when the last work that reads it is done.
    Foreign(#[allow(dead_code, reason = "held only to be dropped")] Keep),
}

struct Keep(#[allow(dead_code, reason = "held only to be dropped")] Box<dyn Any + Send + Sync>);

impl std::fmt::Debug for Keep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keep")
    }
}

/// Bytes that are written once. Copies on several devices therefore never go stale.
#[derive(Debug)]
pub struct Buffer {
    bytes: usize,
    replicas: Mutex<SmallVec<[Replica; 1]>>,
}

impl Buffer {
    /// Fresh memory on the device of `stream`, for work of that stream to write. `ready` is set by
    /// [`Buffer::written`].
    pub fn alloc(op: &'static str, stream: Stream, bytes: usize) -> Result<(Arc<Buffer>, DevMem)> {
        let mem = alloc::alloc(op, stream.device, bytes, stream)?;
        Ok((Arc::new(Buffer::with(stream.device, mem, stream, bytes, Owner::Pool)), mem))
    }

    fn with(device: Device, mem: DevMem, home: Stream, bytes: usize, owner: Owner) -> Buffer {
        let replica =
            Replica { device, mem, ready: Event::READY, home, uses: SmallVec::new(), owner, dead: false };
        Buffer { bytes, replicas: Mutex::new(SmallVec::from_iter([replica])) }
    }

    /// Host memory filled by `fill` at once.
    pub fn from_fn(op: &'static str, bytes: usize, fill: impl FnOnce(&mut [u8])) -> Result<Arc<Buffer>> {
        let home = Stream::default_of(Device::CPU);
        // Nothing of the home stream may still be using recycled memory that is written right now.
        let mem = alloc::alloc_idle(op, Device::CPU, bytes, home)?;
        let buffer = Buffer::with(Device::CPU, mem, home, bytes, Owner::Pool);
        if bytes > 0 {
            // SAFETY: fresh host memory of at least `bytes` bytes that nobody else knows of; the allocator
            // zeroes or has written it before, so it is initialised.
            fill(unsafe { std::slice::from_raw_parts_mut(mem.ptr as *mut u8, bytes) });
        }
        Ok(Arc::new(buffer))
    }

    /// Host memory that belongs to `owner`, without a copy.
    ///
    /// # Safety
    /// `ptr..ptr + bytes` stays readable and unchanged for as long as `owner` lives.
    pub unsafe fn foreign(ptr: *const u8, bytes: usize, owner: Box<dyn Any + Send + Sync>) -> Arc<Buffer> {
        let mem = DevMem { ptr: ptr as u64, bytes };
        let home = Stream::default_of(Device::CPU);
        Arc::new(Buffer::with(Device::CPU, mem, home, bytes, Owner::Foreign(Keep(owner))))
    }

    /// Size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn lock(&self) -> MutexGuard<'_, SmallVec<[Replica; 1]>> {
        self.replicas.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Devices that hold a replica.
    pub fn devices(&self) -> Vec<Device> {
        self.lock().iter().filter(|r| !r.dead).map(|r| r.device).collect()
    }

    /// States when the content written by the stream that the buffer was made for is there.
    pub fn written(&self, ready: Event) {
        if let Some(r) = self.lock().first_mut() {
            r.ready = ready;
        }
    }

    /// Whether the memory may be written over by work of `stream`, given that nobody else holds the buffer.
    pub fn reusable(&self, stream: Stream) -> bool {
        let replicas = self.lock();
        match &replicas[..] {
            [r] => {
                r.home == stream
                    && matches!(r.owner, Owner::Pool)
                    && r.ready.stream().is_none_or(|s| s == stream)
                    && r.uses.iter().all(Event::is_done)
            }
            _ => false,
        }
    }

    /// Event that completes when the content is first there, on whatever device.
    pub fn ready(&self) -> Event {
        self.lock().first().map_or(Event::READY, |r| r.ready.clone())
    }

    /// Memory of the replica on `stream`'s device for work of that stream to read; makes the replica when
    /// there is none, and makes the stream wait for it.
    ///
    /// The event is the replica's. Its error, too, must become the reader's: it may come up, and be taken
    /// from the stream by somebody else, before the reader's work is sent.
    pub fn on(&self, op: &'static str, stream: Stream) -> Result<(DevMem, Event)> {
        let mut replicas = self.lock();
        let at = self.replica(op, &mut replicas, stream)?;
        let r = &replicas[at];
        match r.ready.poll() {
            Some(Ok(())) => {}
            // Waiting takes the error from its stream: the caller hands it to the user.
            Some(Err(_)) => r.ready.wait()?,
            None if r.ready.stream() == Some(stream) => {}
            None => backend::get(stream.device)?.wait(stream, &r.ready)?,
        }
        Ok((r.mem, r.ready.clone()))
    }

    /// Notes that work of `stream`, complete at `event`, reads the replica on its device.
    pub(crate) fn used(&self, stream: Stream, event: &Event) {
        for r in self.lock().iter_mut() {
            if r.device == stream.device && r.home != stream {
                r.note(event.clone());
            }
        }
    }

    /// Place of the replica on the device of `stream`, made when there is none. A copy that failed is not
    /// the content's fault: it is made anew.
    fn replica(
        &self,
        op: &'static str,
        replicas: &mut SmallVec<[Replica; 1]>,
        stream: Stream,
    ) -> Result<usize> {
        if let Some(at) = replicas.iter().position(|r| r.device == stream.device && !r.dead) {
            if at == 0 || !matches!(replicas[at].ready.poll(), Some(Err(_))) {
                return Ok(at);
            }
            replicas[at].dead = true;
        }
        let made = self.replicate(op, replicas, stream)?;
        replicas.push(made);
        Ok(replicas.len() - 1)
    }

    fn replicate(&self, op: &'static str, replicas: &mut [Replica], stream: Stream) -> Result<Replica> {
        let device = stream.device;
        let failed = |r: &Replica| matches!(r.ready.poll(), Some(Err(_)));
        let Some(first) = replicas.first() else {
            return Err(Error::Device { op, device, msg: "the buffer has no content".into() });
        };
        if failed(first) {
            // There is nothing to copy. Waiting takes the error from its stream.
            first.ready.wait()?;
        }
        let on_host = |r: &Replica| r.device.kind == DeviceKind::Cpu && !failed(r);
        if let Some(host) = replicas.iter_mut().find(|r| on_host(r)) {
            // Host to device, in the order of the stream that reads it.
            let fresh = Fresh::alloc(op, device, self.bytes, stream)?;
            let ready =
                transfer(device, stream, &host.ready, |b| b.upload(host.mem, fresh.mem, self.bytes, stream));
            // Noted also when only a part was sent.
            host.note(sent_so_far(stream)?);
            return ready.map(|ready| fresh.into_replica(ready));
        }
        let src = &replicas[0];
        let (from, home) = (src.device, src.home);
        // Device to host, in the order of the stream that wrote it. The host memory is written by that
        // stream, so it counts as the memory's home.
        let host = Fresh::alloc(op, Device::CPU, self.bytes, home)?;
        let arrived = transfer(from, home, &src.ready, |b| {
            b.download(src.mem, host.mem, self.bytes, home)?;
            b.flush(home)
        })?;
        if device.kind == DeviceKind::Cpu {
            return Ok(host.into_replica(arrived));
        }
        // Device to device of another kind or number: through the host.
        let mut host = host;
        let fresh = Fresh::alloc(op, device, self.bytes, stream)?;
        let ready = transfer(device, stream, &arrived, |b| b.upload(host.mem, fresh.mem, self.bytes, stream));
        host.uses.push(sent_so_far(stream)?);
        ready.map(|ready| fresh.into_replica(ready))
    }

    /// Waits for the content and gives its host address, copying it to the host first where needed.
    pub fn host(&self, op: &'static str) -> Result<*const u8> {
        let (mem, ready) = {
            let mut replicas = self.lock();
            let at = self.replica(op, &mut replicas, Stream::default_of(Device::CPU))?;
            (replicas[at].mem, replicas[at].ready.clone())
        };
        ready.wait()?;
        Ok(mem.ptr as *const u8)
    }
}

/// Everything that a stream was sent.
fn sent_so_far(stream: Stream) -> Result<Event> {
    let t = backend::get(stream.device)?.timeline(stream)?;
    let last = t.last();
    Ok(Event::at(t, last))
}

/// Sends a copy to `stream` of `device` after `source`, and gives its completion.
fn transfer(
    device: Device,
    stream: Stream,
    source: &Event,
    copy: impl FnOnce(&dyn backend::Backend) -> Result<()>,
) -> Result<Event> {
    let b = backend::get(device)?;
    b.wait(stream, source)?;
    copy(b.as_ref())?;
    let ready = sent_so_far(stream)?;
    // Had the source failed before the copy was sent, and its error been taken from the stream, the copy is
    // one of garbage. A later failure has skipped the copy by itself.
    match source.poll() {
        Some(Err(e)) => Err(e),
        Some(Ok(())) | None => Ok(ready),
    }
}

impl Replica {
    /// Notes a use by another stream than its home.
    fn note(&mut self, event: Event) {
        match self.uses.iter_mut().find(|u| u.stream() == event.stream()) {
            // Threads may come here in another order than their work was sent in.
            Some(u) if u.seq() < event.seq() => *u = event,
            Some(_) => {}
            None => self.uses.push(event),
        }
    }

    /// Gives the memory back, for use after everything that still works on it.
    fn give_back(self) {
        match self.owner {
            Owner::Pool => {
                let mut after = self.uses;
                if self.ready.stream().is_some_and(|s| s != self.home) {
                    after.push(self.ready);
                }
                alloc::free(self.device, self.mem, self.home, after);
            }
            Owner::Foreign(keep) => alloc::release_later(self.home, self.uses, keep.0),
        }
    }
}

/// Memory that goes back unless it becomes a replica, after the work that its home stream and others were
/// sent.
struct Fresh {
    device: Device,
    mem: DevMem,
    home: Stream,
    uses: SmallVec<[Event; 1]>,
    kept: bool,
}

impl Fresh {
    fn alloc(op: &'static str, device: Device, bytes: usize, home: Stream) -> Result<Fresh> {
        let mem = alloc::alloc(op, device, bytes, home)?;
        Ok(Fresh { device, mem, home, uses: SmallVec::new(), kept: false })
    }

    fn into_replica(mut self, ready: Event) -> Replica {
        self.kept = true;
        let uses = std::mem::take(&mut self.uses);
        Replica {
            device: self.device,
            mem: self.mem,
            ready,
            home: self.home,
            uses,
            owner: Owner::Pool,
            dead: false,
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.kept {
            alloc::free(self.device, self.mem, self.home, std::mem::take(&mut self.uses));
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        for r in self.replicas.get_mut().unwrap_or_else(|e| e.into_inner()).drain(..) {
            r.give_back();
        }
    }
}

/// The value of an evaluated array: elements of a buffer seen through a layout.
#[derive(Debug, Clone)]
pub struct View {
    /// Where the bytes are.
    pub buffer: Arc<Buffer>,
    /// How they are arranged.
    pub layout: Layout,
    /// What they are.
    pub dtype: Dtype,
}

impl View {
    /// The same elements under another layout.
    pub fn with(&self, layout: Layout) -> View {
        View { buffer: self.buffer.clone(), layout, dtype: self.dtype }
    }
}
