//! Passes over the graph of nodes.

pub(crate) mod fuse;
pub(crate) mod passes;
pub(crate) mod program;
pub(crate) mod toposort;
