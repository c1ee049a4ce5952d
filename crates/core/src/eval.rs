//! Evaluation: from a graph of pending nodes to work on streams.

use crate::array::{Inputs, Node};
use crate::backend::{self, Backend, Input, Limits, Support};
use crate::buffer::{Buffer, DevMem, View};
use crate::device::{Device, Stream};
use crate::dtype::Scalar;
use crate::event::Event;
use crate::expr::Expr;
use crate::graph::fuse::{self, Role};
use crate::graph::toposort::{Tape, toposort};
use crate::inspect::{self, Watch};
use crate::layout::Layout;
use crate::op::{self, Create, Meta, Op};
use crate::{Array, Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static FUSION: AtomicBool = AtomicBool::new(true);

/// Switches the fusion of elementwise chains in [`eval`] on or off; returns what it was. Values do not
/// depend on it.
pub fn set_fusion(on: bool) -> bool {
    FUSION.swap(on, Ordering::Relaxed)
}

/// Computes arrays and waits for their values.
///
/// # Errors
/// The first error of any operation that they depend on.
pub fn eval(arrays: &[Array]) -> Result<()> {
    readable("eval", arrays)?;
    run(arrays, How { wait: true, fuse: fusing() })?;
    let mut outcome = Ok(());
    for a in arrays {
        if let Some(v) = a.view() {
            // Waits for all, so that no work of this call is left behind an error.
            let r = v.buffer.ready().wait();
            outcome = outcome.and(r);
        }
    }
    outcome
}

/// Sends all work that arrays depend on to its streams and returns without waiting. Errors of kernels show
/// when a value is asked for.
pub fn async_eval(arrays: &[Array]) -> Result<()> {
    readable("async_eval", arrays)?;
    run(arrays, How { wait: false, fuse: fusing() })
}

/// What depends on a placeholder has no value.
pub(crate) fn readable(op: &'static str, arrays: &[Array]) -> Result<()> {
    match arrays.iter().find_map(Array::awaits) {
        Some(transform) => Err(Error::InTrace { op, transform }),
        None => Ok(()),
    }
}

fn fusing() -> bool {
    FUSION.load(Ordering::Relaxed) && !inspect::unfused()
}

/// How to send a graph.
#[derive(Clone, Copy)]
struct How {
    /// The caller waits for the values anyway.
    wait: bool,
    /// Elementwise chains become one pass.
    fuse: bool,
}

/// Another thread gave up a node that this one depends on; the graph has to be looked at again.
struct Restart;

enum Stop {
    Restart(Restart),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Stop::Failed(e)
    }
}

fn run(arrays: &[Array], how: How) -> Result<()> {
    loop {
        match attempt(arrays, how) {
            Ok(()) => return Ok(()),
            Err(Stop::Failed(e)) => return Err(e),
            Err(Stop::Restart(Restart)) => {}
        }
    }
}

fn attempt(arrays: &[Array], how: How) -> Result<(), Stop> {
    if arrays.iter().all(|a| a.node().is_scheduled()) {
        return Ok(());
    }
    let tape = toposort(arrays);
    let outcome = if tape.nodes.is_empty() { Ok(()) } else { send(tape, arrays, how) };
    outcome?;
    // Nodes that other threads claimed first.
    for a in arrays {
        settled(a.node()).map_err(Stop::Restart)?;
    }
    Ok(())
}

/// A device that the tape uses, its backend and limits.
type Known = (Device, Arc<dyn Backend>, Limits);

