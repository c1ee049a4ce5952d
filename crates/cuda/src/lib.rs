//! Olivine on NVIDIA GPUs.
//!
//! Nothing of CUDA is needed to build this crate or to start a program that links it: the driver, NVRTC and
//! cuBLASLt are loaded when a GPU is first asked for, and a library that is missing is an error that names it
//! and how to install it. [`register`] makes the backend known; what is there shows in
//! [`Backend::info`](olivine_core::backend::Backend::info) and [`probe`].
//!
//! Kernels are CUDA C++. Elementwise work, fused or not, is generated from its [`Expr`](olivine_core::expr::Expr)
//! ([`codegen`]); everything else is written by hand in `kernels/*.cu`, specialised by macros for types. NVRTC
//! compiles both on first need, and the machine code is kept on disk ([`compile`]).
//!
//! Work is sent by the calling thread, straight into a CUDA stream for each stream of core ([`stream`]). A
//! stream's place on its timeline is a number that the GPU writes to memory of the host, so asking whether
//! something is done is one load. Indices are checked by the kernels that use them; one that is out of range
//! is reported through memory of the host, too, and becomes the error of the stream.
//!
//! An operation without a kernel here runs on the CPU, which [`supports`](launch::supports) says.

mod api;
mod backend;
pub mod codegen;
pub mod compile;
mod device;
mod graph;
pub mod kernels;
pub mod launch;
mod modules;
mod staging;
mod stream;

pub use api::probe;
pub use backend::{CudaBackend, register};
