//! Which sizes of a function's arguments are free, and how its operations depend on them: found by tracing it at
//! several sizes and comparing.

use super::file::{Dim, Step, StoredInput, StoredTrace};
use super::fit::{Fit, Sample};
use crate::dtype::Scalar;
use crate::graph::program::Program;
use crate::op::{Meta, Op};
use crate::trace::Trace;
use crate::{Array, Error, Result, random};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::Arc;

const NAME: &str = "export_function";

/// A function of a flat list.
pub(super) type Function<'f> = &'f dyn Fn(&[Array]) -> Result<Vec<Array>>;

/// A function traced at some sizes.
pub(super) struct Traced {
    pub program: Program,
    /// The default random key is the last argument and the last result.
    pub draws: bool,
}

/// The program of `f` for arguments like `metas`.
pub(super) fn trace(f: Function<'_>, metas: &[Meta]) -> Result<Traced> {
    let guard = Trace::begin();
    let stand_in = |m: &Meta| Array::placeholder(NAME, m.clone(), guard.trace());
    let mut inputs: Vec<Array> = metas.iter().map(stand_in).collect();
    let key = stand_in(random::key(0)?.meta());
    let lent = random::lend_default_key(key.clone());
    let mut outputs = f(&inputs)?;
    let after = lent.give_back().filter(|after| !Arc::ptr_eq(after.node(), key.node()));
    let draws = after.is_some();
    if let Some(after) = after {
        inputs.push(key);
        outputs.push(after);
    }
    let program = Program::exportable(&inputs, &outputs, guard.trace());
    drop(guard);
    if !program.is_closed() {
        let msg = "the function captures an argument of another function that is being traced";
        return Err(Error::value(NAME, msg));
    }
    Ok(Traced { program: program.decomposed()?, draws })
}

/// The trace of `f` as a file holds it, for arguments of exactly these sizes.
pub(super) fn fixed(
    f: Function<'_>,
    metas: &[Meta],
    constants: &mut dyn FnMut(&Array) -> u32,
) -> Result<StoredTrace> {
    let t = trace(f, metas)?;
    let shapes = metas.iter().map(|m| m.shape.iter().map(|&d| Dim::Fixed(d)).collect()).collect();
    let steps = t.program.steps.iter().map(|s| Step::plain(s.op.clone(), &s.inputs)).collect();
    Ok(stored(&t, metas, shapes, Vec::new(), steps, constants))
}

fn stored(
    t: &Traced,
    metas: &[Meta],
    shapes: Vec<Vec<Dim>>,
    sizes: Vec<(usize, usize)>,
    steps: Vec<Step>,
    constants: &mut dyn FnMut(&Array) -> u32,
) -> StoredTrace {
    StoredTrace {
        inputs: metas
            .iter()
            .zip(shapes)
            .map(|(m, shape)| StoredInput { name: None, dtype: m.dtype, shape })
            .collect(),
        sizes,
        constants: t.program.constants.iter().map(constants).collect(),
        steps,
        outputs: t.program.outputs.clone(),
        draws: t.draws,
    }
}

/// An axis of an argument.
type Place = (usize, usize);

/// One free size: the axes that share it, its value in the example, and by multiples of what it can move.
struct Free {
    places: Vec<Place>,
    base: usize,
    step: usize,
}

/// Traces of one function at several sizes.
struct Probe<'f> {
    f: Function<'f>,
    metas: &'f [Meta],
    free: Vec<Free>,
    base: Traced,
    /// By which sizes are moved.
    moved: BTreeMap<u64, Option<Traced>>,
}

