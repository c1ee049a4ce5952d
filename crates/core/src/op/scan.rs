//! Running reductions along an axis.

use super::reduce::{Reduce, ReduceKind};
use super::{Meta, Metas, arity, one};
use crate::{Error, Result};

/// What a scan computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
