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

/// Other arrays in the places of a tree's arrays, until [`Lent::put_back`].
///
/// Dictionaries of a class of their own, such as modules, have methods that read them, so they and all that they hold
/// are filled in place; other trees are made anew.
#[derive(Default)]
pub struct Lent<'py> {
    /// A container, the key or number of an element, what stood there, and what stands there meanwhile.
    places: Vec<[Bound<'py, PyAny>; 4]>,
}

impl<'py> Lent<'py> {
    /// The tree with arrays taken from the front of `from`.
    pub fn fill(
        &mut self,
        v: &Bound<'py, PyAny>,
        from: &mut std::slice::Iter<'_, Array>,
    ) -> R<Bound<'py, PyAny>> {
        self.filled(v, 0, false, from)
    }

    fn filled(
        &mut self,
        v: &Bound<'py, PyAny>,
        depth: usize,
        inside: bool,
        from: &mut std::slice::Iter<'_, Array>,
    ) -> R<Bound<'py, PyAny>> {
        let py = v.py();
        if v.cast::<PyArray>().is_ok() {
            return match from.next() {
                Some(a) => Ok(give::array(py, a.clone())?.into_bound(py)),
                None => Err(value_error("[tree] there are too few arrays")),
            };
        }
        let own_class = v.is_instance_of::<PyDict>() && !v.is_exact_instance_of::<PyDict>();
        if let Ok(tuple) = v.cast::<PyTuple>() {
            let depth = deeper(depth)?;
            let items: Vec<_> =
                tuple.iter().map(|item| self.filled(&item, depth, inside, from)).collect::<R<_>>()?;
            if v.hasattr("_fields")? {
                return Ok(v.get_type().call1(PyTuple::new(py, items)?)?);
            }
            return Ok(PyTuple::new(py, items)?.into_any());
        }
        let items: Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> = if let Ok(dict) = v.cast::<PyDict>() {
            dict.iter().collect()
        } else if let Ok(list) = v.cast::<PyList>() {
            let numbered =
                |(i, item): (usize, Bound<'py, PyAny>)| Ok((i.into_pyobject(py)?.into_any(), item));
            list.iter().enumerate().map(numbered).collect::<R<_>>()?
        } else {
            return Ok(v.clone());
        };
        let depth = deeper(depth)?;
        let inside = inside || own_class;
        let target = if inside {
            v.clone()
        } else if v.is_instance_of::<PyDict>() {
            PyDict::new(py).into_any()
        } else {
            PyList::empty(py).into_any()
        };
        for (key, item) in items {
            let new = self.filled(&item, depth, inside, from)?;
            if let (false, Ok(list)) = (inside, target.cast::<PyList>()) {
                list.append(new)?;
                continue;
            }
            if inside && new.is(&item) {
                continue;
            }
            // Past what a class does on assignment: nothing but the arrays changes.
            match target.cast::<PyDict>() {
                Ok(dict) => dict.set_item(&key, &new)?,
                Err(_) => target.set_item(&key, &new)?,
            }
            if inside {
                self.places.push([target.clone(), key, item, new]);
            }
        }
        Ok(target)
    }

    /// Puts the arrays back that still stand where they were put.
    pub fn put_back(self) -> R<()> {
        for [container, key, was, meanwhile] in self.places.into_iter().rev() {
            let now = match container.cast::<PyDict>() {
                Ok(dict) => dict.get_item(&key)?,
                Err(_) => container.get_item(&key).ok(),
            };
            if now.is_some_and(|now| now.is(&meanwhile)) {
                match container.cast::<PyDict>() {
                    Ok(dict) => dict.set_item(&key, was)?,
                    Err(_) => container.set_item(&key, was)?,
                }
            }
        }
        Ok(())
    }
}

/// What takes the place of an array, if anything does.
type Exchange<'a, 'py> = dyn FnMut(&Bound<'py, PyArray>) -> R<Option<Py<PyAny>>> + 'a;

/// Changes arrays of a tree where they stand, in its lists and dictionaries; `f` gives what takes the place of one.
pub fn replace<'py>(v: &Bound<'py, PyAny>, f: &mut Exchange<'_, 'py>) -> R<()> {
    exchange(v, 0, f)
}

fn exchange<'py>(v: &Bound<'py, PyAny>, depth: usize, f: &mut Exchange<'_, 'py>) -> R<()> {
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
