//! Infix operators. They panic with the error's message; the methods return it.

use crate::{Array, Result};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// Rust numbers that stand beside an array and take its type where that holds them.
///
/// One generic implementation instead of one for each type, so that `&x * 2.0` has one meaning for the
/// compiler to infer.
pub trait Number: Copy {
    /// The nearest `f64`.
    fn to_f64(self) -> f64;
}

macro_rules! number {
    ($($t:ty),*) => { $( impl Number for $t { fn to_f64(self) -> f64 { f64::from(self) } } )* };
}
number!(f32, f64, i32);

#[track_caller]
fn expect(r: Result<Array>) -> Array {
    match r {
        Ok(a) => a,
        Err(e) => panic!("{e}"),
    }
}

macro_rules! operator {
    ($($trait:ident $method:ident $name:ident),*) => { $(
        impl $trait<&Array> for &Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: &Array) -> Array { expect(Array::$name(&self, other)) }
        }
        impl $trait<Array> for &Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: Array) -> Array { expect(Array::$name(&self, &other)) }
        }
        impl $trait<&Array> for Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: &Array) -> Array { expect(Array::$name(&self, other)) }
        }
        impl $trait<Array> for Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: Array) -> Array { expect(Array::$name(&self, &other)) }
        }
        impl<T: Number> $trait<T> for &Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: T) -> Array {
                expect(self.weak(other.to_f64(), stringify!($name)).and_then(|o| Array::$name(self, &o)))
            }
        }
        impl<T: Number> $trait<T> for Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: T) -> Array { $trait::$method(&self, other) }
        }
        operator!(@left $trait $method $name f64);
        operator!(@left $trait $method $name i32);
    )* };
    (@left $trait:ident $method:ident $name:ident $t:ty) => {
        impl $trait<&Array> for $t {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: &Array) -> Array {
                expect(other.weak(self as f64, stringify!($name)).and_then(|o| Array::$name(&o, other)))
            }
        }
        impl $trait<Array> for $t {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: Array) -> Array { $trait::$method(self, &other) }
        }
    };
}
operator!(Add add add, Sub sub subtract, Mul mul multiply, Div div divide, Rem rem remainder);

impl Neg for &Array {
    type Output = Array;
    #[track_caller]
    fn neg(self) -> Array {
        expect(self.negative())
    }
}
impl Neg for Array {
    type Output = Array;
    #[track_caller]
    fn neg(self) -> Array {
        expect(self.negative())
    }
}
