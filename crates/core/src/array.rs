//! Arrays and the nodes of the graph behind them.

use crate::buffer::{Buffer, View};
use crate::device::{Device, Stream, current_stream};
use crate::dtype::{Dtype, Element, HostElement, Scalar};
use crate::inspect::Source;
use crate::layout::Layout;
use crate::op::{Create, Meta, Metas, Op};
use crate::shape::Shape;
use crate::trace::Trace;
use crate::{Error, Result};
use smallvec::SmallVec;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// A multi-dimensional array whose values are computed when they are needed.
///
/// Cloning is cheap: it shares the node.
#[derive(Clone)]
pub struct Array {
    node: Arc<Node>,
    out: u32,
}

/// How far a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Not looked at yet.
    Pending = 0,
    /// Some thread is sending it to its stream.
    Claimed = 1,
    /// Sent: results and their events are known.
    Scheduled = 2,
}

/// Inputs of a node.
pub(crate) type Inputs = SmallVec<[Array; 2]>;

/// One operation in the graph.
pub struct Node {
    op: Op,
    stream: Stream,
    outs: Metas,
    /// The transform whose argument, which has no value, it depends on.
    awaits: Option<&'static str>,
    /// Emptied when the node is scheduled, so that what is no longer needed goes away.
    inputs: Mutex<Inputs>,
    state: AtomicU8,
    results: OnceLock<SmallVec<[View; 1]>>,
    /// The transform that follows it.
    trace: Option<Arc<Trace>>,
    /// Where it was built, while such things are remembered.
    source: Option<Source>,
}

impl Node {
    pub(crate) fn op(&self) -> &Op {
        &self.op
    }
    pub(crate) fn stream(&self) -> Stream {
        self.stream
    }
    pub(crate) fn source(&self) -> Option<&Source> {
        self.source.as_ref()
    }
    pub(crate) fn outs(&self) -> &Metas {
        &self.outs
    }
    pub(crate) fn inputs(&self) -> MutexGuard<'_, Inputs> {
        self.inputs.lock().unwrap_or_else(|e| e.into_inner())
    }
    pub(crate) fn is_pending(&self) -> bool {
        self.state.load(Ordering::Acquire) == State::Pending as u8
    }
    pub(crate) fn is_scheduled(&self) -> bool {
        self.state.load(Ordering::Acquire) == State::Scheduled as u8
    }
    /// Becomes the one thread that sends this node.
    pub(crate) fn claim(&self) -> bool {
        self.state
            .compare_exchange(State::Pending as u8, State::Claimed as u8, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
    /// Gives a claim back after a failure, with inputs that lead to the same value.
    pub(crate) fn unclaim(&self, inputs: Inputs) {
        *self.inputs() = inputs;
        self.state.store(State::Pending as u8, Ordering::Release);
    }
    /// Gives a claim back; the inputs are still there.
    pub(crate) fn release(&self) {
        self.state.store(State::Pending as u8, Ordering::Release);
    }
    /// Publishes the results of a claimed node.
    pub(crate) fn publish(&self, results: SmallVec<[View; 1]>) {
        debug_assert_eq!(results.len(), self.outs.len());
        let fresh = self.results.set(results).is_ok();
        debug_assert!(fresh, "a node is scheduled once");
        self.state.store(State::Scheduled as u8, Ordering::Release);
    }
    /// The trace that it was made in, while that lasts.
    pub(crate) fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.as_ref().filter(|t| t.lasts())
    }
    /// Whether it keeps its inputs when it is scheduled.
    pub(crate) fn is_traced(&self) -> bool {
        self.trace().is_some()
    }
    /// Lets go of inputs that were kept for a trace.
    pub(crate) fn forget(&self) {
        if self.is_scheduled() && !self.is_traced() {
            let inputs = std::mem::take(&mut *self.inputs());
            drop(inputs);
        }
    }
    pub(crate) fn results(&self) -> Option<&SmallVec<[View; 1]>> {
        self.results.get()
    }
}

impl Drop for Node {
    /// Takes chains apart in a loop: recursion would overflow the stack on long ones. Only the last owner
    /// of a node unrolls it, whatever other threads do.
    fn drop(&mut self) {
        let mut open = std::mem::take(self.inputs.get_mut().unwrap_or_else(|e| e.into_inner()));
        while let Some(a) = open.pop() {
            if let Some(mut node) = Arc::into_inner(a.node) {
                open.append(node.inputs.get_mut().unwrap_or_else(|e| e.into_inner()));
            }
        }
    }
}

