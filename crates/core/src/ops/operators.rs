//! Infix operators. They panic with the error's message; the methods return it.

use crate::{Array, Result};
use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

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
        operator!(@scalar $trait $method $name f32);
        operator!(@scalar $trait $method $name f64);
        operator!(@scalar $trait $method $name i32);
    )* };
    (@scalar $trait:ident $method:ident $name:ident $t:ty) => {
        impl $trait<$t> for &Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: $t) -> Array {
                expect(self.weak(other as f64, stringify!($name)).and_then(|o| Array::$name(self, &o)))
            }
        }
        impl $trait<$t> for Array {
            type Output = Array;
            #[track_caller]
            fn $method(self, other: $t) -> Array { $trait::$method(&self, other) }
        }
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
