//! The arguments of a call, and the accessors with which functions read them.
//!
//! Arguments are found by the position or the name that the stub gives them. An accessor says what it wants; what
//! cannot be that is a `TypeError` that names function, argument and type.

use crate::array::PyArray;
use crate::fault::{Fault, R, type_error, value_error};
use crate::input;
use crate::stub::{Kind, Signature};
use crate::types::PyDtype;
use olivine_core::{Array, Dtype};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyString, PyTuple};
use smallvec::SmallVec;

/// Where an argument stands.
#[derive(Debug, Clone, Copy)]
pub enum Key {
    /// By position.
    At(usize),
    /// By name.
    Named(&'static str),
}

impl From<usize> for Key {
    fn from(i: usize) -> Self {
        Key::At(i)
    }
}
impl From<i32> for Key {
    fn from(i: i32) -> Self {
        Key::At(i as usize)
    }
}
impl From<&'static str> for Key {
    fn from(s: &'static str) -> Self {
        Key::Named(s)
    }
}

/// The arguments of one call.
pub struct Args<'a, 'py> {
    /// That the interpreter is there.
    pub py: Python<'py>,
    /// What the function takes.
    pub signature: &'a Signature,
    slots: SmallVec<[Option<Bound<'py, PyAny>>; 8]>,
    /// `*args`.
    pub rest: Vec<Bound<'py, PyAny>>,
    /// `**kwargs`.
    pub more: Option<Bound<'py, PyDict>>,
}

impl<'a, 'py> Args<'a, 'py> {
    /// Puts what a call gives in its places.
    ///
    /// # Errors
    /// `TypeError` for arguments that are too many, missing, unknown, or given twice.
    pub fn bind(
        py: Python<'py>,
        signature: &'a Signature,
        given: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> R<Args<'a, 'py>> {
        let parameters = &signature.parameters;
        let mut slots: SmallVec<[Option<Bound<'py, PyAny>>; 8]> = SmallVec::new();
        slots.resize(parameters.len(), None);
        let mut args = Args { py, signature, slots, rest: Vec::new(), more: None };
        let mut next = 0;
        for value in given.iter() {
            match parameters.get(next).map(|p| p.kind) {
                Some(Kind::Positional | Kind::Either) => {
                    args.slots[next] = Some(value);
                    next += 1;
                }
                Some(Kind::Rest) => args.rest.push(value),
                Some(Kind::Named | Kind::More) | None => {
                    return Err(
                        args.wrong_call(&format!("{} arguments by position are too many", given.len()))
                    );
                }
            }
        }
        if let Some(named) = named {
            for (name, value) in named.iter() {
                let name = name.cast::<PyString>()?;
                let name = name.to_cow()?;
                match parameters.iter().position(|p| p.name == name) {
                    Some(i) if matches!(parameters[i].kind, Kind::Either | Kind::Named) => {
                        if args.slots[i].is_some() {
                            return Err(args.wrong_call(&format!("'{name}' is given twice")));
                        }
                        args.slots[i] = Some(value);
                    }
                    _ if parameters.iter().any(|p| p.kind == Kind::More) => {
                        args.more.get_or_insert_with(|| PyDict::new(py)).set_item(&*name, value)?;
                    }
                    _ => return Err(args.wrong_call(&format!("there is no argument '{name}'"))),
                }
            }
        }
        for (p, slot) in parameters.iter().zip(&args.slots) {
            let must = p.default.is_none() && !matches!(p.kind, Kind::Rest | Kind::More);
            if must && slot.is_none() {
                return Err(args.wrong_call(&format!("'{}' is missing", p.name)));
            }
        }
        Ok(args)
    }

    fn wrong_call(&self, what: &str) -> Fault {
        type_error(format!("[{0}] {what}; the call is {0}{1}", self.op(), self.signature.text))
    }

    /// The function's name.
    pub fn op(&self) -> &'a str {
        let name = self.signature.name.as_str();
        name.rsplit('.').next().unwrap_or(name)
    }

    fn place(&self, key: Key) -> usize {
        match key {
            Key::At(i) => i,
            // A name that the stub lacks is found by the test that calls every function.
            Key::Named(n) => self.signature.parameters.iter().position(|p| p.name == n).unwrap_or(usize::MAX),
        }
    }

    fn called(&self, key: Key) -> &'static str {
        self.signature.parameters.get(self.place(key)).map_or("argument", |p| p.name)
    }

