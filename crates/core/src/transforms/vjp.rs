//! Derivatives backward: from cotangents of the results to those of the arguments.

use super::rules;
use super::tape::Tape;
use super::tree::{Tree, leaves, rebuild};
use crate::trace::Trace;
use crate::{Array, Error, Result};
use smallvec::SmallVec;

/// Runs `f` on marked inputs, asks for cotangents of its results and pulls them back to the `wanted` inputs.
/// `None` stands for zeros, on both sides.
pub(super) fn pull(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    wanted: &[bool],
    cotangents: impl FnOnce(&[Array]) -> Result<Vec<Option<Array>>>,
) -> Result<(Vec<Array>, Vec<Option<Array>>)> {
    let guard = Trace::begin();
    let marked: Vec<Array> = inputs
        .iter()
        .zip(wanted)
        .map(|(x, &w)| if w { x.marked(guard.trace()) } else { x.clone() })
        .collect();
    let outputs = f(&marked)?;
    let seeds = cotangents(&outputs)?;
    let tape = Tape::of(&outputs, guard.trace());
    let pulled = walk(&tape, &marked, wanted, &outputs, seeds);
    guard.end(&tape.nodes);
    Ok((outputs, pulled?))
}

fn walk(
    tape: &Tape,
    marked: &[Array],
    wanted: &[bool],
    outputs: &[Array],
    seeds: Vec<Option<Array>>,
) -> Result<Vec<Option<Array>>> {
    let n = tape.nodes.len();
    let mut is_mark = vec![false; n];
    for (a, _) in marked.iter().zip(wanted).filter(|(_, w)| **w) {
        if let Some(i) = tape.place(a) {
            is_mark[i] = true;
        }
    }
    let mut reaches = is_mark.clone();
    for (i, node) in tape.nodes.iter().enumerate() {
        if !reaches[i] {
            reaches[i] = node.inputs().iter().any(|a| tape.place(a).is_some_and(|j| reaches[j]));
        }
    }
    let mut found: Vec<SmallVec<[Option<Array>; 1]>> = vec![SmallVec::new(); n];
    let arrive = |found: &mut Vec<SmallVec<[Option<Array>; 1]>>, a: &Array, c: Array| -> Result<()> {
        let Some(i) = tape.place(a).filter(|&i| reaches[i]) else { return Ok(()) };
        if found[i].is_empty() {
            found[i].resize(tape.nodes[i].outs().len(), None);
        }
        let slot = &mut found[i][a.out()];
        *slot = rules::add(slot.take(), Some(c))?;
        Ok(())
    };
    for (y, c) in outputs.iter().zip(seeds) {
        if let Some(c) = c {
            arrive(&mut found, y, c)?;
        }
    }
    for i in (0..n).rev() {
        let node = &tape.nodes[i];
        if !reaches[i] || found[i].is_empty() || is_mark[i] {
            continue;
        }
        let cotangents = std::mem::take(&mut found[i]);
        let inputs = node.inputs().clone();
        let wants: SmallVec<[bool; 4]> = inputs
            .iter()
            .map(|a| a.dtype().is_inexact() && tape.place(a).is_some_and(|j| reaches[j]))
            .collect();
        if !wants.contains(&true) {
            continue;
        }
        let outs: SmallVec<[Array; 1]> =
            (0..node.outs().len()).map(|k| Array::of_node(node.clone(), k)).collect();
        let pulled = node.stream().scope(|| rules::vjp(node.op(), &inputs, &outs, &cotangents, &wants))?;
        for (a, c) in inputs.iter().zip(pulled) {
            if let Some(c) = c {
                arrive(&mut found, a, c)?;
            }
        }
    }
    Ok(marked
        .iter()
        .zip(wanted)
        .map(|(m, &w)| {
            let i = tape.place(m).filter(|_| w)?;
            found[i].first().cloned().flatten()
        })
        .collect())
}

/// Values of `f` at `primals`, and the cotangents of `primals` for given cotangents of the values: the
/// product of `cotangents` with the Jacobian.
///
/// # Errors
/// `Dtype` when a primal is not a float or complex number; `Shape` or `Dtype` when a cotangent is not like
/// its value; whatever `f` gives.
pub fn vjp_arrays(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    cotangents: &[Array],
) -> Result<(Vec<Array>, Vec<Array>)> {
    inexact("vjp", primals)?;
    let wanted = vec![true; primals.len()];
    let (values, pulled) = pull(f, primals, &wanted, |outputs| {
        alike("vjp", "cotangents", outputs, cotangents)?;
        Ok(cotangents.iter().cloned().map(Some).collect())
    })?;
    Ok((values, filled(pulled, primals)?))
}

