//! Metadata values and typed access to them.

use std::collections::HashMap;
use std::fmt;

use super::GgufError;

/// Text values back to back, so that a vocabulary of 260,000 tokens is two allocations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringList {
    text: String,
    ends: Vec<usize>,
}

impl StringList {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// String `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.text[start..end])
    }

    /// The strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        let mut start = 0;
        self.ends.iter().map(move |&end| &self.text[std::mem::replace(&mut start, end)..end])
    }

    /// Appends a string.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }
}

impl<S: AsRef<str>> FromIterator<S> for StringList {
    fn from_iter<I: IntoIterator<Item = S>>(strings: I) -> Self {
        let mut list = Self::default();
        for s in strings {
            list.push(s.as_ref());
        }
        list
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident($ty:ty) = $id:literal, $label:literal;)*) => {
        /// The type of a metadata value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ValueKind {
            $($(#[$doc])* $name,)*
            /// A sequence of values of one kind.
            Array,
        }

        impl ValueKind {
            /// The kind with this id in a file, if the specification has one.
            pub const fn from_id(id: u32) -> Option<Self> {
                match id { $($id => Some(Self::$name),)* 9 => Some(Self::Array), _ => None }
            }

            /// The id that files use.
            pub const fn id(self) -> u32 {
                match self { $(Self::$name => $id,)* Self::Array => 9 }
            }
        }

        impl fmt::Display for ValueKind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$name => $label,)* Self::Array => "an array" })
            }
        }

        /// A metadata value.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Value {
            $($(#[$doc])* $name($ty),)*
            /// A sequence of values of one kind.
            Array(ArrayValue),
        }

        impl Value {
            /// The type of the value.
            pub const fn kind(&self) -> ValueKind {
                match self { $(Self::$name(_) => ValueKind::$name,)* Self::Array(_) => ValueKind::Array }
            }
        }

        impl ArrayValue {
            /// The type of the elements.
            pub const fn kind(&self) -> ValueKind {
                match self { $(Self::$name(_) => ValueKind::$name,)* Self::Array(_) => ValueKind::Array }
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                match self { $(Self::$name(v) => v.len(),)* Self::Array(v) => v.len() }
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    };
}

kinds! {
    /// Unsigned 8-bit integer.
    U8(u8) = 0, "a u8";
    /// Signed 8-bit integer.
    I8(i8) = 1, "an i8";
    /// Unsigned 16-bit integer.
    U16(u16) = 2, "a u16";
    /// Signed 16-bit integer.
    I16(i16) = 3, "an i16";
    /// Unsigned 32-bit integer.
    U32(u32) = 4, "a u32";
    /// Signed 32-bit integer.
    I32(i32) = 5, "an i32";
    /// Single-precision number.
    F32(f32) = 6, "an f32";
    /// Truth value.
    Bool(bool) = 7, "a bool";
    /// UTF-8 text.
    String(String) = 8, "a string";
    /// Unsigned 64-bit integer.
    U64(u64) = 10, "a u64";
    /// Signed 64-bit integer.
    I64(i64) = 11, "an i64";
    /// Double-precision number.
    F64(f64) = 12, "an f64";
}

/// The elements of a metadata array, all of one kind.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrayValue {
    /// Unsigned 8-bit integers.
    U8(Vec<u8>),
    /// Signed 8-bit integers.
    I8(Vec<i8>),
    /// Unsigned 16-bit integers.
    U16(Vec<u16>),
    /// Signed 16-bit integers.
    I16(Vec<i16>),
    /// Unsigned 32-bit integers.
    U32(Vec<u32>),
    /// Signed 32-bit integers.
    I32(Vec<i32>),
    /// Single-precision numbers.
    F32(Vec<f32>),
    /// Truth values.
    Bool(Vec<bool>),
    /// Texts.
    String(StringList),
    /// Unsigned 64-bit integers.
    U64(Vec<u64>),
    /// Signed 64-bit integers.
    I64(Vec<i64>),
    /// Double-precision numbers.
    F64(Vec<f64>),
    /// Arrays.
    Array(Vec<ArrayValue>),
}

impl Value {
    /// The number, when the value is an integer of any width.
    pub fn as_integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(v) => v.into(),
            Self::I8(v) => v.into(),
            Self::U16(v) => v.into(),
            Self::I16(v) => v.into(),
            Self::U32(v) => v.into(),
            Self::I32(v) => v.into(),
            Self::U64(v) => v.into(),
            Self::I64(v) => v.into(),
            _ => return None,
        })
    }

    /// The number, when the value is a float or an integer of any width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Self::F32(v) => Some(v.into()),
            Self::F64(v) => Some(v),
            _ => self.as_integer().map(|v| v as f64),
        }
    }
}

impl ArrayValue {
    /// The numbers, when the elements are integers of any width.
    pub fn to_integers(&self) -> Option<Vec<i128>> {
        fn widen<T: Copy + Into<i128>>(v: &[T]) -> Vec<i128> {
            v.iter().map(|&x| x.into()).collect()
        }
        Some(match self {
            Self::U8(v) => widen(v),
            Self::I8(v) => widen(v),
            Self::U16(v) => widen(v),
            Self::I16(v) => widen(v),
            Self::U32(v) => widen(v),
            Self::I32(v) => widen(v),
            Self::U64(v) => widen(v),
            Self::I64(v) => widen(v),
            _ => return None,
        })
    }
}

