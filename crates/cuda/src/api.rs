//! The driver's interface behind safe functions, and the errors that it gives.

use crate::graph::Call;
use cudarc::driver::sys as cu;
use olivine_core::{Device, DeviceKind, Error, Result};
use std::ffi::{CStr, CString, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

/// How to get a driver, for messages.
const NO_DRIVER: &str = "the NVIDIA driver library (libcuda.so.1 or nvcuda.dll) cannot be loaded: this machine \
                         has no NVIDIA GPU, or its driver is not installed (https://www.nvidia.com/drivers; in a \
                         container, start it with the NVIDIA container toolkit)";

/// Oldest driver that has all that is used here.
const OLDEST_DRIVER: i32 = 12_000;

/// The driver of this machine.
#[derive(Debug)]
pub(crate) struct Driver {
    /// Version as the driver counts: 13000 is 13.0.
    pub version: i32,
    /// Devices, in its order.
    pub devices: Vec<Properties>,
}

/// What a device is.
#[derive(Debug, Clone)]
pub(crate) struct Properties {
    pub handle: c_int,
    pub name: String,
    pub memory: usize,
    /// Compute capability: 90 for 9.0.
    pub arch: i32,
    pub processors: u32,
    pub l2: usize,
}

/// A context, one for each device of the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context(cu::CUcontext);
// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// A stream of the driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawStream(pub cu::CUstream);
// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for RawStream {}
// SAFETY: as above.
unsafe impl Sync for RawStream {}

/// A kernel. Its module stays loaded as long as the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Function(cu::CUfunction);
// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

/// Memory of the host that the GPU reads and writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pinned {
    pub host: *mut u8,
    pub device: u64,
    pub bytes: usize,
}
// SAFETY: an address; users order their accesses.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

fn text(result: cu::CUresult) -> String {
    let (mut name, mut about) = (std::ptr::null(), std::ptr::null());
    // SAFETY: both functions only set the pointer, to text that is never freed, or leave it.
    unsafe {
        let _ = cu::cuGetErrorName(result, &mut name);
        let _ = cu::cuGetErrorString(result, &mut about);
        let read = |p: *const std::ffi::c_char| {
            if p.is_null() { String::new() } else { CStr::from_ptr(p).to_string_lossy().into_owned() }
        };
        format!("{} ({})", read(about), read(name))
    }
}

/// The driver's word as an error of core.
pub(crate) fn check(op: &'static str, device: Device, result: cu::CUresult) -> Result<()> {
    match result {
        cu::CUresult::CUDA_SUCCESS => Ok(()),
        e => Err(Error::Device { op, device, msg: text(e) }),
    }
}

fn wrong(msg: impl Into<String>) -> Error {
    Error::Device { op: "cuda", device: Device::new(DeviceKind::Cuda, 0), msg: msg.into() }
}

/// Loads the driver and looks at the devices, once.
pub(crate) fn driver() -> Result<&'static Driver> {
    static DRIVER: OnceLock<Result<Driver>> = OnceLock::new();
    DRIVER
        .get_or_init(|| {
            // A driver too old to have a function makes the loader panic.
            catch_unwind(AssertUnwindSafe(open)).unwrap_or_else(|_| {
                Err(wrong("the NVIDIA driver lacks functions of CUDA 12; install a newer driver"))
            })
        })
        .as_ref()
        .map_err(Clone::clone)
}

fn open() -> Result<Driver> {
    let any = Device::new(DeviceKind::Cuda, 0);
    // SAFETY: asks the system's loader for a library by its name.
    if !unsafe { cu::is_culib_present() } {
        return Err(wrong(NO_DRIVER));
    }
    let (mut version, mut count) = (0, 0);
    // SAFETY: initialises the driver and writes to the given integers.
    unsafe {
        check("cuda", any, cu::cuInit(0))?;
        check("cuda", any, cu::cuDriverGetVersion(&mut version))?;
        check("cuda", any, cu::cuDeviceGetCount(&mut count))?;
    }
    if version < OLDEST_DRIVER {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(wrong(format!(
            "the NVIDIA driver is for CUDA {major}.{minor}; 12.0 or later is needed: install a newer driver"
        )));
    }
    let devices = (0..count).map(properties).collect::<Result<_>>()?;
    Ok(Driver { version, devices })
}

