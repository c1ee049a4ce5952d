//! The class `array`: its operators, attributes and protocols. Its other methods come from the stubs.

use crate::fault::{Fault, R, type_error, value_error};
use crate::indexing::{self, ArrayAt};
use crate::types::{self, PyDtype};
use crate::{dlpack, give, input, output};
use olivine_core::buffer::View;
use olivine_core::{Array, Dtype, Result};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyBufferError, PyStopIteration};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::ffi::CString;
use std::sync::{Mutex, MutexGuard};

/// An N-dimensional array: ``array(value, dtype=None)``.
///
/// Args:
///     value: a number, nested lists or tuples of numbers and arrays, an array of NumPy or of another library that
///         speaks DLPack.
///     dtype: type of the elements; by default ``bool_``, ``int32`` (``int64`` where a number needs it), ``float32`` or
///         ``complex64`` for Python's numbers, that of the values otherwise, with ``float32`` for ``float64``.
///
/// Raises:
///     ValueError: the lists are not of one length, or hold something that is no number.
///
/// >>> mx.array([[1, 2], [3, 4]])
/// array([[1, 2],
///        [3, 4]], dtype=int32)
#[pyclass(frozen, subclass, weakref, name = "array", module = "olivine.core")]
pub struct PyArray(Mutex<Array>);

impl PyArray {
    /// An object for an array.
    pub fn new(a: Array) -> PyArray {
        PyArray(Mutex::new(a))
    }

    fn lock(&self) -> MutexGuard<'_, Array> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What the object stands for at the moment.
    pub fn get(&self) -> Array {
        self.lock().clone()
    }

    /// Makes the object stand for another array, as assignment and operators in place do.
    pub fn set(&self, a: Array) {
        // Dropped outside the lock: that may take a while.
        let _old = std::mem::replace(&mut *self.lock(), a);
    }
}

type Binary = fn(&Array, &Array) -> Result<Array>;

/// The other operand; `None` where the operator does not know what to do with `None`.
fn other(what: &str, a: &Array, v: &Bound<'_, PyAny>) -> R<Option<Array>> {
    if v.is_none() {
        return Ok(None);
    }
    match input::operand(v, Some(a.dtype()))? {
        Some(b) => Ok(Some(b)),
        None => {
            Err(value_error(format!("[{what}] takes an array or a number, got {}", v.get_type().name()?)))
        }
    }
}

fn binary(slf: &PyArray, what: &str, v: &Bound<'_, PyAny>, f: Binary) -> PyResult<Py<PyAny>> {
    let a = slf.get();
    match other(what, &a, v)? {
        Some(b) => Ok(give::array(v.py(), f(&a, &b).map_err(Fault::from)?)?),
        None => Ok(v.py().NotImplemented()),
    }
}

fn reflected(slf: &PyArray, what: &str, v: &Bound<'_, PyAny>, f: Binary) -> PyResult<Py<PyAny>> {
    let a = slf.get();
    match other(what, &a, v)? {
        Some(b) => Ok(give::array(v.py(), f(&b, &a).map_err(Fault::from)?)?),
        None => Ok(v.py().NotImplemented()),
    }
}

fn in_place(slf: &PyArray, what: &str, v: &Bound<'_, PyAny>, f: Binary) -> PyResult<()> {
    let a = slf.get();
    match other(what, &a, v)? {
        Some(b) => {
            slf.set(f(&a, &b).map_err(Fault::from)?);
            Ok(())
        }
        None => Err(type_error(format!("[{what}] takes an array or a number, got None")).into()),
    }
}

fn unary(slf: &PyArray, py: Python<'_>, f: fn(&Array) -> Result<Array>) -> PyResult<Py<PyAny>> {
    Ok(give::array(py, f(&slf.get()).map_err(Fault::from)?)?)
}

/// Refuses numbers: `@` is for arrays.
fn no_number(v: &Bound<'_, PyAny>) -> bool {
    v.cast::<PyArray>().is_ok() || !matches!(input::operand(v, None), Ok(Some(a)) if a.rank() == 0)
}

/// Type of the elements in the buffer protocol (PEP 3118).
fn format(d: Dtype) -> Option<&'static str> {
    Some(match d {
        Dtype::Bool => "?",
        Dtype::U8 => "B",
        Dtype::U16 => "H",
        Dtype::U32 => "I",
        Dtype::U64 => "Q",
        Dtype::I8 => "b",
        Dtype::I16 => "h",
        Dtype::I32 => "i",
        Dtype::I64 => "q",
        Dtype::F16 => "e",
        Dtype::F32 => "f",
        Dtype::F64 => "d",
        Dtype::C64 => "Zf",
        Dtype::BF16 => return None,
    })
}

