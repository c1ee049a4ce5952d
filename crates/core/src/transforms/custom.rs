//! Functions with derivatives of their own, and functions that are computed again instead of kept.

use super::tree::{Tree, leaves, rebuild};
use super::vjp::{filled, pull};
use super::vmap::{Axis, vmap_arrays};
use crate::eval::EvalCtx;
use crate::graph::program::Program;
use crate::op::{Cotangents, CustomOp, CustomRef, Meta, Metas, Op};
use crate::ops::depends;
use crate::trace::Trace;
use crate::{Array, Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// A rule on flat lists of arrays.
type Rule = Arc<dyn Fn(&[Array]) -> Result<Vec<Array>> + Send + Sync>;
/// Results for a batch, whose axis is in front of the flagged arguments and of all results.
type BatchRule = Arc<dyn Fn(&[Array], &[bool]) -> Result<Vec<Array>> + Send + Sync>;

/// Arguments of a function and then its results, which it passes on; transforms take its rules instead of going through
/// what the results are made of.
struct Hooked {
    arguments: usize,
    /// From arguments, cotangents and results to cotangents of the arguments.
    vjp: Option<Rule>,
    /// From arguments and tangents to tangents of the results.
    jvp: Option<Rule>,
    batch: Option<BatchRule>,
}

impl Hooked {
    fn apply(self, arguments: &[Array], results: &[Array]) -> Result<Vec<Array>> {
        let all: Vec<Array> = arguments.iter().chain(results).cloned().collect();
        Ok(Array::from_op_multi(Op::Custom(CustomRef(Arc::new(self))), &all)?.into_vec())
    }
}

/// Results of a rule, as many as there are `like`.
fn counted(name: &'static str, found: Vec<Array>, like: &[Array]) -> Result<Vec<Array>> {
    super::vjp::alike(name, "derivatives", like, &found)?;
    Ok(found)
}

impl CustomOp for Hooked {
    fn name(&self) -> &'static str {
        "custom_function"
    }

    fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        Ok(inputs[self.arguments..].iter().map(|&m| m.clone()).collect())
    }

    fn eval(&self, _: &mut EvalCtx<'_>) -> Option<Result<()>> {
        None
    }

    fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        Some(Ok(inputs[self.arguments..].to_vec()))
    }

    fn jvp(
        &self,
        inputs: &[Array],
        outputs: &[Array],
        tangents: &[Option<Array>],
    ) -> Option<Result<Cotangents>> {
        let (arguments, given) = (&inputs[..self.arguments], &tangents[..self.arguments]);
        let Some(rule) = &self.jvp else {
            return Some(Ok(tangents[self.arguments..].iter().cloned().collect()));
        };
        let run = || {
            let mut all = arguments.to_vec();
            all.extend(filled(given.to_vec(), arguments)?);
            let found = counted("jvp of a custom function", rule(&all)?, outputs)?;
            Ok(found.into_iter().map(Some).collect())
        };
        Some(run())
    }

    fn vjp(
        &self,
        inputs: &[Array],
        outputs: &[Array],
        cotangents: &[Option<Array>],
        _: &[bool],
    ) -> Option<Result<Cotangents>> {
        let arguments = &inputs[..self.arguments];
        let mut back: Cotangents = SmallVec::from_elem(None, inputs.len());
        let Some(rule) = &self.vjp else {
            back[self.arguments..].clone_from_slice(cotangents);
            return Some(Ok(back));
        };
        let run = || {
            let mut all = arguments.to_vec();
            all.extend(filled(cotangents.to_vec(), outputs)?);
            all.extend_from_slice(outputs);
            let found = counted("vjp of a custom function", rule(&all)?, arguments)?;
            for (slot, c) in back.iter_mut().zip(found) {
                *slot = Some(c);
            }
            Ok(back)
        };
        Some(run())
    }

    fn batch(&self, inputs: &[Array], flags: &[bool], n: usize) -> Option<Result<Vec<Array>>> {
        Some(self.batched(inputs, flags, n))
    }
}