fn properties(index: c_int) -> Result<Properties> {
    use cu::CUdevice_attribute as A;
    let device = Device::new(DeviceKind::Cuda, index as u16);
    let (mut handle, mut memory, mut name) = (0, 0, [0; 256]);
    // SAFETY: the functions write to the given places, the name into 256 bytes with its end.
    unsafe {
        check("cuda", device, cu::cuDeviceGet(&mut handle, index))?;
        check("cuda", device, cu::cuDeviceTotalMem_v2(&mut memory, handle))?;
        check("cuda", device, cu::cuDeviceGetName(name.as_mut_ptr(), 256, handle))?;
    }
    // SAFETY: the driver ends the name with a zero.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    let ask = |attribute| {
        let mut v = 0;
        // SAFETY: writes to the integer.
        check("cuda", device, unsafe { cu::cuDeviceGetAttribute(&mut v, attribute, handle) }).map(|()| v)
    };
    Ok(Properties {
        handle,
        name,
        memory,
        arch: ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
            + ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        processors: ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        l2: ask(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as usize,
    })
}

/// Names of the devices that can be used, or why there are none.
///
/// # Errors
/// `Device` naming the library that cannot be loaded and how to install it.
pub fn probe() -> Result<Vec<String>> {
    let d = driver()?;
    if d.devices.is_empty() {
        return Err(wrong("the NVIDIA driver is installed and finds no GPU"));
    }
    Ok(d.devices.iter().map(|p| p.name.clone()).collect())
}

impl Context {
    /// The context of a device that all libraries of the process share.
    pub(crate) fn of(device: Device, p: &Properties) -> Result<Context> {
        let mut c = std::ptr::null_mut();
        // SAFETY: writes the handle; the context is never released.
        check("cuda", device, unsafe { cu::cuDevicePrimaryCtxRetain(&mut c, p.handle) })?;
        Ok(Context(c))
    }

    /// Makes it the one that the calling thread's calls go to.
    pub(crate) fn enter(self, op: &'static str, device: Device) -> Result<()> {
        thread_local!(static CURRENT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) });
        if CURRENT.get() == self.0 as usize {
            return Ok(());
        }
        // SAFETY: the context lives as long as the process.
        check(op, device, unsafe { cu::cuCtxSetCurrent(self.0) })?;
        CURRENT.set(self.0 as usize);
        Ok(())
    }
}

/// A stream that does not wait for the default one. The context must be entered, as for all that follow.
pub(crate) fn new_stream(device: Device) -> Result<RawStream> {
    let mut s = std::ptr::null_mut();
    let flags = cu::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: writes the handle; the stream is never destroyed.
    check("stream", device, unsafe { cu::cuStreamCreate(&mut s, flags) })?;
    Ok(RawStream(s))
}

/// Memory of the device, in the order of a stream.
pub(crate) fn alloc(device: Device, bytes: usize, s: RawStream, limit: usize) -> Result<u64> {
    let mut ptr = 0;
    // SAFETY: writes the address. The stream holds nothing but allocations, so waiting for it is short.
    let result = unsafe {
        match cu::cuMemAllocAsync(&mut ptr, bytes, s.0) {
            cu::CUresult::CUDA_SUCCESS => cu::cuStreamSynchronize(s.0),
            e => e,
        }
    };
    if result == cu::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return Err(Error::OutOfMemory { op: "alloc", device, requested: bytes, active: 0, limit });
    }
    check("alloc", device, result)?;
    Ok(ptr)
}

/// Gives memory back. Nothing uses it any more; that is the caller's promise.
pub(crate) fn free(device: Device, ptr: u64, s: RawStream) -> Result<()> {
    // SAFETY: an address that `alloc` gave, by the caller's promise.
    check("free", device, unsafe { cu::cuMemFreeAsync(ptr, s.0) })
}

/// Host memory that the device reads and writes at the same time as the host. Lives as long as the process.
pub(crate) fn pinned(device: Device, bytes: usize) -> Result<Pinned> {
    let (mut host, mut ptr) = (std::ptr::null_mut(), 0);
    let flags = cu::CU_MEMHOSTALLOC_PORTABLE | cu::CU_MEMHOSTALLOC_DEVICEMAP;
    // SAFETY: writes the addresses; the memory is zeroed before anybody sees it and never freed.
    unsafe {
        check("alloc", device, cu::cuMemHostAlloc(&mut host, bytes, flags))?;
        host.cast::<u8>().write_bytes(0, bytes);
        check("alloc", device, cu::cuMemHostGetDevicePointer_v2(&mut ptr, host, 0))?;
    }
    Ok(Pinned { host: host.cast(), device: ptr, bytes })
}

