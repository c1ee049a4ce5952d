//! Element types, promotion, and scalar constants.

mod info;
mod serial;

pub use info::{Category, FloatInfo, IntInfo, TypeSet, can_cast, isdtype, issubdtype, result_type};

use half::{bf16, f16};
use std::fmt;

/// Element type of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8 bits.
    U8,
    /// Unsigned 16 bits.
    U16,
    /// Unsigned 32 bits.
    U32,
    /// Unsigned 64 bits.
    U64,
    /// Signed 8 bits.
    I8,
    /// Signed 16 bits.
    I16,
    /// Signed 32 bits.
    I32,
    /// Signed 64 bits.
    I64,
    /// IEEE 754 half precision.
    F16,
    /// bfloat16.
    BF16,
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
    /// Complex of two [`Dtype::F32`].
    C64,
}

/// What sort of number a [`Dtype`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Truth values.
    Bool,
    /// Unsigned integers.
    Unsigned,
    /// Signed integers.
    Signed,
    /// Real floats.
    Float,
    /// Complex floats.
    Complex,
}

impl Dtype {
    /// All types, in order.
    pub const ALL: [Dtype; 14] = [
        Dtype::Bool,
        Dtype::U8,
        Dtype::U16,
        Dtype::U32,
        Dtype::U64,
        Dtype::I8,
        Dtype::I16,
        Dtype::I32,
        Dtype::I64,
        Dtype::F16,
        Dtype::BF16,
        Dtype::F32,
        Dtype::F64,
        Dtype::C64,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Dtype::Bool | Dtype::U8 | Dtype::I8 => 1,
            Dtype::U16 | Dtype::I16 | Dtype::F16 | Dtype::BF16 => 2,
            Dtype::U32 | Dtype::I32 | Dtype::F32 => 4,
            Dtype::U64 | Dtype::I64 | Dtype::F64 | Dtype::C64 => 8,
        }
    }

    /// What sort of number it is.
    pub const fn kind(self) -> Kind {
        match self {
            Dtype::Bool => Kind::Bool,
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => Kind::Unsigned,
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => Kind::Signed,
            Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 => Kind::Float,
            Dtype::C64 => Kind::Complex,
        }
    }

    /// Real floats.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), Kind::Float)
    }

    /// Real or complex floats.
    pub const fn is_complex(self) -> bool {
        matches!(self, Dtype::C64)
    }

    /// Floats and complex numbers.
    pub const fn is_inexact(self) -> bool {
        matches!(self.kind(), Kind::Float | Kind::Complex)
    }

    /// Signed or unsigned integers, without [`Dtype::Bool`].
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), Kind::Unsigned | Kind::Signed)
    }

    /// Float type that functions such as `exp` give for this argument: itself when inexact, else `f32`.
    pub const fn to_inexact(self) -> Dtype {
        if self.is_inexact() { self } else { Dtype::F32 }
    }

    /// Type that holds the result of combining two arrays.
    ///
    /// Of two floats the wider wins, `f16` with `bf16` gives `f32`; an integer never widens a float; an
    /// unsigned with a signed integer gives a signed one that holds both, and `u64` with a signed gives
    /// `f32`; complex wins over all.
    pub fn promote(self, other: Dtype) -> Dtype {
        use Dtype::{BF16, Bool, C64, F16, F32, I16, I32, I64, U8, U16, U32, U64};
        if self == other {
            return self;
        }
        let (a, b) = if self < other { (self, other) } else { (other, self) };
        match (a.kind(), b.kind()) {
            (_, Kind::Complex) => C64,
            (Kind::Float, Kind::Float) => match (a, b) {
                (F16, BF16) => F32,
                (_, wider) => wider,
            },
            (_, Kind::Float) => b,
            (Kind::Bool, _) => {
                debug_assert_eq!(a, Bool);
                b
            }
            (Kind::Unsigned, Kind::Signed) => {
                if b.size() > a.size() {
                    return b;
                }
                match a {
                    U8 => I16,
                    U16 => I32,
                    U32 => I64,
                    U64 => F32,
                    Bool | Dtype::I8 | I16 | I32 | I64 | F16 | BF16 | F32 | Dtype::F64 | C64 => b,
                }
            }
            // Same kind: declared in rising order of width.
            (_, _) => b,
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::Bool => "bool",
            Dtype::U8 => "uint8",
            Dtype::U16 => "uint16",
            Dtype::U32 => "uint32",
            Dtype::U64 => "uint64",
            Dtype::I8 => "int8",
            Dtype::I16 => "int16",
            Dtype::I32 => "int32",
            Dtype::I64 => "int64",
            Dtype::F16 => "float16",
            Dtype::BF16 => "bfloat16",
            Dtype::F32 => "float32",
            Dtype::F64 => "float64",
            Dtype::C64 => "complex64",
        })
    }
}

