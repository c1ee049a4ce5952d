//! CPU backend of Olivine.
//!
//! The kernels in this crate work on plain pointers, lengths and strides; they know nothing of graphs.
//! Instruction sets are chosen at run time ([`simd`]), vector code is written once over [`lanes`], work is
//! split over [`pool`].

mod backend;
mod elementwise;
pub mod gemm;
pub mod kernels;
pub mod lanes;
pub mod launch;
mod memory;
pub mod pool;
mod raw;
pub mod simd;
pub mod vecmath;

pub use backend::{CpuBackend, LIMITS, register};
