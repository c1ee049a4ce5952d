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
        let replica = Replica { device, mem, ready: Event::READY, home, uses: SmallVec::new(), owner };
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
        self.lock().iter().map(|r| r.device).collect()
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
    pub fn on(&self, op: &'static str, stream: Stream) -> Result<DevMem> {
        let mut replicas = self.lock();
        let at = match replicas.iter().position(|r| r.device == stream.device) {
            Some(at) => at,
            None => {
                let r = self.replicate(op, &mut replicas, stream)?;
                replicas.push(r);
                replicas.len() - 1
            }
        };
        let r = &replicas[at];
        match r.ready.poll() {
            Some(Ok(())) => {}
            // Waiting takes the error from its stream: the caller hands it to the user.
            Some(Err(_)) => r.ready.wait()?,
            None if r.ready.stream() == Some(stream) => {}
            None => backend::get(stream.device)?.wait(stream, &r.ready)?,
        }
        Ok(r.mem)
    }

    /// Notes that work of `stream`, complete at `event`, reads the replica on its device.
    pub(crate) fn used(&self, stream: Stream, event: &Event) {
        for r in self.lock().iter_mut() {
            if r.device == stream.device && r.home != stream {
                match r.uses.iter_mut().find(|u| u.stream() == Some(stream)) {
                    Some(u) => *u = event.clone(),
                    None => r.uses.push(event.clone()),
                }
            }
        }
    }

    fn replicate(&self, op: &'static str, replicas: &mut [Replica], stream: Stream) -> Result<Replica> {
        let device = stream.device;
        for r in replicas.iter() {
            if let Some(Err(_)) = r.ready.poll() {
                // There is nothing to copy. Waiting takes the error from its stream.
                r.ready.wait()?;
            }
        }
        if let Some(host) = replicas.iter_mut().find(|r| r.device.kind == DeviceKind::Cpu) {
            // Host to device, in the order of the stream that reads it.
            let b = backend::get(device)?;
            let mem = alloc::alloc(op, device, self.bytes, stream)?;
            b.wait(stream, &host.ready)?;
            b.upload(host.mem, mem, self.bytes, stream)?;
            let t = b.timeline(stream)?;
            let ready = Event::at(t.clone(), t.last());
            host.uses.retain(|u| u.stream() != Some(stream));
            host.uses.push(ready.clone());
            return Ok(Replica {
                device,
                mem,
                ready,
                home: stream,
                uses: SmallVec::new(),
                owner: Owner::Pool,
            });
        }
        let Some(src) = replicas.first_mut() else {
            return Err(Error::Device { op, device, msg: "the buffer has no content".into() });
        };
        let (from, home) = (src.device, src.home);
        let b = backend::get(from)?;
        b.wait(home, &src.ready)?;
        if device.kind == DeviceKind::Cpu {
            // Device to host, in the order of the stream that wrote it. The host memory is written by that
            // stream, so it counts as the memory's home.
            let mem = alloc::alloc(op, device, self.bytes, home)?;
            b.download(src.mem, mem, self.bytes, home)?;
            b.flush(home)?;
            let t = b.timeline(home)?;
            let ready = Event::at(t.clone(), t.last());
            return Ok(Replica { device, mem, ready, home, uses: SmallVec::new(), owner: Owner::Pool });
        }
        // Device to device of another kind: through the host.
        let staging = alloc::alloc(op, Device::CPU, self.bytes, home)?;
        b.download(src.mem, staging, self.bytes, home)?;
        b.flush(home)?;
        let t = b.timeline(home)?;
        let arrived = Event::at(t.clone(), t.last());
        let to = backend::get(device)?;
        let mem = alloc::alloc(op, device, self.bytes, stream)?;
        to.wait(stream, &arrived)?;
        to.upload(staging, mem, self.bytes, stream)?;
        let t = to.timeline(stream)?;
        let ready = Event::at(t.clone(), t.last());
        alloc::free(Device::CPU, staging, home, SmallVec::from_iter([arrived, ready.clone()]));
        Ok(Replica { device, mem, ready, home: stream, uses: SmallVec::new(), owner: Owner::Pool })
    }

    /// Waits for the content and gives its host address, copying it to the host first where needed.
    pub fn host(&self, op: &'static str) -> Result<*const u8> {
        let (mem, ready) = {
            let mut replicas = self.lock();
            let at = match replicas.iter().position(|r| r.device.kind == DeviceKind::Cpu) {
                Some(at) => at,
                None => {
                    let r = self.replicate(op, &mut replicas, Stream::default_of(Device::CPU))?;
                    replicas.push(r);
                    replicas.len() - 1
                }
            };
            (replicas[at].mem, replicas[at].ready.clone())
        };
        ready.wait()?;
        Ok(mem.ptr as *const u8)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        for r in self.replicas.get_mut().unwrap_or_else(|e| e.into_inner()).drain(..) {
            match r.owner {
                Owner::Pool => {
                    let mut after = r.uses;
                    if r.ready.stream().is_some_and(|s| s != r.home) {
                        after.push(r.ready);
                    }
                    alloc::free(r.device, r.mem, r.home, after);
                }
                Owner::Foreign(keep) => alloc::release_later(r.home, r.uses, keep.0),
            }
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
