//! Constants and ranges.

use crate::dtype::{Dtype, HostElement, Scalar};
use crate::op::{Create, Op, Source, SourceRef};
use crate::shape::Shape;
use crate::{Array, Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

impl Array {
    /// Every element is `value`.
    pub fn full<T: HostElement>(shape: &[usize], value: T) -> Result<Array> {
        Ok(Array::constant(Scalar::new(value), Shape::checked("full", shape)?))
    }

    /// Zeros.
    pub fn zeros(shape: &[usize], dtype: Dtype) -> Result<Array> {
        Ok(Array::constant(Scalar::from_i64(0, dtype), Shape::checked("zeros", shape)?))
    }

    /// Ones.
    pub fn ones(shape: &[usize], dtype: Dtype) -> Result<Array> {
        Ok(Array::constant(Scalar::from_i64(1, dtype), Shape::checked("ones", shape)?))
    }

    /// An array of this shape and type whose elements are all `value`, rounded to the type.
    pub fn full_like(&self, value: f64) -> Result<Array> {
        Ok(Array::constant(Scalar::from_f64(value, self.dtype()), self.shape().clone()))
    }

    /// A scalar of this array's type, rounded to it.
    pub fn scalar_like(&self, value: f64) -> Array {
        Array::constant(Scalar::from_f64(value, self.dtype()), Shape::scalar())
    }

    /// `start, start + step, …` up to but not including `stop`, of type `dtype`.
    ///
    /// # Errors
    /// `Value` when `step` is 0 or not finite, or there are more elements than memory can hold.
    pub fn arange(start: f64, stop: f64, step: f64, dtype: Dtype) -> Result<Array> {
        let len = ((stop - start) / step).ceil();
        if step == 0.0 || !len.is_finite() {
            return Err(Error::value("arange", format!("no range from {start} to {stop} by {step}")));
        }
        // Beyond 2^53 the conversion saturates, and the shape check refuses it.
        let len = len.max(0.0) as usize;
        let scalar = |v: f64| {
            if dtype.is_integer() && v.fract() == 0.0 {
                Scalar::from_i64(v as i64, dtype)
            } else {
                Scalar::from_f64(v, dtype)
            }
        };
        Array::from_op(Op::Create(Create::Arange { start: scalar(start), step: scalar(step), len }), &[])
    }

    /// `0, 1, …, n - 1` as `i32`.
    pub fn arange_i32(n: usize) -> Result<Array> {
        if i32::try_from(n).is_err() {
            return Err(Error::value("arange", format!("{n} elements are more than int32 can count")));
        }
        Array::arange(0.0, n as f64, 1.0, Dtype::I32)
    }

    /// Arrays whose data a [`Source`] reads when they are first evaluated.
    pub fn load(source: Arc<dyn Source>) -> Result<SmallVec<[Array; 1]>> {
        Array::from_op_multi(Op::Create(Create::Load(SourceRef(source))), &[])
    }
}
