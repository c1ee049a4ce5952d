//! CPU backend of Olivine.
//!
//! The kernels in this crate work on plain pointers, lengths and strides; they know nothing of graphs.
//! Instruction sets are chosen at run time ([`simd`]), vector code is written once over [`lanes`], work is
//! split over [`pool`].

pub mod gemm;
pub mod kernels;
pub mod lanes;
pub mod pool;
pub mod simd;
pub mod vecmath;
