//! The functions of the module, by topic. Their parameters stand in the stubs.

pub mod conv;
pub mod create;
pub mod distributed;
pub mod elementwise;
pub mod fast;
pub mod fft;
pub mod index;
pub mod io;
pub mod linalg;
pub mod matmul;
pub mod random;
pub mod reduce;
pub mod shape;
pub mod system;
