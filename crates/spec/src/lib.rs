//! What every operation of Olivine must do.
//!
//! [`calls`] is the registry: the public functions of `mlx.core` by name, each bound to its Rust counterpart.
//! [`coverage`] compares it with the names that MLX has. What is still to be written stands in
//! `data/pending/`; whoever registers a function takes its name out there, and a test insists.
//!
//! [`rows`] holds one row for every kind of operation: how to make arguments, and a plain reference in `f64`,
//! exact integers or complex `f64`, written to be obviously right rather than fast and sharing no code with
//! kernels. [`check`] runs them on any device; `olivine selftest` does so on a user's machine.

pub mod args;
pub mod calls;
pub mod check;
pub mod coverage;
pub mod derive;
pub mod draw;
pub mod fuzz;
pub mod host;
pub mod programs;
pub mod rows;
pub mod table;
pub mod value;
pub mod wire;

pub use args::{Args, Given, Key};
pub use calls::Call;
pub use value::Value;
