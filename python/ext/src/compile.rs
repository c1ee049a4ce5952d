//! Functions that are traced once, with the state that they read and change.

use crate::array::PyArray;
use crate::fault::{R, stash, value_error};
use crate::{give, tree};
use olivine_core::Array;
use olivine_core::transforms::{Compile, Compiled};
use pyo3::PyTraverseError;
use pyo3::gc::PyVisit;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::sync::Arc;

/// What a trace gives beside arrays.
struct Template {
    /// The result, with the number of an array in the place of each.
    result: Py<PyAny>,
    /// How many of the arrays belong to the result; the others are state.
    arrays: usize,
}

/// The place of an array in a template.
#[pyclass(frozen, name = "_Slot", module = "olivine.core")]
struct Slot(usize);

/// The traces of a function, and its state.
pub struct Traces {
    compiled: Compiled<Arc<Template>>,
    inputs: Option<Py<PyAny>>,
    outputs: Option<Py<PyAny>>,
}

/// Writes down what beside the arrays decides what a function does.
fn sign(
    v: &Bound<'_, PyAny>,
    state: bool,
    depth: usize,
    key: &mut Vec<u8>,
    arrays: &mut Vec<Array>,
) -> R<()> {
    if depth > 512 {
        return Err(value_error("[compile] arguments are nested more than 512 deep"));
    }
    let text = |key: &mut Vec<u8>, tag: u8, s: &str| {
        key.push(tag);
        key.extend_from_slice(&s.len().to_le_bytes());
        key.extend_from_slice(s.as_bytes());
    };
    if let Ok(a) = v.cast::<PyArray>() {
        key.push(b'a');
        arrays.push(a.get().get());
    } else if let Ok(list) = v.cast::<PyList>() {
        key.push(b'l');
        key.extend_from_slice(&list.len().to_le_bytes());
        list.iter().try_for_each(|item| sign(&item, state, depth + 1, key, arrays))?;
    } else if let Ok(tuple) = v.cast::<PyTuple>() {
        key.push(b't');
        key.extend_from_slice(&tuple.len().to_le_bytes());
        tuple.iter().try_for_each(|item| sign(&item, state, depth + 1, key, arrays))?;
    } else if let Ok(dict) = v.cast::<PyDict>() {
        key.push(b'd');
        key.extend_from_slice(&dict.len().to_le_bytes());
        for (name, item) in dict.iter() {
            text(key, b'k', &name.str()?.to_cow()?);
            sign(&item, state, depth + 1, key, arrays)?;
        }
    } else if v.is_none() {
        key.push(b'n');
    } else if let Ok(b) = v.cast::<PyBool>() {
        key.extend_from_slice(&[b'b', u8::from(b.is_true())]);
    } else if v.is_instance_of::<PyInt>() {
        text(key, b'i', &v.str()?.to_cow()?);
    } else if let Ok(f) = v.cast::<PyFloat>() {
        key.push(b'f');
        key.extend_from_slice(&f.value().to_bits().to_le_bytes());
    } else if let Ok(s) = v.cast::<PyString>() {
        text(key, b's', &s.to_cow()?);
    } else if state {
        key.push(b'o');
    } else {
        let kind = v.get_type().name()?;
        let takes = "trees of arrays and constants (bool, int, float, str, None)";
        return Err(value_error(format!(
            "[compile] a compiled function takes {takes}, got a value of type {kind}"
        )));
    }
    Ok(())
}

/// Containers of the state as they are, to be put back when a trace fails.
#[derive(Default)]
struct Snapshot<'py>(Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>);

impl<'py> Snapshot<'py> {
    fn take(&mut self, v: &Bound<'py, PyAny>, depth: usize) -> R<()> {
        if depth > 512 {
            return Err(value_error("[compile] the state is nested more than 512 deep"));
        }
        if let Ok(list) = v.cast::<PyList>() {
            self.0.push((v.clone(), PyList::new(v.py(), list.iter())?.into_any()));
            list.iter().try_for_each(|item| self.take(&item, depth + 1))?;
        } else if let Ok(tuple) = v.cast::<PyTuple>() {
            tuple.iter().try_for_each(|item| self.take(&item, depth + 1))?;
        } else if let Ok(dict) = v.cast::<PyDict>() {
            let copy = PyDict::new(v.py());
            for (key, item) in dict.iter() {
                copy.set_item(key, item)?;
            }
            self.0.push((v.clone(), copy.into_any()));
            dict.iter().try_for_each(|(_, item)| self.take(&item, depth + 1))?;
        }
        Ok(())
    }

    fn put_back(&self) -> R<()> {
        for (v, was) in &self.0 {
            if let (Ok(list), Ok(was)) = (v.cast::<PyList>(), was.cast::<PyList>()) {
                list.set_slice(0, list.len(), was)?;
            } else if let (Ok(dict), Ok(was)) = (v.cast::<PyDict>(), was.cast::<PyDict>()) {
                dict.clear();
                for (key, item) in was.iter() {
                    dict.set_item(key, item)?;
                }
            }
        }
        Ok(())
    }
}

