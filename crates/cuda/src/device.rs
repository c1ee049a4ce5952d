//! One GPU: its context, memory, streams and loaded kernels.

use crate::api::{self, Context, Function, Properties, RawStream};
use crate::codegen::Plan;
use crate::kernels::Kernel;
use crate::launch::matmul::Blas;
use crate::modules::Modules;
use crate::staging::Staging;
use crate::stream::GpuStream;
use olivine_core::alloc::{set_limit, stats};
use olivine_core::buffer::DevMem;
use olivine_core::{Device, Error, Result, Stream};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// One GPU.
pub(crate) struct Gpu {
    pub device: Device,
    pub properties: &'static Properties,
    pub staging: Staging,
    pub blas: Blas,
    context: Context,
    memory: RawStream,
    streams: RwLock<HashMap<u32, Arc<GpuStream>>>,
    expressions: Modules<Plan>,
    kernels: Modules<Kernel>,
}

impl Gpu {
    pub(crate) fn open(device: Device) -> Result<Gpu> {
        let properties =
            api::driver()?.devices.get(usize::from(device.index)).ok_or(Error::NoBackend(device))?;
        let context = Context::of(device, properties)?;
        context.enter("cuda", device)?;
        if stats(device).limit == usize::MAX {
            // Whoever set one before wants that.
            set_limit(device, properties.memory);
        }
        Ok(Gpu {
            device,
            properties,
            staging: Staging::new(device),
            blas: Blas::new(),
            context,
            memory: api::new_stream(device)?,
            streams: RwLock::default(),
            expressions: Modules::new(),
            kernels: Modules::new(),
        })
    }

    pub(crate) fn stream(&self, stream: Stream) -> Result<Arc<GpuStream>> {
        if let Some(s) = self.streams.read().unwrap_or_else(|e| e.into_inner()).get(&stream.id) {
            return Ok(s.clone());
        }
        let mut streams = self.streams.write().unwrap_or_else(|e| e.into_inner());
        if let Some(s) = streams.get(&stream.id) {
            return Ok(s.clone());
        }
        self.context.enter("stream", self.device)?;
        let s = Arc::new(GpuStream::new(stream, self.context, self.properties.arch)?);
        streams.insert(stream.id, s.clone());
        Ok(s)
    }

    pub(crate) fn alloc(&self, bytes: usize) -> Result<DevMem> {
        self.context.enter("alloc", self.device)?;
        let ptr = api::alloc(self.device, bytes, self.memory, self.properties.memory)?;
        Ok(DevMem { ptr, bytes })
    }

    pub(crate) fn free(&self, mem: DevMem) -> Result<()> {
        self.context.enter("free", self.device)?;
        api::free(self.device, mem.ptr, self.memory)
    }

    fn place(&self) -> (Device, Context, i32) {
        (self.device, self.context, self.properties.arch)
    }

    /// The kernel of an elementwise plan.
    pub(crate) fn expression(&self, plan: Plan) -> Result<Function> {
        let source = plan.clone();
        self.expressions.get(plan, self.place(), crate::codegen::ENTRY, move || source.unit())
    }

    /// A hand-written kernel.
    pub(crate) fn kernel(&self, kernel: Kernel) -> Result<Function> {
        let (source, entry) = (kernel.clone(), kernel.entry);
        self.kernels.get(kernel, self.place(), entry, move || source.unit())
    }
}
