//! Passes over the graph of nodes.

pub(crate) mod fuse;
pub(crate) mod passes;
pub(crate) mod print;
pub(crate) mod program;
pub(crate) mod toposort;
pub(crate) mod whole;