    /// What was given, `None` included.
    pub fn raw(&self, key: impl Into<Key>) -> Option<&Bound<'py, PyAny>> {
        self.slots.get(self.place(key.into()))?.as_ref()
    }

    /// What was given, unless it was `None`.
    pub fn opt(&self, key: impl Into<Key>) -> Option<&Bound<'py, PyAny>> {
        self.raw(key).filter(|v| !v.is_none())
    }

    /// What has to be there and not `None`.
    pub fn need(&self, key: impl Into<Key>) -> R<&Bound<'py, PyAny>> {
        let key = key.into();
        self.opt(key)
            .ok_or_else(|| type_error(format!("[{}] '{}' must not be None", self.op(), self.called(key))))
    }

    /// A `TypeError` about an argument.
    pub fn wrong(&self, key: impl Into<Key>, wanted: &str, got: &Bound<'_, PyAny>) -> Fault {
        let kind = got.get_type().name().map_or_else(|_| "object".into(), |n| n.to_string());
        type_error(format!("[{}] '{}' must be {wanted}, got {kind}", self.op(), self.called(key.into())))
    }

    fn to_array(&self, key: Key, v: &Bound<'py, PyAny>, like: Option<Dtype>) -> R<Array> {
        match input::operand(v, like)? {
            Some(a) => Ok(a),
            None => Err(self.no_array(key, v)),
        }
    }

    /// A `ValueError` about what cannot become an array.
    fn no_array(&self, key: Key, v: &Bound<'py, PyAny>) -> Fault {
        let kind = v.get_type().name().map_or_else(|_| "object".into(), |n| n.to_string());
        value_error(format!(
            "[{}] '{}' must be an array or a number, got {kind}",
            self.op(),
            self.called(key)
        ))
    }

    /// An array; a number becomes one of its own type.
    pub fn array(&self, key: impl Into<Key>) -> R<Array> {
        let key = key.into();
        self.to_array(key, self.need(key)?, None)
    }

    /// An array that is no number.
    pub fn strict_array(&self, key: impl Into<Key>) -> R<Array> {
        let key = key.into();
        let v = self.need(key)?;
        match v.cast::<PyArray>() {
            Ok(a) => Ok(a.get().get()),
            Err(_) => Err(self.wrong(key, "an array", v)),
        }
    }

    /// An array, if it is there.
    pub fn opt_array(&self, key: impl Into<Key>) -> R<Option<Array>> {
        let key = key.into();
        self.opt(key).map(|v| self.to_array(key, v, None)).transpose()
    }

    /// An array; a number takes the type of `like` where that can hold its kind.
    pub fn array_like(&self, key: impl Into<Key>, like: &Array) -> R<Array> {
        let key = key.into();
        self.to_array(key, self.need(key)?, Some(like.dtype()))
    }

    /// As [`Args::array_like`], if it is there.
    pub fn opt_array_like(&self, key: impl Into<Key>, like: &Array) -> R<Option<Array>> {
        let key = key.into();
        self.opt(key).map(|v| self.to_array(key, v, Some(like.dtype()))).transpose()
    }

    /// The first two arguments, of which one may be a number that takes the other's type.
    pub fn pair(&self) -> R<(Array, Array)> {
        self.pair_at(0, 1)
    }

    /// Two arguments, of which one may be a number that takes the other's type.
    pub fn pair_at(&self, i: usize, j: usize) -> R<(Array, Array)> {
        let (a, b) = (self.need(i)?, self.need(j)?);
        match input::pair(a, b)? {
            Some(both) => Ok(both),
            None => {
                let (at, v) = if input::operand(a, None)?.is_none() { (i, a) } else { (j, b) };
                Err(self.no_array(Key::At(at), v))
            }
        }
    }

    /// Arrays of a list, or one array alone.
    pub fn arrays(&self, key: impl Into<Key>) -> R<Vec<Array>> {
        let key = key.into();
        let v = self.need(key)?;
        if let Ok(a) = v.cast::<PyArray>() {
            return Ok(vec![a.get().get()]);
        }
        let Ok(items) = v.try_iter() else { return Err(self.wrong(key, "a list of arrays", v)) };
        items.map(|item| self.to_array(key, &item?, None)).collect()
    }

    /// `*args` as arrays.
    pub fn rest_arrays(&self) -> R<Vec<Array>> {
        let rest = self.signature.parameters.iter().position(|p| p.kind == Kind::Rest).unwrap_or(0);
        self.rest.iter().map(|v| self.to_array(Key::At(rest), v, None)).collect()
    }

    /// A truth value with a default.
    pub fn bool_or(&self, key: impl Into<Key>, default: bool) -> R<bool> {
        let key = key.into();
        match self.opt(key) {
            None => Ok(default),
            Some(v) => match v.cast::<PyBool>() {
                Ok(b) => Ok(b.is_true()),
                Err(_) => Err(self.wrong(key, "a bool", v)),
            },
        }
    }

    fn as_int(&self, key: Key, v: &Bound<'py, PyAny>) -> R<i64> {
        integer(v)?.ok_or_else(|| self.wrong(key, "an int", v))
    }

    fn as_size(&self, key: Key, v: &Bound<'py, PyAny>) -> R<usize> {
        if let Ok(n) = v.extract::<u64>() {
            return Ok(usize::try_from(n).unwrap_or(usize::MAX));
        }
        let i = self.as_int(key, v)?;
        usize::try_from(i)
            .map_err(|_| value_error(format!("[{}] '{}' is negative: {i}", self.op(), self.called(key))))
    }

    fn as_axis(&self, key: Key, v: &Bound<'py, PyAny>) -> R<i32> {
        let i = self.as_int(key, v)?;
        i32::try_from(i)
            .map_err(|_| type_error(format!("[{}] '{}' is no axis: {i}", self.op(), self.called(key))))
    }

    fn list<T>(
        &self,
        key: Key,
        v: &Bound<'py, PyAny>,
        one: fn(&Self, Key, &Bound<'py, PyAny>) -> R<T>,
    ) -> R<Vec<T>> {
        if is_list(v) {
            return v.try_iter()?.map(|item| one(self, key, &item?)).collect();
        }
        if integer(v)?.is_none() {
            return Err(self.wrong(key, "an int or a list of ints", v));
        }
        Ok(vec![one(self, key, v)?])
    }

    /// An integer.
    pub fn int(&self, key: impl Into<Key>) -> R<i64> {
        let key = key.into();
        self.as_int(key, self.need(key)?)
    }

    /// An integer, if it is there.
    pub fn opt_int(&self, key: impl Into<Key>) -> R<Option<i64>> {
        let key = key.into();
        self.opt(key).map(|v| self.as_int(key, v)).transpose()
    }

    /// An integer with a default.
    pub fn int_or(&self, key: impl Into<Key>, default: i64) -> R<i64> {
        Ok(self.opt_int(key)?.unwrap_or(default))
    }

    /// A number of things.
    pub fn size(&self, key: impl Into<Key>) -> R<usize> {
        let key = key.into();
        self.as_size(key, self.need(key)?)
    }

    /// A number of things, if it is there.
    pub fn opt_size(&self, key: impl Into<Key>) -> R<Option<usize>> {
        let key = key.into();
        self.opt(key).map(|v| self.as_size(key, v)).transpose()
    }

    /// A number of things with a default.
    pub fn size_or(&self, key: impl Into<Key>, default: usize) -> R<usize> {
        Ok(self.opt_size(key)?.unwrap_or(default))
    }

    /// An axis.
    pub fn axis(&self, key: impl Into<Key>) -> R<i32> {
        let key = key.into();
        self.as_axis(key, self.need(key)?)
    }

    /// An axis, if it is there.
    pub fn opt_axis(&self, key: impl Into<Key>) -> R<Option<i32>> {
        let key = key.into();
        self.opt(key).map(|v| self.as_axis(key, v)).transpose()
    }

    /// An axis with a default, which an explicit `None` is not.
    pub fn axis_given(&self, key: impl Into<Key>, default: i32) -> R<Option<i32>> {
        let key = key.into();
        match self.raw(key) {
            None => Ok(Some(default)),
            Some(v) if v.is_none() => Ok(None),
            Some(v) => self.as_axis(key, v).map(Some),
        }
    }

    /// An axis with a default.
    pub fn axis_or(&self, key: impl Into<Key>, default: i32) -> R<i32> {
        Ok(self.opt_axis(key)?.unwrap_or(default))
    }

    /// Axes, one or several, if they are there.
    pub fn opt_axes(&self, key: impl Into<Key>) -> R<Option<Vec<i32>>> {
        let key = key.into();
        self.opt(key).map(|v| self.list(key, v, Args::as_axis)).transpose()
    }

    /// Integers, one or several.
    pub fn ints(&self, key: impl Into<Key>) -> R<Vec<i64>> {
        let key = key.into();
        self.list(key, self.need(key)?, Args::as_int)
    }

    /// Integers, one or several, if they are there.
    pub fn opt_ints(&self, key: impl Into<Key>) -> R<Option<Vec<i64>>> {
        let key = key.into();
        self.opt(key).map(|v| self.list(key, v, Args::as_int)).transpose()
    }

    /// Sizes, one or several.
    pub fn shape(&self, key: impl Into<Key>) -> R<Vec<usize>> {
        let key = key.into();
        self.list(key, self.need(key)?, Args::as_size)
    }

    /// Sizes of a list.
    pub fn sequence(&self, key: impl Into<Key>) -> R<Vec<usize>> {
        let key = key.into();
        let v = self.need(key)?;
        if !is_list(v) {
            return Err(self.wrong(key, "a list of ints", v));
        }
        self.list(key, v, Args::as_size)
    }

    /// Integers of a list.
    pub fn int_list(&self, key: impl Into<Key>) -> R<Vec<i64>> {
        let key = key.into();
        let v = self.need(key)?;
        if !is_list(v) {
            return Err(self.wrong(key, "a list of ints", v));
        }
        self.list(key, v, Args::as_int)
    }

    /// Sizes of a list, if they are there.
    pub fn opt_sequence(&self, key: impl Into<Key>) -> R<Option<Vec<usize>>> {
        let key = key.into();
        self.opt(key).map(|_| self.sequence(key)).transpose()
    }

    /// Sizes, one or several, if they are there.
    pub fn opt_shape(&self, key: impl Into<Key>) -> R<Option<Vec<usize>>> {
        let key = key.into();
        self.opt(key).map(|v| self.list(key, v, Args::as_size)).transpose()
    }

    fn as_float(&self, key: Key, v: &Bound<'py, PyAny>) -> R<f64> {
        if v.is_instance_of::<PyString>() {
            return Err(self.wrong(key, "a number", v));
        }
        v.extract::<f64>().map_err(|_| self.wrong(key, "a number", v))
    }

    /// A number.
    pub fn f64(&self, key: impl Into<Key>) -> R<f64> {
        let key = key.into();
        self.as_float(key, self.need(key)?)
    }

    /// A number, if it is there.
    pub fn opt_f64(&self, key: impl Into<Key>) -> R<Option<f64>> {
        let key = key.into();
        self.opt(key).map(|v| self.as_float(key, v)).transpose()
    }

    /// A number with a default.
    pub fn f64_or(&self, key: impl Into<Key>, default: f64) -> R<f64> {
        Ok(self.opt_f64(key)?.unwrap_or(default))
    }

    /// A number that is used as `f32`, with a default.
    pub fn f32_or(&self, key: impl Into<Key>, default: f32) -> R<f32> {
        Ok(self.f64_or(key, f64::from(default))? as f32)
    }

    /// An element type, if it is there.
    pub fn opt_dtype(&self, key: impl Into<Key>) -> R<Option<Dtype>> {
        let key = key.into();
        match self.opt(key) {
            None => Ok(None),
            Some(v) => match v.cast::<PyDtype>() {
                Ok(d) => Ok(Some(d.get().0)),
                Err(_) => Err(self.wrong(key, "a Dtype", v)),
            },
        }
    }

    /// An element type with a default.
    pub fn dtype_or(&self, key: impl Into<Key>, default: Dtype) -> R<Dtype> {
        Ok(self.opt_dtype(key)?.unwrap_or(default))
    }

    /// An element type.
    pub fn dtype(&self, key: impl Into<Key>) -> R<Dtype> {
        let key = key.into();
        self.need(key)?;
        self.dtype_or(key, Dtype::F32)
    }

    /// A string.
    pub fn str(&self, key: impl Into<Key>) -> R<String> {
        let key = key.into();
        let v = self.need(key)?;
        v.cast::<PyString>().map_err(|_| self.wrong(key, "a str", v))?;
        Ok(v.extract::<String>()?)
    }

    /// A string with a default.
    pub fn str_or(&self, key: impl Into<Key>, default: &str) -> R<String> {
        let key = key.into();
        if self.opt(key).is_some() { self.str(key) } else { Ok(default.to_owned()) }
    }

    /// A callable object.
    pub fn callable(&self, key: impl Into<Key>) -> R<Py<PyAny>> {
        let key = key.into();
        let v = self.need(key)?;
        if v.is_callable() { Ok(v.clone().unbind()) } else { Err(self.wrong(key, "callable", v)) }
    }
}

