//! The backend.

use crate::arena::Arena;
use crate::faults::Faults;
use olivine_core::backend::{self, Backend, DeviceInfo, Limits, Support};
use olivine_core::buffer::DevMem;
use olivine_core::eval::EvalCtx;
use olivine_core::event::{Event, Timeline};
use olivine_core::queue::HostQueue;
use olivine_core::{Device, DeviceKind, Meta, Op, Result, Stream};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

/// Devices of this kind.
pub const DEVICES: u16 = 3;

/// Test device `index`.
pub const fn device(index: u16) -> Device {
    Device::new(DeviceKind::Test, index)
}

/// Name of the tasks that check memory; they are neither delayed nor failed nor counted.
const CHECK: &str = "check";

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) arena: Arena,
    pub(crate) faults: Faults,
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

/// Runs `f` with the state of all test devices.
pub(crate) fn shared<T>(f: impl FnOnce(&mut Shared) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<Shared>> = SHARED.lock().unwrap_or_else(|e| e.into_inner());
    f(guard.get_or_insert_default())
}

#[derive(Default)]
struct TestBackend {
    queues: Mutex<HashMap<Stream, Arc<HostQueue>>>,
}

/// Makes the CPU and the test devices known to core. Calling it again changes nothing.
pub fn register() {
    olivine_cpu::register();
    backend::register(DeviceKind::Test, Arc::new(TestBackend::default()));
}

impl TestBackend {
    fn queue(&self, stream: Stream) -> Arc<HostQueue> {
        let mut queues = self.queues.lock().unwrap_or_else(|e| e.into_inner());
        queues
            .entry(stream)
            .or_insert_with(|| {
                let hook = move |op: &'static str, seq: u64| {
                    if op == CHECK {
                        return Ok(());
                    }
                    let (delay, outcome) = shared(|s| s.faults.task(op, stream, seq));
                    if !delay.is_zero() {
                        std::thread::sleep(delay);
                    }
                    outcome
                };
                HostQueue::new(stream, Some(Box::new(hook)))
            })
            .clone()
    }
}

/// Copies between host memory and a device's.
fn copy(src: DevMem, dst: DevMem, bytes: usize) {
    // SAFETY: both hold at least `bytes` bytes, which core promises and the arena has checked for its side;
    // core keeps them alive and unshared until the copy is done, and the arena is not host memory.
    unsafe { std::ptr::copy_nonoverlapping(src.ptr as *const u8, dst.ptr as *mut u8, bytes) };
}

impl Backend for TestBackend {
    fn device_count(&self) -> usize {
        usize::from(DEVICES)
    }

    fn info(&self, device: Device) -> Result<DeviceInfo> {
        let details = BTreeMap::from([("purpose", "tests".to_owned())]);
        Ok(DeviceInfo { name: format!("test device {}", device.index), memory: usize::MAX, details })
    }

    fn limits(&self, _device: Device) -> Limits {
        shared(|s| s.faults.limits)
    }

    fn supports(&self, op: &Op, inputs: &[Meta]) -> Support {
        match op {
            Op::Norm(_) | Op::Softmax(_) | Op::Rope(_) | Op::Attention(_)
                if shared(|s| s.faults.fallbacks) =>
            {
                Support::Fallback
            }
            Op::Fused(e) if e.operations() > 1 && shared(|s| s.faults.fallbacks) && !e.inputs.is_empty() => {
                Support::Fallback
            }
            _ => olivine_cpu::launch::supports(op, inputs),
        }
    }

    fn alloc(&self, device: Device, bytes: usize) -> Result<DevMem> {
        shared(|s| {
            s.faults.request("alloc", device, bytes)?;
            Ok(s.arena.alloc(device, bytes))
        })
    }

    fn free(&self, device: Device, mem: DevMem) {
        shared(|s| s.arena.free(device, mem));
    }

    fn timeline(&self, stream: Stream) -> Result<Arc<dyn Timeline>> {
        Ok(self.queue(stream))
    }

    fn upload(&self, src: DevMem, dst: DevMem, bytes: usize, stream: Stream) -> Result<()> {
        shared(|s| {
            s.arena.check("an upload", stream.device, dst, bytes);
            s.arena.check_host("an upload", src);
            s.faults.request("upload", stream.device, bytes)
        })?;
        self.queue(stream).send("upload", move || {
            shared(|s| s.arena.check("a running upload", stream.device, dst, bytes));
            copy(src, dst, bytes);
            Ok(())
        })?;
        Ok(())
    }

    fn download(&self, src: DevMem, dst: DevMem, bytes: usize, stream: Stream) -> Result<()> {
        shared(|s| {
            s.arena.check("a download", stream.device, src, bytes);
            s.arena.check_host("a download", dst);
            s.faults.request("download", stream.device, bytes)
        })?;
        self.queue(stream).send("download", move || {
            shared(|s| s.arena.check("a running download", stream.device, src, bytes));
            copy(src, dst, bytes);
            Ok(())
        })?;
        Ok(())
    }

    fn eval(&self, ctx: &mut EvalCtx<'_>) -> Result<()> {
        let queue = self.queue(ctx.stream);
        let (op, device) = (ctx.op.name(), ctx.stream.device);
        let inputs: Vec<(DevMem, usize)> =
            ctx.inputs.iter().map(|i| (i.mem, i.view.layout.span() * i.dtype().size())).collect();
        let check = move |when: &str| {
            shared(|s| {
                for &(mem, bytes) in &inputs {
                    s.arena.check(&format!("{when} {op}"), device, mem, bytes);
                }
            });
        };
        check("a sent");
        queue.send(CHECK, move || {
            check("a running");
            Ok(())
        })?;
        olivine_cpu::launch::launch(ctx, &queue)
    }

    fn wait(&self, stream: Stream, event: &Event) -> Result<()> {
        self.queue(stream).wait_for(event)
    }

    fn flush(&self, _stream: Stream) -> Result<()> {
        Ok(())
    }
}
