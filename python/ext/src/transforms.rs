//! Functions of functions: derivatives and batches, over trees of arrays.

use crate::array::PyArray;
use crate::fault::{Fault, R, stash, type_error, value_error};
use crate::{compile, give, tree};
use olivine_core::transforms::{self, Axis};
use olivine_core::{Array, Result};
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use pyo3::{PyTraverseError, intern};
use std::cell::RefCell;

/// What is done to a function.
pub enum What {
    /// Its gradient.
    Grad(Wanted),
    /// Its value and its gradient.
    ValueAndGrad(Wanted),
    /// The function for every element of a batch: axes of the arguments and of the results.
    Vmap(Py<PyAny>, Py<PyAny>),
    /// The function, recomputed for derivatives.
    Checkpoint,
    /// The function, traced once.
    Compile(compile::Traces),
}

/// The arguments by which a derivative is taken.
pub struct Wanted {
    positions: Vec<usize>,
    names: Vec<String>,
}

/// A function that a transform made of another one.
#[pyclass(frozen, weakref, name = "_Transformed", module = "olivine.core")]
pub struct Transformed {
    fun: Py<PyAny>,
    what: What,
}

impl Transformed {
    /// Of a function.
    pub fn new(fun: Py<PyAny>, what: What) -> Transformed {
        Transformed { fun, what }
    }
}

#[pymethods]
impl Transformed {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let fun = self.fun.bind(py);
        Ok(match &self.what {
            What::Grad(w) => value_and_grad("grad", fun, w, args, kwargs)?.1,
            What::ValueAndGrad(w) => {
                let (value, grad) = value_and_grad("value_and_grad", fun, w, args, kwargs)?;
                PyTuple::new(py, [value, grad])?.into_any().unbind()
            }
            What::Vmap(i, o) => vmap(fun, i.bind(py), o.bind(py), args, kwargs)?,
            What::Checkpoint => checkpoint(fun, args, kwargs)?,
            What::Compile(traces) => traces.call(fun, args, kwargs)?,
        })
    }

    /// The function that it was made of.
    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.fun.clone_ref(py)
    }
    #[getter]
    fn __name__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fun.getattr(py, intern!(py, "__name__"))
    }
    #[getter]
    fn __qualname__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fun.getattr(py, intern!(py, "__qualname__"))
    }
    #[getter]
    fn __doc__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.fun.getattr(py, intern!(py, "__doc__"))
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let what = match &self.what {
            What::Grad(_) => "grad",
            What::ValueAndGrad(_) => "value_and_grad",
            What::Vmap(..) => "vmap",
            What::Checkpoint => "checkpoint",
            What::Compile(_) => "compile",
        };
        Ok(format!("<{what} of {}>", self.fun.bind(py).repr()?))
    }
    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.fun)?;
        match &self.what {
            What::Vmap(i, o) => {
                visit.call(i)?;
                visit.call(o)
            }
            What::Compile(traces) => traces.traverse(&visit),
            What::Grad(_) | What::ValueAndGrad(_) | What::Checkpoint => Ok(()),
        }
    }
}

/// Reads `argnums` and `argnames`.
pub fn wanted(op: &str, nums: Option<&Bound<'_, PyAny>>, names: Option<&Bound<'_, PyAny>>) -> R<Wanted> {
    let mut w = Wanted { positions: Vec::new(), names: Vec::new() };
    match names {
        None => {}
        Some(n) if n.is_instance_of::<PyString>() => w.names.push(n.extract()?),
        Some(n) => {
            w.names =
                n.extract().map_err(|_| type_error(format!("[{op}] argnames is a str or a list of them")))?;
        }
    }
    let numbers: Vec<i64> = match nums {
        None if w.names.is_empty() => vec![0],
        None => Vec::new(),
        Some(n) => match crate::args::integer(n)? {
            Some(i) => vec![i],
            None if crate::args::is_list(n) => {
                n.extract().map_err(|_| type_error(format!("[{op}] argnums is an int or a list of them")))?
            }
            None => return Err(type_error(format!("[{op}] argnums is an int or a list of them"))),
        },
    };
    if numbers.is_empty() && w.names.is_empty() {
        return Err(value_error(format!("[{op}] takes at least one of argnums and argnames")));
    }
    for i in numbers {
        let at = usize::try_from(i)
            .map_err(|_| value_error(format!("[{op}] argnums may not be negative, got {i}")))?;
        if w.positions.contains(&at) {
            return Err(value_error(format!("[{op}] argument {at} is named twice")));
        }
        w.positions.push(at);
    }
    for (i, n) in w.names.iter().enumerate() {
        if w.names[..i].contains(n) {
            return Err(value_error(format!("[{op}] argument {n:?} is named twice")));
        }
    }
    Ok(w)
}

