//! The nodes of a trace, each after its inputs.

use crate::Array;
use crate::array::Node;
use crate::graph::toposort::NodeMap;
use crate::trace::Trace;
use std::sync::Arc;

/// Nodes that a trace follows.
pub(crate) struct Tape {
    pub nodes: Vec<Arc<Node>>,
    pub index: NodeMap<u32>,
}

const OPEN: u32 = u32::MAX;

impl Tape {
    /// Everything that `outputs` are made of and `trace` follows, whether computed already or not.
    ///
    /// With a stack of its own, so that depth does not matter.
    pub fn of(outputs: &[Array], trace: &Trace) -> Tape {
        let mut tape = Tape { nodes: Vec::new(), index: NodeMap::default() };
        let follows = |n: &Node| n.trace().is_some_and(|t| t.within(trace));
        let mut stack: Vec<(Arc<Node>, usize)> = Vec::new();
        for root in outputs {
            if !follows(root.node()) || tape.index.contains_key(&Arc::as_ptr(root.node())) {
                continue;
            }
            tape.index.insert(Arc::as_ptr(root.node()), OPEN);
            stack.push((root.node().clone(), 0));
            while let Some((node, next)) = stack.last_mut() {
                let mut child = None;
                {
                    let inputs = node.inputs();
                    while let Some(a) = inputs.get(*next) {
                        *next += 1;
                        let n = a.node();
                        if follows(n) && !tape.index.contains_key(&Arc::as_ptr(n)) {
                            child = Some(n.clone());
                            break;
                        }
                    }
                }
                if let Some(child) = child {
                    tape.index.insert(Arc::as_ptr(&child), OPEN);
                    stack.push((child, 0));
                } else if let Some((node, _)) = stack.pop() {
                    tape.index.insert(Arc::as_ptr(&node), tape.nodes.len() as u32);
                    tape.nodes.push(node);
                }
            }
        }
        tape
    }

    /// Place of the node that gives `a`, when the trace follows it.
    pub fn place(&self, a: &Array) -> Option<usize> {
        self.index.get(&Arc::as_ptr(a.node())).map(|&i| i as usize)
    }
}
