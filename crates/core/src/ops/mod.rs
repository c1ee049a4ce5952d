//! What users call, by topic. Everything returns a `Result`; the infix operators panic with its message.

mod arrange;
mod contract;
mod conv;
mod create;
mod einsum;
mod elementwise;
mod fast;
mod index;
mod indexing;
mod logic;
mod matmul;
mod matrices;
mod numeric;
mod operators;
mod pad;
mod quant;
mod reduce;
mod shape;
mod sort;
mod statistics;
mod values;

pub use arrange::{Indexing, broadcast_arrays, broadcast_shapes, depends, meshgrid};
pub use contract::{inner, kron, outer, tensordot, tensordot_last, vecdot};
pub use conv::{ConvParams, ConvolveMode, convolve};
pub use einsum::{EinsumPath, einsum, einsum_path};
pub use fast::Mask;
pub use indexing::{At, IndexItem};
pub(crate) use numeric::trigamma;
pub use operators::Number;
pub use pad::PadMode;
pub use quant::PackedArray;
pub use shape::{concatenate, stack};
pub use statistics::Interpolation;
pub use values::Unique;
