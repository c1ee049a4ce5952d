//! Many products of one size.

use super::blocked::{Job, each};
use super::mat::{Raw, RawMut, check_input, check_output};
use super::{Call, Element, GemmError, Isa};
use crate::pool;

/// The left or right operands of a batch: matrices of one size and stride, at offsets in one slice.
#[derive(Clone, Copy)]
pub struct BatchRef<'a, T> {
    /// What the matrices lie in.
    pub data: &'a [T],
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub cols: usize,
    /// Elements from row to row.
    pub row_stride: isize,
    /// Elements from column to column.
    pub col_stride: isize,
}

/// The outputs of a batch, with contiguous rows.
pub struct BatchMut<'a, T> {
    /// What the matrices lie in.
    pub data: &'a mut [T],
    /// Rows of each.
    pub rows: usize,
    /// Columns of each.
    pub cols: usize,
    /// Elements from row to row.
    pub row_stride: usize,
}

/// Where the three matrices of one product begin, in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offsets {
    /// In the slice of `a`.
    pub a: usize,
    /// In the slice of `b`.
    pub b: usize,
    /// In the slice of `c`.
    pub c: usize,
}

/// Multiply-adds above which one product is worth all threads, so that the batch is taken one by one.
const LARGE_WORK: usize = 1 << 24;

pub(super) fn run<T: Element>(
    isa: Isa,
    alpha: f32,
    a: BatchRef<'_, T>,
    b: BatchRef<'_, T>,
    beta: f32,
    c: BatchMut<'_, T>,
    batch: &[Offsets],
) -> Result<(), GemmError> {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if b.rows != k || c.rows != m || c.cols != n {
        return Err(GemmError::Shape { a: (m, k), b: (b.rows, n), c: (c.rows, c.cols) });
    }
    for at in batch {
        check_input("left operand", a.data.len(), at.a, (m, k), (a.row_stride, a.col_stride))?;
        check_input("right operand", b.data.len(), at.b, (k, n), (b.row_stride, b.col_stride))?;
        check_output(c.data.len(), at.c, m, n, c.row_stride)?;
    }
    let (Some(first), false) = (batch.first(), m == 0 || n == 0) else { return Ok(()) };
    let a_raw = Raw { ptr: a.data.as_ptr(), rs: a.row_stride, cs: a.col_stride };
    let b_raw = Raw { ptr: b.data.as_ptr(), rs: b.row_stride, cs: b.col_stride };
    let c_raw = RawMut { ptr: c.data.as_mut_ptr(), rs: c.row_stride as isize, cs: 1 };
    let call = |at: &Offsets, m: usize| Call {
        isa,
        job: Job { m, n, k, alpha, beta },
        a: a_raw.from(at.a),
        b: b_raw.from(at.b),
        c: c_raw.from(at.c),
    };
    if one_product(&a, c.row_stride, m, batch) {
        T::run(call(first, m * batch.len()));
        return Ok(());
    }
    let work = m.saturating_mul(n).saturating_mul(k.max(1));
    let over_batch = pool::threads() > 1
        && batch.len() > 1
        && work < LARGE_WORK
        && work.saturating_mul(batch.len()) > 1 << 15
        && disjoint(m, n, c.row_stride, batch);
    let entries = if over_batch {
        ((1usize << 16) / work).clamp(1, batch.len().div_ceil(4 * pool::threads()))
    } else {
        1
    };
    each(over_batch, batch.len().div_ceil(entries), &|task| {
        for at in &batch[task * entries..((task + 1) * entries).min(batch.len())] {
            T::run(call(at, m));
        }
    });
    Ok(())
}

/// Whether the products are the row blocks of one larger product: the same `b`, and rows of `a` and `c` that
/// go on where those of the product before end.
fn one_product<T>(a: &BatchRef<'_, T>, c_stride: usize, m: usize, batch: &[Offsets]) -> bool {
    let step = (m as isize).checked_mul(a.row_stride).and_then(|s| usize::try_from(s).ok());
    let (Some(a_step), Some(c_step)) = (step, m.checked_mul(c_stride)) else { return false };
    batch.len() > 1
        && batch.windows(2).all(|w| {
            w[0].b == w[1].b
                && w[0].a.checked_add(a_step) == Some(w[1].a)
                && w[0].c.checked_add(c_step) == Some(w[1].c)
        })
        && (m > 1 || c_stride >= 1)
}

/// Whether no two outputs share an element, as far as two simple arrangements show: blocks of whole rows
/// (as heads lie in a batch), or side by side within the rows of one larger matrix (as heads lie in a
/// token).
fn disjoint(m: usize, n: usize, row_stride: usize, batch: &[Offsets]) -> bool {
    let extent = (m - 1) * row_stride + n;
    let mut starts: Vec<usize> = batch.iter().map(|at| at.c).collect();
    starts.sort_unstable();
    if starts.windows(2).all(|w| w[1] - w[0] >= extent) {
        return true;
    }
    if m == 1 || starts.iter().any(|s| s % row_stride + n > row_stride) {
        return false;
    }
    starts.sort_unstable_by_key(|s| (s % row_stride, s / row_stride));
    starts.windows(2).all(|w| {
        let (col, next) = (w[0] % row_stride, w[1] % row_stride);
        if col == next { w[1] / row_stride - w[0] / row_stride >= m } else { next - col >= n }
    })
}
