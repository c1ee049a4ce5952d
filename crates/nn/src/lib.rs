//! Neural-network modules on Olivine's arrays.
//!
//! A model is a struct whose fields are modules and whose `forward` is an ordinary method with real
//! arguments. `#[derive(Module)]` gives it [`Module::visit`], the only way in to its parameters: loading,
//! counting, casting and quantizing are visitors, ordinary functions in [`visitors`], and a new one needs no
//! change to any model.
//!
//! [`Linear`] and [`Embedding`] are one type each, whatever their weights are made of: [`Weight`] is state.
//! Quantizing a model changes values, never the types of its fields.

// The derive macro names this crate from outside and from inside alike.
extern crate self as olivine_nn;

mod embedding;
mod linear;
mod module;
mod norm;
mod rope;
pub mod visitors;
mod weight;

pub use embedding::Embedding;
pub use linear::Linear;
pub use module::{Module, Visitor, join};
pub use norm::RmsNorm;
pub use olivine_core::Result;
pub use olivine_nn_derive::Module;
pub use rope::{Rope, RopeScaling};
pub use weight::{Packed, Weight};
