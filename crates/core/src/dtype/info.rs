//! What is known about element types: categories, ranges, which conversion loses nothing.

use super::{Dtype, Kind};
use crate::{Error, Result};

/// A set of element types; the sets form a tree, from all of them down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Category {
    /// All types.
    Generic,
    /// All but `bool`.
    Number,
    /// Signed and unsigned integers.
    Integer,
    /// Signed integers.
    SignedInteger,
    /// Unsigned integers.
    UnsignedInteger,
    /// Real and complex floats.
    Inexact,
    /// Real floats.
    Floating,
    /// Complex floats.
    ComplexFloating,
}

impl Category {
    /// The next larger set; that of all types is its own.
    pub const fn parent(self) -> Category {
        match self {
            Category::Generic | Category::Number => Category::Generic,
            Category::Integer | Category::Inexact => Category::Number,
            Category::SignedInteger | Category::UnsignedInteger => Category::Integer,
            Category::Floating | Category::ComplexFloating => Category::Inexact,
        }
    }

    /// Name as users know it.
    pub const fn name(self) -> &'static str {
        match self {
            Category::Generic => "generic",
            Category::Number => "number",
            Category::Integer => "integer",
            Category::SignedInteger => "signedinteger",
            Category::UnsignedInteger => "unsignedinteger",
            Category::Inexact => "inexact",
            Category::Floating => "floating",
            Category::ComplexFloating => "complexfloating",
        }
    }

    fn within(self, other: Category) -> bool {
        let mut c = self;
        while c != other {
            if c == Category::Generic {
                return false;
            }
            c = c.parent();
        }
        true
    }
}

/// An element type, or a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TypeSet {
    /// One type.
    One(Dtype),
    /// All of a category.
    All(Category),
}
impl From<Dtype> for TypeSet {
    fn from(d: Dtype) -> Self {
        TypeSet::One(d)
    }
}
impl From<Category> for TypeSet {
    fn from(c: Category) -> Self {
        TypeSet::All(c)
    }
}

/// Whether the first is the second, or one of the second.
pub fn issubdtype(a: impl Into<TypeSet>, b: impl Into<TypeSet>) -> bool {
    match (a.into(), b.into()) {
        (TypeSet::One(a), TypeSet::One(b)) => a == b,
        (TypeSet::One(a), TypeSet::All(b)) => a.category().within(b),
        (TypeSet::All(a), TypeSet::All(b)) => a.within(b),
        (TypeSet::All(_), TypeSet::One(_)) => false,
    }
}

/// Whether a type is of a kind of the Python array API standard (2023.12, "isdtype"): `bool`, `signed integer`,
/// `unsigned integer`, `integral`, `real floating`, `complex floating` or `numeric`.
///
/// # Errors
/// `Value` for any other name.
pub fn isdtype(dtype: Dtype, kind: &str) -> Result<bool> {
    let k = dtype.kind();
    Ok(match kind {
        "bool" => k == Kind::Bool,
        "signed integer" => k == Kind::Signed,
        "unsigned integer" => k == Kind::Unsigned,
        "integral" => dtype.is_integer(),
        "real floating" => k == Kind::Float,
        "complex floating" => k == Kind::Complex,
        "numeric" => k != Kind::Bool,
        _ => return Err(Error::value("isdtype", format!("{kind:?} is no kind of type"))),
    })
}

/// Type that holds the result of combining all of these; see [`Dtype::promote`].
///
/// # Errors
/// `Value` when there is none.
pub fn result_type(dtypes: &[Dtype]) -> Result<Dtype> {
    let Some((&first, rest)) = dtypes.split_first() else {
        return Err(Error::value("result_type", "takes at least one type"));
    };
    Ok(rest.iter().fold(first, |d, &e| d.promote(e)))
}

/// Whether promotion turns `from` into `to`.
pub fn can_cast(from: Dtype, to: Dtype) -> bool {
    from.promote(to) == to
}

/// Range and precision of a float type; of a complex one, those of its parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FloatInfo {
    /// The type of a real number.
    pub dtype: Dtype,
    /// Bits of an element.
    pub bits: u32,
    /// Distance from 1 to the next larger number.
    pub eps: f64,
    /// Largest finite number.
    pub max: f64,
    /// Least finite number.
    pub min: f64,
    /// Smallest positive number of full precision.
    pub smallest_normal: f64,
}

impl FloatInfo {
    /// Of a type; `None` for integers and `bool`.
    pub fn of(dtype: Dtype) -> Option<FloatInfo> {
        // Bits of an element, digits after the leading one, largest exponent.
        let (real, bits, digits, exponent) = match dtype {
            Dtype::F16 => (Dtype::F16, 16, 10, 15),
            Dtype::BF16 => (Dtype::BF16, 16, 7, 127),
            Dtype::F32 => (Dtype::F32, 32, 23, 127),
            Dtype::C64 => (Dtype::F32, 32, 23, 127),
            Dtype::F64 => (Dtype::F64, 64, 52, 1023),
            Dtype::Bool
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64 => return None,
        };
        let eps = 2f64.powi(-digits);
        let max = (2.0 - eps) * 2f64.powi(exponent);
        let smallest_normal = 2f64.powi(1 - exponent);
        Some(FloatInfo { dtype: real, bits, eps, max, min: -max, smallest_normal })
    }
}

/// Range of an integer type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntInfo {
    /// The type.
    pub dtype: Dtype,
    /// Bits of an element.
    pub bits: u32,
    /// Least number.
    pub min: i128,
    /// Largest number.
    pub max: i128,
}

impl IntInfo {
    /// Of a type; `None` for floats and `bool`.
    pub fn of(dtype: Dtype) -> Option<IntInfo> {
        let bits = 8 * dtype.size() as u32;
        match dtype.kind() {
            Kind::Unsigned => Some(IntInfo { dtype, bits, min: 0, max: (1 << bits) - 1 }),
            Kind::Signed => {
                Some(IntInfo { dtype, bits, min: -(1 << (bits - 1)), max: (1 << (bits - 1)) - 1 })
            }
            Kind::Bool | Kind::Float | Kind::Complex => None,
        }
    }
}

impl Dtype {
    /// The smallest category that holds the type.
    pub const fn category(self) -> Category {
        match self.kind() {
            Kind::Bool => Category::Generic,
            Kind::Unsigned => Category::UnsignedInteger,
            Kind::Signed => Category::SignedInteger,
            Kind::Float => Category::Floating,
            Kind::Complex => Category::ComplexFloating,
        }
    }
}