impl Array {
    /// Applies an operation that gives one array, on the [`current_stream`].
    pub fn from_op(op: Op, inputs: &[Array]) -> Result<Array> {
        let mut all = Array::from_op_multi(op, inputs)?;
        match all.len() {
            1 => Ok(all.remove(0)),
            n => Err(Error::value("from_op", format!("the operation gives {n} arrays, not one"))),
        }
    }

    /// Applies an operation, on the [`current_stream`].
    pub fn from_op_multi(op: Op, inputs: &[Array]) -> Result<SmallVec<[Array; 1]>> {
        let stream = match &op {
            // Sources are read on the host, whoever uses them.
            Op::Create(Create::Load(_)) => Stream::default_of(Device::CPU),
            _ => current_stream(),
        };
        Array::from_op_on(op, inputs, stream)
    }

    /// Applies an operation on a given stream.
    pub fn from_op_on(op: Op, inputs: &[Array], stream: Stream) -> Result<SmallVec<[Array; 1]>> {
        let metas: SmallVec<[&Meta; 4]> = inputs.iter().map(Array::meta).collect();
        let outs = op.infer(&metas)?;
        Ok(Array::from_inferred(op, inputs.iter().cloned().collect(), outs, stream))
    }

    /// Applies an operation whose rule has given `outs` for these inputs.
    pub(crate) fn from_inferred(op: Op, inputs: Inputs, outs: Metas, stream: Stream) -> SmallVec<[Array; 1]> {
        let n = outs.len();
        let mut trace = None;
        for t in inputs.iter().filter_map(|a| a.node.trace.as_ref()) {
            trace = Trace::join(trace, t);
        }
        let node = Arc::new(Node {
            trace,
            source: Source::here(),
            op,
            stream,
            outs,
            awaits: inputs.iter().find_map(|a| a.node.awaits),
            inputs: Mutex::new(inputs),
            state: AtomicU8::new(State::Pending as u8),
            results: OnceLock::new(),
        });
        (0..n as u32).map(|out| Array { node: node.clone(), out }).collect()
    }

    /// An array that has its value already.
    pub(crate) fn from_view(view: View) -> Array {
        let outs = SmallVec::from_iter([Meta::new(view.layout.shape().clone(), view.dtype)]);
        let node = Node {
            op: Op::Leaf,
            stream: current_stream(),
            outs,
            awaits: None,
            inputs: Mutex::default(),
            state: AtomicU8::new(State::Scheduled as u8),
            results: OnceLock::from(SmallVec::from_iter([view])),
            trace: None,
            source: None,
        };
        Array { node: Arc::new(node), out: 0 }
    }

    /// The same value, followed by a trace.
    pub(crate) fn marked(&self, trace: &Arc<Trace>) -> Array {
        let known = self.view().filter(|_| !self.node.is_traced());
        let (op, state) = match known {
            Some(_) => (Op::Leaf, State::Scheduled),
            // Transforms around this one have to find the way to the array.
            None => (Op::View(crate::op::View::Identity), State::Pending),
        };
        let node = Node {
            op,
            stream: self.node.stream,
            outs: SmallVec::from_iter([self.meta().clone()]),
            awaits: self.node.awaits,
            inputs: Mutex::new(if known.is_some() {
                Inputs::new()
            } else {
                Inputs::from_iter([self.clone()])
            }),
            state: AtomicU8::new(state as u8),
            results: known.map_or_else(OnceLock::new, |v| OnceLock::from(SmallVec::from_iter([v.clone()]))),
            trace: Some(trace.clone()),
            source: None,
        };
        Array { node: Arc::new(node), out: 0 }
    }

    /// An array without a value that stands for the argument of a traced function.
    pub(crate) fn placeholder(transform: &'static str, meta: Meta, trace: &Arc<Trace>) -> Array {
        let node = Node {
            op: Op::Placeholder(transform),
            stream: current_stream(),
            outs: SmallVec::from_iter([meta]),
            awaits: Some(transform),
            inputs: Mutex::default(),
            state: AtomicU8::new(State::Pending as u8),
            results: OnceLock::new(),
            trace: Some(trace.clone()),
            source: None,
        };
        Array { node: Arc::new(node), out: 0 }
    }

    /// One result of a node.
    pub(crate) fn of_node(node: Arc<Node>, out: usize) -> Array {
        Array { node, out: out as u32 }
    }

