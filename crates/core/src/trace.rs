//! Which arrays a transform follows.
//!
//! A transform marks the arguments of a function with its [`Trace`]; whatever is made of marked arrays is
//! marked too. Nodes of a trace that lasts keep their inputs after they were sent, so that the graph can
//! still be walked when the function has read values. When the trace ends, the mark means nothing any more.

use crate::array::Node;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One running transform. It lasts until its [`Guard`] goes, and as long as any trace around it.
pub(crate) struct Trace {
    around: SmallVec<[Arc<Trace>; 1]>,
    running: AtomicBool,
    /// Never a transform itself: only lies inside several.
    joint: bool,
}

thread_local! {
    static INNERMOST: RefCell<Vec<Arc<Trace>>> = const { RefCell::new(Vec::new()) };
}

/// Ends its trace when it goes, also when a traced function panics.
pub(crate) struct Guard(Arc<Trace>);

impl Guard {
    /// The trace.
    pub(crate) fn trace(&self) -> &Arc<Trace> {
        &self.0
    }

    /// Ends the trace and lets nodes that were kept for it alone forget their inputs.
    pub(crate) fn end(self, nodes: &[Arc<Node>]) {
        let trace = self.0.clone();
        drop(self);
        if !trace.lasts() {
            nodes.iter().for_each(|n| n.forget());
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::Release);
        INNERMOST.with_borrow_mut(|all| all.retain(|t| !Arc::ptr_eq(t, &self.0)));
    }
}

impl Trace {
    /// Begins a trace inside those that run on this thread.
    pub(crate) fn begin() -> Guard {
        INNERMOST.with_borrow_mut(|all| {
            let trace = Arc::new(Trace {
                around: all.last().cloned().into_iter().collect(),
                running: AtomicBool::new(true),
                joint: false,
            });
            all.push(trace.clone());
            Guard(trace)
        })
    }

    /// Whether it or a trace around it runs.
    pub(crate) fn lasts(&self) -> bool {
        self.running.load(Ordering::Acquire) || self.around.iter().any(|t| t.lasts())
    }

    /// Whether it is `other` or lies inside it.
    pub(crate) fn within(&self, other: &Trace) -> bool {
        std::ptr::eq(self, other) || self.around.iter().any(|t| t.within(other))
    }

    /// The trace of what is made of arrays of both.
    pub(crate) fn join(a: Option<Arc<Trace>>, b: &Arc<Trace>) -> Option<Arc<Trace>> {
        match a {
            _ if !b.lasts() => a,
            None => Some(b.clone()),
            Some(a) if a.within(b) => Some(a),
            Some(a) if b.within(&a) => Some(b.clone()),
            Some(a) => Some(Trace::of_threads(a, b)),
        }
    }

    /// The trace of what is made of arrays of traces that began on several threads: flat, so that long programs make
    /// neither a chain nor ever new ones.
    fn of_threads(a: Arc<Trace>, b: &Arc<Trace>) -> Arc<Trace> {
        let parts = |t: &Arc<Trace>| match t.joint {
            true => t.around.clone(),
            false => SmallVec::from_iter([t.clone()]),
        };
        let (ours, theirs) = (parts(&a), parts(b));
        let new = |t: &&Arc<Trace>| t.lasts() && !ours.iter().any(|o| o.within(t));
        let mut around: SmallVec<[Arc<Trace>; 1]> = theirs.iter().filter(new).cloned().collect();
        if around.is_empty() && a.joint {
            return a;
        }
        around.extend(ours);
        Arc::new(Trace { around, running: AtomicBool::new(false), joint: true })
    }
}
