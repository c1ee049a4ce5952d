//! Functions with rules of their own for transforms.

use crate::array::PyArray;
use crate::fault::{R, stash, type_error, value_error};
use crate::tree;
use olivine_core::transforms::custom_function;
use olivine_core::{Array, Result};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::sync::{Arc, Mutex};

/// A function for which transforms can be given rules: ``custom_function(f)``.
///
/// Its methods ``vjp``, ``jvp`` and ``vmap`` take the rules; a transform without a rule goes through the function.
///
/// - ``vjp(primals, cotangents, outputs)`` gives the cotangents of the primals.
/// - ``jvp(primals, tangents)`` gives the tangents of the outputs.
/// - ``vmap(inputs, axes)`` gives the outputs for a batch and the axes on which they have it.
///
/// Primals, tangents and inputs are the argument itself where there is one, else the tuple of the arguments.
///
/// >>> @mx.custom_function
/// ... def f(x, y):
/// ...     return mx.sin(x) * y
/// >>> @f.vjp
/// ... def f_vjp(primals, cotangent, output):
/// ...     x, y = primals
/// ...     return cotangent * mx.cos(x) * y, cotangent * mx.sin(x)
/// >>> mx.grad(f)(mx.array(0.0), mx.array(2.0)).item()
/// 2.0
#[pyclass(frozen, weakref, name = "custom_function", module = "olivine.core")]
pub struct PyCustomFunction {
    fun: Py<PyAny>,
    rules: Mutex<[Option<Py<PyAny>>; 3]>,
}

const VJP: usize = 0;
const JVP: usize = 1;
const VMAP: usize = 2;

impl PyCustomFunction {
    fn set(slf: Bound<'_, Self>, which: usize, f: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if !f.is_callable() {
            return Err(type_error("[custom_function] a rule is a function").into());
        }
        slf.get().rules.lock().unwrap_or_else(|e| e.into_inner())[which] = Some(f.clone().unbind());
        Ok(slf.into_any().unbind())
    }

    fn rules(&self, py: Python<'_>) -> [Option<Py<PyAny>>; 3] {
        let rules = self.rules.lock().unwrap_or_else(|e| e.into_inner());
        [VJP, JVP, VMAP].map(|i| rules[i].as_ref().map(|r| r.clone_ref(py)))
    }
}

/// The trees of a call, in which rules get arrays.
struct Call {
    args: Py<PyTuple>,
    kwargs: Option<Py<PyDict>>,
    /// How many of the arrays belong to arguments by position.
    positional: usize,
    result: Mutex<Option<Py<PyAny>>>,
}

impl Call {
    /// The arguments by position with other arrays: the argument itself where there is one.
    fn primals<'py>(&self, py: Python<'py>, next: &mut std::slice::Iter<'_, Array>) -> R<Bound<'py, PyAny>> {
        let args = self.args.bind(py);
        if args.len() == 1 {
            return tree::with_arrays(&args.get_item(0)?, next);
        }
        tree::with_arrays(args, next)
    }

    fn named<'py>(
        &self,
        py: Python<'py>,
        next: &mut std::slice::Iter<'_, Array>,
    ) -> R<Option<Bound<'py, PyDict>>> {
        let Some(k) = &self.kwargs else { return Ok(None) };
        Ok(Some(tree::with_arrays(k.bind(py), next)?.cast::<PyDict>()?.clone()))
    }

    /// The result with other arrays.
    fn result<'py>(&self, py: Python<'py>, arrays: &[Array]) -> R<Bound<'py, PyAny>> {
        let value = self.result.lock().unwrap_or_else(|e| e.into_inner()).as_ref().map(|v| v.clone_ref(py));
        let value = value.ok_or_else(|| value_error("[custom_function] the function was not called"))?;
        tree::with_arrays(value.bind(py), &mut arrays.iter())
    }
}

/// Arrays that a rule gave, one for each of `like`; what it left out is zero.
fn given(v: &Bound<'_, PyAny>, like: &[Array]) -> R<Vec<Array>> {
    let mut found = Vec::new();
    tree::visit(v, &mut |leaf| {
        let at = found.len();
        found.push(match leaf.cast::<PyArray>() {
            Ok(a) => a.get().get(),
            Err(_) if leaf.is_none() && at < like.len() => like[at].full_like(0.0)?,
            Err(_) => {
                let kind = leaf.get_type().name()?;
                return Err(value_error(format!("[custom_function] a rule gave a value of type {kind}")));
            }
        });
        Ok(())
    })?;
    Ok(found)
}

#[pymethods]
impl PyCustomFunction {
    #[new]
    fn new(f: &Bound<'_, PyAny>) -> PyResult<Self> {
        if !f.is_callable() {
            return Err(type_error("[custom_function] takes a function").into());
        }
        Ok(PyCustomFunction { fun: f.clone().unbind(), rules: Mutex::default() })
    }