    /// Elements given in row-major order.
    ///
    /// # Errors
    /// `Shape` when the number of elements is not that of `shape`; `OutOfMemory`.
    pub fn from_slice<T: HostElement>(data: &[T], shape: &[usize]) -> Result<Array> {
        let shape = Shape::checked("array", shape)?;
        if shape.elements() != data.len() {
            return Err(Error::shape("array", format!("{} elements do not fill shape {shape}", data.len())));
        }
        let size = size_of::<T::Stored>();
        let buffer = Buffer::from_fn("array", data.len() * size, |bytes| {
            for (chunk, &v) in bytes.chunks_exact_mut(size).zip(data) {
                chunk.copy_from_slice(bytemuck::bytes_of(&T::Stored::from_host(v)));
            }
        })?;
        let layout = Layout::contiguous(shape);
        Ok(Array::from_view(View { buffer, layout, dtype: T::Stored::DTYPE }))
    }

    /// Elements given as bytes in row-major order and the machine's byte order.
    ///
    /// # Errors
    /// `Shape` when the number of bytes is not that of `shape` and `dtype`; `OutOfMemory`.
    pub fn from_bytes(data: &[u8], shape: &[usize], dtype: Dtype) -> Result<Array> {
        let shape = Shape::checked("array", shape)?;
        if data.len() != shape.elements() * dtype.size() {
            let msg = format!("{} bytes do not fill shape {shape} of {dtype}", data.len());
            return Err(Error::shape("array", msg));
        }
        let buffer = Buffer::from_fn("array", data.len(), |bytes| bytes.copy_from_slice(data))?;
        Ok(Array::from_view(View { buffer, layout: Layout::contiguous(shape), dtype }))
    }

    /// An array of a buffer that exists, such as a part of a mapped file: `shape` in row-major order from
    /// `offset` bytes on. `None` when that is not aligned or not inside the buffer.
    pub fn from_buffer(buffer: Arc<Buffer>, offset: usize, shape: Shape, dtype: Dtype) -> Option<Array> {
        let size = dtype.size();
        if !offset.is_multiple_of(size) {
            return None;
        }
        let strides = crate::layout::row_major(&shape);
        let layout = Layout::strided(shape, &strides, offset / size, buffer.bytes() / size)?;
        Some(Array::from_view(View { buffer, layout, dtype }))
    }

    /// A scalar.
    pub fn from_scalar<T: HostElement>(v: T) -> Array {
        Array::constant(Scalar::new(v), Shape::scalar())
    }

    /// Every element is `value`. Takes no memory until something other than elementwise work needs it.
    pub(crate) fn constant(value: Scalar, shape: Shape) -> Array {
        let outs = SmallVec::from_iter([Meta::new(shape.clone(), value.dtype())]);
        let node = Node {
            op: Op::Create(Create::Full { value, shape }),
            stream: current_stream(),
            outs,
            awaits: None,
            inputs: Mutex::default(),
            state: AtomicU8::new(State::Pending as u8),
            results: OnceLock::new(),
            trace: None,
            source: None,
        };
        Array { node: Arc::new(node), out: 0 }
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }
    pub(crate) fn out(&self) -> usize {
        self.out as usize
    }
    pub(crate) fn meta(&self) -> &Meta {
        &self.node.outs[self.out as usize]
    }
    /// The value, once the node is scheduled.
    pub(crate) fn view(&self) -> Option<&View> {
        self.node.results().map(|r| &r[self.out as usize])
    }