/// Calls the function with marked arrays in the places of those by which it is differentiated.
fn call_marked<'py>(
    fun: &Bound<'py, PyAny>,
    w: &Wanted,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    marked: &[Array],
    lent: &mut tree::Lent<'py>,
) -> R<Bound<'py, PyAny>> {
    let mut marked = marked.iter();
    let mut items: Vec<Bound<'py, PyAny>> = args.iter().collect();
    for &i in &w.positions {
        items[i] = lent.fill(&items[i], &mut marked)?;
    }
    let named = kwargs.map(|k| k.copy()).transpose()?;
    if let Some(named) = &named {
        for name in &w.names {
            if let Some(v) = named.get_item(name)? {
                named.set_item(name, lent.fill(&v, &mut marked)?)?;
            }
        }
    }
    Ok(fun.call(PyTuple::new(fun.py(), items)?, named.as_ref())?)
}

fn value_and_grad<'py>(
    op: &'static str,
    fun: &Bound<'py, PyAny>,
    w: &Wanted,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> R<(Py<PyAny>, Py<PyAny>)> {
    let py = fun.py();
    if let Some(i) = w.positions.iter().find(|&&i| i >= args.len()) {
        let n = args.len();
        return Err(value_error(format!(
            "[{op}] there is no argument {i}: the function is called with {n} by position"
        )));
    }
    let mut trees: Vec<Bound<'_, PyAny>> =
        w.positions.iter().map(|&i| args.get_item(i)).collect::<PyResult<_>>()?;
    for name in &w.names {
        match kwargs.map(|k| k.get_item(name)).transpose()?.flatten() {
            Some(v) => trees.push(v),
            None => {
                return Err(value_error(format!(
                    "[{op}] there is no argument {name:?} among those given by name"
                )));
            }
        }
    }
    let mut primals = Vec::new();
    for t in &trees {
        tree::arrays(t, true, &mut primals)?;
    }
    let result = RefCell::new(None);
    let run = |x: &Vec<Array>| -> R<(Array, Vec<Array>)> {
        let mut lent = tree::Lent::default();
        let value = call_marked(fun, w, args, kwargs, x, &mut lent);
        lent.put_back()?;
        let value = value?;
        let loss = match value.cast::<PyArray>() {
            Ok(a) => Some(a.get().get()),
            Err(_) if op == "value_and_grad" => match value.cast::<PyTuple>() {
                Ok(t) if !t.is_empty() => t.get_item(0)?.cast::<PyArray>().ok().map(|a| a.get().get()),
                _ => None,
            },
            Err(_) => None,
        };
        let Some(loss) = loss else {
            let kind = value.get_type().name()?;
            let what = if op == "grad" {
                "a scalar array"
            } else {
                "a scalar array, or a tuple that begins with one"
            };
            return Err(value_error(format!(
                "[{op}] the function must return {what}; it returned a value of type {kind}"
            )));
        };
        result.replace(Some(value.unbind()));
        Ok((loss, Vec::new()))
    };
    let (_, grads) = transforms::value_and_grad(|x: &Vec<Array>| run(x).map_err(stash))(&primals)?;
    let mut next = grads.iter();
    let mut made = trees.iter().map(|t| tree::with_arrays(t, &mut next)).collect::<R<Vec<_>>>()?;
    let by_name: Vec<_> = made.drain(w.positions.len()..).collect();
    let by_position = match made.len() {
        0 => py.None().into_bound(py),
        1 => made.remove(0),
        _ => PyTuple::new(py, made)?.into_any(),
    };
    let grads = if w.names.is_empty() {
        by_position
    } else {
        let named = PyDict::new(py);
        for (name, g) in w.names.iter().zip(by_name) {
            named.set_item(name, g)?;
        }
        PyTuple::new(py, [by_position, named.into_any()])?.into_any()
    };
    let value =
        result.into_inner().ok_or_else(|| value_error(format!("[{op}] the function was not called")))?;
    Ok((value, grads.unbind()))
}

