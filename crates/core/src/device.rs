//! Devices and streams as plain names, and which ones new operations go to.

use crate::backend;
use crate::{Error, Result};
use std::cell::Cell;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// What executes operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    /// The host processor and its memory. Always there.
    Cpu,
    /// NVIDIA GPUs.
    Cuda,
    /// GPUs through Metal, Vulkan or DX12.
    Wgpu,
    /// A device made of threads and separate host memory that delays, shuffles and fails on purpose;
    /// exists only where a test registers it.
    Test,
}

/// One device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// Its kind.
    pub kind: DeviceKind,
    /// Which of its kind.
    pub index: u16,
}

impl Device {
    /// The host processor.
    pub const CPU: Device = Device { kind: DeviceKind::Cpu, index: 0 };

    /// The first device of a kind.
    pub const fn new(kind: DeviceKind, index: u16) -> Device {
        Device { kind, index }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Cuda => "cuda",
            DeviceKind::Wgpu => "wgpu",
            DeviceKind::Test => "test",
        };
        write!(f, "{kind}:{}", self.index)
    }
}

/// An ordered queue of work on one device. Work on different streams overlaps; the scheduler orders
/// whatever depends on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stream {
    /// Where it runs.
    pub device: Device,
    /// Which stream of the device; 0 is the default one.
    pub id: u32,
}

impl Stream {
    /// The default stream of a device.
    pub const fn default_of(device: Device) -> Stream {
        Stream { device, id: 0 }
    }

    /// A stream that nobody else uses. Its worker lives as long as the process.
    pub fn new(device: Device) -> Result<Stream> {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        backend::get(device)?;
        Ok(Stream { device, id: NEXT.fetch_add(1, Ordering::Relaxed) })
    }

    /// Runs `f` with this stream as the one that new operations of this thread go to.
    pub fn scope<T>(self, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Stream>);
        impl Drop for Restore {
            fn drop(&mut self) {
                SCOPED.set(self.0);
            }
        }
        let _restore = Restore(SCOPED.replace(Some(self)));
        f()
    }

    /// Runs `f` with a stream chosen anew for every operation of this thread that no [`Stream::scope`]
    /// decides about. Values do not depend on the choice, which is what tests use it for.
    pub fn scatter<T>(choose: impl FnMut() -> Stream + 'static, f: impl FnOnce() -> T) -> T {
        struct Restore(Option<Choose>);
        impl Drop for Restore {
            fn drop(&mut self) {
                CHOOSE.set(self.0.take());
            }
        }
        let _restore = Restore(CHOOSE.replace(Some(Box::new(choose))));
        f()
    }

    /// Waits until everything sent to this stream so far is done; the error of the stream, if it has one.
    pub fn synchronize(self) -> Result<()> {
        let b = backend::get(self.device)?;
        b.flush(self)?;
        let t = b.timeline(self)?;
        t.wait(t.last())
    }
}

impl fmt::Display for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.device, self.id)
    }
}

/// Makes new operations of this thread go to a stream from now on, or where they went before any scope; returns what
/// it was. For bindings whose scopes are no closures; others use [`Stream::scope`].
pub fn enter_stream(stream: Option<Stream>) -> Option<Stream> {
    SCOPED.replace(stream)
}

type Choose = Box<dyn FnMut() -> Stream>;

thread_local! {
    static SCOPED: Cell<Option<Stream>> = const { Cell::new(None) };
    static CHOOSE: Cell<Option<Choose>> = const { Cell::new(None) };
}
static DEFAULT: Mutex<Device> = Mutex::new(Device::CPU);

/// Stream that new operations of this thread go to: the innermost [`Stream::scope`], or the default
/// stream of the [`default_device`].
pub fn current_stream() -> Stream {
    SCOPED.get().or_else(chosen).unwrap_or_else(|| Stream::default_of(default_device()))
}

fn chosen() -> Option<Stream> {
    // Taken out meanwhile, so that a choice that asks for the current stream gets the default one.
    let mut choose = CHOOSE.take()?;
    let stream = choose();
    CHOOSE.set(Some(choose));
    Some(stream)
}

/// Device that new operations go to where no stream is given.
pub fn default_device() -> Device {
    *DEFAULT.lock().unwrap_or_else(|e| e.into_inner())
}

/// Sets the [`default_device`] of the process; an error when it has no backend.
pub fn set_default_device(device: Device) -> Result<()> {
    let b = backend::get(device)?;
    if usize::from(device.index) >= b.device_count() {
        return Err(Error::NoBackend(device));
    }
    *DEFAULT.lock().unwrap_or_else(|e| e.into_inner()) = device;
    Ok(())
}
