//! Devices, streams, memory, evaluation, transforms, printing, types.

use crate::args::Args;
use crate::array::PyArray;
use crate::compile::Traces;
use crate::fault::{Fault, R, type_error, value_error};
use crate::function::table;
use crate::output::blocking;
use crate::transforms::{self, Transformed, What};
use crate::types::{self, PyDtype};
use crate::{device, evaluate, print};
use olivine_core::transforms::set_compile;
use olivine_core::{Array, Device, Dtype, alloc, backend, dtype};
use pyo3::prelude::*;

/// The devices whose memory the memory functions are about.
fn devices() -> Vec<Device> {
    let mut all = vec![Device::CPU];
    for kind in backend::registered() {
        let d = Device::new(kind, 0);
        if d != Device::CPU && backend::get(d).is_ok_and(|b| b.device_count() > 0) {
            all.push(d);
        }
    }
    all
}

fn total(f: fn(alloc::MemoryStats) -> usize) -> usize {
    devices().into_iter().map(|d| f(alloc::stats(d))).fold(0, usize::saturating_add)
}

fn limit(a: &Args<'_, '_>, set: fn(Device, usize) -> usize) -> R<usize> {
    let bytes = a.size("limit")?;
    Ok(set(olivine_core::default_device(), bytes))
}

fn wired(a: &Args<'_, '_>) -> R<usize> {
    // No memory of these devices is wired.
    a.size("limit")?;
    Ok(0)
}

fn transformed(a: &Args<'_, '_>, what: What) -> R<Py<PyAny>> {
    Ok(Py::new(a.py, Transformed::new(a.callable("fun")?, what))?.into_any())
}

fn compile(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let state = |name| a.opt(name).map(|v| v.clone().unbind());
    let traces = Traces::new(state("inputs"), state("outputs"), a.bool_or("shapeless", false)?);
    transformed(a, What::Compile(traces))
}

fn vmap(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let axes = |name| -> R<Py<PyAny>> {
        match a.raw(name) {
            Some(v) => Ok(v.clone().unbind()),
            None => Ok(0i32.into_pyobject(a.py).map_err(PyErr::from)?.into_any().unbind()),
        }
    };
    let (i, o) = (axes("in_axes")?, axes("out_axes")?);
    transformed(a, What::Vmap(i, o))
}

/// A list or tuple of arrays.
fn list(a: &Args<'_, '_>, key: &'static str) -> R<Vec<Array>> {
    let v = a.need(key)?;
    if !(v.is_instance_of::<pyo3::types::PyList>() || v.is_instance_of::<pyo3::types::PyTuple>()) {
        return Err(a.wrong(key, "a list of arrays", v));
    }
    a.arrays(key)
}

fn dtypes(a: &Args<'_, '_>) -> R<Vec<Dtype>> {
    a.rest
        .iter()
        .map(|v| match (v.cast::<PyDtype>(), v.cast::<PyArray>()) {
            (Ok(d), _) => Ok(d.get().0),
            (_, Ok(a)) => Ok(a.get().get().dtype()),
            (Err(_), Err(_)) => Err(type_error(format!(
                "[result_type] takes arrays and Dtypes, got {}",
                v.get_type().name()?
            ))),
        })
        .collect()
}

fn can_cast(a: &Args<'_, '_>) -> R<bool> {
    let v = a.need(0)?;
    let from = match (v.cast::<PyDtype>(), v.cast::<PyArray>()) {
        (Ok(d), _) => d.get().0,
        (_, Ok(a)) => a.get().get().dtype(),
        (Err(_), Err(_)) => return Err(a.wrong(0, "an array or a Dtype", v)),
    };
    Ok(dtype::can_cast(from, a.dtype("to")?))
}

fn print_options(a: &Args<'_, '_>) -> R<i32> {
    i32::try_from(a.int_or("precision", -1)?)
        .map_err(|_| value_error("[printoptions] precision is out of range"))
}

/// Switches compilation on or off.
fn switch(on: bool) {
    set_compile(on);
}