impl Probe<'_> {
    fn metas_at(&self, sizes: &[usize]) -> Vec<Meta> {
        let mut metas = self.metas.to_vec();
        for (free, &size) in self.free.iter().zip(sizes) {
            for &(i, a) in &free.places {
                metas[i].shape = metas[i].shape.with(a, size);
            }
        }
        metas
    }

    /// The function at other sizes, unless it does something else there.
    fn at(&self, sizes: &[usize]) -> Option<Traced> {
        self.outcome(sizes).ok().flatten()
    }

    /// As [`Probe::at`]; an error is one of the function.
    fn outcome(&self, sizes: &[usize]) -> Result<Option<Traced>> {
        let t = trace(self.f, &self.metas_at(sizes))?;
        Ok(same_form(&self.base, &t).then_some(t))
    }

    /// Sizes with those of `mask` moved once.
    fn sizes(&self, mask: u64) -> Vec<usize> {
        self.free
            .iter()
            .enumerate()
            .map(|(k, f)| f.base + if mask >> k & 1 == 1 { f.step } else { 0 })
            .collect()
    }

    fn masked(&mut self, mask: u64) -> Option<&Traced> {
        if mask == 0 {
            return Some(&self.base);
        }
        if !self.moved.contains_key(&mask) {
            let t = self.at(&self.sizes(mask));
            self.moved.insert(mask, t);
        }
        self.moved.get(&mask).and_then(Option::as_ref)
    }

    /// Makes one size of axes if the function works at another value of it.
    fn try_free(&mut self, places: &[Place]) -> bool {
        let Some(&(i, a)) = places.first() else { return false };
        let base = self.metas[i].shape[a];
        // A function that refuses the next size may need an even one, or another multiple.
        for step in STEPS.into_iter().chain([base.max(2)]) {
            self.free.push(Free { places: places.to_vec(), base, step });
            let mask = 1 << (self.free.len() - 1);
            let mut further = self.sizes(mask);
            further[self.free.len() - 1] += step;
            // One other size alone may be a coincidence, such as that of an axis it is broadcast to.
            match self.outcome(&self.sizes(mask)).and_then(|t| Ok((t, self.outcome(&further)?))) {
                Ok((Some(t), Some(_))) => {
                    self.moved.insert(mask, Some(t));
                    return true;
                }
                // It does something else there, so who knows where else.
                Ok(_) => {
                    self.free.pop();
                    return false;
                }
                Err(_) => {
                    self.free.pop();
                }
            }
        }
        false
    }
}

/// Multiples that sizes may have to be of.
const STEPS: [usize; 6] = [1, 2, 3, 4, 6, 8];

/// Free sizes that a trace may have.
const MOST: usize = 60;

/// The trace of `f` for arguments of many sizes: every axis whose size `f` does not depend on is free, where need be
/// together with others of the same size.
///
/// # Errors
/// Whatever `f` gives; `Value` when a parameter of an operation depends on sizes in a way that is neither linear in each
/// of them nor a power.
pub(super) fn shapeless(
    f: Function<'_>,
    metas: &[Meta],
    constants: &mut dyn FnMut(&Array) -> u32,
) -> Result<StoredTrace> {
    let base = trace(f, metas)?;
    let mut probe = Probe { f, metas, free: Vec::new(), base, moved: BTreeMap::new() };
    let all: Vec<Place> =
        metas.iter().enumerate().flat_map(|(i, m)| (0..m.shape.rank()).map(move |a| (i, a))).collect();
    let mut bound: BTreeMap<usize, Vec<Place>> = BTreeMap::new();
    for &(i, a) in &all {
        if probe.free.len() >= MOST || !probe.try_free(&[(i, a)]) {
            bound.entry(metas[i].shape[a]).or_default().push((i, a));
        }
    }
    for places in bound.values().filter(|p| p.len() > 1) {
        if probe.free.len() < MOST {
            probe.try_free(places);
        }
    }
    let shapes = shapes(metas, &probe.free);
    let sizes = probe.free.iter().map(|f| (f.base, f.step)).collect();
    let steps = steps(&mut probe)?;
    Ok(stored(&probe.base, metas, shapes, sizes, steps, constants))
}

fn shapes(metas: &[Meta], free: &[Free]) -> Vec<Vec<Dim>> {
    let mut shapes: Vec<Vec<Dim>> =
        metas.iter().map(|m| m.shape.iter().map(|&d| Dim::Fixed(d)).collect()).collect();
    for (k, f) in free.iter().enumerate() {
        f.places.iter().for_each(|&(i, a)| shapes[i][a] = Dim::Size(k as u32));
    }
    shapes
}

