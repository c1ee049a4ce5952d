//! Random numbers: `olivine.core.random`.

use crate::args::Args;
use crate::array::PyArray;
use crate::fault::{Fault, R, index_error, type_error};
use crate::function::table;
use crate::give;
use olivine_core::{Array, Dtype, random};
use pyo3::prelude::*;
use pyo3::types::PyList;

/// Number that a seed is.
fn seed(a: &Args<'_, '_>) -> R<u64> {
    let v = a.need("seed")?;
    v.extract::<u64>().map_err(|_| a.wrong("seed", "an int from 0 to 2**64 - 1", v))
}

fn shape_dtype(a: &Args<'_, '_>) -> R<(Vec<usize>, Dtype)> {
    Ok((a.opt_sequence("shape")?.unwrap_or_default(), a.dtype_or("dtype", Dtype::F32)?))
}

fn is_array(a: &Args<'_, '_>, key: &'static str) -> bool {
    a.opt(key).is_some_and(|v| v.extract::<f64>().is_err() || v.cast::<PyArray>().is_ok())
}

fn uniform(a: &Args<'_, '_>) -> R<Array> {
    let ((shape, dtype), key) = (shape_dtype(a)?, a.opt_array("key")?);
    if is_array(a, "low") || is_array(a, "high") {
        let end = |name, default: f32| -> R<Array> {
            Ok(a.opt_array(name)?.unwrap_or_else(|| Array::from_scalar(default)))
        };
        let (low, high) = (end("low", 0.0)?, end("high", 1.0)?);
        return Ok(random::uniform_between(&low, &high, &shape, dtype, key.as_ref())?);
    }
    Ok(random::uniform(a.f64_or("low", 0.0)?, a.f64_or("high", 1.0)?, &shape, dtype, key.as_ref())?)
}

fn normal(a: &Args<'_, '_>) -> R<Array> {
    let ((shape, dtype), key) = (shape_dtype(a)?, a.opt_array("key")?);
    if is_array(a, "loc") || is_array(a, "scale") {
        let (loc, scale) = (a.opt_array("loc")?, a.opt_array("scale")?);
        return Ok(random::normal_around(loc.as_ref(), scale.as_ref(), &shape, dtype, key.as_ref())?);
    }
    Ok(random::normal(&shape, dtype, a.f64_or("loc", 0.0)?, a.f64_or("scale", 1.0)?, key.as_ref())?)
}

fn randint(a: &Args<'_, '_>) -> R<Array> {
    let (shape, key) = (a.opt_sequence("shape")?.unwrap_or_default(), a.opt_array("key")?);
    let dtype = a.dtype_or("dtype", Dtype::I32)?;
    if let (Some(low), Some(high)) =
        (crate::args::integer(a.need("low")?)?, crate::args::integer(a.need("high")?)?)
    {
        return Ok(random::randint(low, high, &shape, dtype, key.as_ref())?);
    }
    Ok(random::randint_between(&a.array("low")?, &a.array("high")?, &shape, dtype, key.as_ref())?)
}

fn truncated(a: &Args<'_, '_>) -> R<Array> {
    let (low, high, dtype) = (a.array(0)?, a.array(1)?, a.dtype_or("dtype", Dtype::F32)?);
    let shape = match a.opt_sequence("shape")? {
        Some(s) => s,
        None => olivine_core::ops::broadcast_shapes(&[low.shape(), high.shape()])?.to_vec(),
    };
    Ok(random::truncated_normal(&low, &high, &shape, dtype, a.opt_array("key")?.as_ref())?)
}

fn bernoulli(a: &Args<'_, '_>) -> R<Array> {
    let p = a.opt_array(0)?.unwrap_or_else(|| Array::from_scalar(0.5f32));
    let p = if p.dtype().is_float() { p } else { p.astype(Dtype::F32)? };
    let shape = a.opt_sequence("shape")?.unwrap_or_else(|| p.shape().to_vec());
    Ok(random::bernoulli(&p, &shape, a.opt_array("key")?.as_ref())?)
}