/// Copies to the device in the order of a stream.
///
/// # Safety
/// Both sides hold `bytes` bytes until the copy is done, and nothing writes the source meanwhile.
pub(crate) unsafe fn upload(
    op: &'static str,
    device: Device,
    src: *const u8,
    dst: u64,
    bytes: usize,
    s: RawStream,
) -> Result<()> {
    // SAFETY: the caller's promise.
    check(op, device, unsafe { cu::cuMemcpyHtoDAsync_v2(dst, src.cast::<c_void>(), bytes, s.0) })
}

/// Copies from the device in the order of a stream.
///
/// # Safety
/// Both sides hold `bytes` bytes until the copy is done, and nothing else uses the target meanwhile.
pub(crate) unsafe fn download(
    op: &'static str,
    device: Device,
    src: u64,
    dst: *mut u8,
    bytes: usize,
    s: RawStream,
) -> Result<()> {
    // SAFETY: the caller's promise.
    check(op, device, unsafe { cu::cuMemcpyDtoHAsync_v2(dst.cast::<c_void>(), src, bytes, s.0) })
}

/// Fills with a byte in the order of a stream.
///
/// # Safety
/// `dst` holds `bytes` bytes of the device.
pub(crate) unsafe fn fill(
    op: &'static str,
    device: Device,
    dst: u64,
    byte: u8,
    bytes: usize,
    s: RawStream,
) -> Result<()> {
    // SAFETY: the caller's promise.
    check(op, device, unsafe { cu::cuMemsetD8Async(dst, byte, bytes, s.0) })
}

/// Has the GPU write a number to pinned memory when everything sent before is done.
pub(crate) fn write_value(
    device: Device,
    at: &Pinned,
    offset: usize,
    value: u64,
    s: RawStream,
) -> Result<()> {
    debug_assert!(offset + 8 <= at.bytes);
    // SAFETY: eight bytes inside pinned memory, which is never freed.
    let r = unsafe { cu::cuStreamWriteValue64_v2(s.0, at.device + offset as u64, value, 0) };
    check("stream", device, r)
}

/// Whether everything that was sent to a stream is done; an error when the device failed.
pub(crate) fn query(device: Device, s: RawStream) -> Result<bool> {
    // SAFETY: the stream is never destroyed.
    match unsafe { cu::cuStreamQuery(s.0) } {
        cu::CUresult::CUDA_ERROR_NOT_READY => Ok(false),
        r => check("stream", device, r).map(|()| true),
    }
}

/// Makes `later` wait for everything that was sent to `earlier`.
pub(crate) fn order(device: Device, earlier: RawStream, later: RawStream) -> Result<()> {
    let mut e = std::ptr::null_mut();
    let flags = cu::CUevent_flags::CU_EVENT_DISABLE_TIMING as u32;
    // SAFETY: the event is made, recorded, waited for and destroyed; the driver keeps what is still needed.
    unsafe {
        check("wait", device, cu::cuEventCreate(&mut e, flags))?;
        let recorded = check("wait", device, cu::cuEventRecord(e, earlier.0));
        let waited = recorded.and_then(|()| check("wait", device, cu::cuStreamWaitEvent(later.0, e, 0)));
        let _ = cu::cuEventDestroy_v2(e);
        waited
    }
}

/// Loads machine code and finds a kernel in it.
pub(crate) fn load(device: Device, image: &[u8], entry: &str) -> Result<Function> {
    let (mut module, mut f) = (std::ptr::null_mut(), std::ptr::null_mut());
    let name = CString::new(entry).map_err(|e| wrong(e.to_string()))?;
    // SAFETY: the image is a cubin, or PTX that ends with a zero; the module stays loaded.
    unsafe {
        check("load kernel", device, cu::cuModuleLoadData(&mut module, image.as_ptr().cast()))?;
        check("load kernel", device, cu::cuModuleGetFunction(&mut f, module, name.as_ptr()))?;
    }
    Ok(Function(f))
}