fn send(mut tape: Tape, arrays: &[Array], how: How) -> Result<(), Stop> {
    let mut backends: SmallVec<[Known; 2]> = SmallVec::new();
    let mut streams: SmallVec<[Stream; 2]> = SmallVec::new();
    for node in tape.nodes.iter().flatten() {
        let s = node.stream();
        if streams.last() != Some(&s) && !streams.contains(&s) {
            streams.push(s);
            if !backends.iter().any(|(d, ..)| *d == s.device) {
                let b = backend::get(s.device)?;
                let limits = b.limits(s.device);
                backends.push((s.device, b, limits));
            }
        }
    }
    let find = |d: Device| backends.iter().find(|(e, ..)| *e == d);
    let none = Limits { max_inputs: 0, max_insts: 0 };
    let plan = fuse::plan(&tape, arrays, &mut |d| match find(d) {
        Some((_, _, l)) if how.fuse => *l,
        Some(_) | None => none,
    });
    // Work of one idle stream that is waited for anyway runs on this thread: no hand-over, no wake-up.
    let _owned = match streams[..] {
        [s] if how.wait => find(s.device).and_then(|(_, b, _)| b.own(s)),
        _ => None,
    };
    let mut each = || -> Result<(), Stop> {
        for i in 0..tape.nodes.len() {
            match plan.roles[i] {
                Role::Member(_) => {}
                Role::Inlined => tape.nodes[i] = None,
                Role::Single => {
                    let Some(node) = tape.nodes[i].take() else { continue };
                    if let Some((_, b, _)) = find(node.stream().device) {
                        single(&node, b.as_ref())?;
                    }
                }
                Role::Root => {
                    // Taken from the tape, so that only the group holds them.
                    let nodes: SmallVec<[Arc<Node>; 8]> =
                        plan.members(i).filter_map(|m| tape.nodes[m].take()).collect();
                    let Some(root) = nodes.last() else { continue };
                    if let Some((_, b, _)) = find(root.stream().device) {
                        group(nodes, b.as_ref())?;
                    }
                }
            }
        }
        Ok(())
    };
    let mut outcome = each();
    // Also after a failure: others may wait for what was sent before it.
    for s in streams {
        if let Some((_, b, _)) = find(s.device) {
            let flushed = b.flush(s);
            outcome = outcome.and(flushed.map_err(Stop::Failed));
        }
    }
    outcome
}

/// Waits until a node that somebody else may have claimed is scheduled.
fn settled(node: &Node) -> Result<(), Restart> {
    let mut tries = 0u32;
    while !node.is_scheduled() {
        if node.is_pending() {
            return Err(Restart);
        }
        tries += 1;
        match tries {
            0..100 => std::hint::spin_loop(),
            100..1000 => std::thread::yield_now(),
            _ => std::thread::sleep(Duration::from_micros(50)),
        }
    }
    Ok(())
}

/// A claimed node and the values of its inputs. Unless it is published, the claim is given back with
/// inputs that lead to the same value, also when the code in between panics.
struct Claim<'a> {
    node: &'a Node,
    views: SmallVec<[View; 4]>,
    /// Inputs of the node from the values of the group's inputs, when they are not the same.
    expr: Option<Arc<Expr>>,
    /// The node kept its inputs for a trace.
    kept: bool,
    published: bool,
}

impl Claim<'_> {
    fn publish(mut self, results: Results) {
        self.published = true;
        self.node.publish(results);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        if self.kept {
            return self.node.release();
        }
        let values: Vec<Array> = self.views.drain(..).map(Array::from_view).collect();
        let inputs = match &self.expr {
            None => values.into_iter().collect(),
            Some(e) => {
                let shape = &self.node.outs()[0].shape;
                self.node.stream().scope(|| e.last_arguments(&values, shape))
            }
        };
        self.node.unclaim(inputs);
    }
}

/// Values of arrays that are scheduled, letting go of the arrays.
fn into_views(arrays: impl IntoIterator<Item = Array>) -> SmallVec<[View; 4]> {
    arrays.into_iter().filter_map(|a| a.view().cloned()).collect()
}

/// Schedules one node by itself.
fn single(node: &Arc<Node>, backend: &dyn Backend) -> Result<(), Stop> {
    if !node.claim() {
        return Ok(());
    }
    let kept = node.is_traced();
    let inputs: Inputs = if kept { node.inputs().clone() } else { std::mem::take(&mut *node.inputs()) };
    if let Some(r) = inputs.iter().find_map(|a| settled(a.node()).err()) {
        if kept {
            node.release();
        } else {
            node.unclaim(inputs);
        }
        return Err(Stop::Restart(r));
    }
    let mut claim = Claim { node, views: into_views(inputs), expr: None, kept, published: false };
    let results = inspect::within(node.source().cloned(), || {
        produce(node.op(), node.outs(), node.stream(), &mut claim.views, backend)
    });
    claim.publish(located(node, results)?);
    Ok(())
}

