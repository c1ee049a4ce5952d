//! Derivatives forward: from tangents of the arguments to those of the results.

use super::rules;
use super::tape::Tape;
use super::tree::{Tree, leaves, rebuild};
use super::vjp::{alike, filled, inexact};
use crate::trace::Trace;
use crate::{Array, Error, Result};
use smallvec::SmallVec;

/// Runs `f` on marked inputs and pushes tangents through to its results. `None` stands for zeros.
pub(super) fn push(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    inputs: &[Array],
    tangents: &[Option<Array>],
) -> Result<(Vec<Array>, Vec<Option<Array>>)> {
    let guard = Trace::begin();
    let marked: Vec<Array> = inputs
        .iter()
        .zip(tangents)
        .map(|(x, t)| if t.is_some() { x.marked(guard.trace()) } else { x.clone() })
        .collect();
    let outputs = f(&marked)?;
    let tape = Tape::of(&outputs, guard.trace());
    let pushed = walk(&tape, &marked, tangents, &outputs);
    guard.end(&tape.nodes);
    Ok((outputs, pushed?))
}

fn walk(
    tape: &Tape,
    marked: &[Array],
    tangents: &[Option<Array>],
    outputs: &[Array],
) -> Result<Vec<Option<Array>>> {
    let mut found: Vec<SmallVec<[Option<Array>; 1]>> = vec![SmallVec::new(); tape.nodes.len()];
    for (m, t) in marked.iter().zip(tangents) {
        if let (Some(i), Some(t)) = (tape.place(m), t) {
            found[i] = SmallVec::from_iter([Some(t.clone())]);
        }
    }
    let at = |found: &[SmallVec<[Option<Array>; 1]>], a: &Array| {
        tape.place(a).and_then(|i| found[i].get(a.out()).cloned().flatten())
    };
    for (i, node) in tape.nodes.iter().enumerate() {
        if !found[i].is_empty() {
            continue;
        }
        let inputs = node.inputs().clone();
        let arrived: SmallVec<[Option<Array>; 4]> = inputs.iter().map(|a| at(&found, a)).collect();
        if arrived.iter().all(Option::is_none) {
            continue;
        }
        let outs: SmallVec<[Array; 1]> =
            (0..node.outs().len()).map(|k| Array::of_node(node.clone(), k)).collect();
        let pushed = node.stream().scope(|| rules::jvp(node.op(), &inputs, &outs, &arrived))?;
        found[i] = pushed.into_iter().collect();
    }
    Ok(outputs.iter().map(|y| at(&found, y)).collect())
}

/// Values of `f` at `primals`, and their tangents for given tangents of `primals`: the product of the
/// Jacobian with `tangents`.
///
/// # Errors
/// `Dtype` when a primal is not a float or complex number; `Shape` or `Dtype` when a tangent is not like its
/// primal; whatever `f` gives.
pub fn jvp_arrays(
    f: impl FnOnce(&[Array]) -> Result<Vec<Array>>,
    primals: &[Array],
    tangents: &[Array],
) -> Result<(Vec<Array>, Vec<Array>)> {
    inexact("jvp", primals)?;
    alike("jvp", "tangent", primals, tangents)?;
    let given: Vec<Option<Array>> = tangents.iter().cloned().map(Some).collect();
    let (values, pushed) = push(f, primals, &given)?;
    let pushed = filled(pushed, &values)?;
    Ok((values, pushed))
}

/// As [`jvp_arrays`], for trees of arrays.
///
/// # Errors
/// As [`jvp_arrays`].
pub fn jvp<A: Tree, B: Tree>(f: impl FnOnce(&A) -> Result<B>, primals: &A, tangents: &A) -> Result<(B, B)> {
    let mut value = None;
    let (flat, pushed) = jvp_arrays(
        |x| {
            let y = f(&rebuild(primals, x)?)?;
            let flat = leaves(&y);
            value = Some(y);
            Ok(flat)
        },
        &leaves(primals),
        &leaves(tangents),
    )?;
    let value = value.ok_or_else(|| Error::value("jvp", "the function was not called"))?;
    Ok((rebuild(&value, &flat)?, rebuild(&value, &pushed)?))
}