    /// Sizes of the axes.
    pub fn shape(&self) -> &Shape {
        &self.meta().shape
    }
    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.meta().dtype
    }
    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }
    /// Number of elements.
    pub fn size(&self) -> usize {
        self.shape().elements()
    }
    /// Bytes of all elements.
    pub fn nbytes(&self) -> usize {
        self.meta().bytes()
    }
    /// Size of an axis that may count from the end.
    pub fn dim(&self, axis: i32) -> Result<usize> {
        Ok(self.shape()[crate::shape::axis("dim", axis, self.rank())?])
    }
    /// Stream that computes or computed it.
    pub fn stream(&self) -> Stream {
        self.node.stream
    }
    /// The operation that gives it.
    pub fn op(&self) -> &Op {
        &self.node.op
    }
    /// The transform that traces a function whose argument it depends on, so that there is no value to read.
    pub fn awaits(&self) -> Option<&'static str> {
        self.node.awaits
    }
    /// Whether its value is computed, or an error has taken its place.
    pub fn is_available(&self) -> bool {
        self.view().is_some_and(|v| v.buffer.ready().is_done())
    }

    /// Computes the value and waits for it.
    pub fn eval(&self) -> Result<()> {
        crate::eval::eval(std::slice::from_ref(self))
    }

    /// The value on the host, computed if need be: how it lies in its buffer, and the address of that. The memory is
    /// there as long as the view is kept, and is not written to meanwhile.
    ///
    /// # Errors
    /// Whatever evaluation gives.
    pub fn on_host(&self) -> Result<(View, *const u8)> {
        self.host("on_host").map(|(view, address)| (view.clone(), address))
    }

    /// The value on the host, computed if need be.
    fn host(&self, op: &'static str) -> Result<(&View, *const u8)> {
        crate::eval::readable(op, std::slice::from_ref(self))?;
        self.eval()?;
        let view = self.view().ok_or_else(|| Error::value(op, "the array was not evaluated"))?;
        Ok((view, view.buffer.host(op)?))
    }

    /// All elements in row-major order. Waits for the value.
    ///
    /// # Errors
    /// `Dtype` when the array holds another type; `OutOfMemory` when the elements do not fit the host's
    /// memory or its limit; whatever evaluation gives.
    pub fn to_vec<T: HostElement>(&self) -> Result<Vec<T>> {
        if self.dtype() != T::Stored::DTYPE {
            let msg = format!("the array holds {}, not {}", self.dtype(), T::Stored::DTYPE);
            return Err(Error::dtype("to_vec", msg));
        }
        let (view, ptr) = self.host("to_vec")?;
        let mut out = room("to_vec", view.layout.elements())?;
        let ptr = ptr.cast::<T::Stored>();
        // SAFETY: the layout's elements lie inside the buffer, whose content is on the host and complete;
        // the element type is plain data and the memory is aligned for it.
        for_each_offset(&view.layout, |o| out.push(unsafe { ptr.add(o).read_unaligned() }.to_host()));
        Ok(out)
    }

    /// The bytes of all elements in row-major order. Waits for the value.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (view, ptr) = self.host("to_bytes")?;
        let (n, size) = (view.layout.elements(), view.dtype.size());
        let mut out = room("to_bytes", n * size)?;
        let mut push = |o: usize, count: usize| {
            // SAFETY: the layout's elements lie inside the buffer, whose content is on the host and complete.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(ptr.add(o * size), count * size) });
        };
        if n == 0 {
            return Ok(out);
        }
        if view.layout.is_contiguous() {
            push(view.layout.offset(), n);
        } else {
            for_each_offset(&view.layout, |o| push(o, 1));
        }
        Ok(out)
    }

    /// The one element. Waits for the value.
    ///
    /// # Errors
    /// `Shape` when there is not exactly one element; `Dtype` when it is of another type.
    pub fn item<T: HostElement>(&self) -> Result<T> {
        if self.size() != 1 {
            return Err(Error::shape("item", format!("shape {} has not exactly one element", self.shape())));
        }
        self.to_vec::<T>().map(|v| v[0])
    }
}

/// An empty vector for `n` elements. A broadcast array may have more of them than fit the memory.
fn room<T>(op: &'static str, n: usize) -> Result<Vec<T>> {
    let mut out = Vec::new();
    let stats = crate::alloc::stats(Device::CPU);
    let requested = n.saturating_mul(size_of::<T>());
    if requested > stats.limit || out.try_reserve_exact(n).is_err() {
        let (active, limit) = (stats.active, stats.limit);
        return Err(Error::OutOfMemory { op, device: Device::CPU, requested, active, limit });
    }
    Ok(out)
}

/// Calls `f` with the buffer index of every element in row-major order.
fn for_each_offset(layout: &Layout, mut f: impl FnMut(usize)) {
    let (shape, strides) = (layout.shape(), layout.strides());
    if shape.elements() == 0 {
        return;
    }
    let rank = shape.rank();
    let mut at: SmallVec<[usize; 8]> = SmallVec::from_elem(0, rank);
    let mut offset = layout.offset() as isize;
    loop {
        f(offset as usize);
        let mut axis = rank;
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            at[axis] += 1;
            offset += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis] as isize;
            at[axis] = 0;
        }
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({} {} by {})", self.dtype(), self.shape(), self.node.op.name())
    }
}
