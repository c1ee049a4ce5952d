//! From arrays to Python objects: numbers, nested lists, text, memory.

use crate::fault::{R, value_error};
use crate::print;
use half::{bf16, f16};
use olivine_core::buffer::View;
use olivine_core::{Array, Dtype, Result};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyList};

/// Runs something that may wait, with the interpreter free for other threads. Everything that waits goes through here.
pub fn blocking<T: Send>(py: Python<'_>, f: impl FnOnce() -> Result<T> + Send) -> R<T> {
    Ok(py.detach(f)?)
}

/// Waits for the value of an array.
pub fn ready(py: Python<'_>, a: &Array) -> R<()> {
    if a.is_available() && a.awaits().is_none() {
        return Ok(a.eval()?);
    }
    crate::evaluate::eval(py, std::slice::from_ref(a))
}

/// The bytes of all elements in row-major order.
pub fn bytes(py: Python<'_>, a: &Array) -> R<Vec<u8>> {
    ready(py, a)?;
    if a.nbytes() > 1 << 16 { blocking(py, || a.to_bytes()) } else { Ok(a.to_bytes()?) }
}

/// The value on the host.
pub fn on_host(py: Python<'_>, a: &Array) -> R<(View, *const u8)> {
    ready(py, a)?;
    Ok(a.on_host()?)
}

/// One element as a Python number.
fn element(py: Python<'_>, d: Dtype, b: &[u8]) -> PyResult<Py<PyAny>> {
    macro_rules! number {
        ($t:ty) => {
            <$t>::from_ne_bytes(b.try_into().unwrap_or_default())
        };
    }
    match d {
        Dtype::Bool => (b[0] != 0).into_py_any(py),
        Dtype::U8 => b[0].into_py_any(py),
        Dtype::U16 => number!(u16).into_py_any(py),
        Dtype::U32 => number!(u32).into_py_any(py),
        Dtype::U64 => number!(u64).into_py_any(py),
        Dtype::I8 => (b[0] as i8).into_py_any(py),
        Dtype::I16 => number!(i16).into_py_any(py),
        Dtype::I32 => number!(i32).into_py_any(py),
        Dtype::I64 => number!(i64).into_py_any(py),
        Dtype::F16 => f16::from_bits(number!(u16)).to_f64().into_py_any(py),
        Dtype::BF16 => bf16::from_bits(number!(u16)).to_f64().into_py_any(py),
        Dtype::F32 => f64::from(number!(f32)).into_py_any(py),
        Dtype::F64 => number!(f64).into_py_any(py),
        Dtype::C64 => {
            let part = |b: &[u8]| f64::from(f32::from_ne_bytes(b.try_into().unwrap_or_default()));
            Ok(PyComplex::from_doubles(py, part(&b[..4]), part(&b[4..])).into_any().unbind())
        }
    }
}

/// The one element.
pub fn item(py: Python<'_>, a: &Array) -> R<Py<PyAny>> {
    if a.size() != 1 {
        return Err(value_error(format!("[item] an array of shape {} is no single number", a.shape())));
    }
    Ok(element(py, a.dtype(), &bytes(py, a)?)?)
}

/// The one integer.
pub fn int(py: Python<'_>, a: &Array) -> R<i64> {
    Ok(item(py, a)?.extract(py)?)
}

/// The elements in nested lists; a number for a scalar.
pub fn nested(py: Python<'_>, a: &Array) -> R<Py<PyAny>> {
    fn level(py: Python<'_>, d: Dtype, shape: &[usize], b: &[u8]) -> PyResult<Py<PyAny>> {
        let Some((&n, rest)) = shape.split_first() else { return element(py, d, b) };
        let part = b.len().checked_div(n).unwrap_or(0);
        let items =
            (0..n).map(|i| level(py, d, rest, &b[i * part..(i + 1) * part])).collect::<PyResult<Vec<_>>>()?;
        Ok(PyList::new(py, items)?.into_any().unbind())
    }
    Ok(level(py, a.dtype(), a.shape(), &bytes(py, a)?)?)
}

/// The text that `repr` gives.
pub fn text(py: Python<'_>, a: &Array) -> R<String> {
    let data = bytes(py, a)?;
    Ok(print::array(a.shape(), a.dtype(), &data))
}
