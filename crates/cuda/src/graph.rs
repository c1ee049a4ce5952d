//! Launches that wait to be sent together.
//!
//! Sending a kernel by itself costs the host a few microseconds, more than many kernels run. Launches of a
//! stream therefore gather until somebody needs them to be sent; a sequence of kernels that comes again goes
//! out as one graph, in which only sizes and addresses are set anew.

use crate::api::{Function, Graph, RawStream};
use olivine_core::{Device, Result};
use std::collections::HashMap;
use std::ffi::c_void;

/// Fewest launches that go out as a graph.
const LEAST: usize = 8;
/// Launches after which the GPU is given what there is, so that it works while more come.
const MOST: usize = 64;
/// Graphs of a stream; sequences beyond these are sent kernel by kernel.
const GRAPHS: usize = 512;
/// Sequences that are remembered to have come once.
const SEEN: usize = 4096;

/// How a kernel is launched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub op: &'static str,
    pub function: Function,
    pub grid: [u32; 3],
    pub block: [u32; 2],
    pub shared: u32,
}

enum Known {
    /// It has come once.
    Seen,
    Ready(Graph),
}

/// The launches of one stream that are not sent yet.
#[derive(Default)]
pub(crate) struct Batch {
    calls: Vec<Call>,
    /// Parameters of all of them, and where those of each begin: of call `i` from `bounds[i]` on.
    words: Vec<u64>,
    starts: Vec<usize>,
    bounds: Vec<usize>,
    known: HashMap<Box<[Function]>, Known>,
    graphs: usize,
    key: Vec<Function>,
}

impl Batch {
    /// Adds a launch; true when it is time to send.
    pub(crate) fn push(&mut self, call: Call, words: &[u64], starts: &[usize]) -> bool {
        let at = self.words.len();
        self.bounds.push(self.starts.len());
        self.words.extend_from_slice(words);
        self.starts.extend(starts.iter().map(|s| at + s));
        self.calls.push(call);
        self.calls.len() >= MOST
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Sends all of them, in order.
    ///
    /// # Safety
    /// As for [`Function::launch`], for each of them.
    pub(crate) unsafe fn send(&mut self, device: Device, overlap: bool, stream: RawStream) -> Result<()> {
        let base = self.words.as_mut_ptr();
        // SAFETY: starts lie inside the words.
        let mut pointers: Vec<*mut c_void> =
            self.starts.iter().map(|&s| unsafe { base.add(s) }.cast()).collect();
        self.bounds.push(pointers.len());
        // SAFETY: the caller's promise.
        let sent = unsafe { self.send_with(device, overlap, stream, &mut pointers) };
        self.calls.clear();
        self.words.clear();
        self.starts.clear();
        self.bounds.clear();
        sent
    }

    unsafe fn send_with(
        &mut self,
        device: Device,
        overlap: bool,
        stream: RawStream,
        pointers: &mut [*mut c_void],
    ) -> Result<()> {
        if self.calls.len() >= LEAST {
            self.key.clear();
            self.key.extend(self.calls.iter().map(|c| c.function));
            match self.known.get_mut(&self.key[..]) {
                Some(Known::Ready(graph)) => {
                    // SAFETY: the caller's promise; the graph is of these kernels.
                    unsafe { graph.set(device, &self.calls, pointers, &self.bounds)? };
                    return graph.launch(device, stream);
                }
                Some(seen) if self.graphs < GRAPHS => {
                    // SAFETY: the caller's promise.
                    let graph = unsafe { Graph::new(device, &self.calls, pointers, &self.bounds)? };
                    let launched = graph.launch(device, stream);
                    *seen = Known::Ready(graph);
                    self.graphs += 1;
                    return launched;
                }
                Some(_) => {}
                None => {
                    if self.known.len() >= SEEN {
                        self.known.retain(|_, k| matches!(k, Known::Ready(_)));
                    }
                    self.known.insert(self.key.clone().into_boxed_slice(), Known::Seen);
                }
            }
        }
        for (i, c) in self.calls.iter().enumerate() {
            let own = &mut pointers[self.bounds[i]..self.bounds[i + 1]];
            // SAFETY: the caller's promise.
            unsafe { c.function.launch(c, device, overlap, stream, own)? };
        }
        Ok(())
    }
}
