//! The arguments of a call, and the accessors with which entries of the registry read them.
//!
//! Arrays are positional; everything else goes by the name that MLX gives it. An accessor says what type it
//! wants, so the arguments of a call need no description of their own: the fuzzer answers the accessors with
//! values that it makes up on the spot.

use crate::value::Value;
use olivine_core::{Array, Dtype, Error, Result, Scalar};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

/// Where an argument stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key<'a> {
    /// By position.
    At(usize),
    /// By name.
    Named(&'a str),
}

impl From<usize> for Key<'static> {
    fn from(i: usize) -> Self {
        Key::At(i)
    }
}
impl From<i32> for Key<'static> {
    fn from(i: i32) -> Self {
        Key::At(i as usize)
    }
}
impl<'a> From<&'a str> for Key<'a> {
    fn from(s: &'a str) -> Self {
        Key::Named(s)
    }
}
impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::At(i) => write!(f, "argument {i}"),
            Key::Named(n) => write!(f, "{n}"),
        }
    }
}

/// What an accessor wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the types")]
pub enum Kind<'a> {
    Array,
    Arrays,
    Bool,
    Int,
    Size,
    Axis,
    Axes,
    Ints,
    Shape,
    Float,
    Dtype,
    Choice(&'a [&'a str]),
    Str,
    /// Whatever the entry finds.
    Any,
}

/// Makes arguments up when an entry asks for them.
pub trait Source {
    /// A value of this kind; `None` leaves an optional argument out.
    fn draw(&mut self, key: Key<'_>, kind: Kind<'_>, optional: bool, so_far: &Given) -> Option<Value>;
}

/// Arguments that are known.
#[derive(Debug, Clone, Default)]
pub struct Given {
    /// By position.
    pub positional: Vec<Value>,
    /// By name.
    pub named: BTreeMap<String, Value>,
}

impl Given {
    /// The argument, if it is there.
    pub fn get(&self, key: Key<'_>) -> Option<&Value> {
        match key {
            Key::At(i) => self.positional.get(i),
            Key::Named(n) => self.named.get(n),
        }
    }

    /// Sets an argument; positions in between are `None`.
    pub fn set(&mut self, key: Key<'_>, value: Value) {
        match key {
            Key::At(i) => {
                while self.positional.len() <= i {
                    self.positional.push(Value::None);
                }
                self.positional[i] = value;
            }
            Key::Named(n) => {
                self.named.insert(n.to_owned(), value);
            }
        }
    }
}

/// The arguments of one call.
pub struct Args {
    op: &'static str,
    given: RefCell<Given>,
    source: Option<RefCell<Box<dyn Source>>>,
}

impl Args {
    /// Of known values.
    pub fn new(op: &'static str, given: Given) -> Args {
        Args { op, given: RefCell::new(given), source: None }
    }

    /// Of values that are made up when they are asked for.
    pub fn drawn(op: &'static str, source: Box<dyn Source>) -> Args {
        Args { op, given: RefCell::default(), source: Some(RefCell::new(source)) }
    }

    /// The values so far: all that were given, or drawn up to now.
    pub fn given(&self) -> Given {
        self.given.borrow().clone()
    }

