//! The interface between core and what executes, and the registry of backends.

use crate::buffer::{DevMem, View};
use crate::device::{Device, DeviceKind, Stream};
use crate::dtype::Dtype;
use crate::eval::EvalCtx;
use crate::event::{Event, Timeline};
use crate::op::Op;
use crate::{Error, Meta, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

/// How a backend runs an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// By a kernel of its own.
    Native,
    /// Not at all: the operation is replaced by its composite of simpler ones.
    Fallback,
    /// On the CPU: the arguments are copied there, and the results are copied to whoever reads them.
    Host,
}

/// What fusion must respect on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Arrays that one elementwise kernel may read.
    pub max_inputs: usize,
    /// Instructions that one elementwise kernel may have.
    pub max_insts: usize,
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name as the maker gives it.
    pub name: String,
    /// Bytes of memory.
    pub memory: usize,
    /// What else is worth telling: instruction sets, driver versions.
    pub details: BTreeMap<&'static str, String>,
}

/// What executes operations on one kind of device.
///
/// All methods may be called from any thread. Work of one stream runs in the order of the calls; nothing
/// here blocks until work is done, except for back-pressure.
pub trait Backend: Send + Sync {
    /// How many devices of this kind there are.
    fn device_count(&self) -> usize;

    /// Name, memory and abilities of a device.
    fn info(&self, device: Device) -> Result<DeviceInfo>;

    /// What fusion must respect.
    fn limits(&self, device: Device) -> Limits;

    /// How this operation runs on arguments of these shapes and types.
    fn supports(&self, op: &Op, inputs: &[Meta]) -> Support;

    /// Takes memory from the device. Core caches it; this is called for the cache's misses only.
    fn alloc(&self, device: Device, bytes: usize) -> Result<DevMem>;

    /// Gives memory back. All work that uses it is done.
    fn free(&self, device: Device, mem: DevMem);

    /// The timeline of a stream, made on first use.
    fn timeline(&self, stream: Stream) -> Result<Arc<dyn Timeline>>;

    /// Copies `bytes` from host memory to the device, in the order of `stream`.
    fn upload(&self, src: DevMem, dst: DevMem, bytes: usize, stream: Stream) -> Result<()>;

    /// Copies `bytes` from the device to host memory, in the order of `stream`.
    fn download(&self, src: DevMem, dst: DevMem, bytes: usize, stream: Stream) -> Result<()>;

    /// Sends the kernel of `ctx.op` to the stream and puts its results into `ctx`.
    fn eval(&self, ctx: &mut EvalCtx<'_>) -> Result<()>;

    /// Makes later work of `stream` wait for an event of any other stream.
    fn wait(&self, stream: Stream, event: &Event) -> Result<()>;

    /// Makes sure that everything sent so far will run without further calls.
    fn flush(&self, stream: Stream) -> Result<()>;

    /// Lets the calling thread execute work of this stream by itself while the guard lives, when the
    /// stream is idle and such a thing makes sense.
    fn own(&self, stream: Stream) -> Option<Box<dyn std::any::Any>> {
        let _ = stream;
        None
    }
}

static REGISTRY: RwLock<BTreeMap<DeviceKind, Arc<dyn Backend>>> = RwLock::new(BTreeMap::new());

/// Makes a backend known. The first of a kind stays; a later one is ignored and `false` returned.
pub fn register(kind: DeviceKind, backend: Arc<dyn Backend>) -> bool {
    let mut r = REGISTRY.write().unwrap_or_else(|e| e.into_inner());
    if r.contains_key(&kind) {
        return false;
    }
    r.insert(kind, backend);
    true
}

/// The backend of a device.
pub fn get(device: Device) -> Result<Arc<dyn Backend>> {
    REGISTRY
        .read()
        .unwrap_or_else(|e| e.into_inner())
        .get(&device.kind)
        .cloned()
        .ok_or(Error::NoBackend(device))
}

/// Kinds of devices that have a backend, in order.
pub fn registered() -> Vec<DeviceKind> {
    REGISTRY.read().unwrap_or_else(|e| e.into_inner()).keys().copied().collect()
}

/// One argument of a kernel.
#[derive(Debug, Clone)]
pub struct Input {
    /// Where its elements are. The replica on the kernel's device is ready in stream order.
    pub view: View,
    /// Device memory of that replica.
    pub mem: DevMem,
    /// Nobody else can reach the buffer any more: its memory may become the result's.
    pub unique: bool,
}

impl Input {
    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.view.dtype
    }
}
