//! Running reductions along an axis.

use super::reduce::{Reduce, ReduceKind};
use super::{Grad, Meta, Metas, Op, arity, one};
use crate::{Array, Error, Result};
use serde::{Deserialize, Serialize};

/// What a scan computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ScanKind {
    /// Running sum.
    Sum,
    /// Running product.
    Prod,
    /// Running maximum; NaN from the first NaN on.
    Max,
    /// Running minimum; NaN from the first NaN on.
    Min,
    /// Running log of the sum of exponentials.
    LogSumExp,
}

/// Running reduction along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scan {
    /// What is computed.
    pub kind: ScanKind,
    /// Along which axis.
    pub axis: usize,
    /// From the end to the start.
    pub reverse: bool,
    /// Element `i` counts towards result `i`.
    pub inclusive: bool,
}

impl Scan {
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            ScanKind::Sum => "cumsum",
            ScanKind::Prod => "cumprod",
            ScanKind::Max => "cummax",
            ScanKind::Min => "cummin",
            ScanKind::LogSumExp => "logcumsumexp",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let [x] = arity(self.name(), inputs)?;
        if self.axis >= x.shape.rank() {
            return Err(Error::shape(
                self.name(),
                format!("axis {} is out of range for {}", self.axis, x.shape),
            ));
        }
        let dtype = match self.kind {
            ScanKind::Sum => Reduce::output(ReduceKind::Sum, x.dtype),
            ScanKind::Prod => Reduce::output(ReduceKind::Prod, x.dtype),
            ScanKind::LogSumExp if !x.dtype.is_inexact() => {
                return Err(Error::bad_dtype(self.name(), "floats", x.dtype));
            }
            ScanKind::Max | ScanKind::Min | ScanKind::LogSumExp => x.dtype,
        };
        one(x.shape.clone(), dtype)
    }
}

impl Scan {
    pub(super) fn grad(&self) -> Grad {
        match self.kind {
            ScanKind::Sum => Grad::Linear(transpose),
            ScanKind::Prod | ScanKind::Max | ScanKind::Min | ScanKind::LogSumExp => Grad::ViaFallback,
        }
    }

    /// Scans whose derivative is right where factors are 0, where elements tie, and where sums overflow.
    pub(super) fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        let x = &inputs[0];
        let y = match self.kind {
            ScanKind::Sum => return None,
            ScanKind::Prod => self.doubling(x, 1.0, |a, b| a.multiply(b)),
            ScanKind::LogSumExp => self.doubling(x, f64::NEG_INFINITY, |a, b| a.logaddexp(b)),
            ScanKind::Max | ScanKind::Min => self.chosen(x),
        };
        Some(y.map(|y| vec![y]))
    }

    /// By distances 1, 2, 4, … (Hillis and Steele 1986).
    fn doubling(
        &self,
        x: &Array,
        unit: f64,
        join: impl Fn(&Array, &Array) -> Result<Array>,
    ) -> Result<Array> {
        let axis = self.axis as i32;
        let n = x.shape()[self.axis];
        // What lies `by` further back, and the unit where nothing does.
        let back = |y: &Array, by: usize| -> Result<Array> {
            let fill = Array::zeros(&y.shape().with(self.axis, by), y.dtype())?.full_like(unit)?;
            if self.reverse {
                crate::ops::concatenate(&[y.slice_axis(axis, by, n)?, fill], axis)
            } else {
                crate::ops::concatenate(&[fill, y.slice_axis(axis, 0, n - by)?], axis)
            }
        };
        let kind = if self.kind == ScanKind::Prod { ReduceKind::Prod } else { ReduceKind::Max };
        let mut y = x.astype(Reduce::output(kind, x.dtype()))?;
        if n == 0 {
            return Ok(y);
        }
        if !self.inclusive {
            y = back(&y, 1)?;
        }
        let mut by = 1;
        while by < n {
            y = join(&back(&y, by)?, &y)?;
            by *= 2;
        }
        Ok(y)
    }

    /// The elements at the places where the extremes so far are.
    fn chosen(&self, x: &Array) -> Result<Array> {
        let axis = self.axis as i32;
        let n = x.shape()[self.axis];
        let fixed = x.stop_gradient()?;
        let running = Scan { inclusive: true, ..*self };
        let y = Array::from_op(Op::Scan(running), std::slice::from_ref(&fixed))?;
        let hit = fixed.equal(&y)?.logical_or(&fixed.isnan()?)?;
        let mut along = vec![1; x.rank()];
        along[self.axis] = n;
        let place = Array::arange_i32(n)?.reshape(&along)?.broadcast_to(x.shape())?;
        // The newest hit so far.
        let (none, kind) = if self.reverse { (n as i32, ScanKind::Min) } else { (-1, ScanKind::Max) };
        let place = Array::select(&hit, &place, &Array::from_scalar(none).broadcast_to(x.shape())?)?;
        let newest = Scan { kind, inclusive: true, ..*self };
        let place = Array::from_op(Op::Scan(newest), &[place])?;
        let chosen = x.take_along_axis(&place, axis)?;
        if self.inclusive || n == 0 {
            return Ok(chosen);
        }
        let extreme = if self.kind == ScanKind::Max { f64::NEG_INFINITY } else { f64::INFINITY };
        let fill = Array::zeros(&x.shape().with(self.axis, 1), x.dtype())?.full_like(extreme)?;
        if self.reverse {
            crate::ops::concatenate(&[chosen.slice_axis(axis, 1, n)?, fill], axis)
        } else {
            crate::ops::concatenate(&[fill, chosen.slice_axis(axis, 0, n - 1)?], axis)
        }
    }
}

/// The running sum the other way round.
fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], _: usize) -> Result<Option<Array>> {
    let (Op::Scan(s), Some(c)) = (op, &cotangents[0]) else { return Ok(None) };
    let back = Scan { reverse: !s.reverse, ..*s };
    Array::from_op(Op::Scan(back), std::slice::from_ref(c))?.astype(inputs[0].dtype()).map(Some)
}

pub(super) fn batched(op: &Op, inputs: &[Array], _: usize) -> Result<Vec<Array>> {
    let Op::Scan(s) = op else { return Ok(Vec::new()) };
    Ok(vec![Array::from_op(Op::Scan(Scan { axis: s.axis + 1, ..*s }), inputs)?])
}
