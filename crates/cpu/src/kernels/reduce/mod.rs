//! Reductions over axes.
//!
//! Floats accumulate in `f64` along lanes that are added up every few thousand elements; the way a reduction is
//! cut into parts depends on its shape alone, so a result is the same for every number of threads.

mod columns;
mod fold;
mod rows;
#[cfg(test)]
mod tests;
mod widen;

use super::Shared;
use super::operand::{Operand, typed_output};
use super::strided::{Axes, Axis, collapse};
use super::wide::{
    BLOCK, Load, Loader, Store, Wide, loader, ordered_loader, same, store, store_complex, store_f32,
    store_f64, store_ordered, store_wrapped, truth_loader,
};
use fold::{Any, NotAll};
pub(super) use fold::{Extreme, Fold, Max, Min, Prod, Sum};
use olivine_core::op::{Reduce, ReduceKind};
use olivine_core::shape::AxisSet;
use olivine_core::{Bool8, Complex64, Dtype, Error, Result};
use std::marker::PhantomData;

/// Name of the operation in errors.
fn name(kind: ReduceKind) -> &'static str {
    match kind {
        ReduceKind::Sum => "sum",
        ReduceKind::Prod => "prod",
        ReduceKind::Max => "max",
        ReduceKind::Min => "min",
        ReduceKind::All => "all",
        ReduceKind::Any => "any",
    }
}

/// Reduces `x` over `axes` into `out`, the remaining axes in row-major order, of type
/// [`Reduce::output`](olivine_core::op::Reduce::output).
///
/// Of no elements: 0 for a sum, 1 for a product, true for all, false for any. `Max` and `Min` give NaN when any
/// element is. Truth is what differs from zero: -0.0 is false, NaN is true.
///
/// # Errors
/// `Value` for the largest or smallest of nothing and for an output of the wrong size, `Shape` for an axis that does
/// not exist.
pub fn run(kind: ReduceKind, axes: AxisSet, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    let op = name(kind);
    if let Some(a) = axes.iter().find(|&a| a >= x.layout.shape().rank()) {
        let msg = format!("axis {a} is out of range for shape {}", x.layout.shape());
        return Err(Error::shape(op, msg));
    }
    match kind {
        ReduceKind::Max | ReduceKind::Min if x.layout.elements() == 0 && !out.is_empty() => {
            let msg = format!("no value for an empty axis of an array of shape {}", x.layout.shape());
            Err(Error::value(op, msg))
        }
        ReduceKind::Sum => additive::<Sum>(kind, axes, x, out),
        ReduceKind::Prod => additive::<Prod>(kind, axes, x, out),
        ReduceKind::Max => extreme::<Max>(kind, axes, x, out),
        ReduceKind::Min => extreme::<Min>(kind, axes, x, out),
        ReduceKind::Any => {
            let store = store!(i64 => Bool8, a => Bool8((a != 0) as u8));
            reduce::<i64, Any>(kind, axes, x, out, truth_loader(x.dtype), store)
        }
        ReduceKind::All => {
            let store = store!(i64 => Bool8, a => Bool8((a == 0) as u8));
            reduce::<i64, NotAll>(kind, axes, x, out, truth_loader(x.dtype), store)
        }
    }
}

/// A sum or product.
pub(super) trait Additive:
    Fold<i64, Acc = i64>
    + Fold<i32, Acc = i32>
    + Fold<f32, Acc = f64>
    + Fold<f64, Acc = f64>
    + Fold<Complex64, Acc = (f64, f64)>
{
}
impl Additive for Sum {}
impl Additive for Prod {}

fn additive<F: Additive>(kind: ReduceKind, axes: AxisSet, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    match loader(x.dtype) {
        // Sums of 32 bits wrap, so none of the bits above are needed.
        Loader::Int(_) if matches!(x.dtype, Dtype::I32 | Dtype::U32) => {
            let store = store!(i32 => i32, a => a);
            reduce::<i32, F>(kind, axes, x, out, same::<i32>, store)
        }
        Loader::Int(load) => {
            reduce::<i64, F>(kind, axes, x, out, load, store_wrapped(Reduce::output(kind, x.dtype).size()))
        }
        Loader::F32(load) => reduce::<f32, F>(kind, axes, x, out, load, store_f64(x.dtype)),
        Loader::F64(load) => reduce::<f64, F>(kind, axes, x, out, load, store_f64(x.dtype)),
        Loader::Complex(load) => reduce::<Complex64, F>(kind, axes, x, out, load, store_complex()),
    }
}

/// A largest or smallest element.
pub(super) trait Extremal:
    Fold<i64, Acc = i64>
    + Fold<i32, Acc = i32>
    + Fold<f32, Acc = f32>
    + Fold<f64, Acc = f64>
    + Fold<Complex64, Acc = Complex64>
{
}
impl Extremal for Max {}
impl Extremal for Min {}

