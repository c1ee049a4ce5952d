//! The CPU as a device of core.

use crate::{launch, memory, pool, simd};
use olivine_core::alloc::set_limit;
use olivine_core::backend::{Backend, DeviceInfo, Limits, Support};
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::event::{Event, Timeline};
use olivine_core::queue::HostQueue;
use olivine_core::{Device, DeviceKind, Error, Meta, Op, Result, Stream, backend};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

/// Runs operations on the cores of this machine, each stream in order on a thread of its own or on the
/// thread that waits for it.
#[derive(Default)]
pub struct CpuBackend {
    queues: RwLock<HashMap<Stream, Arc<HostQueue>>>,
}

/// Makes the CPU known to core, with the machine's memory as limit (`OLIVINE_MEMORY_LIMIT`, in bytes,
/// overrides). Calling it again changes nothing.
pub fn register() {
    if backend::register(DeviceKind::Cpu, Arc::new(CpuBackend::default())) {
        let asked = std::env::var("OLIVINE_MEMORY_LIMIT").ok().and_then(|v| v.parse().ok());
        set_limit(Device::CPU, asked.unwrap_or_else(memory::physical));
    }
}

/// What fusion must respect where these kernels run.
pub const LIMITS: Limits = Limits { max_inputs: 24, max_insts: 96 };

impl CpuBackend {
    fn queue(&self, stream: Stream) -> Arc<HostQueue> {
        if let Some(q) = self.queues.read().unwrap_or_else(|e| e.into_inner()).get(&stream) {
            return q.clone();
        }
        let mut queues = self.queues.write().unwrap_or_else(|e| e.into_inner());
        queues.entry(stream).or_insert_with(|| HostQueue::new(stream, None)).clone()
    }
}

/// Host memory needs no copies to or from the host; core never asks for one.
fn no_copy(op: &'static str, stream: Stream) -> Result<()> {
    let msg = "a copy between the host and the host was asked for, which is a bug in core".into();
    Err(Error::Device { op, device: stream.device, msg })
}

impl Backend for CpuBackend {
    fn device_count(&self) -> usize {
        1
    }

    fn info(&self, device: Device) -> Result<DeviceInfo> {
        if device.index != 0 {
            return Err(Error::NoBackend(device));
        }
        let details = BTreeMap::from([
            ("vectors", format!("{:?}", simd::level())),
            ("threads", pool::threads().to_string()),
        ]);
        Ok(DeviceInfo { name: std::env::consts::ARCH.into(), memory: memory::physical(), details })
    }

    fn limits(&self, _device: Device) -> Limits {
        LIMITS
    }

    fn supports(&self, op: &Op, inputs: &[Meta]) -> Support {
        launch::supports(op, inputs)
    }

    fn alloc(&self, device: Device, bytes: usize) -> Result<DevMem> {
        memory::alloc(device, bytes)
    }

    fn free(&self, _device: Device, mem: DevMem) {
        memory::free(mem);
    }

    fn timeline(&self, stream: Stream) -> Result<Arc<dyn Timeline>> {
        Ok(self.queue(stream))
    }

    fn upload(&self, _src: DevMem, _dst: DevMem, _bytes: usize, stream: Stream) -> Result<()> {
        no_copy("upload", stream)
    }

    fn download(&self, _src: DevMem, _dst: DevMem, _bytes: usize, stream: Stream) -> Result<()> {
        no_copy("download", stream)
    }

    fn eval(&self, ctx: &mut EvalCtx<'_>) -> Result<()> {
        let queue = self.queue(ctx.stream);
        launch::launch(ctx, &queue)
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        self.queue(stream).wait_for(event)
    }

    fn flush(&self, _stream: Stream) -> Result<()> {
        Ok(())
    }

    fn own(&self, stream: Stream) -> Option<Box<dyn std::any::Any>> {
        Some(Box::new(self.queue(stream).own()?))
    }
}
