//! DLPack, the interface by which array libraries lend each other memory (version 1.1 of its specification).

use crate::fault::{R, runtime_error, type_error, value_error};
use crate::input;
use olivine_core::buffer::{Buffer, View};
use olivine_core::{Array, Dtype, Shape};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::c_void;

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: DlDevice,
    rank: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DlTensor,
}

const READ_ONLY: u64 = 1;
const COPIED: u64 = 2;
const CPU: i32 = 1;
const CUDA_HOST: i32 = 3;

fn code(d: Dtype) -> DlType {
    let code = match d.kind() {
        olivine_core::Kind::Signed => 0,
        olivine_core::Kind::Unsigned => 1,
        olivine_core::Kind::Float if d == Dtype::BF16 => 4,
        olivine_core::Kind::Float => 2,
        olivine_core::Kind::Complex => 5,
        olivine_core::Kind::Bool => 6,
    };
    DlType { code, bits: 8 * d.size() as u8, lanes: 1 }
}

fn dtype(t: DlType) -> Option<Dtype> {
    Dtype::ALL.into_iter().find(|&d| {
        let c = code(d);
        (c.code, c.bits, 1) == (t.code, t.bits, t.lanes)
    })
}

/// What a lent array keeps alive: its memory, and the numbers that describe it.
struct Lent<T> {
    managed: T,
    _view: View,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

unsafe extern "C" fn drop_managed(m: *mut Managed) {
    // SAFETY: the context is the box that `export` leaked, and the borrower calls this once.
    unsafe { drop(Box::from_raw((*m).context.cast::<Lent<Managed>>())) }
}

unsafe extern "C" fn drop_versioned(m: *mut Versioned) {
    // SAFETY: the context is the box that `export` leaked, and the borrower calls this once.
    unsafe { drop(Box::from_raw((*m).context.cast::<Lent<Versioned>>())) }
}

/// Frees what a capsule holds that nobody took.
unsafe extern "C" fn drop_capsule(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with a capsule that `export` made, whose pointer is what its name says.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, c"dltensor".as_ptr()) == 1 {
            let m = ffi::PyCapsule_GetPointer(capsule, c"dltensor".as_ptr()).cast::<Managed>();
            if let Some(d) = (*m).deleter {
                d(m);
            }
        } else if ffi::PyCapsule_IsValid(capsule, c"dltensor_versioned".as_ptr()) == 1 {
            let m = ffi::PyCapsule_GetPointer(capsule, c"dltensor_versioned".as_ptr()).cast::<Versioned>();
            if let Some(d) = (*m).deleter {
                d(m);
            }
        }
    }
}

/// Lends an array's memory on the host.
pub fn export(py: Python<'_>, a: &Array, versioned: bool, writable: bool, copied: bool) -> R<Py<PyAny>> {
    let (view, base) = crate::output::on_host(py, a)?;
    let shape: Vec<i64> = view.layout.shape().iter().map(|&d| d as i64).collect();
    let strides: Vec<i64> = view.layout.strides().iter().map(|&s| s as i64).collect();
    let offset = view.layout.offset() * view.dtype.size();
    let tensor = DlTensor {
        data: base.wrapping_add(offset) as *mut c_void,
        device: DlDevice { kind: CPU, id: 0 },
        rank: shape.len() as i32,
        dtype: code(view.dtype),
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        offset: 0,
    };
    let (pointer, name) = if versioned {
        let flags = if writable { 0 } else { READ_ONLY } | if copied { COPIED } else { 0 };
        let managed = Versioned {
            major: 1,
            minor: 0,
            context: std::ptr::null_mut(),
            deleter: Some(drop_versioned),
            flags,
            tensor,
        };
        let mut lent = Box::new(Lent { managed, _view: view, shape, strides });
        lent.managed.tensor.shape = lent.shape.as_mut_ptr();
        lent.managed.tensor.strides = lent.strides.as_mut_ptr();
        let raw = Box::into_raw(lent);
        // SAFETY: the box was leaked a line ago, nobody else knows of it.
        unsafe {
            (*raw).managed.context = raw.cast();
            ((&raw mut (*raw).managed).cast::<c_void>(), c"dltensor_versioned")
        }
    } else {
        let managed = Managed { tensor, context: std::ptr::null_mut(), deleter: Some(drop_managed) };
        let mut lent = Box::new(Lent { managed, _view: view, shape, strides });
        lent.managed.tensor.shape = lent.shape.as_mut_ptr();
        lent.managed.tensor.strides = lent.strides.as_mut_ptr();
        let raw = Box::into_raw(lent);
        // SAFETY: the box was leaked a line ago, nobody else knows of it.
        unsafe {
            (*raw).managed.context = raw.cast();
            ((&raw mut (*raw).managed).cast::<c_void>(), c"dltensor")
        }
    };
    // SAFETY: the pointer is not null, the name lives as long as the program; the result is a new reference or null
    // with an exception set.
    let capsule = unsafe {
        let capsule = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(drop_capsule));
        Bound::from_owned_ptr_or_err(py, capsule)?
    };
    Ok(capsule.unbind())
}

/// What was lent to us, given back when nobody reads it any more.
enum Borrowed {
    Managed(*mut Managed),
    Versioned(*mut Versioned),
}

