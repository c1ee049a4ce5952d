//! Devices and streams.

use crate::fault::{Fault, R, type_error, value_error};
use crate::output::blocking;
use olivine_core::device::enter_stream;
use olivine_core::{Device, DeviceKind, Error, Stream};
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

/// The enumerations of the module: they are Python's own, so that they iterate, print and pickle as such do.
const ENUMERATIONS: &std::ffi::CStr = c_str!(
    "import enum
class DeviceType(enum.Enum):
    cpu = 0
    gpu = 1
class DtypeCategory(enum.Enum):
    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7
for c in (DeviceType, DtypeCategory):
    c.__module__ = 'olivine.core'
    c.__repr__ = c.__str__
"
);

/// Defines the enumerations in the module and their members beside them.
pub fn enumerations(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let names = PyDict::new(py);
    names.set_item("__name__", "olivine.core")?;
    py.run(ENUMERATIONS, Some(&names), Some(&names))?;
    for class in ["DeviceType", "DtypeCategory"] {
        if let Some(c) = names.get_item(class)? {
            module.add(class, &c)?;
            for member in c.try_iter()? {
                let member = member?;
                module.add(&*member.getattr("name")?.extract::<String>()?, member)?;
            }
        }
    }
    Ok(())
}

/// The kind of GPU that there is.
fn gpu_kind() -> Option<DeviceKind> {
    static FOUND: LazyLock<Option<DeviceKind>> =
        LazyLock::new(|| olivine_cuda::probe().ok().map(|_| DeviceKind::Cuda));
    *FOUND
}

/// Whether there is a GPU of NVIDIA.
pub fn has_cuda() -> bool {
    gpu_kind() == Some(DeviceKind::Cuda)
}

/// Name of a device's type in Python.
fn type_name(d: Device) -> &'static str {
    if d.kind == DeviceKind::Cpu { "cpu" } else { "gpu" }
}

/// A device: ``Device(type, index=0)``.
#[pyclass(frozen, name = "Device", module = "olivine.core")]
pub struct PyDevice {
    gpu: bool,
    index: u16,
}

impl PyDevice {
    fn of(d: Device) -> PyDevice {
        PyDevice { gpu: d.kind != DeviceKind::Cpu, index: d.index }
    }

    fn name(&self) -> &'static str {
        if self.gpu { "gpu" } else { "cpu" }
    }

    /// The device of the core.
    fn core(&self) -> R<Device> {
        match (self.gpu, gpu_kind()) {
            (false, _) => Ok(Device::new(DeviceKind::Cpu, self.index)),
            (true, Some(kind)) => Ok(Device::new(kind, self.index)),
            (true, None) => Err(value_error("[device] there is no GPU that Olivine can use")),
        }
    }
}

/// A callable, and the arguments with which it makes an object again.
type Made = (Py<PyAny>, (Py<PyAny>, u16));

