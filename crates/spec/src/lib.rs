//! What every operation of Olivine must do.
//!
//! [`calls`] is the registry: the public functions of `mlx.core` by name, each bound to its Rust counterpart.
//! [`coverage`] compares it with the names that MLX has. What is still to be written stands in
//! `data/pending/`; whoever registers a function takes its name out there, and a test insists.

pub mod args;
pub mod calls;
pub mod coverage;
pub mod value;

pub use args::{Args, Given, Key};
pub use calls::Call;
pub use value::Value;
