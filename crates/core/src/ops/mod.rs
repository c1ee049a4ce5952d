//! What users call, by topic. Everything returns a `Result`; the infix operators panic with its message.

mod create;
mod elementwise;
mod fast;
mod index;
mod matmul;
mod operators;
mod quant;
mod reduce;
mod shape;
mod sort;

pub use fast::Mask;
pub use operators::Number;
pub use shape::{concatenate, stack};
