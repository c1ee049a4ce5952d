//! Reductions, arg-reductions, scans, softmax.

use crate::dtype::Dtype;
use crate::op::{Arg, ArgKind, Op, Reduce, ReduceKind, Scan, ScanKind, Softmax};
use crate::shape::{AxisSet, axis};
use crate::{Array, Result};

impl Array {
    /// Over `axes`, or over all of them when there is none.
    fn reduce(&self, kind: ReduceKind, axes: &[i32], keepdims: bool, op: &'static str) -> Result<Array> {
        let axes = if axes.is_empty() {
            crate::shape::check_rank(op, self.rank())?;
            AxisSet::all(self.rank())
        } else {
            AxisSet::resolve(op, axes, self.rank())?
        };
        Array::from_op(Op::Reduce(Reduce { kind, axes, keepdims }), std::slice::from_ref(self))
    }

    /// Sum over `axes` (all when empty). Small integers and `bool` are summed as 32 bits.
    pub fn sum(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        self.reduce(ReduceKind::Sum, axes, keepdims, "sum")
    }

    /// Product over `axes` (all when empty).
    pub fn prod(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        self.reduce(ReduceKind::Prod, axes, keepdims, "prod")
    }

    /// Largest over `axes` (all when empty); NaN when any is.
    pub fn max(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        self.reduce(ReduceKind::Max, axes, keepdims, "max")
    }

    /// Smallest over `axes` (all when empty); NaN when any is.
    pub fn min(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        self.reduce(ReduceKind::Min, axes, keepdims, "min")
    }

    /// Whether all are true over `axes` (all when empty).
    pub fn all(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        self.reduce(ReduceKind::All, axes, keepdims, "all")
    }

    /// Whether any is true over `axes` (all when empty).
    pub fn any(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        self.reduce(ReduceKind::Any, axes, keepdims, "any")
    }

    /// Arithmetic mean over `axes` (all when empty), summed in `f32` at least; integers give `f32`.
    pub fn mean(&self, axes: &[i32], keepdims: bool) -> Result<Array> {
        let dtype = self.dtype().to_inexact();
        let wide = if dtype.size() < 4 { Dtype::F32 } else { dtype };
        let sum = self.astype(wide)?.sum(axes, keepdims)?;
        let count = self.size() as f64 / (sum.size() as f64).max(1.0);
        sum.divide(&sum.scalar_like(count))?.astype(dtype)
    }

    fn arg(&self, kind: ArgKind, along: i32, keepdims: bool, op: &'static str) -> Result<Array> {
        let along = axis(op, along, self.rank())?;
        Array::from_op(Op::Arg(Arg { kind, axis: along, keepdims }), std::slice::from_ref(self))
    }

    /// Index of the first largest along an axis, as `u32`.
    pub fn argmax(&self, along: i32, keepdims: bool) -> Result<Array> {
        self.arg(ArgKind::Max, along, keepdims, "argmax")
    }

    /// Index of the first smallest along an axis, as `u32`.
    pub fn argmin(&self, along: i32, keepdims: bool) -> Result<Array> {
        self.arg(ArgKind::Min, along, keepdims, "argmin")
    }

    fn scan(
        &self,
        kind: ScanKind,
        along: i32,
        reverse: bool,
        inclusive: bool,
        op: &'static str,
    ) -> Result<Array> {
        let along = axis(op, along, self.rank())?;
        Array::from_op(Op::Scan(Scan { kind, axis: along, reverse, inclusive }), std::slice::from_ref(self))
    }

    /// Running sum along an axis.
    pub fn cumsum(&self, along: i32, reverse: bool, inclusive: bool) -> Result<Array> {
        self.scan(ScanKind::Sum, along, reverse, inclusive, "cumsum")
    }

    /// Running product along an axis.
    pub fn cumprod(&self, along: i32, reverse: bool, inclusive: bool) -> Result<Array> {
        self.scan(ScanKind::Prod, along, reverse, inclusive, "cumprod")
    }

    /// Running maximum along an axis.
    pub fn cummax(&self, along: i32, reverse: bool, inclusive: bool) -> Result<Array> {
        self.scan(ScanKind::Max, along, reverse, inclusive, "cummax")
    }

    /// Running minimum along an axis.
    pub fn cummin(&self, along: i32, reverse: bool, inclusive: bool) -> Result<Array> {
        self.scan(ScanKind::Min, along, reverse, inclusive, "cummin")
    }

    /// Running log of the sum of exponentials along an axis.
    pub fn logcumsumexp(&self, along: i32, reverse: bool, inclusive: bool) -> Result<Array> {
        let x = self.astype(self.dtype().to_inexact())?;
        x.scan(ScanKind::LogSumExp, along, reverse, inclusive, "logcumsumexp")
    }

    /// Applies a last-axis operation along any axis.
    fn on_last(&self, along: i32, op: &'static str, f: impl Fn(&Array) -> Result<Array>) -> Result<Array> {
        let a = axis(op, along, self.rank())?;
        let x = self.astype(self.dtype().to_inexact())?;
        if a + 1 == self.rank() {
            return f(&x);
        }
        f(&x.swapaxes(a as i32, -1)?)?.swapaxes(a as i32, -1)
    }

    /// `exp(x) / sum(exp(x))` along an axis, accumulated in `f32` at least.
    pub fn softmax(&self, along: i32) -> Result<Array> {
        self.on_last(along, "softmax", |x| {
            Array::from_op(Op::Softmax(Softmax::Softmax), std::slice::from_ref(x))
        })
    }

    /// `log(sum(exp(x)))` along an axis.
    pub fn logsumexp(&self, along: i32, keepdims: bool) -> Result<Array> {
        let y = self.on_last(along, "logsumexp", |x| {
            Array::from_op(Op::Softmax(Softmax::LogSumExp), std::slice::from_ref(x))
        })?;
        if keepdims { Ok(y) } else { y.squeeze(&[along]) }
    }
}