fn extreme<F: Extremal>(kind: ReduceKind, axes: AxisSet, x: &Operand<'_>, out: &mut [u8]) -> Result<()> {
    match ordered_loader(x.dtype) {
        Loader::Int(_) if x.dtype == Dtype::I32 => {
            let store = store!(i32 => i32, a => a);
            reduce::<i32, F>(kind, axes, x, out, same::<i32>, store)
        }
        Loader::Int(load) => reduce::<i64, F>(kind, axes, x, out, load, store_ordered(x.dtype)),
        Loader::F32(load) => reduce::<f32, F>(kind, axes, x, out, load, store_f32(x.dtype)),
        Loader::F64(load) => reduce::<f64, F>(kind, axes, x, out, load, store_f64(x.dtype)),
        Loader::Complex(load) => {
            reduce::<Complex64, F>(kind, axes, x, out, load, store!(Complex64 => Complex64, a => a))
        }
    }
}

/// One reduction as tasks see it. Positions of `kept` and `reduced` from `base` are elements of the operand, and
/// `out` has one element for each position of `kept`.
struct Job<'a, W: Wide, F: Fold<W>> {
    base: Shared<u8>,
    size: usize,
    kept: &'a [Axis<1>],
    reduced: &'a [Axis<1>],
    load: Load<W>,
    store: Store<F::Acc>,
    out: Shared<u8>,
    out_size: usize,
    fold: PhantomData<fn(F)>,
}

/// Where accumulators go.
#[derive(Clone, Copy)]
enum Target<A> {
    /// Finished, at the number of the output.
    Out,
    /// As they are, from this place on.
    Part(*mut A),
}

impl<W: Wide, F: Fold<W>> Job<'_, W, F> {
    /// At most `BLOCK` elements, `stride` apart, from `at` on.
    ///
    /// # Safety
    /// They are elements of the operand.
    #[inline(always)]
    unsafe fn load<'b>(&self, at: isize, stride: isize, n: usize, buf: &'b mut [W; BLOCK]) -> &'b [W] {
        // SAFETY: the caller's promise; the loader gives `n` elements.
        unsafe {
            let p = self.base.get().cast_const().offset(at * self.size as isize);
            std::slice::from_raw_parts((self.load)(p, stride, n, buf), n)
        }
    }
}

fn reduce<W: Wide, F: Fold<W>>(
    kind: ReduceKind,
    axes: AxisSet,
    x: &Operand<'_>,
    out: &mut [u8],
    load: Load<W>,
    store: Store<F::Acc>,
) -> Result<()> {
    let op = name(kind);
    let (shape, strides) = (x.layout.shape(), x.layout.strides());
    let axis = |i: usize| Axis { len: shape[i], strides: [strides[i]] };
    let (inside, beside): (Vec<usize>, Vec<usize>) = (0..shape.rank()).partition(|&i| axes.contains(i));
    let n: usize = beside.iter().map(|&i| shape[i]).product();
    let to = Reduce::output(kind, x.dtype);
    let out = Shared(typed_output(op, out, n, to)?);
    let base = Shared(x.checked_bytes(op)?.as_ptr().cast_mut());
    if n == 0 {
        return Ok(());
    }
    if x.layout.elements() == 0 {
        let nothing = vec![F::START; n];
        // SAFETY: there are `n` outputs.
        unsafe { store(nothing.as_ptr(), n, out.get(), 1) };
        return Ok(());
    }
    let kept: Axes<1> = collapse(beside.into_iter().map(axis));
    // The order along reduced axes is free: nearest elements innermost, each axis in the direction of memory.
    let mut offset = x.layout.offset() as isize;
    let mut reduced: Axes<1> = inside.into_iter().map(axis).filter(|a| a.len > 1).collect();
    for a in &mut reduced {
        if a.strides[0] < 0 {
            offset += (a.len as isize - 1) * a.strides[0];
            a.strides[0] = -a.strides[0];
        }
    }
    reduced.sort_by_key(|a| std::cmp::Reverse(a.strides[0]));
    let reduced = collapse(reduced);
    let nearest = |a: &Axes<1>| a.last().map_or(isize::MAX, |a| a.strides[0].abs().max(1));
    let size = x.dtype.size();
    // SAFETY: the offset is an element, the first one in memory along the reduced axes.
    let base = Shared(unsafe { base.get().offset(offset * size as isize) });
    let job = Job::<W, F> {
        base,
        size,
        kept: &kept,
        reduced: &reduced,
        load,
        store,
        out,
        out_size: to.size(),
        fold: PhantomData,
    };
    if nearest(&kept) < nearest(&reduced) && !reduced.is_empty() {
        columns::run(&job);
    } else {
        rows::run(&job);
    }
    Ok(())
}