/// What an exported buffer keeps alive.
struct Export {
    _view: View,
    shape: Vec<isize>,
    strides: Vec<isize>,
    format: CString,
}

/// Whether a view may be lent for writing: it covers memory of its own, in order, that nothing else is to use.
fn writable(view: &View) -> bool {
    view.layout.is_contiguous()
        && view.buffer.reusable(olivine_core::Stream::default_of(olivine_core::Device::CPU))
}

#[pymethods]
impl PyArray {
    #[new]
    #[pyo3(signature = (val, dtype = None))]
    fn create(val: &Bound<'_, PyAny>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let dtype = match dtype.filter(|d| !d.is_none()) {
            None => None,
            Some(d) => match d.cast::<PyDtype>() {
                Ok(d) => Some(d.get().0),
                Err(_) => {
                    return Err(type_error(format!(
                        "[array] dtype is a Dtype, got {}",
                        d.get_type().name()?
                    ))
                    .into());
                }
            },
        };
        Ok(PyArray::new(input::make(val, dtype)?))
    }

    /// Number of elements.
    #[getter]
    fn size(&self) -> usize {
        self.lock().size()
    }
    /// Number of axes.
    #[getter]
    fn ndim(&self) -> usize {
        self.lock().rank()
    }
    /// Bytes of one element.
    #[getter]
    fn itemsize(&self) -> usize {
        self.lock().dtype().size()
    }
    /// Bytes of all elements.
    #[getter]
    fn nbytes(&self) -> usize {
        self.lock().nbytes()
    }
    /// Sizes of the axes.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.get().shape().iter())
    }
    /// Type of the elements.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let d = self.lock().dtype();
        Ok(types::dtype(py, d)?)
    }
    /// Real part.
    #[getter]
    fn real(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        unary(self, py, Array::real)
    }
    /// Imaginary part.
    #[getter]
    fn imag(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        unary(self, py, Array::imag)
    }
    /// The axes in reverse order.
    #[getter(T)]
    fn transposed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        unary(self, py, Array::t)
    }
    /// The last two axes exchanged.
    #[getter(mT)]
    fn matrix_transposed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        unary(self, py, Array::matrix_transpose)
    }
    /// Updates at positions that are given in brackets: ``a.at[index].add(values)``. Unlike assignment they count
    /// every value, also where an index comes up twice.
    #[getter]
    fn at(slf: Py<Self>) -> ArrayAt {
        ArrayAt::new(slf)
    }

    fn __add__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "add", other, Array::add)
    }
    fn __radd__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "add", other, Array::add)
    }
    fn __iadd__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "add", other, Array::add)
    }
    fn __sub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "subtract", other, Array::subtract)
    }
    fn __rsub__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "subtract", other, Array::subtract)
    }
    fn __isub__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "subtract", other, Array::subtract)
    }
    fn __mul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "multiply", other, Array::multiply)
    }
    fn __rmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "multiply", other, Array::multiply)
    }
    fn __imul__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "multiply", other, Array::multiply)
    }
    fn __truediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "divide", other, Array::divide)
    }
    fn __rtruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "divide", other, Array::divide)
    }
    fn __itruediv__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "divide", other, Array::divide)
    }
    fn __floordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "floor_divide", other, Array::floor_divide)
    }
    fn __rfloordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "floor_divide", other, Array::floor_divide)
    }
    fn __ifloordiv__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "floor_divide", other, Array::floor_divide)
    }
    fn __mod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "remainder", other, Array::remainder)
    }
    fn __rmod__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "remainder", other, Array::remainder)
    }
    fn __imod__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "remainder", other, Array::remainder)
    }
    fn __pow__(&self, other: &Bound<'_, PyAny>, modulo: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if modulo.is_none() {
            binary(self, "power", other, Array::power)
        } else {
            Ok(other.py().NotImplemented())
        }
    }
    fn __rpow__(&self, other: &Bound<'_, PyAny>, modulo: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if modulo.is_none() {
            reflected(self, "power", other, Array::power)
        } else {
            Ok(other.py().NotImplemented())
        }
    }
    fn __ipow__(&self, other: &Bound<'_, PyAny>, _modulo: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "power", other, Array::power)
    }
    fn __matmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if no_number(other) {
            binary(self, "matmul", other, Array::matmul)
        } else {
            Ok(other.py().NotImplemented())
        }
    }
    fn __rmatmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if no_number(other) {
            reflected(self, "matmul", other, Array::matmul)
        } else {
            Ok(other.py().NotImplemented())
        }
    }
    fn __imatmul__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "matmul", other, Array::matmul)
    }
    fn __and__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "bitwise_and", other, Array::bitwise_and)
    }
    fn __rand__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "bitwise_and", other, Array::bitwise_and)
    }
    fn __iand__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "bitwise_and", other, Array::bitwise_and)
    }
    fn __or__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "bitwise_or", other, Array::bitwise_or)
    }
    fn __ror__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "bitwise_or", other, Array::bitwise_or)
    }
    fn __ior__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "bitwise_or", other, Array::bitwise_or)
    }
    fn __xor__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "bitwise_xor", other, Array::bitwise_xor)
    }
    fn __rxor__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "bitwise_xor", other, Array::bitwise_xor)
    }
    fn __ixor__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "bitwise_xor", other, Array::bitwise_xor)
    }
    fn __lshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "left_shift", other, Array::left_shift)
    }
    fn __rlshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "left_shift", other, Array::left_shift)
    }
    fn __ilshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "left_shift", other, Array::left_shift)
    }
    fn __rshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        binary(self, "right_shift", other, Array::right_shift)
    }
    fn __rrshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        reflected(self, "right_shift", other, Array::right_shift)
    }
    fn __irshift__(&self, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(self, "right_shift", other, Array::right_shift)
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let (what, f): (&str, Binary) = match op {
            CompareOp::Lt => ("less", Array::less),
            CompareOp::Le => ("less_equal", Array::less_equal),
            CompareOp::Eq => ("equal", Array::equal),
            CompareOp::Ne => ("not_equal", Array::not_equal),
            CompareOp::Gt => ("greater", Array::greater),
            CompareOp::Ge => ("greater_equal", Array::greater_equal),
        };
        let py = other.py();
        if other.is_none() {
            return Err(type_error(format!("[{what}] takes an array or a number, got None")).into());
        }
        let a = self.get();
        match (input::operand(other, Some(a.dtype()))?, op) {
            (Some(b), _) => Ok(give::array(py, f(&a, &b).map_err(Fault::from)?)?),
            // What is no array differs from every array.
            (None, CompareOp::Eq) => Ok(give::Give::give(false, py)?),
            (None, CompareOp::Ne) => Ok(give::Give::give(true, py)?),
            (None, _) => {
                let kind = other.get_type().name()?;
                Err(value_error(format!("[{what}] takes an array or a number, got {kind}")).into())
            }
        }
    }

    fn __neg__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        unary(self, py, Array::negative)
    }
    fn __pos__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(give::array(py, self.get())?)
    }
    fn __abs__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        unary(self, py, Array::abs)
    }
    fn __invert__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let f = if self.lock().dtype() == Dtype::Bool { Array::logical_not } else { Array::bitwise_invert };
        unary(self, py, f)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        output::item(py, &self.get())?.is_truthy(py)
    }
    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(output::item(py, &self.get())?.bind(py).call_method0("__int__")?.unbind())
    }
    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        output::item(py, &self.get())?.extract(py)
    }
    fn __complex__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        py.get_type::<pyo3::types::PyComplex>().call1((output::item(py, &self.get())?,))
    }
    fn __index__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let a = self.get();
        if a.rank() > 0 || !(a.dtype().is_integer() || a.dtype() == Dtype::Bool) {
            let text = format!(
                "[index] an array of {} and shape {} is no index: it takes a single integer",
                a.dtype(),
                a.shape()
            );
            return Err(type_error(text).into());
        }
        Ok(output::item(py, &a)?.bind(py).call_method0("__index__")?.unbind())
    }
    fn __len__(&self) -> PyResult<usize> {
        match self.lock().shape().first() {
            Some(&n) => Ok(n),
            None => Err(type_error("len() of an array without axes").into()),
        }
    }
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        (slf.as_ptr().addr() >> 4) as isize
    }
    fn __iter__(&self) -> PyResult<ArrayIterator> {
        let a = self.get();
        if a.rank() == 0 {
            return Err(type_error("iteration over an array without axes").into());
        }
        Ok(ArrayIterator { a, next: Mutex::new(0) })
    }
    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Ok(give::array(index.py(), indexing::get(&self.get(), index)?)?)
    }
    fn __setitem__(&self, index: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let a = self.get();
        let changed = indexing::set(&a, index, values)?;
        drop(a);
        self.set(changed);
        Ok(())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(output::text(py, &self.get())?)
    }
    fn __format__(&self, py: Python<'_>, spec: &str) -> PyResult<String> {
        let a = self.get();
        if a.rank() == 0 {
            return output::item(py, &a)?.bind(py).call_method1("__format__", (spec,))?.extract();
        }
        if spec.is_empty() {
            return Ok(output::text(py, &a)?);
        }
        Err(type_error(format!("[format] {spec:?} is for single numbers, the array has shape {}", a.shape()))
            .into())
    }
    /// The one element as a Python number. Waits for the value.
    fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(output::item(py, &self.get())?)
    }
    /// The elements in nested lists; a number where there are no axes. Waits for the values.
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(output::nested(py, &self.get())?)
    }
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &output::bytes(py, &self.get())?))
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(give::array(py, self.get())?)
    }
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Ok(give::array(py, self.get())?)
    }
    fn __getstate__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let a = self.get();
        let bytes = PyBytes::new(py, &output::bytes(py, &a)?).into_any();
        let shape = PyTuple::new(py, a.shape().iter())?.into_any();
        let dtype = types::name(a.dtype()).into_pyobject(py)?.into_any();
        PyTuple::new(py, [bytes, shape, dtype])
    }
    fn __setstate__(&self, state: &Bound<'_, PyTuple>) -> PyResult<()> {
        let (bytes, shape, dtype): (Vec<u8>, Vec<usize>, String) = state.extract()?;
        let a = Array::from_bytes(&bytes, &shape, types::named(&dtype)?).map_err(Fault::from)?;
        self.set(a);
        Ok(())
    }
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Py<PyAny>, (i32,), Bound<'py, PyTuple>)> {
        Ok((slf.get_type().into_any().unbind(), (0,), slf.get().__getstate__(slf.py())?))
    }

    /// The module, for programs that follow the Python array API standard.
    #[pyo3(signature = (api_version = None))]
    fn __array_namespace__(&self, py: Python<'_>, api_version: Option<&str>) -> PyResult<Py<PyAny>> {
        const VERSIONS: [&str; 4] = ["2021.12", "2022.12", "2023.12", "2024.12"];
        if let Some(v) = api_version
            && !VERSIONS.contains(&v)
        {
            return Err(
                value_error(format!("[array] version {v} of the array API standard is not known")).into()
            );
        }
        Ok(py.import("olivine.core")?.into_any().unbind())
    }
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__(
        slf: &Bound<'_, Self>,
        dtype: Option<&Bound<'_, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let numpy = py.import("numpy")?;
        let a = slf.get().get();
        let plain = if a.dtype() == Dtype::BF16 {
            // NumPy has no such type. Where the package `ml_dtypes` is installed it has.
            match py.import("ml_dtypes") {
                Ok(more) => {
                    let words = give::array(py, a.view_as(Dtype::U16).map_err(Fault::from)?)?;
                    numpy
                        .call_method1("asarray", (words,))?
                        .call_method1("view", (more.getattr("bfloat16")?,))?
                }
                Err(_) => {
                    let wide = give::array(py, a.astype(Dtype::F32).map_err(Fault::from)?)?;
                    numpy.call_method1("asarray", (wide,))?
                }
            }
        } else {
            let memory = py.import("builtins")?.call_method1("memoryview", (slf,))?;
            numpy.call_method1("asarray", (memory,))?
        };
        let options = PyDict::new(py);
        options.set_item("copy", copy.unwrap_or(false))?;
        match dtype.filter(|d| !d.is_none()) {
            Some(d) => Ok(plain.call_method("astype", (d,), Some(&options))?.unbind()),
            None if copy == Some(true) => Ok(plain.call_method0("copy")?.unbind()),
            None => Ok(plain.unbind()),
        }
    }
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        if stream.is_some_and(|s| !s.is_none()) {
            return Err(value_error("[__dlpack__] memory of the host has no stream").into());
        }
        if dl_device.is_some_and(|d| d != (1, 0)) {
            return Err(PyBufferError::new_err("[__dlpack__] memory of the host alone can be lent"));
        }
        let mut a = self.get();
        if copy == Some(true) {
            a = Array::from_bytes(&output::bytes(py, &a)?, a.shape(), a.dtype()).map_err(Fault::from)?;
        }
        let (view, _) = output::on_host(py, &a)?;
        let versioned = max_version.is_some_and(|v| v.0 >= 1);
        Ok(dlpack::export(py, &a, versioned, writable(&view), copy == Some(true))?)
    }
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }

    /// Lends the memory of the value.
    ///
    /// # Safety
    /// `view` is memory for a `Py_buffer`, as Python promises.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: i32) -> PyResult<()> {
        let py = slf.py();
        let mut a = slf.get().get();
        let Some(text) = format(a.dtype()) else {
            return Err(PyBufferError::new_err(format!(
                "the buffer protocol has no format for {}",
                a.dtype()
            )));
        };
        let (mut held, mut base) = output::on_host(py, &a)?;
        let strides_asked = flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES;
        if !held.layout.is_contiguous()
            && (!strides_asked || flags & ffi::PyBUF_C_CONTIGUOUS & !ffi::PyBUF_STRIDES != 0)
        {
            // Somebody who cannot see strides gets the elements in order.
            a = a.contiguous().map_err(Fault::from)?;
            (held, base) = output::on_host(py, &a)?;
        }
        let can_write = writable(&held);
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE && !can_write {
            return Err(PyBufferError::new_err(
                "the memory of this array is shared and cannot be written to",
            ));
        }
        let size = a.dtype().size() as isize;
        let start = base.wrapping_add(held.layout.offset() * a.dtype().size());
        let shape: Vec<isize> = a.shape().iter().map(|&d| d as isize).collect();
        let strides: Vec<isize> = held.layout.strides().iter().map(|s| s * size).collect();
        let mut export = Box::new(Export { _view: held, shape, strides, format: CString::new(text)? });
        // SAFETY: Python gives memory for the description. What the pointers lead to lives in the box, which
        // `__releasebuffer__` frees, and the memory is kept by the view in it.
        unsafe {
            (*view).buf = start as *mut _;
            (*view).len = a.nbytes() as isize;
            (*view).readonly = i32::from(!can_write);
            (*view).itemsize = size;
            (*view).format = if flags & ffi::PyBUF_FORMAT == ffi::PyBUF_FORMAT {
                export.format.as_ptr().cast_mut()
            } else {
                std::ptr::null_mut()
            };
            (*view).ndim = export.shape.len() as i32;
            (*view).shape = export.shape.as_mut_ptr();
            (*view).strides = if strides_asked { export.strides.as_mut_ptr() } else { std::ptr::null_mut() };
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = Box::into_raw(export).cast();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }
    /// Takes lent memory back.
    ///
    /// # Safety
    /// `view` was filled by `__getbuffer__`, as Python promises.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: the field holds the box that `__getbuffer__` leaked, and Python releases a buffer once.
        unsafe { drop(Box::from_raw((*view).internal.cast::<Export>())) }
    }
}

