//! What can go wrong on the way from Python to the core and back, and which exception it becomes.

use olivine_core::Error;
use pyo3::exceptions::{PyIndexError, PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::cell::RefCell;

/// An error of the core, or an exception.
#[derive(Debug)]
pub enum Fault {
    /// Of the core.
    Core(Error),
    /// Raised in Python or by the binding.
    Python(PyErr),
}

/// Result of everything in this crate.
pub type R<T> = Result<T, Fault>;

impl From<PyErr> for Fault {
    fn from(e: PyErr) -> Fault {
        Fault::Python(e)
    }
}

impl From<Error> for Fault {
    /// An error that stands for an exception becomes that exception again.
    fn from(e: Error) -> Fault {
        match &e {
            Error::Value { op: RAISED, .. } => match STASH.take() {
                Some(raised) => Fault::Python(raised),
                None => Fault::Core(e),
            },
            _ => Fault::Core(e),
        }
    }
}

impl From<std::convert::Infallible> for Fault {
    fn from(never: std::convert::Infallible) -> Fault {
        match never {}
    }
}

impl<'a, 'py> From<pyo3::CastError<'a, 'py>> for Fault {
    fn from(e: pyo3::CastError<'a, 'py>) -> Fault {
        Fault::Python(e.into())
    }
}

impl From<Fault> for PyErr {
    /// The classes are those that MLX raises.
    fn from(f: Fault) -> PyErr {
        let e = match f {
            Fault::Python(e) => return e,
            Fault::Core(e) => e,
        };
        let text = e.to_string();
        match e {
            Error::Shape { .. }
            | Error::Dtype { .. }
            | Error::Value { .. }
            | Error::InTrace { .. }
            | Error::NoBackend(_) => PyValueError::new_err(text),
            Error::Index { .. } => PyIndexError::new_err(text),
            Error::OutOfMemory { .. } => PyMemoryError::new_err(text),
            Error::Unsupported { .. } | Error::Device { .. } | Error::Io { .. } => {
                PyRuntimeError::new_err(text)
            }
        }
    }
}

const RAISED: &str = "a Python function";

thread_local! {
    /// An exception on its way through the core, whose errors cannot hold one. Transforms call Python functions on the
    /// thread that they were called on, so it is met on the same thread again.
    static STASH: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// An error of the core that stands for an exception.
pub fn stash(f: Fault) -> Error {
    match f {
        Fault::Core(e) => e,
        Fault::Python(e) => {
            let msg = e.to_string();
            STASH.set(Some(e));
            Error::Value { op: RAISED, msg }
        }
    }
}

/// A `TypeError`.
pub fn type_error(text: impl Into<String>) -> Fault {
    Fault::Python(PyTypeError::new_err(text.into()))
}

/// A `ValueError`.
pub fn value_error(text: impl Into<String>) -> Fault {
    Fault::Python(PyValueError::new_err(text.into()))
}

/// An `IndexError`.
pub fn index_error(text: impl Into<String>) -> Fault {
    Fault::Python(PyIndexError::new_err(text.into()))
}

/// A `RuntimeError`.
pub fn runtime_error(text: impl Into<String>) -> Fault {
    Fault::Python(PyRuntimeError::new_err(text.into()))
}