/// What a function of arrays returned: an array, or a list or tuple of them.
fn outputs(op: &str, value: &Bound<'_, PyAny>) -> R<Vec<Array>> {
    if let Ok(a) = value.cast::<PyArray>() {
        return Ok(vec![a.get().get()]);
    }
    let mut all = Vec::new();
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        for item in value.try_iter()? {
            let item = item?;
            match item.cast::<PyArray>() {
                Ok(a) => all.push(a.get().get()),
                Err(_) => {
                    let kind = item.get_type().name()?;
                    return Err(value_error(format!(
                        "[{op}] the function must return arrays; it returned a value of type {kind}"
                    )));
                }
            }
        }
        return Ok(all);
    }
    let kind = value.get_type().name()?;
    Err(value_error(format!("[{op}] the function must return arrays; it returned a value of type {kind}")))
}

type Product = fn(
    &mut dyn FnMut(&[Array]) -> Result<Vec<Array>>,
    &[Array],
    &[Array],
) -> Result<(Vec<Array>, Vec<Array>)>;

fn product(
    op: &'static str,
    fun: &Bound<'_, PyAny>,
    primals: &[Array],
    others: &[Array],
    f: Product,
) -> R<(Py<PyAny>, Py<PyAny>)> {
    let py = fun.py();
    let mut run = |x: &[Array]| -> Result<Vec<Array>> {
        let call = || -> R<Vec<Array>> {
            let args = PyTuple::new(py, give::arrays(py, x.to_vec())?)?;
            outputs(op, &fun.call1(args)?)
        };
        call().map_err(stash)
    };
    let (values, found) = f(&mut run, primals, others)?;
    Ok((give::Give::give(values, py)?, give::Give::give(found, py)?))
}

/// Values and products with the Jacobian from the left.
pub fn vjp(fun: &Bound<'_, PyAny>, primals: &[Array], cotangents: &[Array]) -> R<Py<PyAny>> {
    let (a, b) = product("vjp", fun, primals, cotangents, |f, x, c| transforms::vjp_arrays(f, x, c))?;
    Ok(PyTuple::new(fun.py(), [a, b])?.into_any().unbind())
}

/// Values and products with the Jacobian from the right.
pub fn jvp(fun: &Bound<'_, PyAny>, primals: &[Array], tangents: &[Array]) -> R<Py<PyAny>> {
    let (a, b) = product("jvp", fun, primals, tangents, |f, x, t| transforms::jvp_arrays(f, x, t))?;
    Ok(PyTuple::new(fun.py(), [a, b])?.into_any().unbind())
}

/// The axes that a tree of axes, or a prefix of one, says for the arrays of a tree.
fn axes(v: &Bound<'_, PyAny>, a: &Bound<'_, PyAny>, into: &mut Vec<Axis>) -> R<()> {
    let mismatch = || value_error("[vmap] the tree of axes does not fit the tree of arrays");
    let one = if a.is_none() {
        Some(None)
    } else {
        match crate::args::integer(a)? {
            Some(i) => {
                Some(Some(i32::try_from(i).map_err(|_| value_error(format!("[vmap] {i} is no axis")))?))
            }
            None => None,
        }
    };
    if let Some(axis) = one {
        return tree::visit(v, &mut |leaf| match leaf.cast::<PyArray>() {
            Ok(_) => {
                into.push(axis);
                Ok(())
            }
            Err(_) => {
                let kind = leaf.get_type().name()?;
                Err(value_error(format!("[vmap] takes trees of arrays, got a value of type {kind}")))
            }
        });
    }
    if let (Ok(v), Ok(a)) = (v.cast::<PyDict>(), a.cast::<PyDict>()) {
        for (key, item) in v.iter() {
            axes(&item, &a.get_item(&key)?.ok_or_else(mismatch)?, into)?;
        }
        return Ok(());
    }
    let list = |v: &Bound<'_, PyAny>| v.is_instance_of::<PyList>() || v.is_instance_of::<PyTuple>();
    if list(v) && list(a) && v.len()? == a.len()? {
        for (item, a) in v.try_iter()?.zip(a.try_iter()?) {
            axes(&item?, &a?, into)?;
        }
        return Ok(());
    }
    Err(mismatch())
}