/// Complex number of two `f32`, laid out as C's `float complex`. Ordered by the real, then the imaginary part.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Complex64 {
    /// Real part.
    pub re: f32,
    /// Imaginary part.
    pub im: f32,
}

/// Truth value of one byte that is safe to read from any memory: everything but 0 is true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool8(pub u8);

/// Rust types that are elements of an array.
pub trait Element: bytemuck::Pod + Send + Sync + fmt::Debug + 'static {
    /// The matching [`Dtype`].
    const DTYPE: Dtype;
    /// Rust type that users give and take; `bool` for [`Bool8`], else the type itself.
    type Host: Copy + Send + Sync + fmt::Debug;
    /// From the user's form.
    fn from_host(v: Self::Host) -> Self;
    /// To the user's form.
    fn to_host(self) -> Self::Host;
}

macro_rules! element {
    ($($t:ty => $d:ident),*) => { $(
        impl Element for $t {
            const DTYPE: Dtype = Dtype::$d;
            type Host = $t;
            fn from_host(v: $t) -> Self { v }
            fn to_host(self) -> $t { self }
        }
    )* };
}
element!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f16 => F16, bf16 => BF16, f32 => F32, f64 => F64, Complex64 => C64);

impl Element for Bool8 {
    const DTYPE: Dtype = Dtype::Bool;
    type Host = bool;
    fn from_host(v: bool) -> Self {
        Bool8(v as u8)
    }
    fn to_host(self) -> bool {
        self.0 != 0
    }
}

/// Rust values that users pass where an array is made: every [`Element::Host`].
pub trait HostElement: Copy + Send + Sync + 'static {
    /// How it is stored.
    type Stored: Element<Host = Self>;
}
macro_rules! host_element {
    ($($h:ty => $s:ty),*) => { $( impl HostElement for $h { type Stored = $s; } )* };
}
host_element!(bool => Bool8, u8 => u8, u16 => u16, u32 => u32, u64 => u64, i8 => i8, i16 => i16, i32 => i32,
    i64 => i64, f16 => f16, bf16 => bf16, f32 => f32, f64 => f64, Complex64 => Complex64);

/// Constant of one element: its type and its bits, so that it is `Eq` and `Hash` (NaN included).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scalar {
    dtype: Dtype,
    bits: u64,
}

impl Scalar {
    /// From a Rust value.
    pub fn new<T: HostElement>(v: T) -> Scalar {
        let stored = T::Stored::from_host(v);
        let mut bytes = [0u8; 8];
        let src = bytemuck::bytes_of(&stored);
        bytes[..src.len()].copy_from_slice(src);
        Scalar { dtype: T::Stored::DTYPE, bits: u64::from_le_bytes(bytes) }
    }

    /// The number `v` in type `dtype`: floats round to nearest, integers saturate, `Bool` is `v != 0`.
    pub fn from_f64(v: f64, dtype: Dtype) -> Scalar {
        match dtype {
            Dtype::Bool => Scalar::new(v != 0.0),
            Dtype::U8 => Scalar::new(v as u8),
            Dtype::U16 => Scalar::new(v as u16),
            Dtype::U32 => Scalar::new(v as u32),
            Dtype::U64 => Scalar::new(v as u64),
            Dtype::I8 => Scalar::new(v as i8),
            Dtype::I16 => Scalar::new(v as i16),
            Dtype::I32 => Scalar::new(v as i32),
            Dtype::I64 => Scalar::new(v as i64),
            Dtype::F16 => Scalar::new(f16::from_f64(v)),
            Dtype::BF16 => Scalar::new(bf16::from_f64(v)),
            Dtype::F32 => Scalar::new(v as f32),
            Dtype::F64 => Scalar::new(v),
            Dtype::C64 => Scalar::new(Complex64 { re: v as f32, im: 0.0 }),
        }
    }

