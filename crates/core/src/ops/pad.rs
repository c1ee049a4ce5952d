//! Padding.

use super::shape::concatenate;
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};

/// What stands in the padding.
#[derive(Debug, Clone, Default)]
pub enum PadMode {
    /// Zero.
    #[default]
    Zero,
    /// A scalar.
    Constant(Array),
    /// The outermost element.
    Edge,
    /// The elements mirrored at the outermost one, which is not repeated.
    Reflect,
    /// The elements mirrored at the border.
    Symmetric,
    /// The elements from the other end.
    Wrap,
}

impl PadMode {
    /// Which of `n > 0` elements stand at these numbers of places after the first.
    fn sources(&self, at: &Array, n: i64) -> Result<Array> {
        let number = |v: i64| Array::from_scalar(v);
        // Back and forth over a period that ends where the mirrored elements do.
        let mirrored = |period: i64, end: i64| {
            let j = at.remainder(&number(period))?;
            Array::select(&j.less(&number(n))?, &j, &number(end).subtract(&j)?)
        };
        match self {
            PadMode::Zero | PadMode::Constant(_) | PadMode::Edge => {
                at.clip(Some(&number(0)), Some(&number(n - 1)))
            }
            PadMode::Wrap => at.remainder(&number(n)),
            PadMode::Symmetric => mirrored(2 * n, 2 * n - 1),
            PadMode::Reflect if n == 1 => at.zeros_like(),
            PadMode::Reflect => mirrored(2 * n - 2, 2 * n - 2),
        }
    }
}

impl Array {
    /// With `widths[i]` more elements before and after axis `i`; one pair serves all axes. The padding of later axes
    /// goes on from that of earlier ones.
    ///
    /// # Errors
    /// `Value` when an empty axis would be padded with its own elements, or the number of pairs is not one or that
    /// of the axes; `Shape` for a constant that is no scalar.
    pub fn pad(&self, widths: &[(usize, usize)], mode: &PadMode) -> Result<Array> {
        let rank = self.rank();
        if widths.len() != rank && widths.len() != 1 {
            let msg = format!("{} pairs of widths for shape {}", widths.len(), self.shape());
            return Err(Error::value("pad", msg));
        }
        let width = |i: usize| widths[i % widths.len()];
        let size = |i: usize| {
            let (before, after) = width(i);
            let n = self.shape()[i].checked_add(before).and_then(|n| n.checked_add(after));
            n.ok_or_else(|| Error::shape("pad", format!("shape {} padded by {widths:?}", self.shape())))
        };
        let shape = Shape::checked("pad", &(0..rank).map(size).collect::<Result<Vec<_>>>()?)?;
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        let zero;
        let value = match mode {
            PadMode::Zero => {
                zero = self.scalar_like(0.0);
                &zero
            }
            PadMode::Constant(v) if v.size() == 1 => v,
            PadMode::Constant(v) => {
                return Err(Error::shape("pad", format!("a constant of shape {}", v.shape())));
            }
            PadMode::Edge | PadMode::Reflect | PadMode::Symmetric | PadMode::Wrap => {
                return self.pad_from_itself(&width, mode);
            }
        };
        let base = value.reshape::<usize>(&[])?.astype(self.dtype())?.broadcast_to(&shape)?;
        let start: Vec<usize> = (0..rank).map(|i| width(i).0).collect();
        base.slice_update(self, &start)
    }

    fn pad_from_itself(&self, width: &dyn Fn(usize) -> (usize, usize), mode: &PadMode) -> Result<Array> {
        let mut x = self.clone();
        for i in 0..self.rank() {
            let (before, after) = width(i);
            let n = self.shape()[i];
            if before + after == 0 {
                continue;
            }
            if n == 0 {
                let msg = format!("axis {i} of shape {} has nothing to pad it with", self.shape());
                return Err(Error::value("pad", msg));
            }
            let part = |from: i64, to: i64| {
                if matches!(mode, PadMode::Edge) {
                    // One place for all, which needs no indices.
                    let at = if from < 0 { 0 } else { n - 1 };
                    let shape = x.shape().with(i, (to - from) as usize);
                    return x.slice_axis(i as i32, at, at + 1)?.broadcast_to(&shape);
                }
                let at = Array::arange_int(from, to, 1, Dtype::I64)?;
                x.take(&mode.sources(&at, n as i64)?, i as i32)
            };
            let (first, last) = (part(-(before as i64), 0)?, part(n as i64, (n + after) as i64)?);
            x = concatenate(&[first, x, last], i as i32)?;
        }
        Ok(x)
    }
}
