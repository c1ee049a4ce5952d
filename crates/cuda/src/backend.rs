//! NVIDIA GPUs as devices of core.

use crate::api;
use crate::compile;
use crate::device::Gpu;
use crate::launch;
use olivine_core::backend::{self, Backend, DeviceInfo, Limits, Support};
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::event::{Event, Timeline};
use olivine_core::{Device, DeviceKind, Error, Meta, Op, Result, Stream};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

/// Runs operations on NVIDIA GPUs.
#[derive(Default)]
pub struct CudaBackend {
    gpus: RwLock<HashMap<u16, Result<Arc<Gpu>>>>,
}

/// Makes the backend known to core. Loads nothing; calling it again changes nothing.
pub fn register() {
    backend::register(DeviceKind::Cuda, Arc::new(CudaBackend::default()));
}

impl CudaBackend {
    fn gpu(&self, device: Device) -> Result<Arc<Gpu>> {
        if let Some(g) = self.gpus.read().unwrap_or_else(|e| e.into_inner()).get(&device.index) {
            return g.clone();
        }
        let mut gpus = self.gpus.write().unwrap_or_else(|e| e.into_inner());
        gpus.entry(device.index).or_insert_with(|| Gpu::open(device).map(Arc::new)).clone()
    }
}

impl Backend for CudaBackend {
    fn device_count(&self) -> usize {
        api::driver().map_or(0, |d| d.devices.len())
    }

    fn info(&self, device: Device) -> Result<DeviceInfo> {
        let driver = api::driver()?;
        let p = driver.devices.get(usize::from(device.index)).ok_or(Error::NoBackend(device))?;
        let nvrtc = match compile::compiler() {
            Ok(c) => format!("{}.{}", c.version.0, c.version.1),
            Err(e) => e.to_string(),
        };
        let blas = match launch::matmul::version() {
            Ok(v) => format!("{}.{}.{}", v / 10_000, v / 100 % 100, v % 100),
            Err(e) => e.to_string(),
        };
        let details = BTreeMap::from([
            ("compute capability", format!("{}.{}", p.arch / 10, p.arch % 10)),
            ("cublaslt", blas),
            ("driver", format!("CUDA {}.{}", driver.version / 1000, driver.version % 1000 / 10)),
            ("l2 cache", format!("{} bytes", p.l2)),
            ("multiprocessors", p.processors.to_string()),
            ("nvrtc", nvrtc),
        ]);
        Ok(DeviceInfo { name: p.name.clone(), memory: p.memory, details })
    }

    fn limits(&self, _device: Device) -> Limits {
        launch::LIMITS
    }

    fn supports(&self, op: &Op, inputs: &[Meta]) -> Support {
        launch::supports(op, inputs)
    }

    fn alloc(&self, device: Device, bytes: usize) -> Result<DevMem> {
        self.gpu(device)?.alloc(bytes)
    }

    fn free(&self, device: Device, mem: DevMem) {
        // Memory that the driver does not take back is lost until the process ends; nobody can do more.
        let _ = self.gpu(device).and_then(|g| g.free(mem));
    }

    fn timeline(&self, stream: Stream) -> Result<Arc<dyn Timeline>> {
        Ok(self.gpu(stream.device)?.stream(stream)?)
    }

    fn upload(&self, src: DevMem, dst: DevMem, bytes: usize, stream: Stream) -> Result<()> {
        let gpu = self.gpu(stream.device)?;
        let s = gpu.stream(stream)?;
        // SAFETY: core passes memory of at least `bytes` bytes whose content is there: `wait` has seen to it.
        unsafe { gpu.staging.upload(src.ptr as *const u8, dst.ptr, bytes, &s) }
    }

    fn download(&self, src: DevMem, dst: DevMem, bytes: usize, stream: Stream) -> Result<()> {
        let s = self.gpu(stream.device)?.stream(stream)?;
        // SAFETY: core passes memory of at least `bytes` bytes and keeps it until the copy is done.
        unsafe { s.download(src.ptr, dst.ptr as *mut u8, bytes) }
    }

    fn eval(&self, ctx: &mut EvalCtx<'_>) -> Result<()> {
        let gpu = self.gpu(ctx.stream.device)?;
        let stream = gpu.stream(ctx.stream)?;
        stream.enter(ctx.op.name())?;
        launch::launch(ctx, &gpu, &stream)
    }

    /// Streams of one GPU wait for each other on the GPU. For work of another kind of device the calling
    /// thread waits, which holds back what depends on it.
    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        let Some(other) = event.stream() else { return Ok(()) };
        if other == stream || event.is_ok() {
            return Ok(());
        }
        if other.device != stream.device {
            return event.wait();
        }
        let gpu = self.gpu(stream.device)?;
        gpu.stream(stream)?.wait_for(&gpu.stream(other)?, event.seq())
    }

    fn flush(&self, stream: Stream) -> Result<()> {
        self.gpu(stream.device)?.stream(stream)?.mark()
    }
}
