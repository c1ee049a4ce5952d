//! Derivatives and batching of reading and writing at positions.

use super::{Cotangents, Grad, Index, Op, ScatterMode};
use crate::shape::Shape;
use crate::transforms::{prefixed, unrolled};
use crate::{Array, Dtype, Result};
use smallvec::SmallVec;

impl Index {
    pub(super) fn grad(&self) -> Grad {
        match self {
            Index::Gather { .. } | Index::TakeAlong { .. } => Grad::Linear(transpose),
            Index::Scatter { .. } | Index::PutAlong { .. } => Grad::Explicit { jvp, vjp },
            Index::SearchSorted { .. } => Grad::NonDiff,
        }
    }
}

/// What was read adds up where it was read.
fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], i: usize) -> Result<Option<Array>> {
    let (Op::Index(index), Some(c), 0) = (op, &cotangents[0], i) else { return Ok(None) };
    let Some(place) = Place::of(index, inputs) else { return Ok(None) };
    place.write(ScatterMode::Add, &inputs[0].full_like(0.0)?, c).map(Some)
}

/// The positions of an operation, for reading and writing other arrays there.
struct Place<'a> {
    way: Way,
    indices: &'a [Array],
}

/// How index arrays mean positions.
enum Way {
    /// Windows, as [`Index::Gather`] reads them.
    Windows { axes: SmallVec<[u8; 4]>, sizes: Shape },
    /// Single elements, as [`Index::TakeAlong`] reads them.
    Along { axis: usize },
}