/// The operations with their parameters as functions of the free sizes. Sizes that count by halves or other parts get
/// larger steps.
fn steps(probe: &mut Probe<'_>) -> Result<Vec<Step>> {
    loop {
        match attempt(probe)? {
            Ok(steps) => return Ok(steps),
            Err(unfit) if widened(probe, &unfit) => {}
            Err(Unfit { step, template, .. }) => {
                let msg = format!(
                    "a parameter of step {step} ({}) depends on the sizes of the arguments in a way that is neither \
                     linear in each of them nor a power: {template}; export the function with fixed sizes",
                    probe.base.program.steps[step].op.name()
                );
                return Err(Error::value(NAME, msg));
            }
        }
    }
}

/// A number that follows no rule.
struct Unfit {
    step: usize,
    template: Json,
    path: String,
}

/// Makes the step of one size larger along which the number is not even; whether there was one.
fn widened(probe: &mut Probe<'_>, unfit: &Unfit) -> bool {
    let base: Vec<usize> = probe.free.iter().map(|f| f.base).collect();
    for k in 0..probe.free.len() {
        let step = probe.free[k].step;
        let mut values = Vec::new();
        for j in 0..5 {
            let mut sizes = base.clone();
            sizes[k] += j * step;
            let Some(t) = probe.at(&sizes) else { break };
            let v = json(&t.program.steps[unfit.step].op)
                .ok()
                .and_then(|j| j.pointer(&unfit.path).and_then(number));
            values.extend(v);
        }
        let even = values.windows(3).all(|w| w[2] - w[1] == w[1] - w[0]);
        if !even && let Some(&wider) = STEPS.iter().find(|&&s| s > step) {
            probe.free[k].step = wider;
            probe.moved.retain(|mask, _| mask >> k & 1 == 0);
            if probe.masked(1 << k).is_some() {
                return true;
            }
        }
    }
    false
}

/// One try of [`steps`].
fn attempt(probe: &mut Probe<'_>) -> Result<Result<Vec<Step>, Unfit>> {
    // All sizes at once, to confirm what was found from moving some.
    let mut more: Vec<(Vec<usize>, Traced)> = Vec::new();
    for times in [2, 3, 5] {
        let far: Vec<usize> = probe.free.iter().map(|f| f.base + times * f.step).collect();
        if !far.is_empty()
            && more.len() < 2
            && let Some(t) = probe.at(&far)
        {
            more.push((far, t));
        }
    }
    if more.is_empty() && !probe.free.is_empty() {
        let msg = "the function does the same at other sizes of each argument, but not of all together; export it \
                   with fixed sizes";
        return Err(Error::value(NAME, msg));
    }
    let (n, free) = (probe.base.program.steps.len(), probe.free.len());
    let mut steps = Vec::with_capacity(n);
    let moved: Vec<u64> = probe.moved.iter().filter(|(_, t)| t.is_some()).map(|(m, _)| *m).collect();
    for i in 0..n {
        let op = probe.base.program.steps[i].op.clone();
        let inputs = probe.base.program.steps[i].inputs.clone();
        let changes = |t: &Traced| t.program.steps[i].op != op;
        let varies = more.iter().any(|(_, t)| changes(t))
            || moved.iter().any(|m| probe.moved[m].as_ref().is_some_and(changes));
        if !varies {
            steps.push(Step::plain(op, &inputs));
            continue;
        }
        let template = json(&op)?;
        let mut leaves = Vec::new();
        numbers(&template, &mut String::new(), &mut leaves);
        let far: Vec<Json> = more.iter().map(|(_, t)| json(&t.program.steps[i].op)).collect::<Result<_>>()?;
        let mut fits = Vec::new();
        for path in leaves {
            let of = |j: &Json| j.pointer(&path).and_then(number);
            let first = of(&template);
            let samples: Vec<Sample<'_>> = more
                .iter()
                .zip(&far)
                .filter_map(|((sizes, _), j)| Some(Sample { sizes, value: of(j)? }))
                .collect();
            let mut at = |mask: u64| {
                let sizes = probe.sizes(mask);
                let op = &probe.masked(mask)?.program.steps[i].op;
                Some((sizes, of(&json(op).ok()?)?))
            };
            let mut alike = samples.iter().all(|s| Some(s.value) == first);
            for m in &moved {
                alike &= at(*m).map(|(_, v)| v) == first;
            }
            if alike {
                continue;
            }
            let dtype = scalar(template.pointer(&path)).map(|s| s.dtype());
            let same = |a: f64, b: f64| match dtype {
                Some(d) => Scalar::from_f64(a, d) == Scalar::from_f64(b, d),
                None => a == b,
            };
            let Some(fit) = Fit::find(free, &mut at, &samples, &same) else {
                return Ok(Err(Unfit { step: i, template, path }));
            };
            fits.push((path, fit));
        }
        steps.push(Step::open(template, fits, &inputs));
    }
    Ok(Ok(steps))
}