fn vmap(
    fun: &Bound<'_, PyAny>,
    in_axes: &Bound<'_, PyAny>,
    out_axes: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> R<Py<PyAny>> {
    let py = fun.py();
    if kwargs.is_some_and(|k| !k.is_empty()) {
        return Err(type_error("[vmap] arguments by name are not supported"));
    }
    let (mut inputs, mut places) = (Vec::new(), Vec::new());
    tree::arrays(args, true, &mut inputs)?;
    // The axes of the only argument may stand there without a tuple around them.
    let alone = args.len() == 1 && !in_axes.is_none() && {
        let item = args.get_item(0)?;
        let as_tuple = in_axes.cast::<PyTuple>().is_ok_and(|t| t.len() == 1);
        !as_tuple || (item.is_instance_of::<PyTuple>() && item.len()? == 1)
    };
    if alone {
        axes(&args.get_item(0)?, in_axes, &mut places)?
    } else {
        axes(args, in_axes, &mut places)?
    }
    let result = RefCell::new(None);
    let run = |x: &[Array]| -> R<Vec<Array>> {
        let args = tree::with_arrays(args, &mut x.iter())?;
        let value = fun.call1(args.cast::<PyTuple>()?.clone())?;
        let mut flat = Vec::new();
        tree::arrays(&value, true, &mut flat)?;
        result.replace(Some(value));
        Ok(flat)
    };
    let out = |_: usize| -> R<Vec<Axis>> {
        let mut places = Vec::new();
        if let Some(value) = &*result.borrow() {
            axes(value, out_axes, &mut places)?;
        }
        Ok(places)
    };
    let flat =
        transforms::vmap_arrays(|x| run(x).map_err(stash), &inputs, &places, |n| out(n).map_err(stash))?;
    let value = result.into_inner().ok_or_else(|| value_error("[vmap] the function was not called"))?;
    let _ = py;
    Ok(tree::with_arrays(&value, &mut flat.iter())?.unbind())
}

fn checkpoint(
    fun: &Bound<'_, PyAny>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> R<Py<PyAny>> {
    let mut inputs = Vec::new();
    tree::arrays(args, false, &mut inputs)?;
    if let Some(k) = kwargs {
        tree::arrays(k, false, &mut inputs)?;
    }
    let result = RefCell::new(None);
    let run = |x: &Vec<Array>| -> R<Vec<Array>> {
        let mut next = x.iter();
        let args = tree::with_arrays(args, &mut next)?;
        let kwargs = kwargs.map(|k| tree::with_arrays(k, &mut next)).transpose()?;
        let kwargs = kwargs.as_ref().map(|k| k.cast::<PyDict>()).transpose()?;
        let value = fun.call(args.cast::<PyTuple>()?.clone(), kwargs)?;
        let mut flat = Vec::new();
        tree::arrays(&value, false, &mut flat)?;
        result.replace(Some(value));
        Ok(flat)
    };
    let flat: Vec<Array> = transforms::checkpoint(|x: &Vec<Array>| run(x).map_err(stash))(&inputs)?;
    let value = result.into_inner().ok_or_else(|| {
        Fault::from(olivine_core::Error::value("checkpoint", "the function was not called"))
    })?;
    Ok(tree::with_arrays(&value, &mut flat.iter())?.unbind())
}