/// As [`vjp_arrays`], for trees of arrays.
///
/// # Errors
/// As [`vjp_arrays`].
pub fn vjp<A: Tree, B: Tree>(f: impl FnOnce(&A) -> Result<B>, primals: &A, cotangents: &B) -> Result<(B, A)> {
    let mut value = None;
    let (flat, pulled) = vjp_arrays(
        |x| {
            let y = f(&rebuild(primals, x)?)?;
            let flat = leaves(&y);
            value = Some(y);
            Ok(flat)
        },
        &leaves(primals),
        &leaves(cotangents),
    )?;
    let value = value.ok_or_else(|| Error::value("vjp", "the function was not called"))?;
    Ok((rebuild(&value, &flat)?, rebuild(primals, &pulled)?))
}

/// A function's value that can be differentiated: a scalar, or a pair of a scalar and further arrays that
/// come along.
pub trait Loss: Tree {
    /// The scalar.
    fn loss(&self) -> &Array;
}

impl Loss for Array {
    fn loss(&self) -> &Array {
        self
    }
}

impl<T: Tree> Loss for (Array, T) {
    fn loss(&self) -> &Array {
        &self.0
    }
}

/// A function that gives the gradient of `f`, a scalar function of a tree of float arrays.
///
/// ```
/// # use olivine_core::{Array, transforms::grad};
/// let slope = grad(|x: &Array| x.square()?.sum(&[], false));
/// # let _ = slope;
/// ```
///
/// The function gives what [`value_and_grad`] gives without the value.
pub fn grad<A: Tree, L: Loss>(f: impl Fn(&A) -> Result<L>) -> impl Fn(&A) -> Result<A> {
    let both = value_and_grad(f);
    move |x| both(x).map(|(_, g)| g)
}

/// A function that gives the value and the gradient of `f`, which takes a tree of float arrays and gives a
/// scalar, or a scalar with auxiliary arrays. Arrays of other types in the tree have gradients of zero.
///
/// # Errors
/// The function gives `Shape` when the loss is not a scalar, `Dtype` when it is not a real float.
pub fn value_and_grad<A: Tree, L: Loss>(f: impl Fn(&A) -> Result<L>) -> impl Fn(&A) -> Result<(L, A)> {
    move |x| {
        let primals = leaves(x);
        let wanted: Vec<bool> = primals.iter().map(|a| a.dtype().is_inexact()).collect();
        if !wanted.contains(&true) {
            return Err(Error::dtype("grad", "none of the arguments is a float or complex array"));
        }
        let mut value = None;
        let run = |m: &[Array]| -> Result<Vec<Array>> {
            let y = f(&rebuild(x, m)?)?;
            let flat = leaves(&y);
            value = Some(y);
            Ok(flat)
        };
        let (flat, pulled) = pull(run, &primals, &wanted, |outputs| {
            let loss = &outputs[0];
            if loss.size() != 1 || !loss.dtype().is_float() {
                let msg =
                    format!("the loss is a real scalar, got {} of shape {}", loss.dtype(), loss.shape());
                return Err(Error::shape("grad", msg));
            }
            let mut seeds = vec![None; outputs.len()];
            seeds[0] = Some(loss.full_like(1.0)?);
            Ok(seeds)
        })?;
        let value = value.ok_or_else(|| Error::value("grad", "the function was not called"))?;
        Ok((rebuild(&value, &flat)?, rebuild(x, &filled(pulled, &primals)?)?))
    }
}

/// Zeros for what nothing arrived at.
pub(super) fn filled(found: Vec<Option<Array>>, like: &[Array]) -> Result<Vec<Array>> {
    found.into_iter().zip(like).map(|(c, x)| c.map_or_else(|| x.full_like(0.0), Ok)).collect()
}

pub(super) fn inexact(op: &'static str, arrays: &[Array]) -> Result<()> {
    match arrays.iter().position(|a| !a.dtype().is_inexact()) {
        Some(i) => {
            Err(Error::dtype(op, format!("argument {i} is {}; floats have derivatives", arrays[i].dtype())))
        }
        None => Ok(()),
    }
}

/// Checks that there is one of `given` for each of `like`, of its shape and type.
pub(super) fn alike(op: &'static str, what: &str, like: &[Array], given: &[Array]) -> Result<()> {
    if like.len() != given.len() {
        return Err(Error::value(op, format!("{} {what} for {} arrays", given.len(), like.len())));
    }
    for (i, (a, g)) in like.iter().zip(given).enumerate() {
        if a.shape() != g.shape() || a.dtype() != g.dtype() {
            let msg = format!(
                "{what} {i} is {} of shape {}, the array is {} of shape {}",
                g.dtype(),
                g.shape(),
                a.dtype(),
                a.shape()
            );
            return Err(Error::shape(op, msg));
        }
    }
    Ok(())
}