/// What may hold several numbers: lists and tuples, arrays of at least one axis, other sequences that are no text.
pub fn is_list(v: &Bound<'_, PyAny>) -> bool {
    use pyo3::types::{PyBytes, PyList, PySequence};
    if v.is_instance_of::<PyList>() || v.is_instance_of::<PyTuple>() {
        return true;
    }
    if let Ok(a) = v.cast::<PyArray>() {
        return a.get().get().rank() > 0;
    }
    if v.is_instance_of::<PyInt>() || v.is_instance_of::<PyString>() || v.is_instance_of::<PyBytes>() {
        return false;
    }
    v.cast::<PySequence>().is_ok() || (v.hasattr("__len__").unwrap_or(false) && v.len().is_ok())
}

/// An integer, or something that says it is one (`__index__`); floats are none.
pub fn integer(v: &Bound<'_, PyAny>) -> R<Option<i64>> {
    if let Ok(i) = v.cast::<PyInt>() {
        return match i.extract::<i64>() {
            Ok(i) => Ok(Some(i)),
            Err(_) => Err(value_error(format!("{i} does not fit 64 bits"))),
        };
    }
    if let Ok(a) = v.cast::<PyArray>() {
        let a = a.get().get();
        return if a.rank() == 0 && a.dtype().is_integer() {
            Ok(Some(crate::output::int(v.py(), &a)?))
        } else {
            Ok(None)
        };
    }
    if v.hasattr("__index__")? {
        return Ok(v.extract::<i64>().ok());
    }
    Ok(None)
}