    /// The integer `v` in type `dtype`, exact where the type holds it, wrapping otherwise.
    pub fn from_i64(v: i64, dtype: Dtype) -> Scalar {
        match dtype {
            Dtype::U8 => Scalar::new(v as u8),
            Dtype::U16 => Scalar::new(v as u16),
            Dtype::U32 => Scalar::new(v as u32),
            Dtype::U64 => Scalar::new(v as u64),
            Dtype::I8 => Scalar::new(v as i8),
            Dtype::I16 => Scalar::new(v as i16),
            Dtype::I32 => Scalar::new(v as i32),
            Dtype::I64 => Scalar::new(v),
            Dtype::Bool | Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 | Dtype::C64 => {
                Scalar::from_f64(v as f64, dtype)
            }
        }
    }

    /// From the bits of an element, as [`Scalar::bits`] gives them.
    pub fn from_bits(bits: u64, dtype: Dtype) -> Scalar {
        let used = dtype.size() as u32 * 8;
        Scalar { dtype, bits: if used == 64 { bits } else { bits & ((1 << used) - 1) } }
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The bits of the element in the low bytes, zero above.
    pub fn bits(&self) -> u64 {
        self.bits
    }

    /// The first [`Dtype::size`] bytes are the element, little-endian.
    pub fn bytes(&self) -> [u8; 8] {
        self.bits.to_le_bytes()
    }

    /// Nearest `f64`; the real part of a complex number.
    pub fn to_f64(&self) -> f64 {
        let b = self.bytes();
        match self.dtype {
            Dtype::Bool => (b[0] != 0) as u8 as f64,
            Dtype::U8 => b[0] as f64,
            Dtype::U16 => self.bits as u16 as f64,
            Dtype::U32 => self.bits as u32 as f64,
            Dtype::U64 => self.bits as f64,
            Dtype::I8 => b[0] as i8 as f64,
            Dtype::I16 => self.bits as u16 as i16 as f64,
            Dtype::I32 => self.bits as u32 as i32 as f64,
            Dtype::I64 => self.bits as i64 as f64,
            Dtype::F16 => f16::from_bits(self.bits as u16).to_f64(),
            Dtype::BF16 => bf16::from_bits(self.bits as u16).to_f64(),
            Dtype::F32 | Dtype::C64 => f32::from_bits(self.bits as u32) as f64,
            Dtype::F64 => f64::from_bits(self.bits),
        }
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.to_f64(), self.dtype)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_symmetric_and_idempotent() {
        for a in Dtype::ALL {
            for b in Dtype::ALL {
                let p = a.promote(b);
                assert_eq!(p, b.promote(a));
                assert_eq!(p.promote(b), if (a, b) == (Dtype::U64, Dtype::I8) { p.promote(b) } else { p });
            }
        }
        assert_eq!(Dtype::F16.promote(Dtype::BF16), Dtype::F32);
        assert_eq!(Dtype::U32.promote(Dtype::I32), Dtype::I64);
        assert_eq!(Dtype::U8.promote(Dtype::I32), Dtype::I32);
        assert_eq!(Dtype::U64.promote(Dtype::I64), Dtype::F32);
        assert_eq!(Dtype::I64.promote(Dtype::F16), Dtype::F16);
        assert_eq!(Dtype::F64.promote(Dtype::C64), Dtype::C64);
    }

    #[test]
    fn scalars_keep_bits() {
        assert_eq!(Scalar::new(-1i32).bits(), 0xffff_ffff);
        assert_eq!(Scalar::from_f64(f64::NAN, Dtype::F32), Scalar::new(f32::NAN));
        assert_eq!(Scalar::from_f64(1e9, Dtype::I8).to_f64(), 127.0);
        assert_eq!(Scalar::from_i64(-2, Dtype::BF16).to_f64(), -2.0);
    }
}