/// The elements of an array's first axis, one after the other.
#[pyclass(frozen, name = "ArrayIterator", module = "olivine.core")]
pub struct ArrayIterator {
    a: Array,
    next: Mutex<usize>,
}

#[pymethods]
impl ArrayIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut next = self.next.lock().unwrap_or_else(|e| e.into_inner());
        if *next >= self.a.shape()[0] {
            return Err(PyStopIteration::new_err(()));
        }
        let item = self.a.get(&[olivine_core::ops::IndexItem::Int(*next as i64)]).map_err(Fault::from)?;
        *next += 1;
        Ok(give::array(py, item)?)
    }
    fn __length_hint__(&self) -> usize {
        self.a.shape()[0] - *self.next.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// An object that can become an array: it has `__mlx_array__`, or memory that NumPy's or DLPack's protocols show.
#[pyclass(frozen, name = "ArrayLike", module = "olivine.core")]
pub struct ArrayLike(Py<PyAny>);

#[pymethods]
impl ArrayLike {
    #[new]
    fn new(object: Py<PyAny>) -> Self {
        ArrayLike(object)
    }
    fn __mlx_array__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let _ = intern!(py, "__mlx_array__");
        Ok(give::array(py, input::make(self.0.bind(py), None)?)?)
    }
}