/// The outcome, where it is an error with the line that built the node, if that is known.
fn located(node: &Node, outcome: Result<Results>) -> Result<Results> {
    outcome.map_err(|e| match node.source() {
        Some(source) => source.locate(e),
        None => e,
    })
}

/// Schedules the last of `nodes` as one expression that computes the others on the way.
fn group(nodes: SmallVec<[Arc<Node>; 8]>, backend: &dyn Backend) -> Result<(), Stop> {
    let Some(root) = nodes.last().cloned() else { return Ok(()) };
    if !root.claim() {
        return Ok(());
    }
    // The members stay claimed only while their inputs are read.
    let mut ours: SmallVec<[Arc<Node>; 8]> = SmallVec::new();
    for m in &nodes[..nodes.len() - 1] {
        if m.claim() {
            ours.push(m.clone());
            continue;
        }
        // Since planning another thread has reached the member. It may wait for one that is claimed here,
        // so nothing stays claimed while this thread waits for it.
        root.release();
        ours.iter().for_each(|m| m.release());
        return Err(Stop::Restart(settled(m).err().unwrap_or(Restart)));
    }
    ours.push(root.clone());
    let (expr, arrays) = fuse::build(&ours);
    ours.pop();
    ours.iter().for_each(|m| m.release());
    drop((ours, nodes));
    if let Some(r) = arrays.iter().find_map(|a| settled(a.node()).err()) {
        root.release();
        return Err(Stop::Restart(r));
    }
    let kept = root.is_traced();
    if !kept {
        drop(std::mem::take(&mut *root.inputs()));
    }
    let expr = Arc::new(expr);
    let views = into_views(arrays);
    let mut claim = Claim { node: &root, views, expr: Some(expr.clone()), kept, published: false };
    let results = inspect::within(root.source().cloned(), || {
        produce(&Op::Fused(expr), root.outs(), root.stream(), &mut claim.views, backend)
    });
    claim.publish(located(&root, results)?);
    Ok(())
}

type Results = SmallVec<[View; 1]>;