impl Hooked {
    fn batched(&self, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
        let whole = |i: usize| super::rules::batched(&(inputs[i].clone(), flags[i]), n);
        let k = self.arguments;
        if let Some(rule) = &self.batch {
            return rule(&inputs[..k], &flags[..k]);
        }
        let results = (k..inputs.len()).map(whole).collect::<Result<Vec<_>>>()?;
        // The rules of the batch: those of the elements, one for each.
        let axes = |flags: &[bool], more: usize| -> Vec<Axis> {
            flags.iter().map(|&f| f.then_some(0)).chain(std::iter::repeat_n(Some(0), more)).collect()
        };
        let flags = flags[..k].to_vec();
        let vjp = self.vjp.clone().map(|rule| -> Rule {
            let (flags, axes) = (flags.clone(), axes(&flags, 2 * results.len()));
            Arc::new(move |all| {
                let each = vmap_arrays(|x| rule(x), all, &axes, |m| Ok(vec![Some(0); m]))?;
                // An argument that all elements share gets the sum of what they have to say.
                each.into_iter()
                    .zip(&flags)
                    .map(|(c, &f)| if f { Ok(c) } else { c.sum(&[0], false) })
                    .collect()
            })
        });
        let jvp = self.jvp.clone().map(|rule| -> Rule {
            let twice: Vec<bool> = flags.iter().chain(&flags).copied().collect();
            let axes = axes(&twice, 0);
            Arc::new(move |all| vmap_arrays(|x| rule(x), all, &axes, |m| Ok(vec![Some(0); m])))
        });
        Hooked { arguments: k, vjp, jvp, batch: None }.apply(&inputs[..k], &results)
    }
}

/// A function with rules of its own for some transforms; see [`custom_function`].
pub struct CustomFunction<A, B, F> {
    f: F,
    vjp: Option<TreeRule3<A, B>>,
    jvp: Option<TreeRule2<A, B>>,
    vmap: Option<TreeBatch<A, B>>,
}

type TreeRule3<A, B> = Arc<dyn Fn(&A, &B, &B) -> Result<A> + Send + Sync>;
type TreeRule2<A, B> = Arc<dyn Fn(&A, &A) -> Result<B> + Send + Sync>;
type TreeBatch<A, B> = Arc<dyn Fn(&A, &[bool]) -> Result<B> + Send + Sync>;

/// `f`, for which rules of transforms can be given. Without a rule a transform goes through `f`.
///
/// Only arguments get what a rule of [`CustomFunction::vjp`] gives; arrays that `f` captures get nothing from it.
pub fn custom_function<A, B, F>(f: F) -> CustomFunction<A, B, F>
where
    A: Tree + Send + Sync + 'static,
    B: Tree + Send + Sync + 'static,
    F: Fn(&A) -> Result<B>,
{
    CustomFunction { f, vjp: None, jvp: None, vmap: None }
}

/// One tree from the front of a list of arrays.
fn take<T: Tree>(like: &T, from: &mut &[Array]) -> Result<T> {
    let n = leaves(like).len();
    let Some((head, rest)) = from.split_at_checked(n) else {
        return Err(Error::value("custom_function", "there are too few arrays"));
    };
    *from = rest;
    rebuild(like, head)
}