impl<'a> Place<'a> {
    fn of(index: &Index, inputs: &'a [Array]) -> Option<Place<'a>> {
        let (way, indices) = match index {
            Index::Gather { sizes, axes } => {
                (Way::Windows { axes: axes.clone(), sizes: sizes.clone() }, &inputs[1..])
            }
            Index::Scatter { axes, .. } => {
                let at = inputs.get(2).map_or(0, Array::rank);
                let sizes = Shape::new(&inputs[1].shape()[at..]);
                (Way::Windows { axes: axes.clone(), sizes }, &inputs[2..])
            }
            Index::TakeAlong { axis } | Index::PutAlong { axis, .. } => {
                (Way::Along { axis: *axis }, &inputs[1..2])
            }
            Index::SearchSorted { .. } => return None,
        };
        Some(Place { way, indices })
    }

    fn read(&self, x: &Array) -> Result<Array> {
        let op = match &self.way {
            Way::Windows { axes, sizes } => Index::Gather { axes: axes.clone(), sizes: sizes.clone() },
            Way::Along { axis } => Index::TakeAlong { axis: *axis },
        };
        let all: Vec<Array> = std::iter::once(x).chain(self.indices).cloned().collect();
        Array::from_op(Op::Index(op), &all)
    }

    fn write(&self, mode: ScatterMode, x: &Array, values: &Array) -> Result<Array> {
        let mut all = vec![x.clone()];
        all.extend_from_slice(self.indices);
        let op = match &self.way {
            Way::Windows { axes, .. } => {
                all.insert(1, values.clone());
                Index::Scatter { axes: axes.clone(), mode }
            }
            Way::Along { axis } => {
                all.push(values.clone());
                Index::PutAlong { axis: *axis, mode }
            }
        };
        Array::from_op(Op::Index(op), &all)
    }
}

/// Slopes of a written array by what was there and by what was written; `None` where it is 1 throughout.
struct Slopes {
    by_old: Option<Array>,
    by_new: Option<Array>,
}

fn slopes(mode: ScatterMode, place: &Place<'_>, x: &Array, u: &Array, y: &Array) -> Result<Slopes> {
    let float = |a: Array| a.astype(x.dtype());
    Ok(match mode {
        ScatterMode::Add => Slopes { by_old: None, by_new: None },
        ScatterMode::Set => {
            // Numbers in place of the values tell which of several writes to one element stayed.
            let count = u.size();
            let ids = Array::arange(0.0, count as f64, 1.0, Dtype::I64)?.reshape(u.shape())?;
            let nobody = Array::from_scalar(-1i64).broadcast_to(x.shape())?;
            let stayed = place.write(ScatterMode::Set, &nobody, &ids)?;
            let by_old = stayed.less(&stayed.scalar_like(0.0))?;
            let by_new = place.read(&stayed)?.equal(&ids)?;
            Slopes { by_old: Some(float(by_old)?), by_new: Some(float(by_new)?) }
        }
        ScatterMode::Prod => {
            // The product without the zeros, and how many zeros there are.
            let zero = u.equal(&u.scalar_like(0.0))?;
            let rest = Array::select(&zero, &u.scalar_like(1.0), u)?;
            let rest = place.write(ScatterMode::Prod, &x.full_like(1.0)?, &rest)?;
            let zeros = place.write(ScatterMode::Add, &x.full_like(0.0)?, &float(zero.clone())?)?;
            let none = zeros.equal(&zeros.scalar_like(0.0))?;
            let by_old = Array::select(&none, &rest, &rest.scalar_like(0.0))?;
            let others = place.read(&x.multiply(&rest)?)?;
            let seen = place.read(&zeros)?;
            let lone =
                Array::select(&seen.equal(&seen.scalar_like(1.0))?, &others, &others.scalar_like(0.0))?;
            let safe = Array::select(&zero, &u.scalar_like(1.0), u)?;
            let shared = others.divide(&safe)?;
            let shared =
                Array::select(&seen.equal(&seen.scalar_like(0.0))?, &shared, &shared.scalar_like(0.0))?;
            Slopes { by_old: Some(by_old), by_new: Some(Array::select(&zero, &lone, &shared)?) }
        }
        ScatterMode::Max | ScatterMode::Min => {
            // Equal ones share alike.
            let old = float(x.equal(y)?)?;
            let new = float(u.equal(&place.read(y)?)?)?;
            let share = place.write(ScatterMode::Add, &old, &new)?;
            let share = share.maximum(&share.scalar_like(1.0))?;
            let by_new = new.divide(&place.read(&share)?)?;
            Slopes { by_old: Some(old.divide(&share)?), by_new: Some(by_new) }
        }
    })
}

fn times(a: &Array, slope: &Option<Array>) -> Result<Array> {
    slope.as_ref().map_or_else(|| Ok(a.clone()), |s| a.multiply(s))
}

fn adjoint(slope: Option<Array>) -> Result<Option<Array>> {
    slope.map(|s| if s.dtype().is_complex() { s.conjugate() } else { Ok(s) }).transpose()
}

/// Mode, and where the values are among the inputs.
fn parts(index: &Index) -> Option<(ScatterMode, usize)> {
    match index {
        Index::Scatter { mode, .. } => Some((*mode, 1)),
        Index::PutAlong { mode, .. } => Some((*mode, 2)),
        Index::Gather { .. } | Index::TakeAlong { .. } | Index::SearchSorted { .. } => None,
    }
}

fn jvp(op: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let none = Cotangents::from_iter([None]);
    let Op::Index(index) = op else { return Ok(none) };
    let (Some((mode, at)), Some(place)) = (parts(index), Place::of(index, inputs)) else { return Ok(none) };
    let (x, u) = (&inputs[0], &inputs[at]);
    let s = slopes(mode, &place, x, u, &outputs[0])?;
    let old = match &tangents[0] {
        Some(t) => times(t, &s.by_old)?,
        None => x.full_like(0.0)?,
    };
    let y = match &tangents[at] {
        Some(t) => place.write(ScatterMode::Add, &old, &times(t, &s.by_new)?)?,
        None => old,
    };
    Ok(Cotangents::from_iter([Some(y)]))
}

fn vjp(
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let mut back: Cotangents = SmallVec::from_elem(None, inputs.len());
    let (Op::Index(index), Some(c)) = (op, &cotangents[0]) else { return Ok(back) };
    let (Some((mode, at)), Some(place)) = (parts(index), Place::of(index, inputs)) else { return Ok(back) };
    let (x, u) = (&inputs[0], &inputs[at]);
    let s = slopes(mode, &place, x, u, &outputs[0])?;
    if wanted[0] {
        back[0] = Some(times(c, &adjoint(s.by_old)?)?);
    }
    if wanted[at] {
        back[at] = Some(times(&place.read(c)?, &adjoint(s.by_new)?)?);
    }
    Ok(back)
}

/// Positions of every element of the batch: an index along the batch axis joins the others.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let Op::Index(index) = op else { return Ok(Vec::new()) };
    let full = |i: usize| -> Result<Array> {
        if flags[i] {
            return Ok(inputs[i].clone());
        }
        inputs[i].broadcast_to(&prefixed(n, inputs[i].shape()))
    };
    let shift =
        |axes: &[u8]| -> SmallVec<[u8; 4]> { std::iter::once(0).chain(axes.iter().map(|a| a + 1)).collect() };
    // [n, I...] of the number of the element, beside index arrays of that shape.
    let own = |at: &Shape| -> Result<Array> {
        let mut dims = vec![1; at.rank() + 1];
        dims[0] = n;
        Array::arange_i32(n)?.reshape(&dims)?.broadcast_to(&prefixed(n, at))
    };
    let (op, all) = match index {
        Index::Gather { axes, sizes } => {
            if !flags[0] {
                // Only the positions differ: more of them.
                let mut all = vec![inputs[0].clone()];
                for i in 1..inputs.len() {
                    all.push(full(i)?);
                }
                return Ok(vec![Array::from_op(op.clone(), &all)?]);
            }
            let at = Shape::new(inputs.get(1).map_or(&[][..], |a| &a.shape()[flags[1] as usize..]));
            let mut all = vec![inputs[0].clone(), own(&at)?];
            for i in 1..inputs.len() {
                all.push(full(i)?);
            }
            let op = Index::Gather { axes: shift(axes), sizes: prefixed(1, sizes) };
            let y = Array::from_op(Op::Index(op), &all)?;
            return Ok(vec![y.squeeze(&[at.rank() as i32 + 1])?]);
        }
        Index::Scatter { axes, mode } => {
            let at = Shape::new(inputs.get(2).map_or(&[][..], |a| &a.shape()[flags[2] as usize..]));
            let updates = full(1)?.expand_dims(&[at.rank() as i32 + 1])?;
            let mut all = vec![full(0)?, updates, own(&at)?];
            for i in 2..inputs.len() {
                all.push(full(i)?);
            }
            (Index::Scatter { axes: shift(axes), mode: *mode }, all)
        }
        // The place of many values among one run of numbers; each run of numbers has a search of its own.
        Index::SearchSorted { .. } if !flags[0] => (index.clone(), inputs.to_vec()),
        Index::SearchSorted { .. } => return unrolled(op, inputs, flags, n),
        Index::TakeAlong { axis } => (Index::TakeAlong { axis: axis + 1 }, vec![full(0)?, full(1)?]),
        Index::PutAlong { axis, mode } => {
            (Index::PutAlong { axis: axis + 1, mode: *mode }, vec![full(0)?, full(1)?, full(2)?])
        }
    };
    Ok(vec![Array::from_op(Op::Index(op), &all)?])
}