impl Traces {
    /// None yet.
    pub fn new(inputs: Option<Py<PyAny>>, outputs: Option<Py<PyAny>>, shapeless: bool) -> Traces {
        Traces { compiled: Compiled::new(Compile { shapeless, ..Compile::default() }), inputs, outputs }
    }

    /// For Python's garbage collector.
    pub fn traverse(&self, visit: &PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        visit.call(&self.inputs)?;
        visit.call(&self.outputs)
    }

    /// Calls the function, or does what its trace says.
    pub fn call(
        &self,
        fun: &Bound<'_, PyAny>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> R<Py<PyAny>> {
        let py = fun.py();
        let (mut key, mut arrays) = (Vec::new(), Vec::new());
        sign(args, false, 0, &mut key, &mut arrays)?;
        if let Some(k) = kwargs {
            sign(k, false, 0, &mut key, &mut arrays)?;
        }
        let inputs = self.inputs.as_ref().map(|v| v.bind(py));
        let outputs = self.outputs.as_ref().map(|v| v.bind(py));
        let own = arrays.len();
        if let Some(v) = inputs {
            sign(v, true, 0, &mut key, &mut arrays)?;
        }
        let mut snapshot = Snapshot::default();
        let mut traced = false;
        let mut run = |x: &[Array]| -> R<(Arc<Template>, Vec<Array>)> {
            traced = true;
            for v in [inputs, outputs].into_iter().flatten() {
                snapshot.take(v, 0)?;
            }
            trace(fun, args, kwargs, (inputs, outputs), x, own)
        };
        let done = self.compiled.call(&arrays, &key, |x| run(x).map_err(stash));
        let (template, made) = match done {
            Ok(done) => done,
            Err(e) => {
                if traced {
                    snapshot.put_back()?;
                }
                return Err(e.into());
            }
        };
        let (result, state) = made.split_at(template.arrays.min(made.len()));
        if let Some(v) = outputs {
            let mut next = state.iter();
            tree::replace(v, &mut |_| match next.next() {
                Some(a) => give::array(py, a.clone()).map(Some),
                None => Err(value_error(
                    "[compile] the state holds more arrays than the traced function left in it",
                )),
            })?;
        }
        let objects = give::arrays(py, result.to_vec())?;
        let value = tree::map(template.result.bind(py), &mut |leaf| match leaf.cast::<Slot>() {
            Ok(slot) => Ok(objects[slot.get().0].clone()),
            Err(_) => Ok(leaf.clone()),
        })?;
        Ok(value.unbind())
    }
}

/// Runs the function on stand-ins: those of its arguments first, then those of its state.
fn trace<'py>(
    fun: &Bound<'py, PyAny>,
    args: &Bound<'py, PyTuple>,
    kwargs: Option<&Bound<'py, PyDict>>,
    (inputs, outputs): (Option<&Bound<'py, PyAny>>, Option<&Bound<'py, PyAny>>),
    x: &[Array],
    own: usize,
) -> R<(Arc<Template>, Vec<Array>)> {
    let py = fun.py();
    let (x, state) = x.split_at(own);
    let mut next = x.iter();
    let args = tree::with_arrays(args, &mut next)?;
    let kwargs = kwargs.map(|k| tree::with_arrays(k, &mut next)).transpose()?;
    // What stands in for an array of the state, and the array.
    let mut lent: Vec<(Py<PyAny>, Py<PyAny>)> = Vec::new();
    if let Some(v) = inputs {
        let mut next = state.iter();
        tree::replace(v, &mut |a| match next.next() {
            Some(s) => {
                let object = give::array(py, s.clone())?;
                lent.push((object.clone_ref(py), a.clone().into_any().unbind()));
                Ok(Some(object))
            }
            None => Err(value_error("[compile] the state changed while it was read")),
        })?;
    }
    let kwargs = kwargs.as_ref().map(|k| k.cast::<PyDict>()).transpose()?;
    let value = fun.call(args.cast::<PyTuple>()?.clone(), kwargs)?;
    let mut flat = Vec::new();
    let result = tree::map(&value, &mut |leaf| match leaf.cast::<PyArray>() {
        Ok(a) => {
            flat.push(a.get().get());
            Ok(Bound::new(py, Slot(flat.len() - 1))?.into_any())
        }
        Err(_) => Ok(leaf.clone()),
    })?;
    let arrays = flat.len();
    if let Some(v) = outputs {
        tree::arrays(v, false, &mut flat)?;
    }
    if let Some(v) = inputs {
        tree::replace(v, &mut |a| {
            let own = lent.iter().find(|(stand_in, _)| stand_in.as_ptr() == a.as_ptr());
            Ok(own.map(|(_, array)| array.clone_ref(py)))
        })?;
    }
    Ok((Arc::new(Template { result: result.unbind(), arrays }), flat))
}
