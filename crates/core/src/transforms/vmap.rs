//! Functions of one element, applied to a batch.

use super::rules::{self, MaybeBatched, batched};
use super::tape::Tape;
use super::tree::{Tree, leaves, rebuild};
use crate::op::Meta;
use crate::shape::{Shape, axis};
use crate::trace::Trace;
use crate::{Array, Error, Result};

/// Which axis of an array is the batch; `None` when it is the same for all elements.
pub type Axis = Option<i32>;

/// Runs `f` for a batch of `n`: inputs with a flag have the batch axis in front, and so have all results.
pub(crate) fn batch_function(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    flags: &[bool],
    n: usize,
) -> Result<Vec<Array>> {
    trace(f, inputs, flags, n)?.iter().map(|y| batched(y, n)).collect()
}

/// As [`batch_function`]; tells which results have the batch axis.
fn trace(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    flags: &[bool],
    n: usize,
) -> Result<Vec<MaybeBatched>> {
    let guard = Trace::begin();
    let marked: Vec<Array> = inputs
        .iter()
        .zip(flags)
        .map(|(x, &b)| {
            if !b {
                return x.clone();
            }
            let meta = Meta::new(Shape::new(&x.shape()[1..]), x.dtype());
            Array::placeholder("vmap", meta, guard.trace())
        })
        .collect();
    let outputs = f(&marked)?;
    let tape = Tape::of(&outputs, guard.trace());
    // The graph of placeholders is walked here and never evaluated.
    let results = walk(&tape, &marked, inputs, flags, &outputs, n);
    guard.end(&tape.nodes);
    results
}

fn walk(
    tape: &Tape,
    marked: &[Array],
    inputs: &[Array],
    flags: &[bool],
    outputs: &[Array],
    n: usize,
) -> Result<Vec<MaybeBatched>> {
    // What a node gives for the batch; nothing where it does not depend on it.
    let mut found: Vec<Vec<Array>> = vec![Vec::new(); tape.nodes.len()];
    for ((m, x), _) in marked.iter().zip(inputs).zip(flags).filter(|(_, b)| **b) {
        if let Some(i) = tape.place(m) {
            found[i] = vec![x.clone()];
        }
    }
    let at = |found: &[Vec<Array>], a: &Array| -> MaybeBatched {
        match tape.place(a).and_then(|i| found[i].get(a.out())) {
            Some(b) => (b.clone(), true),
            None => (a.clone(), false),
        }
    };
    for (i, node) in tape.nodes.iter().enumerate() {
        if !found[i].is_empty() {
            continue;
        }
        let args: Vec<MaybeBatched> = node.inputs().iter().map(|a| at(&found, a)).collect();
        if args.iter().any(|(_, b)| *b) {
            found[i] = node.stream().scope(|| rules::batch(node.op(), &args, n))?;
        }
    }
    Ok(outputs.iter().map(|y| at(&found, y)).collect())
}

/// `f` for every element along the `in_axes` of `inputs` at once; the results are stacked along the axes that
/// `out_axes` tells from their number. A result with `None` there must not depend on the element.
///
/// # Errors
/// `Value` when no input has a batch axis or a result without axis depends on the batch; `Shape` when sizes
/// of the batch differ or an axis is out of range; `InTrace` when `f` reads a value; whatever `f` gives.
pub fn vmap_arrays(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    in_axes: &[Axis],
    out_axes: impl FnOnce(usize) -> Result<Vec<Axis>>,
) -> Result<Vec<Array>> {
    const OP: &str = "vmap";
    if in_axes.len() != inputs.len() {
        return Err(Error::value(OP, format!("{} axes for {} arrays", in_axes.len(), inputs.len())));
    }
    let mut n = None;
    let mut front = Vec::with_capacity(inputs.len());
    for (k, (x, a)) in inputs.iter().zip(in_axes).enumerate() {
        let Some(a) = a else {
            front.push(x.clone());
            continue;
        };
        let a = axis(OP, *a, x.rank())?;
        let size = x.shape()[a];
        match n {
            None => n = Some((size, k)),
            Some((m, first)) if m != size => {
                let msg = format!("array {first} has {m} elements along its axis, array {k} has {size}");
                return Err(Error::shape(OP, msg));
            }
            Some(_) => {}
        }
        front.push(if a == 0 { x.clone() } else { x.moveaxis(a as i32, 0)? });
    }
    let Some((n, _)) = n else {
        return Err(Error::value(OP, "none of the arrays has an axis to map over"));
    };
    let flags: Vec<bool> = in_axes.iter().map(Option::is_some).collect();
    let results = trace(f, &front, &flags, n)?;
    let axes = out_axes(results.len())?;
    if axes.len() != results.len() {
        return Err(Error::value(OP, format!("{} axes for {} results", axes.len(), results.len())));
    }
    results
        .iter()
        .zip(axes)
        .enumerate()
        .map(|(k, (y, a))| match a {
            Some(a) => {
                let y = batched(y, n)?;
                match axis(OP, a, y.rank())? {
                    0 => Ok(y),
                    a => y.moveaxis(0, a as i32),
                }
            }
            None if y.1 => {
                Err(Error::value(OP, format!("result {k} depends on the element, but has no axis")))
            }
            None => Ok(y.0.clone()),
        })
        .collect()
}

/// A function that applies `f` to every element of a batch: `in_axes` says, for every array of the argument,
/// which axis is the batch, and `out_axes` where it goes in the results. One axis stands for all arrays.
///
/// # Errors
/// The function gives the errors of [`vmap_arrays`].
pub fn vmap<A: Tree, B: Tree>(
    f: impl Fn(&A) -> Result<B>,
    in_axes: impl Into<Axes>,
    out_axes: impl Into<Axes>,
) -> impl Fn(&A) -> Result<B> {
    let (in_axes, out_axes) = (in_axes.into(), out_axes.into());
    move |x| {
        let inputs = leaves(x);
        let mut value = None;
        let run = |m: &[Array]| -> Result<Vec<Array>> {
            let y = f(&rebuild(x, m)?)?;
            let flat = leaves(&y);
            value = Some(y);
            Ok(flat)
        };
        let flat = vmap_arrays(run, &inputs, &in_axes.of(inputs.len())?, |n| out_axes.of(n))?;
        let value = value.ok_or_else(|| Error::value("vmap", "the function was not called"))?;
        rebuild(&value, &flat)
    }
}

/// Axes of the arrays of a tree: one for all, or one for each in the order of the tree.
#[derive(Debug, Clone)]
pub enum Axes {
    /// The same for all.
    All(Axis),
    /// One for each array.
    Each(Vec<Axis>),
}

impl Axes {
    fn of(&self, n: usize) -> Result<Vec<Axis>> {
        match self {
            Axes::All(a) => Ok(vec![*a; n]),
            Axes::Each(v) if v.len() == n => Ok(v.clone()),
            Axes::Each(v) => Err(Error::value("vmap", format!("{} axes for {n} arrays", v.len()))),
        }
    }
}

impl From<i32> for Axes {
    fn from(a: i32) -> Axes {
        Axes::All(Some(a))
    }
}
impl From<Axis> for Axes {
    fn from(a: Axis) -> Axes {
        Axes::All(a)
    }
}
impl<const N: usize> From<[Axis; N]> for Axes {
    fn from(a: [Axis; N]) -> Axes {
        Axes::Each(a.to_vec())
    }
}
impl From<Vec<Axis>> for Axes {
    fn from(a: Vec<Axis>) -> Axes {
        Axes::Each(a)
    }
}