table! {
    /// Functions about the library itself.
    TABLE;
    "default_device" => |a| device::default_device(a.py);
    "set_default_device" => |a| device::set_default_device(a.need(0)?);
    "is_available" => |a| device::available(a.need(0)?);
    "device_count" => |a| device::device_count(a.need(0)?);
    "device_info" => |a| device::info(a.py, a.opt(0));
    "default_stream" => |a| device::default_stream(a.py, a.need(0)?);
    "set_default_stream" => |a| device::set_default_stream(a.need(0)?);
    "new_stream", "new_thread_unsafe_stream" => |a| device::new_stream(a.py, a.need(0)?);
    "new_thread_local_stream" => |a| device::new_thread_local(a.py, a.need(0)?);
    "clear_streams" => |a| device::synchronize(a.py, None);
    "stream" => |a| Py::new(a.py, device::StreamContext::new(a.need(0)?.clone())?).map(Py::into_any);
    "synchronize" => |a| device::synchronize(a.py, a.opt(0));
    "get_active_memory" => |_a| Ok::<_, Fault>(total(|s| s.active));
    "get_peak_memory" => |_a| Ok::<_, Fault>(total(|s| s.peak));
    "get_cache_memory" => |_a| Ok::<_, Fault>(total(|s| s.cache));
    "get_memory_limit" => |_a| Ok::<_, Fault>(alloc::stats(olivine_core::default_device()).limit);
    "reset_peak_memory" => |_a| Ok::<_, Fault>(devices().into_iter().for_each(alloc::reset_peak));
    "set_memory_limit" => |a| limit(a, alloc::set_limit);
    "set_cache_limit" => |a| limit(a, alloc::set_cache_limit);
    "set_wired_limit" => |a| wired(a);
    "clear_cache" => |_a| Ok::<_, Fault>(devices().into_iter().for_each(alloc::clear_cache));
    "get_array_buffer_size" => |a| evaluate::collect(&a.rest).map(|all| all.iter().map(Array::nbytes).sum::<usize>());
    "eval" => |a| evaluate::collect(&a.rest).map(|all| evaluate::eval(a.py, &all))?;
    "async_eval" => |a| evaluate::collect(&a.rest).map(|all| blocking(a.py, || olivine_core::async_eval(&all)))?;
    "grad" => |a| transforms::wanted("grad", a.opt("argnums"), a.opt("argnames")).map(|w| transformed(a, What::Grad(w)))?;
    "value_and_grad" => |a| {
        transforms::wanted("value_and_grad", a.opt("argnums"), a.opt("argnames"))
            .map(|w| transformed(a, What::ValueAndGrad(w)))?
    };
    "vjp" => |a| transforms::vjp(a.callable("fun")?.bind(a.py), &list(a, "primals")?, &list(a, "cotangents")?);
    "jvp" => |a| transforms::jvp(a.callable("fun")?.bind(a.py), &list(a, "primals")?, &list(a, "tangents")?);
    "vmap" => |a| vmap(a);
    "checkpoint" => |a| transformed(a, What::Checkpoint);
    "compile" => |a| compile(a);
    "disable_compile" => |_a| Ok::<_, Fault>(switch(false));
    "enable_compile" => |_a| Ok::<_, Fault>(switch(true));
    "issubdtype" => |a| {
        types::type_set(a.need(0)?).and_then(|x| Ok(dtype::issubdtype(x, types::type_set(a.need(1)?)?)))
    };
    "isdtype" => |a| a.dtype(0).and_then(|d| types::is_kind(d, a.need("kind")?));
    "result_type" => |a| dtypes(a).map(|all| dtype::result_type(&all))?;
    "can_cast" => |a| can_cast(a);
    "_dtype" => |a| a.str(0).map(|s| types::named(&s))?;
    "set_printoptions" => |a| print_options(a).map(print::set);
    "get_printoptions" => |a| Py::new(a.py, print::get()).map(Py::into_any);
    "printoptions" => |a| {
        print_options(a).map(|inside| Py::new(a.py, print::PrintContext { inside, outside: -1 }).map(Py::into_any))?
    };
}

table! {
    /// Functions of `metal`: there is no Metal device.
    METAL;
    "is_available" => |_a| Ok::<_, Fault>(false);
    "device_info" => |a| device::info(a.py, None);
    "get_active_memory" => |_a| Ok::<_, Fault>(total(|s| s.active));
    "get_peak_memory" => |_a| Ok::<_, Fault>(total(|s| s.peak));
    "get_cache_memory" => |_a| Ok::<_, Fault>(total(|s| s.cache));
    "reset_peak_memory" => |_a| Ok::<_, Fault>(devices().into_iter().for_each(alloc::reset_peak));
    "set_memory_limit" => |a| limit(a, alloc::set_limit);
    "set_cache_limit" => |a| limit(a, alloc::set_cache_limit);
    "set_wired_limit" => |a| wired(a);
    "clear_cache" => |_a| Ok::<_, Fault>(devices().into_iter().for_each(alloc::clear_cache));
    // There is nothing to capture without a Metal device, as in MLX.
    "start_capture" => |a| a.str("path").map(drop);
    "stop_capture" => |_a| Ok::<_, Fault>(());
}

table! {
    /// Functions of `cuda`.
    CUDA;
    "is_available" => |_a| Ok::<_, Fault>(device::has_cuda());
}