    /// The call that these are for.
    pub fn op(&self) -> &'static str {
        self.op
    }

    fn get(&self, key: Key<'_>, kind: Kind<'_>, optional: bool) -> Option<Value> {
        if let Some(v) = self.given.borrow().get(key) {
            return (!matches!(v, Value::None)).then(|| v.clone());
        }
        let drawn = self.source.as_ref()?.borrow_mut().draw(key, kind, optional, &self.given.borrow());
        self.given.borrow_mut().set(key, drawn.clone().unwrap_or(Value::None));
        drawn
    }

    fn need(&self, key: Key<'_>, kind: Kind<'_>) -> Result<Value> {
        self.get(key, kind, false).ok_or_else(|| Error::value(self.op, format!("{key} is missing")))
    }

    fn wrong<T>(&self, key: Key<'_>, wanted: &str, got: &Value) -> Result<T> {
        Err(Error::value(self.op, format!("{key} must be {wanted}, got {}", got.kind())))
    }

    fn to_array(&self, key: Key<'_>, v: &Value, like: Option<Dtype>) -> Result<Array> {
        match v {
            Value::Array(a) => Ok(a.clone()),
            Value::Bool(b) => scalar(f64::from(u8::from(*b)), like.unwrap_or(Dtype::Bool)),
            Value::Int(i) => {
                let small = i32::try_from(*i).is_ok();
                let own = if small { Dtype::I32 } else { Dtype::I64 };
                let dtype = match like {
                    Some(Dtype::Bool) | None => own,
                    Some(d) => d,
                };
                let s = Scalar::from_i64(*i, dtype);
                if dtype.is_integer() && s.to_f64() != *i as f64 {
                    return Err(Error::value(self.op, format!("{i} is outside {dtype}")));
                }
                full(s)
            }
            Value::Float(x) => scalar(*x, like.map_or(Dtype::F32, Dtype::to_inexact)),
            Value::None | Value::Str(_) | Value::Dtype(_) | Value::List(_) => self.wrong(key, "an array", v),
        }
    }

    /// An array; a number becomes one of `bool`, `int32` (`int64` where it has to) or `float32`.
    pub fn array<'a>(&self, key: impl Into<Key<'a>>) -> Result<Array> {
        let key = key.into();
        self.to_array(key, &self.need(key, Kind::Array)?, None)
    }

    /// As [`Args::array`], `None` when it is absent.
    pub fn opt_array<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<Array>> {
        let key = key.into();
        self.get(key, Kind::Array, true).map(|v| self.to_array(key, &v, None)).transpose()
    }

    /// An array; a number takes the type of `like` where that can hold its kind, as beside an operator.
    pub fn array_like<'a>(&self, key: impl Into<Key<'a>>, like: &Array) -> Result<Array> {
        let key = key.into();
        self.to_array(key, &self.need(key, Kind::Array)?, Some(like.dtype()))
    }

    /// As [`Args::array_like`], `None` when it is absent.
    pub fn opt_array_like<'a>(&self, key: impl Into<Key<'a>>, like: &Array) -> Result<Option<Array>> {
        let key = key.into();
        self.get(key, Kind::Array, true).map(|v| self.to_array(key, &v, Some(like.dtype()))).transpose()
    }

    /// The first two arguments, of which one may be a number that takes the other's type.
    pub fn pair(&self) -> Result<(Array, Array)> {
        self.pair_at(0, 1)
    }

    /// Two arguments, of which one may be a number that takes the other's type.
    pub fn pair_at(&self, i: usize, j: usize) -> Result<(Array, Array)> {
        let (a, b) = (self.need(Key::At(i), Kind::Array)?, self.need(Key::At(j), Kind::Array)?);
        let dtype = |v: &Value| if let Value::Array(a) = v { Some(a.dtype()) } else { None };
        Ok((self.to_array(Key::At(i), &a, dtype(&b))?, self.to_array(Key::At(j), &b, dtype(&a))?))
    }

    /// A list of arrays.
    pub fn arrays<'a>(&self, key: impl Into<Key<'a>>) -> Result<Vec<Array>> {
        let key = key.into();
        match self.need(key, Kind::Arrays)? {
            Value::List(v) => v.iter().map(|v| self.to_array(key, v, None)).collect(),
            v => self.wrong(key, "a list of arrays", &v),
        }
    }

    /// All positional arguments from `i` on, as arrays. Drawn ones are a list at that place.
    pub fn rest(&self, i: usize) -> Result<Vec<Array>> {
        if self.source.is_some() {
            return self.arrays(i);
        }
        let given = self.given.borrow();
        given.positional.iter().skip(i).map(|v| self.to_array(Key::At(i), v, None)).collect()
    }

    /// A truth value with a default.
    pub fn bool_or<'a>(&self, key: impl Into<Key<'a>>, default: bool) -> Result<bool> {
        let key = key.into();
        match self.get(key, Kind::Bool, true) {
            None => Ok(default),
            Some(Value::Bool(b)) => Ok(b),
            Some(v) => self.wrong(key, "a bool", &v),
        }
    }

    fn as_int(&self, key: Key<'_>, v: &Value) -> Result<i64> {
        match v {
            Value::Int(i) => Ok(*i),
            v => self.wrong(key, "an int", v),
        }
    }

    fn as_size(&self, key: Key<'_>, v: &Value) -> Result<usize> {
        let i = self.as_int(key, v)?;
        usize::try_from(i).map_err(|_| Error::value(self.op, format!("{key} is negative: {i}")))
    }

    fn as_axis(&self, key: Key<'_>, v: &Value) -> Result<i32> {
        let i = self.as_int(key, v)?;
        i32::try_from(i).map_err(|_| Error::value(self.op, format!("{key} is no axis: {i}")))
    }

    fn list<T>(
        &self,
        key: Key<'_>,
        v: &Value,
        one: fn(&Args, Key<'_>, &Value) -> Result<T>,
    ) -> Result<Vec<T>> {
        match v {
            Value::List(v) => v.iter().map(|v| one(self, key, v)).collect(),
            v => Ok(vec![one(self, key, v)?]),
        }
    }

    /// An integer.
    pub fn int<'a>(&self, key: impl Into<Key<'a>>) -> Result<i64> {
        let key = key.into();
        self.as_int(key, &self.need(key, Kind::Int)?)
    }

    /// An integer, if it is there.
    pub fn opt_int<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<i64>> {
        let key = key.into();
        self.get(key, Kind::Int, true).map(|v| self.as_int(key, &v)).transpose()
    }

    /// An integer with a default.
    pub fn int_or<'a>(&self, key: impl Into<Key<'a>>, default: i64) -> Result<i64> {
        Ok(self.opt_int(key)?.unwrap_or(default))
    }

    /// A number of things.
    pub fn size<'a>(&self, key: impl Into<Key<'a>>) -> Result<usize> {
        let key = key.into();
        self.as_size(key, &self.need(key, Kind::Size)?)
    }

    /// A number of things, if it is there.
    pub fn opt_size<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<usize>> {
        let key = key.into();
        self.get(key, Kind::Size, true).map(|v| self.as_size(key, &v)).transpose()
    }

    /// A number of things with a default.
    pub fn size_or<'a>(&self, key: impl Into<Key<'a>>, default: usize) -> Result<usize> {
        Ok(self.opt_size(key)?.unwrap_or(default))
    }

    /// An axis.
    pub fn axis<'a>(&self, key: impl Into<Key<'a>>) -> Result<i32> {
        let key = key.into();
        self.as_axis(key, &self.need(key, Kind::Axis)?)
    }

    /// An axis, if it is there.
    pub fn opt_axis<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<i32>> {
        let key = key.into();
        self.get(key, Kind::Axis, true).map(|v| self.as_axis(key, &v)).transpose()
    }

    /// An axis with a default.
    pub fn axis_or<'a>(&self, key: impl Into<Key<'a>>, default: i32) -> Result<i32> {
        Ok(self.opt_axis(key)?.unwrap_or(default))
    }

    /// Axes, one or several; none when absent, which stands for all of them.
    pub fn axes<'a>(&self, key: impl Into<Key<'a>>) -> Result<Vec<i32>> {
        Ok(self.opt_axes(key)?.unwrap_or_default())
    }

    /// Axes, one or several, if they are there.
    pub fn opt_axes<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<Vec<i32>>> {
        let key = key.into();
        self.get(key, Kind::Axes, true).map(|v| self.list(key, &v, Args::as_axis)).transpose()
    }

    /// Integers, one or several.
    pub fn ints<'a>(&self, key: impl Into<Key<'a>>) -> Result<Vec<i64>> {
        let key = key.into();
        self.list(key, &self.need(key, Kind::Ints)?, Args::as_int)
    }

    /// Integers, one or several, if they are there.
    pub fn opt_ints<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<Vec<i64>>> {
        let key = key.into();
        self.get(key, Kind::Ints, true).map(|v| self.list(key, &v, Args::as_int)).transpose()
    }

    /// Sizes, one or several.
    pub fn shape<'a>(&self, key: impl Into<Key<'a>>) -> Result<Vec<usize>> {
        let key = key.into();
        self.list(key, &self.need(key, Kind::Shape)?, Args::as_size)
    }

    /// Sizes, one or several, if they are there.
    pub fn opt_shape<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<Vec<usize>>> {
        let key = key.into();
        self.get(key, Kind::Shape, true).map(|v| self.list(key, &v, Args::as_size)).transpose()
    }

    fn as_float(&self, key: Key<'_>, v: &Value) -> Result<f64> {
        match v {
            Value::Float(x) => Ok(*x),
            Value::Int(i) => Ok(*i as f64),
            v => self.wrong(key, "a number", v),
        }
    }

    /// A number.
    pub fn f64<'a>(&self, key: impl Into<Key<'a>>) -> Result<f64> {
        let key = key.into();
        self.as_float(key, &self.need(key, Kind::Float)?)
    }

    /// A number, if it is there.
    pub fn opt_f64<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<f64>> {
        let key = key.into();
        self.get(key, Kind::Float, true).map(|v| self.as_float(key, &v)).transpose()
    }

    /// A number with a default.
    pub fn f64_or<'a>(&self, key: impl Into<Key<'a>>, default: f64) -> Result<f64> {
        Ok(self.opt_f64(key)?.unwrap_or(default))
    }

    /// A number that is used as `f32`, with a default.
    pub fn f32_or<'a>(&self, key: impl Into<Key<'a>>, default: f32) -> Result<f32> {
        Ok(self.f64_or(key, f64::from(default))? as f32)
    }

    /// An element type, if it is there.
    pub fn opt_dtype<'a>(&self, key: impl Into<Key<'a>>) -> Result<Option<Dtype>> {
        let key = key.into();
        match self.get(key, Kind::Dtype, true) {
            None => Ok(None),
            Some(Value::Dtype(d)) => Ok(Some(d)),
            Some(v) => self.wrong(key, "a dtype", &v),
        }
    }

    /// An element type with a default.
    pub fn dtype_or<'a>(&self, key: impl Into<Key<'a>>, default: Dtype) -> Result<Dtype> {
        Ok(self.opt_dtype(key)?.unwrap_or(default))
    }

    /// An element type.
    pub fn dtype<'a>(&self, key: impl Into<Key<'a>>) -> Result<Dtype> {
        let key = key.into();
        match self.need(key, Kind::Dtype)? {
            Value::Dtype(d) => Ok(d),
            v => self.wrong(key, "a dtype", &v),
        }
    }

    /// One of some names, or another string, which the function has to refuse; the first is the default.
    pub fn choice<'a>(&self, key: impl Into<Key<'a>>, options: &[&str]) -> Result<String> {
        let key = key.into();
        match self.get(key, Kind::Choice(options), true) {
            None => Ok(options.first().copied().unwrap_or_default().to_owned()),
            Some(Value::Str(s)) => Ok(s),
            Some(v) => self.wrong(key, "a string", &v),
        }
    }

    /// A string.
    pub fn str<'a>(&self, key: impl Into<Key<'a>>) -> Result<String> {
        let key = key.into();
        match self.need(key, Kind::Str)? {
            Value::Str(s) => Ok(s),
            v => self.wrong(key, "a string", &v),
        }
    }

    /// Whatever stands there.
    pub fn value<'a>(&self, key: impl Into<Key<'a>>) -> Option<Value> {
        self.get(key.into(), Kind::Any, true)
    }
}

fn full(s: Scalar) -> Result<Array> {
    Array::from_bytes(&s.bytes()[..s.dtype().size()], &[], s.dtype())
}

fn scalar(v: f64, dtype: Dtype) -> Result<Array> {
    full(Scalar::from_f64(v, dtype))
}