fn categorical(a: &Args<'_, '_>) -> R<Array> {
    let (logits, axis, key) = (a.array(0)?, a.axis_or("axis", -1)?, a.opt_array("key")?);
    Ok(match (a.opt_sequence("shape")?, a.opt_size("num_samples")?) {
        (Some(_), Some(_)) => {
            return Err(crate::fault::value_error("[categorical] takes one of shape and num_samples"));
        }
        (Some(shape), None) => random::categorical_shaped(&logits, axis, &shape, key.as_ref())?,
        (None, Some(n)) => random::categorical_many(&logits, axis, n, key.as_ref())?,
        (None, None) if axis == -1 => random::categorical(&logits, key.as_ref())?,
        (None, None) => {
            let rest = olivine_core::shape::axis("categorical", axis, logits.rank())?;
            random::categorical_shaped(&logits, axis, &logits.shape().without(rest), key.as_ref())?
        }
    })
}

fn permutation(a: &Args<'_, '_>) -> R<Array> {
    let (v, key) = (a.need(0)?, a.opt_array("key")?);
    match v.cast::<PyArray>() {
        Ok(x) => Ok(random::permutation_of(&x.get().get(), a.axis_or("axis", 0)?, key.as_ref())?),
        Err(_) => Ok(random::permutation(a.size(0)?, key.as_ref())?),
    }
}

table! {
    /// Functions of `random`.
    TABLE;
    "seed" => |a| random::seed(seed(a)?);
    "key" => |a| random::key(seed(a)?);
    "split" => |a| random::split(&a.array(0)?, a.size_or("num", 2)?);
    "uniform" => |a| uniform(a);
    "normal" => |a| normal(a);
    "truncated_normal" => |a| truncated(a);
    "gumbel" => |a| {
        let ((shape, dtype), key) = (shape_dtype(a)?, a.opt_array("key")?);
        random::gumbel(&shape, dtype, key.as_ref())
    };
    "laplace" => |a| {
        let ((shape, dtype), key) = (shape_dtype(a)?, a.opt_array("key")?);
        random::laplace(&shape, dtype, a.f64_or("loc", 0.0)?, a.f64_or("scale", 1.0)?, key.as_ref())
    };
    "bernoulli" => |a| bernoulli(a);
    "randint" => |a| randint(a);
    "categorical" => |a| categorical(a);
    "permutation" => |a| permutation(a);
    "multivariate_normal" => |a| {
        let ((shape, dtype), key) = (shape_dtype(a)?, a.opt_array("key")?);
        random::multivariate_normal(&a.array(0)?, &a.array(1)?, &shape, dtype, key.as_ref())
    };
}

/// The default key, as a list of one array: `random.state`. Compiled functions take care of it by themselves, so that it
/// need not be among their inputs and outputs, and may be.
#[pyclass(frozen, name = "_RandomState", module = "olivine.core.random")]
pub struct RandomState;

fn only(i: isize) -> R<()> {
    if i == 0 || i == -1 { Ok(()) } else { Err(index_error("random.state holds one key")) }
}

#[pymethods]
impl RandomState {
    fn __len__(&self) -> usize {
        1
    }
    fn __getitem__(&self, py: Python<'_>, i: isize) -> PyResult<Py<PyAny>> {
        only(i)?;
        Ok(give::array(py, random::default_key().map_err(Fault::from)?)?)
    }
    fn __setitem__(&self, i: isize, key: &Bound<'_, PyAny>) -> PyResult<()> {
        only(i)?;
        match key.cast::<PyArray>() {
            Ok(k) => Ok(random::set_default_key(&k.get().get()).map_err(Fault::from)?),
            Err(_) => Err(type_error("random.state holds an array").into()),
        }
    }
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(PyList::new(py, [self.__getitem__(py, 0)?])?.try_iter()?.into_any())
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("[{}]", self.__getitem__(py, 0)?.bind(py).repr()?))
    }
}
