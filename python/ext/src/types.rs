//! Element types, their categories, and what is known of them.

use crate::fault::{Fault, R, type_error, value_error};
use olivine_core::Dtype;
use olivine_core::dtype::{Category, FloatInfo, IntInfo, TypeSet};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyString;

/// An element type of arrays.
#[pyclass(frozen, name = "Dtype", module = "olivine.core")]
pub struct PyDtype(pub Dtype);

/// The name that Python knows a type by.
pub fn name(d: Dtype) -> String {
    d.to_string()
}

#[pymethods]
impl PyDtype {
    /// Bytes of one element.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }
    fn __repr__(&self) -> String {
        format!("mlx.core.{}", self.0)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyDtype>().is_ok_and(|o| o.get().0 == self.0)
    }
    fn __hash__(&self) -> u64 {
        self.0 as u64
    }
    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (String,))> {
        Ok((py.import("olivine.core")?.getattr("_dtype")?.unbind(), (name(self.0),)))
    }
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
}

/// The object of an element type: there is one of each.
pub fn dtype(py: Python<'_>, d: Dtype) -> R<Py<PyAny>> {
    static ALL: PyOnceLock<Vec<Py<PyAny>>> = PyOnceLock::new();
    let all = ALL.get_or_try_init(py, || {
        Dtype::ALL.iter().map(|&d| Ok(Py::new(py, PyDtype(d))?.into_any())).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(all[d as usize].clone_ref(py))
}

/// The type of a name, for pickles.
pub fn named(text: &str) -> R<Dtype> {
    Dtype::ALL
        .into_iter()
        .find(|&d| name(d) == text)
        .ok_or_else(|| value_error(format!("there is no element type {text:?}")))
}

const CATEGORIES: [(&str, Category); 8] = [
    ("complexfloating", Category::ComplexFloating),
    ("floating", Category::Floating),
    ("inexact", Category::Inexact),
    ("signedinteger", Category::SignedInteger),
    ("unsignedinteger", Category::UnsignedInteger),
    ("integer", Category::Integer),
    ("number", Category::Number),
    ("generic", Category::Generic),
];

/// A type, or a category by its name in the enumeration.
pub fn type_set(v: &Bound<'_, PyAny>) -> R<TypeSet> {
    if let Ok(d) = v.cast::<PyDtype>() {
        return Ok(TypeSet::from(d.get().0));
    }
    let category = v.py().import("olivine.core")?.getattr("DtypeCategory")?;
    if v.is_instance(&category)? {
        let name: String = v.getattr("name")?.extract()?;
        if let Some((_, c)) = CATEGORIES.iter().find(|(n, _)| *n == name) {
            return Ok(TypeSet::from(*c));
        }
    }
    Err(value_error(format!("[issubdtype] takes Dtype or DtypeCategory, got {}", v.get_type().name()?)))
}

/// Whether a type is of a kind: a type, one of the names of the array standard, or one of several.
pub fn is_kind(d: Dtype, kind: &Bound<'_, PyAny>) -> R<bool> {
    if let Ok(k) = kind.cast::<PyDtype>() {
        return Ok(k.get().0 == d);
    }
    if kind.is_instance_of::<PyString>() {
        return Ok(olivine_core::dtype::isdtype(d, &kind.extract::<String>()?)?);
    }
    let Ok(all) = kind.cast::<pyo3::types::PyTuple>() else {
        return Err(type_error(format!(
            "[isdtype] kind is a Dtype, a str or a tuple, got {}",
            kind.get_type().name()?
        )));
    };
    for k in all.iter() {
        if is_kind(d, &k)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Limits of a float type: `finfo(dtype)`, also for complex types.
#[pyclass(frozen, name = "finfo", module = "olivine.core")]
pub struct PyFinfo(FloatInfo, Dtype);

#[pymethods]
impl PyFinfo {
    #[new]
    fn new(dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let d = dtype_of("finfo", dtype)?;
        let info = FloatInfo::of(d)
            .ok_or_else(|| Fault::from(olivine_core::Error::bad_dtype("finfo", "floats", d)))?;
        Ok(PyFinfo(info, d))
    }
    /// Bits of one number.
    #[getter]
    fn bits(&self) -> u64 {
        self.0.bits as u64
    }
    /// The smallest finite number.
    #[getter]
    fn min(&self) -> f64 {
        self.0.min
    }
    /// The largest finite number.
    #[getter]
    fn max(&self) -> f64 {
        self.0.max
    }
    /// Distance from 1 to the next larger number.
    #[getter]
    fn eps(&self) -> f64 {
        self.0.eps
    }
    /// The smallest positive number with full precision.
    #[getter]
    fn smallest_normal(&self) -> f64 {
        self.0.smallest_normal
    }
    /// The type.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(dtype(py, if self.1 == Dtype::C64 { Dtype::F32 } else { self.1 })?)
    }
    fn __repr__(&self) -> String {
        format!("finfo(min={}, max={}, dtype={})", self.0.min, self.0.max, self.1)
    }
}

/// Limits of an integer type: `iinfo(dtype)`.
#[pyclass(frozen, name = "iinfo", module = "olivine.core")]
pub struct PyIinfo(IntInfo, Dtype);

#[pymethods]
impl PyIinfo {
    #[new]
    fn new(dtype: &Bound<'_, PyAny>) -> PyResult<Self> {
        let d = dtype_of("iinfo", dtype)?;
        let info = IntInfo::of(d)
            .ok_or_else(|| Fault::from(olivine_core::Error::bad_dtype("iinfo", "integers", d)))?;
        Ok(PyIinfo(info, d))
    }
    /// Bits of one number.
    #[getter]
    fn bits(&self) -> u64 {
        self.0.bits as u64
    }
    /// The smallest number.
    #[getter]
    fn min(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.min.into_py_any(py)
    }
    /// The largest number.
    #[getter]
    fn max(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.0.max.into_py_any(py)
    }
    /// The type.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(dtype(py, self.1)?)
    }
    fn __repr__(&self) -> String {
        format!("iinfo(min={}, max={}, dtype={})", self.0.min, self.0.max, self.1)
    }
}

fn dtype_of(op: &str, v: &Bound<'_, PyAny>) -> R<Dtype> {
    match v.cast::<PyDtype>() {
        Ok(d) => Ok(d.get().0),
        Err(_) => Err(type_error(format!("[{op}] takes a Dtype, got {}", v.get_type().name()?))),
    }
}