/// Sends one operation on values to its stream.
fn produce(
    op: &Op,
    outs: &[Meta],
    stream: Stream,
    views: &mut [View],
    backend: &dyn Backend,
) -> Result<Results> {
    match op {
        Op::Leaf => return Err(Error::value("eval", "an array without a value cannot be computed")),
        Op::Placeholder(transform) => return Err(Error::InTrace { op: "eval", transform }),
        Op::View(v) => {
            if let Some(results) = view_results(v, outs, views) {
                return Ok(results);
            }
        }
        Op::Create(Create::Full { value, shape }) => return Ok(SmallVec::from_iter([splat(*value, shape)?])),
        Op::Create(Create::Arange { .. } | Create::Load(_))
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Select
        | Op::Cast(_)
        | Op::Fused(_)
        | Op::Reduce(_)
        | Op::Arg(_)
        | Op::Scan(_)
        | Op::Sort(_)
        | Op::Update(_)
        | Op::Index(_)
        | Op::Matmul(_)
        | Op::Conv(_)
        | Op::Fft(_)
        | Op::Hadamard(_)
        | Op::Linalg(_)
        | Op::Random(_)
        | Op::Quant(_)
        | Op::Norm(_)
        | Op::Softmax(_)
        | Op::Rope(_)
        | Op::Attention(_)
        | Op::Custom(_) => {}
    }
    if outs.iter().all(|m| m.elements() == 0) {
        return outs.iter().map(|m| empty(op.name(), m, stream)).collect();
    }
    match op {
        Op::View(v) => {
            // What strides do not allow: a row-major copy, then the view of that.
            let copy = Op::Fused(Arc::new(Expr::identity(views[0].dtype)));
            let dense = [Meta::new(views[0].layout.shape().clone(), views[0].dtype)];
            let r = kernel(&copy, &dense, stream, views, backend)?;
            view_results(v, outs, &r).ok_or_else(|| Error::shape(op.name(), "a dense copy has every shape"))
        }
        Op::Custom(c) => {
            let watch = Watch::begin(views)?;
            let mut ctx = EvalCtx::new(op, outs, stream, views)?;
            match c.0.eval(&mut ctx) {
                Some(Ok(())) => watched(watch, op, stream, ctx.finish()),
                Some(Err(e)) => Err(ctx.abandon(e)),
                None => composite(op, stream, views),
            }
        }
        Op::Leaf
        | Op::Placeholder(_)
        | Op::Create(_)
        | Op::Unary(_)
        | Op::Binary(_)
        | Op::Select
        | Op::Cast(_)
        | Op::Reduce(_)
        | Op::Arg(_)
        | Op::Scan(_)
        | Op::Sort(_)
        | Op::Update(_)
        | Op::Matmul(_)
        | Op::Conv(_)
        | Op::Fft(_)
        | Op::Hadamard(_)
        | Op::Linalg(_)
        | Op::Random(_)
        | Op::Norm(_)
        | Op::Softmax(_)
        | Op::Rope(_)
        | Op::Attention(_)
        | Op::Quant(_)
        | Op::Index(_)
        | Op::Fused(_) => {
            let metas: SmallVec<[Meta; 4]> =
                views.iter().map(|v| Meta::new(v.layout.shape().clone(), v.dtype)).collect();
            match backend.supports(op, &metas) {
                Support::Native => kernel(op, outs, stream, views, backend),
                Support::Fallback => composite(op, stream, views),
                Support::Host => on_host(op, stream, views),
            }
        }
    }
}

fn kernel(
    op: &Op,
    outs: &[Meta],
    stream: Stream,
    views: &mut [View],
    backend: &dyn Backend,
) -> Result<Results> {
    let watch = Watch::begin(views)?;
    let mut ctx = EvalCtx::new(op, outs, stream, views)?;
    match backend.eval(&mut ctx) {
        Ok(()) => watched(watch, op, stream, ctx.finish()),
        Err(e) => Err(ctx.abandon(e)),
    }
}

/// Results after whoever watches has seen them.
fn watched(watch: Option<Watch>, op: &Op, stream: Stream, results: Result<Results>) -> Result<Results> {
    let results = results?;
    if let Some(w) = watch {
        // Gathered work would not be done before somebody asks.
        backend::get(stream.device)?.flush(stream)?;
        w.end(op, stream, &results)?;
    }
    Ok(results)
}

/// The composite of an operation that the device has no kernel for.
fn composite(op: &Op, stream: Stream, views: &[View]) -> Result<Results> {
    let arrays: Vec<Array> = views.iter().map(|v| Array::from_view(v.clone())).collect();
    let lacking =
        |msg: &str| Err(Error::Unsupported { op: op.name(), device: stream.device, msg: msg.to_string() });
    let parts = match op {
        // Constants are written into every expression again, so they do not count.
        Op::Fused(e) if e.operations() <= 1 => {
            return lacking("every backend has kernels for single elementwise operations");
        }
        _ => stream.scope(|| op.fallback(&arrays)),
    };
    let Some(parts) = parts else {
        return lacking("there is neither a kernel nor a composite");
    };
    // Composites are made of a few simple operations, so this does not nest deeply; those of a fused chain
    // must not be fused again.
    let fuse = fusing() && !matches!(op, Op::Fused(_));
    let parts = parts?;
    run(&parts, How { wait: false, fuse })?;
    Ok(into_views(parts).into_iter().collect())
}

/// The operation on the CPU, for a device that has no kernel for it.
fn on_host(op: &Op, stream: Stream, views: &[View]) -> Result<Results> {
    let host = Stream::default_of(Device::CPU);
    if stream.device == Device::CPU {
        let msg = "the CPU has no kernel for it".to_string();
        return Err(Error::Unsupported { op: op.name(), device: stream.device, msg });
    }
    let arrays: Vec<Array> = views.iter().map(|v| Array::from_view(v.clone())).collect();
    let parts = Array::from_op_on(op.clone(), &arrays, host)?;
    drop(arrays);
    run(&parts, How { wait: false, fuse: fusing() })?;
    Ok(into_views(parts).into_iter().collect())
}

