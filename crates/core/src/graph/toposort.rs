//! The one traversal of the graph.

use crate::Array;
use crate::array::Node;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Hash of addresses: a multiplication spreads them well enough, and the maps are hot.
#[derive(Default)]
pub(crate) struct PtrHasher(u64);

impl Hasher for PtrHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.write_usize(b as usize);
        }
    }
    fn write_usize(&mut self, v: usize) {
        let h = (self.0 ^ v as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = h ^ (h >> 32);
    }
}

/// Map keyed by nodes.
pub(crate) type NodeMap<V> = HashMap<*const Node, V, BuildHasherDefault<PtrHasher>>;

/// Nodes that have to be scheduled, each after its inputs.
pub(crate) struct Tape {
    pub nodes: Vec<Option<Arc<Node>>>,
    pub index: NodeMap<u32>,
}

const OPEN: u32 = u32::MAX;

/// All pending nodes that `roots` depend on, each after its inputs.
///
/// Depth first, so that what was computed for one operation is used up before the next one's inputs are
/// begun: peak memory stays near that of running the program eagerly. A stack of its own instead of
/// recursion, so that depth does not matter.
pub(crate) fn toposort(roots: &[Array]) -> Tape {
    let mut tape = Tape { nodes: Vec::new(), index: NodeMap::default() };
    let mut stack: Vec<(Arc<Node>, usize)> = Vec::new();
    for root in roots {
        if !root.node().is_pending() || tape.index.contains_key(&Arc::as_ptr(root.node())) {
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
                    if n.is_pending() && !tape.index.contains_key(&Arc::as_ptr(n)) {
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
                tape.nodes.push(Some(node));
            }
        }
    }
    tape
}
