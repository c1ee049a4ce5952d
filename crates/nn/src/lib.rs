//! Neural-network modules on Olivine's arrays, and what trains them.
//!
//! A model is a struct whose fields are modules and whose `forward` is an ordinary method with real
//! arguments. `#[derive(Module)]` gives it [`Module::visit`], the only way in to its parameters: loading,
//! counting, casting, quantizing and freezing are visitors, ordinary functions in [`visitors`], and a new one needs no
//! change to any model.
//!
//! Fields of type [`Param`] are learnt; [`value_and_grad`] gives their gradients, [`optim`] the steps, [`losses`] what
//! is made small. Models and optimizers are trees of arrays, so
//! [`compile_step`](olivine_core::transforms::compile_step) takes them as the state of a training step.
//!
//! [`Linear`] and [`Embedding`] are one type each, whatever their weights are made of: [`Weight`] is state.
//! Quantizing a model changes values, never the types of its fields.

// The derive macro names this crate from outside and from inside alike.
extern crate self as olivine_nn;

pub mod activations;
mod embedding;
mod grad;
pub mod init;
mod layers;
mod linear;
pub mod losses;
mod module;
mod norm;
pub mod optim;
mod param;
mod rope;
#[doc(hidden)]
pub mod tree;
pub mod visitors;
mod weight;

pub use embedding::Embedding;
pub use grad::{Gradients, value_and_grad};
pub use layers::conv::{
    Conv, Conv1d, Conv2d, Conv3d, ConvTranspose, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
};
pub use layers::dropout::Dropout;
pub use layers::pool::{AvgPool, AvgPool1d, AvgPool2d, AvgPool3d, MaxPool, MaxPool1d, MaxPool2d, MaxPool3d};
pub use layers::positions::{SinusoidalEncoding, alibi, alibi_slopes};
pub use layers::prelu::Prelu;
pub use layers::recurrent::{Gru, Lstm, Rnn};
pub use layers::transformer::{
    AttentionDims, MultiHeadAttention, Transformer, TransformerConfig, TransformerDecoder,
    TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer,
};
pub use linear::{Bilinear, Linear};
pub use module::{Activation, Module, Visitor, join};
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use olivine_core::transforms::{Signature, Tree};
pub use olivine_core::{Array, Result};
pub use olivine_nn_derive::Module;
pub use param::{Param, Training};
pub use rope::{Rope, RopeScaling};
pub use weight::{Packed, Weight};