/// Results of a view; `None` when only a copy gives them.
fn view_results(v: &op::View, outs: &[Meta], args: &[View]) -> Option<Results> {
    if let op::View::Depends(n) = v {
        return Some(args[..*n].iter().cloned().collect());
    }
    let x = args.first()?;
    let layout = match v {
        op::View::Identity | op::View::StopGradient => x.layout.clone(),
        op::View::Broadcast(to) => x.layout.broadcast(to),
        op::View::Reshape(to) => x.layout.reshape(to)?,
        op::View::Transpose(perm) => {
            let perm: SmallVec<[usize; 8]> = perm.iter().map(|&p| p as usize).collect();
            x.layout.transpose(&perm)
        }
        op::View::Slice { start, step, size } => x.layout.slice(start, step, size),
        op::View::Strided { shape, strides, offset } => {
            if !x.layout.is_contiguous() {
                return None;
            }
            let first = x.layout.offset() + offset;
            Layout::strided(shape.clone(), strides, first, x.layout.offset() + x.layout.elements())?
        }
        op::View::Contiguous => {
            if !x.layout.is_contiguous() {
                return None;
            }
            x.layout.clone()
        }
        op::View::Depends(_) => x.layout.clone(),
        op::View::Bitcast(to) => {
            let layout = x.layout.reinterpret(x.dtype.size(), to.size(), &outs[0].shape)?;
            return Some(SmallVec::from_iter([View { buffer: x.buffer.clone(), layout, dtype: *to }]));
        }
        op::View::Split { axis, .. } => {
            let rank = x.layout.shape().rank();
            let mut start: SmallVec<[usize; 4]> = SmallVec::from_elem(0, rank);
            let step: SmallVec<[isize; 4]> = SmallVec::from_elem(1, rank);
            return Some(
                outs.iter()
                    .map(|m| {
                        let part = x.with(x.layout.slice(&start, &step, &m.shape));
                        start[*axis] += m.shape[*axis];
                        part
                    })
                    .collect(),
            );
        }
    };
    Some(SmallVec::from_iter([x.with(layout)]))
}

/// One stored element that is seen as a whole array.
fn splat(value: Scalar, shape: &crate::Shape) -> Result<View> {
    let size = value.dtype().size();
    let buffer = Buffer::from_fn("full", size, |b| b.copy_from_slice(&value.bytes()[..size]))?;
    Ok(View { buffer, layout: Layout::splat(shape.clone()), dtype: value.dtype() })
}

fn empty(op: &'static str, meta: &Meta, stream: Stream) -> Result<View> {
    let (buffer, _) = Buffer::alloc(op, stream, 0)?;
    Ok(View { buffer, layout: Layout::contiguous(meta.shape.clone()), dtype: meta.dtype })
}

/// What a kernel gets, and where it puts its results.
pub struct EvalCtx<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Shapes and types of the results.
    pub outs: &'a [Meta],
    /// The stream that the work goes to.
    pub stream: Stream,
    /// The arguments.
    pub inputs: SmallVec<[Input; 4]>,
    results: SmallVec<[Option<View>; 1]>,
    /// Events that the inputs depended on before.
    before: SmallVec<[Event; 4]>,
    sent: Option<Event>,
}