// SAFETY: the specification allows the deleter to be called from any thread; the memory is only read.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // Deleters of Python libraries use the interpreter. When it is gone, so is what they would free.
        Python::try_attach(|_| {
            // SAFETY: the pointers came from a capsule whose name was changed, so this is the only owner.
            unsafe {
                match *self {
                    Borrowed::Managed(m) => {
                        if let Some(d) = (*m).deleter {
                            d(m);
                        }
                    }
                    Borrowed::Versioned(m) => {
                        if let Some(d) = (*m).deleter {
                            d(m);
                        }
                    }
                }
            }
        });
    }
}

/// An array of an object that lends its memory. Without `copy` the memory is shared where it lies in row-major order;
/// with `Some(false)` it is an error where it cannot be.
pub fn import(v: &Bound<'_, PyAny>, copy: Option<bool>) -> R<Array> {
    let py = v.py();
    let Some(lend) = v.getattr_opt("__dlpack__")? else {
        return Err(type_error(format!("[from_dlpack] {} has no __dlpack__", v.get_type().name()?)));
    };
    let (kind, _): (i32, i32) = match v.getattr_opt("__dlpack_device__")? {
        Some(f) => {
            let device = f.call0()?;
            let device =
                device.cast::<PyTuple>().map_err(|_| type_error("[from_dlpack] device is no pair"))?;
            (device.get_item(0)?.call_method0("__int__")?.extract()?, device.get_item(1)?.extract()?)
        }
        None => (CPU, 0),
    };
    if kind != CPU && kind != CUDA_HOST {
        return Err(value_error(format!(
            "[from_dlpack] memory of device kind {kind} is not the host's: copy it first"
        )));
    }
    let options = PyDict::new(py);
    options.set_item("max_version", (1, 0))?;
    // Libraries from before version 1 know no such argument.
    let capsule = match lend.call((), Some(&options)) {
        Err(e) if e.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => lend.call0()?,
        other => other?,
    };
    let pointer = capsule.as_ptr();
    // SAFETY: the names are checked before pointers are taken; changing the name makes this code the owner, as the
    // specification says.
    let (owner, tensor) = unsafe {
        if ffi::PyCapsule_IsValid(pointer, c"dltensor_versioned".as_ptr()) == 1 {
            let m = ffi::PyCapsule_GetPointer(pointer, c"dltensor_versioned".as_ptr()).cast::<Versioned>();
            if (*m).major > 1 {
                return Err(runtime_error(format!("[from_dlpack] version {} is not known", (*m).major)));
            }
            ffi::PyCapsule_SetName(pointer, c"used_dltensor_versioned".as_ptr());
            (Borrowed::Versioned(m), &(*m).tensor)
        } else if ffi::PyCapsule_IsValid(pointer, c"dltensor".as_ptr()) == 1 {
            let m = ffi::PyCapsule_GetPointer(pointer, c"dltensor".as_ptr()).cast::<Managed>();
            ffi::PyCapsule_SetName(pointer, c"used_dltensor".as_ptr());
            (Borrowed::Managed(m), &(*m).tensor)
        } else {
            return Err(type_error("[from_dlpack] __dlpack__ gave no capsule of DLPack"));
        }
    };
    let Some(d) = dtype(tensor.dtype) else {
        let t = tensor.dtype;
        return Err(type_error(format!(
            "[from_dlpack] type code {} of {} bits is none of Olivine's",
            t.code, t.bits
        )));
    };
    let rank = usize::try_from(tensor.rank).unwrap_or(0);
    let numbers = |p: *mut i64| -> Vec<i64> {
        // SAFETY: the lender says that as many numbers as axes stand there.
        if rank == 0 { Vec::new() } else { unsafe { std::slice::from_raw_parts(p, rank) }.to_vec() }
    };
    let shape: Vec<usize> = numbers(tensor.shape).iter().map(|&n| n.max(0) as usize).collect();
    let rows = olivine_core::layout::row_major(&shape);
    let strides: Vec<isize> = if tensor.strides.is_null() {
        rows.to_vec()
    } else {
        numbers(tensor.strides).iter().map(|&n| n as isize).collect()
    };
    let base = tensor.data.cast::<u8>().wrapping_add(tensor.offset as usize).cast_const();
    let elements: usize = shape.iter().product();
    let plain = shape.iter().zip(strides.iter().zip(&rows)).all(|(&n, (s, r))| n <= 1 || s == r);
    let shareable = plain && elements > 0 && base.addr().is_multiple_of(d.size()) && d != Dtype::Bool;
    match copy {
        None | Some(false) if shareable => {
            let shape = Shape::checked("from_dlpack", &shape)?;
            // SAFETY: the lender keeps the memory until its deleter is called, which `owner` does when it is dropped.
            let buffer = unsafe { Buffer::foreign(base, elements * d.size(), Box::new(owner)) };
            Array::from_buffer(buffer, 0, shape, d)
                .ok_or_else(|| runtime_error("[from_dlpack] the memory does not hold the array"))
        }
        Some(false) if elements > 0 => Err(value_error(
            "[from_dlpack] the elements do not lie in row-major order, so they have to be copied",
        )),
        _ => {
            let bytes: Vec<isize> = strides.iter().map(|s| s * d.size() as isize).collect();
            // SAFETY: the lender describes memory that is there as long as `owner` is.
            let mut data = unsafe { input::gather(base, &shape, &bytes, d.size()) }?;
            if d == Dtype::Bool {
                data.iter_mut().for_each(|b| *b = u8::from(*b != 0));
            }
            drop(owner);
            Ok(Array::from_bytes(&data, &shape, d)?)
        }
    }
}
