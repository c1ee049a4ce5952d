//! Layers that are made of the others, or have no weights.

pub mod conv;
pub mod dropout;
pub mod pool;
pub mod positions;
pub mod prelu;
pub mod recurrent;
pub mod transformer;