impl<'a> EvalCtx<'a> {
    fn new(op: &'a Op, outs: &'a [Meta], stream: Stream, views: &mut [View]) -> Result<EvalCtx<'a>> {
        let mut inputs: SmallVec<[Input; 4]> = SmallVec::with_capacity(views.len());
        let mut before = SmallVec::new();
        for v in views {
            // `get_mut` also orders this thread after the last use by whoever let go of the buffer.
            let unique = Arc::get_mut(&mut v.buffer).is_some() && v.buffer.reusable(stream);
            let (mem, ready) = v.buffer.on(op.name(), stream)?;
            if ready.stream().is_some() {
                before.push(ready);
            }
            inputs.push(Input { view: v.clone(), mem, unique });
        }
        Ok(EvalCtx {
            op,
            outs,
            stream,
            inputs,
            results: SmallVec::from_elem(None, outs.len()),
            before,
            sent: None,
        })
    }

    /// Memory for result `i`, row-major.
    pub fn alloc(&mut self, i: usize) -> Result<DevMem> {
        let meta = &self.outs[i];
        let (buffer, mem) = Buffer::alloc(self.op.name(), self.stream, meta.bytes())?;
        let layout = Layout::contiguous(meta.shape.clone());
        self.results[i] = Some(View { buffer, layout, dtype: meta.dtype });
        Ok(mem)
    }

    /// Memory for result `i`, row-major: that of an input when nobody else can reach it, it has as many
    /// bytes for each of as many elements, and lies row-major too; else fresh. Tells which input it was.
    ///
    /// For kernels that read element `j` of their inputs for the last time before they write element `j`.
    pub fn alloc_or_reuse(&mut self, i: usize) -> Result<(DevMem, Option<usize>)> {
        self.alloc_or_reuse_of(i, |_| true)
    }

    /// [`EvalCtx::alloc_or_reuse`] of the inputs that `allowed` accepts: those that no other result took over.
    pub fn alloc_or_reuse_of(
        &mut self,
        i: usize,
        allowed: impl Fn(usize) -> bool,
    ) -> Result<(DevMem, Option<usize>)> {
        let meta = &self.outs[i];
        let fits = |input: &Input| {
            let v = &input.view;
            input.unique
                && v.layout.offset() == 0
                && v.layout.is_contiguous()
                && v.dtype.size() == meta.dtype.size()
                && v.layout.elements() == meta.elements()
        };
        match (0..self.inputs.len()).find(|&k| allowed(k) && fits(&self.inputs[k])) {
            Some(k) => Ok((self.reuse(i, k), Some(k))),
            None => self.alloc(i).map(|m| (m, None)),
        }
    }

    /// Makes the memory of input `k` that of result `i`, row-major. The caller has checked that it is
    /// unique and of the right size.
    pub fn reuse(&mut self, i: usize, k: usize) -> DevMem {
        let meta = &self.outs[i];
        let input = &self.inputs[k];
        debug_assert!(input.unique && input.mem.bytes >= meta.bytes());
        let layout = Layout::contiguous(meta.shape.clone());
        self.results[i] = Some(View { buffer: input.view.buffer.clone(), layout, dtype: meta.dtype });
        input.mem
    }

    /// States the event that completes all results.
    pub fn sent(&mut self, event: Event) {
        self.sent = Some(event);
    }

    /// The kernel failed, perhaps after it had sent a part of its work, which may still read the inputs.
    fn abandon(self, error: Error) -> Error {
        if let Ok(t) = backend::get(self.stream.device).and_then(|b| b.timeline(self.stream)) {
            let last = t.last();
            let sent = Event::at(t, last);
            self.inputs.iter().for_each(|i| i.view.buffer.used(self.stream, &sent));
        }
        error
    }

    fn finish(self) -> Result<Results> {
        let op = self.op.name();
        let missing =
            || Error::Device { op, device: self.stream.device, msg: "the kernel left out a result".into() };
        let mut ready = self.sent.ok_or_else(missing)?;
        for input in &self.inputs {
            input.view.buffer.used(self.stream, &ready);
        }
        // Had an input failed before this work was sent, the work ran on garbage: the failure is what the
        // results resolve to. A later failure has skipped it by itself.
        if let Some(failed) = self.before.iter().find(|e| matches!(e.poll(), Some(Err(_)))) {
            ready = failed.clone();
        }
        let mut results = Results::new();
        for r in self.results {
            let v = r.ok_or_else(missing)?;
            v.buffer.written(ready.clone());
            results.push(v);
        }
        Ok(results)
    }
}