impl<A, B, F> CustomFunction<A, B, F>
where
    A: Tree + Send + Sync + 'static,
    B: Tree + Send + Sync + 'static,
    F: Fn(&A) -> Result<B>,
{
    /// Backward: from arguments, cotangents of the results, and the results, to cotangents of the arguments.
    pub fn vjp(mut self, rule: impl Fn(&A, &B, &B) -> Result<A> + Send + Sync + 'static) -> Self {
        self.vjp = Some(Arc::new(rule));
        self
    }

    /// Forward: from arguments and their tangents to tangents of the results.
    pub fn jvp(mut self, rule: impl Fn(&A, &A) -> Result<B> + Send + Sync + 'static) -> Self {
        self.jvp = Some(Arc::new(rule));
        self
    }

    /// For a batch: from arguments, those whose flag is set with the batch axis in front, to results that all have it
    /// there.
    pub fn vmap(mut self, rule: impl Fn(&A, &[bool]) -> Result<B> + Send + Sync + 'static) -> Self {
        self.vmap = Some(Arc::new(rule));
        self
    }

    /// The function at `x`.
    ///
    /// # Errors
    /// Whatever the function gives.
    pub fn call(&self, x: &A) -> Result<B> {
        let y = (self.f)(x)?;
        // What rules take are trees like these.
        let (a, b) = (bare(x), bare(&y));
        let vjp = self.vjp.clone().map(|rule| -> Rule {
            let (a, b) = (a.clone(), b.clone());
            Arc::new(move |mut all| {
                let (x, c, y) = (take(&a, &mut all)?, take(&b, &mut all)?, take(&b, &mut all)?);
                rule(&x, &c, &y).map(|x| leaves(&x))
            })
        });
        let jvp = self.jvp.clone().map(|rule| -> Rule {
            let a = a.clone();
            Arc::new(move |mut all| {
                let (x, t) = (take(&a, &mut all)?, take(&a, &mut all)?);
                rule(&x, &t).map(|y| leaves(&y))
            })
        });
        let batch = self.vmap.clone().map(|rule| -> BatchRule {
            let a = a.clone();
            Arc::new(move |mut all, flags| rule(&take(&a, &mut all)?, flags).map(|y| leaves(&y)))
        });
        let (inputs, results) = (leaves(x), leaves(&y));
        let hooked = Hooked { arguments: inputs.len(), vjp, jvp, batch };
        rebuild(&y, &hooked.apply(&inputs, &results)?)
    }
}

/// The tree with placeholders for arrays, so that a rule that remembers it keeps no values and no graph.
fn bare<T: Tree>(tree: &T) -> T {
    let guard = Trace::begin();
    let empty = |a: &Array| Ok(Array::placeholder("custom_function", a.meta().clone(), guard.trace()));
    tree.map(&mut { empty }).unwrap_or_else(|_| tree.clone())
}

/// `f`, of which derivatives keep only the arguments: what lies between is computed again on the way back. This trades
/// time for memory. Arrays that `f` captures get their gradients, too.
///
/// # Errors
/// The function gives `InTrace` where `f` reads a value, and whatever `f` gives.
pub fn checkpoint<A: Tree, B: Tree>(f: impl Fn(&A) -> Result<B>) -> impl Fn(&A) -> Result<B> {
    move |x| {
        let inputs = leaves(x);
        let guard = Trace::begin();
        let marked: Vec<Array> = inputs
            .iter()
            .map(|a| Array::placeholder("checkpoint", a.meta().clone(), guard.trace()))
            .collect();
        let like = f(&rebuild(x, &marked)?)?;
        let mut program = Program::capture(&marked, &leaves(&like), guard.trace());
        drop(guard);
        let captured = program.open(|a| a.node().is_traced());
        let arguments: Vec<Array> = inputs.iter().chain(&captured).cloned().collect();
        let results = program.emit(&arguments);
        let again = program.clone();
        let n = arguments.len();
        let vjp: Rule = Arc::new(move |all| {
            let (primals, rest) = all.split_at(n);
            let cotangents = &rest[..rest.len() / 2];
            let wanted: Vec<bool> = primals.iter().map(|a| a.dtype().is_inexact()).collect();
            // Nothing is computed again before the cotangents are there, and nothing of it is taken for equal to what
            // was computed before.
            let primals = depends(primals, cotangents)?;
            let seeds = cotangents.iter().map(|c| c.dtype().is_inexact().then(|| c.clone())).collect();
            let (_, pulled) = pull(|x| Ok(again.emit(x)), &primals, &wanted, |_| Ok(seeds))?;
            filled(pulled, &primals)
        });
        let hooked = Hooked { arguments: n, vjp: Some(vjp), jvp: None, batch: None };
        rebuild(&like, &hooked.apply(&arguments, &results)?)
    }
}
