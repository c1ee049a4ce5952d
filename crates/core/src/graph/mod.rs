//! Passes over the graph of nodes.

pub(crate) mod fuse;
pub(crate) mod toposort;
