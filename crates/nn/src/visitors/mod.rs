//! What is done to all parameters of a model: ordinary functions that visit it.

mod cast;
mod inspect;
mod load;
mod quantize;

pub use cast::{cast, set_activation_dtype};
pub use inspect::{count, nbytes, parameters};
pub use load::{Weights, load_weights};
pub use quantize::quantize;