#[pymethods]
impl PyDevice {
    #[new]
    #[pyo3(signature = (r#type, index = 0))]
    fn new(r#type: &Bound<'_, PyAny>, index: i64) -> PyResult<Self> {
        let gpu = device_type(r#type)?
            .ok_or_else(|| type_error(format!("[Device] takes a DeviceType, got {}", kind_of(r#type))))?;
        let index =
            u16::try_from(index).map_err(|_| value_error(format!("[Device] there is no device {index}")))?;
        Ok(PyDevice { gpu, index })
    }
    /// Its type.
    #[getter]
    fn r#type(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.import("olivine.core")?.getattr("DeviceType")?.getattr(self.name())?.unbind())
    }
    /// Which of its type.
    #[getter]
    fn index(&self) -> u16 {
        self.index
    }
    fn __repr__(&self) -> String {
        format!("Device({}, {})", self.name(), self.index)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(o) = other.cast::<PyDevice>() {
            return Ok((o.get().gpu, o.get().index) == (self.gpu, self.index));
        }
        Ok(device_type(other)? == Some(self.gpu))
    }
    fn __hash__(&self) -> u64 {
        u64::from(self.gpu) << 16 | u64::from(self.index)
    }
    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<Made> {
        Ok((slf.get_type().into_any().unbind(), (slf.get().r#type(slf.py())?, slf.get().index)))
    }
}

fn kind_of(v: &Bound<'_, PyAny>) -> String {
    v.get_type().name().map_or_else(|_| "object".into(), |n| n.to_string())
}

/// Whether a member of `DeviceType` means GPUs; `None` for anything else.
fn device_type(v: &Bound<'_, PyAny>) -> R<Option<bool>> {
    static KIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = v.py();
    let kind = KIND.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.import("olivine.core")?.getattr("DeviceType")?.unbind())
    })?;
    if !v.is_instance(kind.bind(py))? {
        return Ok(None);
    }
    Ok(Some(v.getattr("value")?.extract::<i64>()? == 1))
}

/// A device that is given as such or as its type.
pub fn to_device(v: &Bound<'_, PyAny>) -> R<Device> {
    if let Ok(d) = v.cast::<PyDevice>() {
        return d.get().core();
    }
    match device_type(v)? {
        Some(gpu) => PyDevice { gpu, index: 0 }.core(),
        None => Err(type_error(format!("[device] takes a Device or a DeviceType, got {}", kind_of(v)))),
    }
}

/// Whether a device is there.
pub fn available(v: &Bound<'_, PyAny>) -> R<bool> {
    if v.cast::<PyDevice>().is_err() && device_type(v)?.is_none() {
        return Err(type_error(format!("[is_available] takes a Device or a DeviceType, got {}", kind_of(v))));
    }
    Ok(to_device(v).is_ok_and(|d| usize::from(d.index) < count(d.kind)))
}

fn count(kind: DeviceKind) -> usize {
    olivine_core::backend::get(Device::new(kind, 0)).map_or(0, |b| b.device_count())
}

/// How many devices of a type there are.
pub fn device_count(v: &Bound<'_, PyAny>) -> R<usize> {
    match device_type(v)? {
        Some(false) => Ok(1),
        Some(true) => Ok(gpu_kind().map_or(0, count)),
        None => Err(type_error(format!("[device_count] takes a DeviceType, got {}", kind_of(v)))),
    }
}

/// What is known about a device.
pub fn info(py: Python<'_>, v: Option<&Bound<'_, PyAny>>) -> R<Py<PyAny>> {
    let d = v.map_or_else(|| Ok(olivine_core::default_device()), to_device)?;
    let all = PyDict::new(py);
    let b = olivine_core::backend::get(d)?;
    let info = b.info(d)?;
    all.set_item("device_name", info.name)?;
    all.set_item("architecture", std::env::consts::ARCH)?;
    all.set_item("memory_size", info.memory)?;
    for (name, text) in info.details {
        all.set_item(name, text)?;
    }
    Ok(all.into_any().unbind())
}

/// An ordered queue of work on a device. Work on different streams overlaps.
#[pyclass(frozen, name = "Stream", module = "olivine.core")]
pub struct PyStream(Stream);

#[pymethods]
impl PyStream {
    /// Where it runs.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(self.0.device)
    }
    /// Which stream of the process.
    #[getter]
    fn index(&self) -> u32 {
        self.0.id
    }
    fn __repr__(&self) -> String {
        format!("Stream(Device({}, {}), {})", type_name(self.0.device), self.0.device.index, self.0.id)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyStream>().is_ok_and(|o| o.get().0 == self.0)
    }
    fn __hash__(&self) -> u32 {
        self.0.id
    }
}

/// A stream that is another one in every thread.
#[pyclass(frozen, name = "ThreadLocalStream", module = "olivine.core")]
pub struct ThreadLocalStream {
    device: Device,
    key: u64,
}

thread_local! {
    static OF_THREAD: std::cell::RefCell<HashMap<u64, Stream>> = std::cell::RefCell::new(HashMap::new());
}

#[pymethods]
impl ThreadLocalStream {
    /// Where it runs.
    #[getter]
    fn device(&self) -> PyDevice {
        PyDevice::of(self.device)
    }
    fn __repr__(&self) -> String {
        format!("ThreadLocalStream(Device({}, {}), {})", type_name(self.device), self.device.index, self.key)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<ThreadLocalStream>().is_ok_and(|o| o.get().key == self.key)
    }
    fn __hash__(&self) -> u64 {
        self.key
    }
}

/// A new stream of a device.
pub fn new_stream(py: Python<'_>, v: &Bound<'_, PyAny>) -> R<Py<PyAny>> {
    Ok(Py::new(py, PyStream(Stream::new(to_device(v)?)?))?.into_any())
}

/// A new stream for every thread.
pub fn new_thread_local(py: Python<'_>, v: &Bound<'_, PyAny>) -> R<Py<PyAny>> {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let key = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Ok(Py::new(py, ThreadLocalStream { device: to_device(v)?, key })?.into_any())
}

/// Streams that took the place of the default ones.
static DEFAULTS: Mutex<Option<HashMap<Device, Stream>>> = Mutex::new(None);

fn default_of(d: Device) -> Stream {
    let defaults = DEFAULTS.lock().unwrap_or_else(|e| e.into_inner());
    defaults.as_ref().and_then(|all| all.get(&d).copied()).unwrap_or(Stream::default_of(d))
}

/// The stream that something means: itself, or the default one of a device.
pub fn to_stream(v: &Bound<'_, PyAny>) -> R<Stream> {
    if let Ok(s) = v.cast::<PyStream>() {
        return Ok(s.get().0);
    }
    if let Ok(s) = v.cast::<ThreadLocalStream>() {
        let s = s.get();
        if let Some(known) = OF_THREAD.with_borrow(|all| all.get(&s.key).copied()) {
            return Ok(known);
        }
        let fresh = Stream::new(s.device)?;
        OF_THREAD.with_borrow_mut(|all| all.insert(s.key, fresh));
        return Ok(fresh);
    }
    if v.cast::<PyDevice>().is_ok() || device_type(v)?.is_some() {
        return Ok(default_of(to_device(v)?));
    }
    Err(type_error(format!("'stream' must be a Stream, a Device or a DeviceType, got {}", kind_of(v))))
}

/// The default stream of a device.
pub fn default_stream(py: Python<'_>, v: &Bound<'_, PyAny>) -> R<Py<PyAny>> {
    Ok(Py::new(py, PyStream(default_of(to_device(v)?)))?.into_any())
}

/// Makes a stream the default one of its device.
pub fn set_default_stream(v: &Bound<'_, PyAny>) -> R<()> {
    let Ok(s) = v.cast::<PyStream>() else {
        return Err(type_error(format!("[set_default_stream] takes a Stream, got {}", kind_of(v))));
    };
    let s = s.get().0;
    DEFAULTS.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_default().insert(s.device, s);
    if s.device == olivine_core::default_device() {
        enter_stream(Some(s));
    }
    Ok(())
}

/// The device that operations go to.
pub fn default_device(py: Python<'_>) -> R<Py<PyAny>> {
    Ok(Py::new(py, PyDevice::of(olivine_core::default_device()))?.into_any())
}

/// Sets the device that operations go to.
pub fn set_default_device(v: &Bound<'_, PyAny>) -> R<()> {
    let d = to_device(v)?;
    olivine_core::set_default_device(d)?;
    let s = default_of(d);
    enter_stream((s != Stream::default_of(d)).then_some(s));
    Ok(())
}

/// Waits for a stream, by default the one that operations go to.
pub fn synchronize(py: Python<'_>, v: Option<&Bound<'_, PyAny>>) -> R<()> {
    let s = match v {
        Some(v) => to_stream(v)?,
        None => olivine_core::current_stream(),
    };
    blocking(py, || s.synchronize())
}

/// Sends operations to a stream for the time of a `with` block.
#[pyclass(frozen, name = "StreamContext", module = "olivine.core")]
pub struct StreamContext {
    stream: Py<PyAny>,
    around: Mutex<Vec<(Option<Stream>, Option<Device>)>>,
}

#[pymethods]
impl StreamContext {
    #[new]
    pub fn new(s: Bound<'_, PyAny>) -> PyResult<Self> {
        to_stream(&s)?;
        Ok(StreamContext { stream: s.unbind(), around: Mutex::default() })
    }
    fn __enter__(&self, py: Python<'_>) -> PyResult<()> {
        let s = to_stream(self.stream.bind(py))?;
        let before = enter_stream(Some(s));
        // As in MLX the device of the block is the default one, too, so that `default_device` tells it.
        let device = olivine_core::default_device();
        let changed = (device != s.device).then_some(device);
        if changed.is_some() {
            olivine_core::set_default_device(s.device).map_err(Fault::from)?;
        }
        self.around.lock().unwrap_or_else(|e| e.into_inner()).push((before, changed));
        Ok(())
    }
    #[pyo3(signature = (exc_type = None, exc_value = None, traceback = None))]
    fn __exit__(
        &self,
        exc_type: Option<&Bound<'_, PyAny>>,
        exc_value: Option<&Bound<'_, PyAny>>,
        traceback: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let _ = (exc_type, exc_value, traceback);
        if let Some((before, device)) = self.around.lock().unwrap_or_else(|e| e.into_inner()).pop() {
            enter_stream(before);
            if let Some(d) = device {
                olivine_core::set_default_device(d).map_err(Fault::from)?;
            }
        }
        Ok(())
    }
}

/// An error for a backend that is not there.
pub fn missing(op: &'static str, what: &str) -> Fault {
    Error::Unsupported { op, device: olivine_core::default_device(), msg: what.to_owned() }.into()
}
