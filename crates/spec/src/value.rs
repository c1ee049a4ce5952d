//! Parameters of a call in a neutral form that Python, JSON and Rust share.

use olivine_core::{Array, Dtype};

/// One parameter of a call.
#[derive(Debug, Clone)]
pub enum Value {
    /// Python's `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A name, such as a mode.
    Str(String),
    /// An element type.
    Dtype(Dtype),
    /// An array.
    Array(Array),
    /// Several of them: axes, sizes, arrays.
    List(Vec<Value>),
}

macro_rules! from {
    ($($t:ty => $f:expr),* $(,)?) => {
        $( impl From<$t> for Value { fn from(v: $t) -> Value { let f: fn($t) -> Value = $f; f(v) } } )*
    };
}
from! {
    bool => Value::Bool,
    i64 => Value::Int,
    i32 => |v| Value::Int(v.into()),
    usize => |v| Value::Int(v as i64),
    f64 => Value::Float,
    &str => |v| Value::Str(v.to_owned()),
    Dtype => Value::Dtype,
    Array => Value::Array,
    &[usize] => |v| Value::List(v.iter().map(|&d| d.into()).collect()),
    &[i32] => |v| Value::List(v.iter().map(|&d| d.into()).collect()),
}

impl Value {
    /// What it is, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a bool",
            Value::Int(_) => "an int",
            Value::Float(_) => "a float",
            Value::Str(_) => "a string",
            Value::Dtype(_) => "a dtype",
            Value::Array(_) => "an array",
            Value::List(_) => "a list",
        }
    }
}
