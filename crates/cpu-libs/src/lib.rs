//! Kernels of the CPU backend that other libraries bring: factorizations of dense matrices by `faer`, Fourier
//! transforms by `rustfft` and `realfft`.
//!
//! These libraries are generic, so their code is compiled where they are used. Here it is compiled once, for
//! the few types that arrays have, apart from the kernels that change often; what this crate exports is not
//! generic. Matrices are row-major slices without gaps; threads are the caller's business.

pub mod fft;
pub mod linalg;

/// A complex number as the libraries lay it out: `re`, `im`.
pub use rustfft::num_complex::Complex;
