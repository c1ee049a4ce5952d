//! From results to Python objects.

use crate::array::PyArray;
use crate::fault::R;
use crate::types;
use olivine_core::{Array, Dtype};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// What a function may give.
pub trait Give {
    /// As a Python object.
    fn give(self, py: Python<'_>) -> R<Py<PyAny>>;
}

/// Several arrays that become a tuple.
pub struct Several(pub Vec<Array>);

/// An array as a Python object.
pub fn array(py: Python<'_>, a: Array) -> R<Py<PyAny>> {
    Ok(Py::new(py, PyArray::new(a))?.into_any())
}

/// Arrays as Python objects.
pub fn arrays<'py>(py: Python<'py>, all: Vec<Array>) -> R<Vec<Bound<'py, PyAny>>> {
    all.into_iter().map(|a| Ok(Bound::new(py, PyArray::new(a))?.into_any())).collect()
}

impl Give for Array {
    fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
        array(py, self)
    }
}

impl Give for Vec<Array> {
    fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
        Ok(PyList::new(py, arrays(py, self)?)?.into_any().unbind())
    }
}

impl Give for Several {
    fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
        Ok(PyTuple::new(py, arrays(py, self.0)?)?.into_any().unbind())
    }
}

impl Give for (Array, Array) {
    fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
        Several(vec![self.0, self.1]).give(py)
    }
}

impl Give for (Array, Array, Array) {
    fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
        Several(vec![self.0, self.1, self.2]).give(py)
    }
}

impl Give for Dtype {
    fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
        types::dtype(py, self)
    }
}

impl Give for Py<PyAny> {
    fn give(self, _: Python<'_>) -> R<Py<PyAny>> {
        Ok(self)
    }
}

impl Give for () {
    fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
        Ok(py.None())
    }
}

macro_rules! plain {
    ($($t:ty),*) => { $(
        impl Give for $t {
            fn give(self, py: Python<'_>) -> R<Py<PyAny>> {
                Ok(self.into_py_any(py)?)
            }
        }
    )* };
}
plain!(bool, i64, usize, f64, String);
