//! Functions that are traced once and then emitted, simplified and fused.

use super::tree::{Signature, Tree, leaves, rebuild, signature};
use crate::device::{Stream, current_stream};
use crate::graph::program::Program;
use crate::op::Meta;
use crate::trace::Trace;
use crate::{Array, Result, random};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

static ENABLED: AtomicBool = AtomicBool::new(true);

/// Switches compilation on or off for all compiled functions; returns what it was. When it is off they run their
/// function as it is, so that values can be read and printed inside.
pub fn set_compile(on: bool) -> bool {
    ENABLED.swap(on, Ordering::Relaxed)
}

/// Traces that a compiled function keeps, unless told otherwise.
const CAPACITY: usize = 64;

/// How a function is compiled.
#[derive(Debug, Clone, Copy)]
pub struct Compile {
    /// Keep one trace for all sizes of the arguments, for functions whose arguments have ever new ones: the function
    /// is traced again when they change. Otherwise every shape keeps its own trace.
    pub shapeless: bool,
    /// Traces that are kept; the one that was not used for longest goes first.
    pub capacity: usize,
}

impl Default for Compile {
    fn default() -> Compile {
        Compile { shapeless: false, capacity: CAPACITY }
    }
}

/// What decides the trace of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    metas: Vec<Meta>,
    structure: Signature,
    stream: Stream,
}

impl Key {
    /// Equal but for sizes.
    fn same_kind(&self, other: &Key) -> bool {
        let kind = |m: &Meta| (m.shape.rank(), m.dtype);
        self.structure == other.structure
            && self.stream == other.stream
            && self.metas.iter().map(kind).eq(other.metas.iter().map(kind))
    }
}

/// One trace.
struct Traced<T> {
    program: Program,
    /// What the function gave, with placeholders in the place of arrays.
    like: T,
    /// It drew from the default random key, which is its last argument and result then.
    draws: bool,
}

/// Traces of one function.
pub(super) struct Cache<T> {
    how: Compile,
    entries: Mutex<VecDeque<(Key, Arc<Traced<T>>)>>,
}

impl<T: Clone> Cache<T> {
    pub(super) fn new(how: Compile) -> Cache<T> {
        Cache { how, entries: Mutex::new(VecDeque::new()) }
    }

    fn find(&self, key: &Key) -> Option<Arc<Traced<T>>> {
        let mut entries = self.entries.lock().unwrap_or_else(|e| e.into_inner());
        let at = entries.iter().position(|(k, _)| k == key)?;
        let entry = entries.remove(at)?;
        let found = entry.1.clone();
        entries.push_front(entry);
        Some(found)
    }

    fn keep(&self, key: Key, traced: Arc<Traced<T>>) {
        let mut entries = self.entries.lock().unwrap_or_else(|e| e.into_inner());
        entries.retain(|(k, _)| k != &key && !(self.how.shapeless && k.same_kind(&key)));
        entries.push_front((key, traced));
        entries.truncate(self.how.capacity.max(1));
    }

    /// The arrays that `f` gives for `inputs`, and what it gave when it was traced. `f` gets the arguments to use and
    /// gives its value with the arrays in it.
    pub(super) fn call(
        &self,
        inputs: &[Array],
        structure: Signature,
        f: impl FnOnce(&[Array]) -> Result<(T, Vec<Array>)>,
    ) -> Result<(T, Vec<Array>)> {
        if !ENABLED.load(Ordering::Relaxed) {
            return f(inputs);
        }
        let metas = inputs.iter().map(|a| a.meta().clone()).collect();
        let key = Key { metas, structure, stream: current_stream() };
        let traced = match self.find(&key) {
            Some(t) => t,
            None => {
                let traced = Arc::new(trace(inputs, f)?);
                if traced.program.is_closed() {
                    self.keep(key, traced.clone());
                }
                traced
            }
        };
        let mut outputs = if traced.draws {
            random::with_default_key(|key| {
                let mut all = inputs.to_vec();
                all.push(key.clone());
                let mut outputs = traced.program.emit(&all);
                let next = outputs.pop().unwrap_or_else(|| key.clone());
                Ok((outputs, next))
            })?
        } else {
            traced.program.emit(inputs)
        };
        outputs.shrink_to_fit();
        Ok((traced.like.clone(), outputs))
    }
}