/// The keys and values of a file, in its order.
///
/// Numbers are found by value, not by width: files disagree on whether a count is `u32`, `i32` or
/// `u64`, so `u64("llama.block_count")` takes any of them as long as the number fits. The
/// `get_` forms give `None` where the key is absent; a value of the wrong kind is an error in
/// both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    entries: Vec<(String, Value)>,
    by_key: HashMap<String, usize>,
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $name:ident, $get:ident -> $ty:ty, |$key:ident, $value:ident| $convert:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// A missing key, a value of another kind, or a number that does not fit.
        pub fn $name(&self, $key: &str) -> Result<$ty, GgufError> {
            let $value = self.require($key)?;
            $convert
        }

        $(#[$doc])*
        ///
        /// # Errors
        /// A value of another kind, or a number that does not fit.
        pub fn $get(&self, $key: &str) -> Result<Option<$ty>, GgufError> {
            let Some($value) = self.get($key) else { return Ok(None) };
            $convert.map(Some)
        }
    )*};
}

impl Metadata {
    /// Adds a value.
    ///
    /// # Errors
    /// [`GgufError::DuplicateKey`].
    pub fn insert(&mut self, key: impl Into<String>, value: Value) -> Result<(), GgufError> {
        let key = key.into();
        if self.by_key.contains_key(&key) {
            return Err(GgufError::DuplicateKey { key });
        }
        self.by_key.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        Ok(())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keys and values in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v))
    }

    /// The value of `key`, if it is there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.by_key.get(key).map(|&i| &self.entries[i].1)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`GgufError::MissingKey`].
    pub fn require(&self, key: &str) -> Result<&Value, GgufError> {
        self.get(key).ok_or_else(|| GgufError::MissingKey { key: key.to_owned() })
    }

    accessors! {
        /// A non-negative integer of up to 64 bits.
        u64, get_u64 -> u64, |key, value| integer(key, value, "u64");
        /// A non-negative integer of up to 32 bits.
        u32, get_u32 -> u32, |key, value| integer(key, value, "u32");
        /// An integer of up to 64 bits.
        i64, get_i64 -> i64, |key, value| integer(key, value, "i64");
        /// A size or count.
        usize, get_usize -> usize, |key, value| integer(key, value, "usize");
        /// A float or integer, as `f64`.
        f64, get_f64 -> f64, |key, value| value.as_f64().ok_or_else(|| wrong(key, value, "a number"));
        /// A float or integer, as `f32`.
        f32, get_f32 -> f32, |key, value|
            value.as_f64().map(|v| v as f32).ok_or_else(|| wrong(key, value, "a number"));
        /// A truth value.
        bool, get_bool -> bool, |key, value| match value {
            Value::Bool(v) => Ok(*v),
            _ => Err(wrong(key, value, "a bool")),
        };
        /// A text.
        str, get_str -> &str, |key, value| match value {
            Value::String(v) => Ok(v.as_str()),
            _ => Err(wrong(key, value, "a string")),
        };
        /// An array of anything.
        array, get_array -> &ArrayValue, |key, value| match value {
            Value::Array(v) => Ok(v),
            _ => Err(wrong(key, value, "an array")),
        };
        /// An array of texts.
        strings, get_strings -> &StringList, |key, value| match value {
            Value::Array(ArrayValue::String(v)) => Ok(v),
            _ => Err(wrong(key, value, "an array of strings")),
        };
        /// An array of single-precision numbers.
        f32s, get_f32s -> &[f32], |key, value| match value {
            Value::Array(ArrayValue::F32(v)) => Ok(v.as_slice()),
            _ => Err(wrong(key, value, "an array of f32")),
        };
        /// An array of integers of any width.
        i64s, get_i64s -> Vec<i64>, |key, value| match value {
            Value::Array(v) => v
                .to_integers()
                .ok_or_else(|| wrong(key, value, "an array of integers"))?
                .into_iter()
                .map(|v| narrow(key, v, "i64"))
                .collect(),
            _ => Err(wrong(key, value, "an array of integers")),
        };
    }
}

fn wrong(key: &str, value: &Value, expected: &'static str) -> GgufError {
    let found = match value {
        Value::Array(array) if expected.starts_with("an array of") => array.kind(),
        _ => value.kind(),
    };
    GgufError::WrongKind { key: key.to_owned(), expected, found }
}

fn integer<T: TryFrom<i128>>(key: &str, value: &Value, expected: &'static str) -> Result<T, GgufError> {
    let number = value.as_integer().ok_or_else(|| wrong(key, value, "an integer"))?;
    narrow(key, number, expected)
}

fn narrow<T: TryFrom<i128>>(key: &str, value: i128, expected: &'static str) -> Result<T, GgufError> {
    T::try_from(value).map_err(|_| GgufError::OutOfRange { key: key.to_owned(), value, expected })
}