    /// Sets the rule of derivatives backward.
    fn vjp(slf: Bound<'_, Self>, f: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        PyCustomFunction::set(slf, VJP, f)
    }
    /// Sets the rule of derivatives forward.
    fn jvp(slf: Bound<'_, Self>, f: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        PyCustomFunction::set(slf, JVP, f)
    }
    /// Sets the rule of batches.
    fn vmap(slf: Bound<'_, Self>, f: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        PyCustomFunction::set(slf, VMAP, f)
    }

    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.fun.clone_ref(py)
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.fun)?;
        match self.rules.try_lock() {
            Ok(rules) => rules.iter().try_for_each(|r| visit.call(r)),
            Err(_) => Ok(()),
        }
    }

    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let [vjp, jvp, vmap] = self.rules(py);
        if vjp.is_none() && jvp.is_none() && vmap.is_none() {
            return self.fun.call(py, args, kwargs);
        }
        let mut inputs = Vec::new();
        tree::arrays(args, false, &mut inputs)?;
        let positional = inputs.len();
        if let Some(k) = kwargs {
            tree::arrays(k, false, &mut inputs)?;
        }
        let call = Arc::new(Call {
            args: args.clone().unbind(),
            kwargs: kwargs.map(|k| k.clone().unbind()),
            positional,
            result: Mutex::new(None),
        });
        let (fun, of) = (self.fun.clone_ref(py), call.clone());
        let mut function = custom_function(move |x: &Vec<Array>| {
            let run = |py: Python<'_>| -> R<Vec<Array>> {
                let mut next = x.iter();
                let args = tree::with_arrays(of.args.bind(py), &mut next)?;
                let named = of.named(py, &mut next)?;
                let value = fun.bind(py).call(args.cast::<PyTuple>()?.clone(), named.as_ref())?;
                let mut flat = Vec::new();
                tree::arrays(&value, false, &mut flat)?;
                *of.result.lock().unwrap_or_else(|e| e.into_inner()) = Some(value.unbind());
                Ok(flat)
            };
            Python::attach(|py| run(py).map_err(stash))
        });
        if let Some(rule) = vjp {
            let of = call.clone();
            function =
                function.vjp(move |x: &Vec<Array>, c: &Vec<Array>, y: &Vec<Array>| -> Result<Vec<Array>> {
                    let run = |py: Python<'_>| -> R<Vec<Array>> {
                        let mut next = x.iter();
                        let primals = of.primals(py, &mut next)?;
                        let named = of.named(py, &mut next)?;
                        let back = rule
                            .bind(py)
                            .call((primals, of.result(py, c)?, of.result(py, y)?), named.as_ref())?;
                        let mut all = given(&back, &x[..of.positional])?;
                        // Arguments by name get nothing.
                        for a in &x[of.positional..] {
                            all.push(a.full_like(0.0)?);
                        }
                        Ok(all)
                    };
                    Python::attach(|py| run(py).map_err(stash))
                });
        }
        if let Some(rule) = jvp {
            let of = call.clone();
            function = function.jvp(move |x: &Vec<Array>, t: &Vec<Array>| -> Result<Vec<Array>> {
                let run = |py: Python<'_>| -> R<Vec<Array>> {
                    let mut next = x.iter();
                    let primals = of.primals(py, &mut next)?;
                    let named = of.named(py, &mut next)?;
                    let tangents = of.primals(py, &mut t.iter())?;
                    let forward = rule.bind(py).call((primals, tangents), named.as_ref())?;
                    given(&forward, &[])
                };
                Python::attach(|py| run(py).map_err(stash))
            });
        }
        if let Some(rule) = vmap {
            let of = call.clone();
            function = function.vmap(move |x: &Vec<Array>, flags: &[bool]| -> Result<Vec<Array>> {
                Python::attach(|py| batched(py, &of, &rule, x, flags).map_err(stash))
            });
        }
        let flat = function.call(&inputs).map_err(crate::fault::Fault::from)?;
        Ok(call.result(py, &flat)?.unbind())
    }
}

/// A rule for a batch, whose axis is in front of the flagged arrays and of the results.
fn batched(py: Python<'_>, call: &Call, rule: &Py<PyAny>, x: &[Array], flags: &[bool]) -> R<Vec<Array>> {
    let n = x.iter().zip(flags).find(|(_, f)| **f).map_or(1, |(a, _)| a.shape()[0]);
    let mut next = x.iter();
    let inputs = call.primals(py, &mut next)?;
    let mut at = flags.iter();
    let axes = tree::map(&inputs, &mut |leaf| {
        if leaf.cast::<PyArray>().is_err() {
            return Ok(leaf.clone());
        }
        Ok(match at.next() {
            Some(true) => 0i32.into_pyobject(py)?.into_any(),
            Some(false) | None => py.None().into_bound(py),
        })
    })?;
    let result = rule.bind(py).call1((inputs, axes))?;
    let wrong = || value_error("[custom_function] the rule for vmap gives a pair of outputs and their axes");
    let pair = result.cast::<PyTuple>().map_err(|_| wrong())?;
    if pair.len() != 2 {
        return Err(wrong());
    }
    let mut flat = Vec::new();
    tree::arrays(&pair.get_item(0)?, true, &mut flat)?;
    let mut places = Vec::new();
    let axes = pair.get_item(1)?;
    match crate::args::integer(&axes)? {
        Some(i) => places.resize(flat.len(), Some(i as i32)),
        None => tree::visit(&axes, &mut |leaf| {
            places.push(crate::args::integer(leaf)?.map(|i| i as i32));
            Ok(())
        })?,
    }
    if places.len() != flat.len() {
        return Err(value_error(format!(
            "[custom_function] {} axes for {} outputs",
            places.len(),
            flat.len()
        )));
    }
    let front = |(a, axis): (&Array, &Option<i32>)| -> R<Array> {
        Ok(match axis {
            Some(0) => a.clone(),
            Some(i) => a.moveaxis(*i, 0)?,
            None => {
                let shape: Vec<usize> = std::iter::once(n).chain(a.shape().iter().copied()).collect();
                a.broadcast_to(&shape)?
            }
        })
    };
    flat.iter().zip(&places).map(front).collect()
}
