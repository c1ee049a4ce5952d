//! Trees of arrays: lists, tuples and dictionaries, of which those in turn may be elements.

use crate::array::PyArray;
use crate::fault::{R, value_error};
use crate::give;
use olivine_core::Array;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

/// Trees may not be deeper: one that contains itself would never end.
const DEPTH: usize = 512;

fn deeper(depth: usize) -> R<usize> {
    if depth == DEPTH {
        Err(value_error(format!("[tree] nested more than {DEPTH} deep")))
    } else {
        Ok(depth + 1)
    }
}

/// Calls `f` with every leaf.
pub fn visit<'py>(v: &Bound<'py, PyAny>, f: &mut dyn FnMut(&Bound<'py, PyAny>) -> R<()>) -> R<()> {
    walk(v, 0, f)
}

fn walk<'py>(v: &Bound<'py, PyAny>, depth: usize, f: &mut dyn FnMut(&Bound<'py, PyAny>) -> R<()>) -> R<()> {
    if let Ok(list) = v.cast::<PyList>() {
        let depth = deeper(depth)?;
        list.iter().try_for_each(|item| walk(&item, depth, f))
    } else if let Ok(tuple) = v.cast::<PyTuple>() {
        let depth = deeper(depth)?;
        tuple.iter().try_for_each(|item| walk(&item, depth, f))
    } else if let Ok(dict) = v.cast::<PyDict>() {
        let depth = deeper(depth)?;
        dict.iter().try_for_each(|(_, item)| walk(&item, depth, f))
    } else {
        f(v)
    }
}

/// The same tree with other leaves. Dictionaries become plain ones.
pub fn map<'py>(
    v: &Bound<'py, PyAny>,
    f: &mut dyn FnMut(&Bound<'py, PyAny>) -> R<Bound<'py, PyAny>>,
) -> R<Bound<'py, PyAny>> {
    remake(v, 0, f)
}

fn remake<'py>(
    v: &Bound<'py, PyAny>,
    depth: usize,
    f: &mut dyn FnMut(&Bound<'py, PyAny>) -> R<Bound<'py, PyAny>>,
) -> R<Bound<'py, PyAny>> {
    let py = v.py();
    if let Ok(list) = v.cast::<PyList>() {
        let depth = deeper(depth)?;
        let items = list.iter().map(|item| remake(&item, depth, f)).collect::<R<Vec<_>>>()?;
        Ok(PyList::new(py, items)?.into_any())
    } else if let Ok(tuple) = v.cast::<PyTuple>() {
        let depth = deeper(depth)?;
        let items = tuple.iter().map(|item| remake(&item, depth, f)).collect::<R<Vec<_>>>()?;
        if v.hasattr("_fields")? {
            return Ok(v.get_type().call1(PyTuple::new(py, items)?)?);
        }
        Ok(PyTuple::new(py, items)?.into_any())
    } else if let Ok(dict) = v.cast::<PyDict>() {
        let depth = deeper(depth)?;
        let made = PyDict::new(py);
        for (key, item) in dict.iter() {
            made.set_item(key, remake(&item, depth, f)?)?;
        }
        Ok(made.into_any())
    } else {
        f(v)
    }
}

/// All arrays of a tree. With `strict` everything in it has to be one.
pub fn arrays(v: &Bound<'_, PyAny>, strict: bool, into: &mut Vec<Array>) -> R<()> {
    visit(v, &mut |leaf| {
        match leaf.cast::<PyArray>() {
            Ok(a) => into.push(a.get().get()),
            Err(_) if strict => {
                let kind = leaf.get_type().name()?;
                return Err(value_error(format!(
                    "[tree] takes a tree of arrays alone, which holds a value of type {kind}"
                )));
            }
            Err(_) => {}
        }
        Ok(())
    })
}

/// The tree with other arrays in the places of its arrays, taken from the front of `from`.
pub fn with_arrays<'py>(
    v: &Bound<'py, PyAny>,
    from: &mut std::slice::Iter<'_, Array>,
) -> R<Bound<'py, PyAny>> {
    let py = v.py();
    map(v, &mut |leaf| {
        if leaf.cast::<PyArray>().is_err() {
            return Ok(leaf.clone());
        }
        match from.next() {
            Some(a) => Ok(give::array(py, a.clone())?.into_bound(py)),
            None => Err(value_error("[tree] there are too few arrays")),
        }
    })
}

/// Changes arrays of a tree where they stand, in its lists and dictionaries; `f` gives what takes the place of one.
pub fn replace<'py>(
    v: &Bound<'py, PyAny>,
    f: &mut dyn FnMut(&Bound<'py, PyArray>) -> R<Option<Py<PyAny>>>,
) -> R<()> {
    exchange(v, 0, f)
}

fn exchange<'py>(
    v: &Bound<'py, PyAny>,
    depth: usize,
    f: &mut dyn FnMut(&Bound<'py, PyArray>) -> R<Option<Py<PyAny>>>,
) -> R<()> {
    if let Ok(list) = v.cast::<PyList>() {
        let depth = deeper(depth)?;
        for (i, item) in list.iter().enumerate() {
            match item.cast::<PyArray>() {
                Ok(a) => {
                    if let Some(new) = f(a)? {
                        list.set_item(i, new)?;
                    }
                }
                Err(_) => exchange(&item, depth, f)?,
            }
        }
    } else if let Ok(dict) = v.cast::<PyDict>() {
        let depth = deeper(depth)?;
        let items: Vec<_> = dict.iter().collect();
        for (key, item) in items {
            match item.cast::<PyArray>() {
                Ok(a) => {
                    if let Some(new) = f(a)? {
                        dict.set_item(key, new)?;
                    }
                }
                Err(_) => exchange(&item, depth, f)?,
            }
        }
    } else if let Ok(tuple) = v.cast::<PyTuple>() {
        let depth = deeper(depth)?;
        for item in tuple.iter() {
            match item.cast::<PyArray>() {
                // A tuple cannot change; the array object can.
                Ok(a) => {
                    if let Some(new) = f(a)?
                        && let Ok(new) = new.bind(v.py()).cast::<PyArray>()
                    {
                        a.get().set(new.get().get());
                    }
                }
                Err(_) => exchange(&item, depth, f)?,
            }
        }
    } else if let Ok(a) = v.cast::<PyArray>()
        && depth == 0
        && let Some(new) = f(a)?
        && let Ok(new) = new.bind(v.py()).cast::<PyArray>()
    {
        a.get().set(new.get().get());
    }
    Ok(())
}
