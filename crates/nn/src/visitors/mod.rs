//! What is done to all parameters of a model: ordinary functions that visit it.

mod cast;
mod inspect;
mod load;
mod quantize;
mod train;

pub use cast::{cast, set_activation_dtype};
pub use inspect::{count, nbytes, parameters};
pub use load::{Weights, load_file, load_weights, save_file};
pub use quantize::quantize;
pub use train::{freeze, set_parameters, set_training, trainable_parameters, unfreeze};