fn trace<T>(inputs: &[Array], f: impl FnOnce(&[Array]) -> Result<(T, Vec<Array>)>) -> Result<Traced<T>> {
    const NAME: &str = "compile";
    let guard = Trace::begin();
    let stand_in = |a: &Array| Array::placeholder(NAME, a.meta().clone(), guard.trace());
    let mut marked: Vec<Array> = inputs.iter().map(stand_in).collect();
    let key = stand_in(&random::key(0)?);
    let lent = random::lend_default_key(key.clone());
    let (like, mut outputs) = f(&marked)?;
    let after = lent.give_back().filter(|after| !Arc::ptr_eq(after.node(), key.node()));
    let draws = after.is_some();
    if let Some(after) = after {
        marked.push(key);
        outputs.push(after);
    }
    let captured = Program::capture(&marked, &outputs, guard.trace());
    drop(guard);
    Ok(Traced { program: captured.optimised()?, like, draws })
}

/// A function that does what `f` does, traced once for every shape, type and structure of its argument: equal
/// subexpressions are computed once, what no result needs is left out, and elementwise work is joined into passes.
///
/// `f` runs only when it is traced, so it should depend on its argument alone; what it captures is a constant. Draws
/// from the default random key go on from call to call as they do without compilation. Results are equal to those of
/// `f`, bit for bit on the CPU.
///
/// # Errors
/// The function gives `InTrace` where `f` reads a value, and whatever `f` gives.
pub fn compile<A: Tree, B: Tree>(f: impl Fn(&A) -> Result<B>) -> impl Fn(&A) -> Result<B> {
    compile_with(Compile::default(), f)
}

/// [`compile`] with options.
///
/// # Errors
/// As [`compile`].
pub fn compile_with<A: Tree, B: Tree>(how: Compile, f: impl Fn(&A) -> Result<B>) -> impl Fn(&A) -> Result<B> {
    let cache = Cache::<B>::new(how);
    move |x| {
        let run = |m: &[Array]| {
            let y = f(&rebuild(x, m)?)?;
            let flat = leaves(&y);
            Ok((y, flat))
        };
        let (like, flat) = cache.call(&leaves(x), signature(x), run)?;
        rebuild(&like, &flat)
    }
}

/// [`compile`] for functions that change a state: parameters, the state of an optimizer. The state's arrays are
/// arguments and results beside the others.
///
/// When an error is returned the state is what it was.
///
/// # Errors
/// As [`compile`].
pub fn compile_step<S: Tree, A: Tree, B: Tree>(
    f: impl Fn(&mut S, &A) -> Result<B>,
) -> impl Fn(&mut S, &A) -> Result<B> {
    compile_step_with(Compile::default(), f)
}

/// [`compile_step`] with options.
///
/// # Errors
/// As [`compile`].
pub fn compile_step_with<S: Tree, A: Tree, B: Tree>(
    how: Compile,
    f: impl Fn(&mut S, &A) -> Result<B>,
) -> impl Fn(&mut S, &A) -> Result<B> {
    let cache = Cache::<(S, B)>::new(how);
    move |state, x| {
        let both = (state.clone(), x.clone());
        let run = |m: &[Array]| {
            let (mut s, x) = rebuild(&both, m)?;
            let y = f(&mut s, &x)?;
            let all = (s, y);
            let flat = leaves(&all);
            Ok((all, flat))
        };
        let (like, flat) = cache.call(&leaves(&both), signature(&both), run)?;
        let (next, y) = rebuild(&like, &flat)?;
        *state = next;
        Ok(y)
    }
}

/// A compiled function of a list of arrays, for callers that flatten their arguments themselves.
///
/// `T` is what such a caller needs to put the results together again; it is kept with the trace.
pub struct Compiled<T> {
    cache: Cache<T>,
}

impl<T: Clone> Compiled<T> {
    /// With no traces yet.
    pub fn new(how: Compile) -> Compiled<T> {
        Compiled { cache: Cache::new(how) }
    }

    /// Results for `inputs`. `structure` holds whatever else decides what `f` does: the shape of the tree that the
    /// inputs come from, constants in it. `f` runs when there is no trace for inputs like these.
    ///
    /// # Errors
    /// `InTrace` where `f` reads a value; whatever `f` gives.
    pub fn call(
        &self,
        inputs: &[Array],
        structure: &[u8],
        f: impl FnOnce(&[Array]) -> Result<(T, Vec<Array>)>,
    ) -> Result<(T, Vec<Array>)> {
        self.cache.call(inputs, Signature::from_bytes(structure), f)
    }

    /// Forgets all traces.
    pub fn clear(&self) {
        self.cache.entries.lock().unwrap_or_else(|e| e.into_inner()).clear();
    }

    /// Number of traces that are kept.
    pub fn len(&self) -> usize {
        self.cache.entries.lock().unwrap_or_else(|e| e.into_inner()).len()
    }

    /// Whether no trace is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> std::fmt::Debug for Compiled<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("how", &self.cache.how).finish_non_exhaustive()
    }
}
