//! Indices: what stands in brackets behind an array, and updates through them.

use crate::array::PyArray;
use crate::fault::{R, value_error};
use crate::{give, input};
use olivine_core::ops::{At, IndexItem};
use olivine_core::{Array, Dtype, Result};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyList, PySlice, PyTuple};

/// An index as the core knows it.
fn items(index: &Bound<'_, PyAny>) -> R<Vec<IndexItem>> {
    match index.cast::<PyTuple>() {
        Ok(t) => t.iter().map(|v| item(&v)).collect(),
        Err(_) => Ok(vec![item(index)?]),
    }
}

fn item(v: &Bound<'_, PyAny>) -> R<IndexItem> {
    if let Ok(a) = v.cast::<PyArray>() {
        return Ok(IndexItem::Array(a.get().get()));
    }
    if let Ok(s) = v.cast::<PySlice>() {
        let part = |name| -> R<Option<i64>> {
            let v = s.getattr(name)?;
            if v.is_none() { Ok(None) } else { bound(&v).map(Some) }
        };
        let step = part("step")?.unwrap_or(1);
        return Ok(IndexItem::Range { start: part("start")?, stop: part("stop")?, step });
    }
    if v.is_none() {
        return Ok(IndexItem::NewAxis);
    }
    if v.is_instance_of::<PyEllipsis>() {
        return Ok(IndexItem::Ellipsis);
    }
    if let Ok(b) = v.cast::<PyBool>() {
        return Ok(IndexItem::Array(Array::from_scalar(b.is_true())));
    }
    if let Ok(i) = v.extract::<i64>() {
        return Ok(IndexItem::Int(i));
    }
    if v.is_instance_of::<PyList>() {
        let a = input::make(v, None)?;
        // An empty list has no type of its own; it picks nothing.
        return Ok(IndexItem::Array(if a.size() == 0 { a.astype(Dtype::I32)? } else { a }));
    }
    if let Some(a) = input::foreign(v)? {
        return Ok(IndexItem::Array(a));
    }
    Err(value_error(format!("[index] a value of type {} is no index", v.get_type().name()?)))
}

/// An end of a slice; integers beyond 64 bits are as good as the last one.
fn bound(v: &Bound<'_, PyAny>) -> R<i64> {
    match crate::args::integer(v) {
        Ok(Some(i)) => Ok(i),
        Ok(None) => Err(value_error(format!("[index] a slice has integers, got {}", v.get_type().name()?))),
        Err(_) => Ok(if v.lt(0)? { i64::MIN } else { i64::MAX }),
    }
}

/// Whether the index holds truth values whose positions have to be looked up.
fn has_mask(items: &[IndexItem]) -> bool {
    items.iter().any(|i| matches!(i, IndexItem::Array(a) if a.dtype() == Dtype::Bool))
}

/// Runs an indexing function; one that has to evaluate a mask lets other threads go on meanwhile.
fn run(v: &Bound<'_, PyAny>, items: &[IndexItem], f: impl FnOnce() -> Result<Array> + Send) -> R<Array> {
    if has_mask(items) { crate::output::blocking(v.py(), f) } else { Ok(f()?) }
}

/// `a[index]`
pub fn get(a: &Array, index: &Bound<'_, PyAny>) -> R<Array> {
    let items = items(index)?;
    run(index, &items, || a.get(&items))
}

/// The values of an assignment to an array.
fn values(a: &Array, v: &Bound<'_, PyAny>) -> R<Array> {
    if let Some(v) = input::operand(v, Some(a.dtype()))? {
        return Ok(v);
    }
    if v.is_instance_of::<PyList>() || v.is_instance_of::<PyTuple>() {
        return Err(value_error(format!(
            "[index] cannot assign a {}: make it an array",
            v.get_type().name()?
        )));
    }
    if v.is_none() {
        return Err(crate::fault::type_error("[index] cannot assign None"));
    }
    Err(value_error(format!("[index] cannot assign a value of type {}", v.get_type().name()?)))
}

/// The array after `a[index] = values`.
pub fn set(a: &Array, index: &Bound<'_, PyAny>, v: &Bound<'_, PyAny>) -> R<Array> {
    let (items, values) = (items(index)?, values(a, v)?);
    run(index, &items, || a.set(&items, &values))
}

/// Updates of an array at positions: `a.at[index].add(values)`.
#[pyclass(frozen, name = "ArrayAt", module = "olivine.core")]
pub struct ArrayAt {
    array: Py<PyArray>,
    index: Option<Py<PyAny>>,
}

type Update = fn(&At<'_>, &Array) -> Result<Array>;

impl ArrayAt {
    /// Of an array, without an index yet.
    pub fn new(array: Py<PyArray>) -> ArrayAt {
        ArrayAt { array, index: None }
    }

    fn update(&self, v: &Bound<'_, PyAny>, f: Update) -> PyResult<Py<PyAny>> {
        let py = v.py();
        let Some(index) = &self.index else {
            return Err(value_error("[at] an index in brackets comes before the update").into());
        };
        let a = self.array.get().get();
        let (items, values) = (items(index.bind(py))?, values(&a, v)?);
        let updated = run(v, &items, || f(&a.at(&items), &values))?;
        Ok(give::array(py, updated)?)
    }
}

#[pymethods]
impl ArrayAt {
    fn __getitem__(&self, py: Python<'_>, indices: Py<PyAny>) -> ArrayAt {
        ArrayAt { array: self.array.clone_ref(py), index: Some(indices) }
    }
    /// The array with values added at the index.
    fn add(&self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.update(value, |at, v| at.add(v))
    }
    /// The array with values taken off at the index.
    fn subtract(&self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.update(value, |at, v| at.subtract(v))
    }
    /// The array multiplied by values at the index.
    fn multiply(&self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.update(value, |at, v| at.multiply(v))
    }
    /// The array divided by values at the index.
    fn divide(&self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.update(value, |at, v| at.divide(v))
    }
    /// The array with the larger of itself and values at the index.
    fn maximum(&self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.update(value, |at, v| at.maximum(v))
    }
    /// The array with the smaller of itself and values at the index.
    fn minimum(&self, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.update(value, |at, v| at.minimum(v))
    }
}
