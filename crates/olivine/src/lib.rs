//! Arrays for machine learning: lazy, in unified memory, on every device.
//!
//! This is the crate to depend on. It brings the backends that are compiled in and re-exports the parts:
//! arrays and operations ([`Array`], [`random`]), streams and devices ([`Stream`], [`Device`]), layers
//! ([`nn`]), text ([`tokenize`]) and language models ([`lm`]).
//!
//! ```
//! use olivine::{Array, Dtype};
//!
//! # fn main() -> olivine::Result<()> {
//! let x = Array::arange(0.0, 6.0, 1.0, Dtype::F32)?.reshape(&[2, 3])?;
//! let y = (&x * 2.0 + 1.0).exp()?.sum(&[-1], false)?; // nothing is computed yet
//! assert_eq!(y.shape()[..], [2]);
//! let values = y.to_vec::<f32>()?; // now it is, in one fused pass and a reduction
//! assert!((values[0] - 171.2170).abs() < 1e-3);
//! # Ok(())
//! # }
//! ```

pub use olivine_core::*;
pub use olivine_lm as lm;
pub use olivine_nn as nn;
pub use olivine_tokenize as tokenize;

/// Registers the backends that are compiled in. Happens by itself before `main`, or when the library that
/// holds this crate is loaded; calling it again does nothing.
pub fn register_backends() {
    olivine_cpu::register();
    olivine_cuda::register();
}

/// The GPU that is used where none is named.
///
/// # Errors
/// `Device` saying what is missing: no GPU, or a library, and how to install it.
pub fn gpu() -> Result<Device> {
    olivine_cuda::probe().map(|_| Device::new(DeviceKind::Cuda, 0))
}

extern "C" fn register_at_load() {
    register_backends();
}

// SAFETY: the sections hold pointers to functions that the loader calls once, without arguments that matter,
// before `main`. The function only fills a map behind a lock and starts no thread.
#[used]
#[cfg_attr(
    any(target_os = "linux", target_os = "android", target_os = "freebsd"),
    unsafe(link_section = ".init_array")
)]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static REGISTER_AT_LOAD: extern "C" fn() = register_at_load;

/// Runs the programs of the README as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Runs the programs of the page on transforms as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/transforms.md")]
struct TransformsPage;

/// Runs the program of the page on training.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training.md")]
struct Training;