pub(super) fn json(op: &Op) -> Result<Json> {
    serde_json::to_value(op).map_err(|e| Error::value(NAME, format!("{op:?} cannot be stored: {e}")))
}

/// Paths of the numbers in an operation.
fn numbers(j: &Json, path: &mut String, out: &mut Vec<String>) {
    if number(j).is_some() {
        return out.push(path.clone());
    }
    let len = path.len();
    let mut below = |key: &str, v: &Json| {
        path.push('/');
        path.push_str(key);
        numbers(v, path, out);
        path.truncate(len);
    };
    match j {
        Json::Array(all) => all.iter().enumerate().for_each(|(i, v)| below(&i.to_string(), v)),
        Json::Object(all) => all.iter().for_each(|(k, v)| below(k, v)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

/// The scalar that an object of a type and bits is.
pub(super) fn scalar(j: Option<&Json>) -> Option<Scalar> {
    match j {
        Some(j @ Json::Object(o)) if o.contains_key("bits") => serde_json::from_value(j.clone()).ok(),
        Some(_) | None => None,
    }
}

fn number(j: &Json) -> Option<f64> {
    match j {
        Json::Number(n) => n.as_f64(),
        Json::Object(_) => scalar(Some(j)).map(|s| s.to_f64()),
        Json::Null | Json::Bool(_) | Json::String(_) | Json::Array(_) => None,
    }
}

/// Whether two traces differ in nothing but numbers.
fn same_form(a: &Traced, b: &Traced) -> bool {
    let (p, q) = (&a.program, &b.program);
    a.draws == b.draws
        && p.outputs == q.outputs
        && p.steps.len() == q.steps.len()
        && p.constants.len() == q.constants.len()
        && p.steps.iter().zip(&q.steps).all(|(s, t)| {
            s.inputs == t.inputs
                && (s.op == t.op || matches!((json(&s.op), json(&t.op)), (Ok(x), Ok(y)) if alike(&x, &y)))
        })
        && p.constants.iter().zip(&q.constants).all(|(x, y)| same_constant(x, y))
}

fn alike(x: &Json, y: &Json) -> bool {
    match (x, y) {
        (Json::Number(_), Json::Number(_)) => true,
        (Json::Array(x), Json::Array(y)) => x.len() == y.len() && x.iter().zip(y).all(|(x, y)| alike(x, y)),
        (Json::Object(x), Json::Object(y)) => {
            x.len() == y.len() && x.iter().all(|(k, x)| y.get(k).is_some_and(|y| alike(x, y)))
        }
        (x, y) => x == y,
    }
}

/// The same array, or equal ones that the function has made each time.
fn same_constant(x: &Array, y: &Array) -> bool {
    if Arc::ptr_eq(x.node(), y.node()) && x.out() == y.out() {
        return true;
    }
    x.meta() == y.meta() && matches!((x.to_bytes(), y.to_bytes()), (Ok(x), Ok(y)) if x == y)
}