impl Function {
    /// Sends the kernel to a stream; with `overlap` it may come to the GPU while the kernel before it still
    /// runs.
    ///
    /// # Safety
    /// The parameters are those of the kernel, and what they point to is big enough and lives until the
    /// kernel is done.
    pub(crate) unsafe fn launch(
        self,
        c: &Call,
        device: Device,
        overlap: bool,
        s: RawStream,
        parameters: &mut [*mut c_void],
    ) -> Result<()> {
        // Every kernel begins by waiting for the one before, see `BEGIN` of `prelude.cuh`.
        let mut early = cu::CUlaunchAttribute {
            id: cu::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: [0; 4],
            value: cu::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = cu::CUlaunchConfig {
            gridDimX: c.grid[0],
            gridDimY: c.grid[1],
            gridDimZ: c.grid[2],
            blockDimX: c.block[0],
            blockDimY: c.block[1],
            blockDimZ: 1,
            sharedMemBytes: c.shared,
            hStream: s.0,
            attrs: &raw mut early,
            numAttrs: u32::from(overlap),
        };
        // SAFETY: the caller's promise; the attribute outlives the call.
        let r = unsafe {
            cu::cuLaunchKernelEx(&raw const config, self.0, parameters.as_mut_ptr(), std::ptr::null_mut())
        };
        check(c.op, device, r)
    }
}

fn node(c: &Call, parameters: &mut [*mut c_void]) -> cu::CUDA_KERNEL_NODE_PARAMS {
    cu::CUDA_KERNEL_NODE_PARAMS {
        func: c.function.0,
        gridDimX: c.grid[0],
        gridDimY: c.grid[1],
        gridDimZ: c.grid[2],
        blockDimX: c.block[0],
        blockDimY: c.block[1],
        blockDimZ: 1,
        sharedMemBytes: c.shared,
        kernelParams: parameters.as_mut_ptr(),
        extra: std::ptr::null_mut(),
        kern: std::ptr::null_mut(),
        ctx: std::ptr::null_mut(),
    }
}

/// Kernels that run one after the other, sent by one call. Kept as long as the process.
pub(crate) struct Graph {
    exec: cu::CUgraphExec,
    nodes: Vec<cu::CUgraphNode>,
}
// SAFETY: the driver's handles may be used from any thread, by one at a time.
unsafe impl Send for Graph {}

impl Graph {
    /// A graph of calls, whose parameters begin at the bounds.
    ///
    /// # Safety
    /// As for [`Function::launch`], at each launch of the graph.
    pub(crate) unsafe fn new(
        device: Device,
        calls: &[Call],
        parameters: &mut [*mut c_void],
        bounds: &[usize],
    ) -> Result<Graph> {
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut nodes: Vec<cu::CUgraphNode> = Vec::with_capacity(calls.len());
        // SAFETY: writes the handle.
        check("graph", device, unsafe { cu::cuGraphCreate(&mut graph, 0) })?;
        let mut made = Ok(());
        for (i, c) in calls.iter().enumerate() {
            let params = node(c, &mut parameters[bounds[i]..bounds[i + 1]]);
            let before = nodes.last().copied();
            let mut this = std::ptr::null_mut();
            // SAFETY: a graph just made and a node of it; the driver copies the parameters.
            let r = unsafe {
                cu::cuGraphAddKernelNode_v2(
                    &mut this,
                    graph,
                    before.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                    usize::from(before.is_some()),
                    &raw const params,
                )
            };
            made = check(c.op, device, r);
            if made.is_err() {
                break;
            }
            nodes.push(this);
        }
        let made = made.and_then(|()| {
            // SAFETY: a whole graph.
            check("graph", device, unsafe { cu::cuGraphInstantiateWithFlags(&mut exec, graph, 0) })
        });
        // The graph itself stays: its nodes are how those of the executable one are named.
        made.map(|()| Graph { exec, nodes })
    }

    /// Sets sizes and parameters for the next launch.
    ///
    /// # Safety
    /// As for [`Graph::new`].
    pub(crate) unsafe fn set(
        &mut self,
        device: Device,
        calls: &[Call],
        parameters: &mut [*mut c_void],
        bounds: &[usize],
    ) -> Result<()> {
        for (i, (c, &at)) in calls.iter().zip(&self.nodes).enumerate() {
            let params = node(c, &mut parameters[bounds[i]..bounds[i + 1]]);
            // SAFETY: a node of this graph, with the same kernel; the driver copies the parameters.
            let r = unsafe { cu::cuGraphExecKernelNodeSetParams_v2(self.exec, at, &raw const params) };
            check(c.op, device, r)?;
        }
        Ok(())
    }

    /// Sends the kernels to a stream.
    pub(crate) fn launch(&self, device: Device, s: RawStream) -> Result<()> {
        // SAFETY: a whole graph, whose parameters the makers have promised to be right.
        check("graph", device, unsafe { cu::cuGraphLaunch(self.exec, s.0) })
    }
}
