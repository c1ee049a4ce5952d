//! Random bits from counters and keys, by Threefry-2x32 (Salmon et al. 2011, "Parallel random numbers: as
//! easy as 1, 2, 3").

use super::{Meta, Metas, arity, one};
use crate::shape::Shape;
use crate::{Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Random numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Random {
    /// Uniform bits in elements of `width` bytes (1, 2 or 4). The argument is one key, `u32[2]`, or a batch
    /// of them, `u32[..., 2]`, whose leading axes come first in the result.
    Bits {
        /// Sizes per key.
        shape: Shape,
        /// Bytes of an element.
        width: u8,
    },
}

impl Random {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Random::Bits { .. } => "bits",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let [key] = arity("bits", inputs)?;
        let Random::Bits { shape, width } = self;
        if key.dtype != Dtype::U32 || key.shape.last() != Some(&2) {
            let msg = format!("a key is uint32 of shape (..., 2), got {} of shape {}", key.dtype, key.shape);
            return Err(Error::shape("bits", msg));
        }
        let dtype = match width {
            1 => Dtype::U8,
            2 => Dtype::U16,
            4 => Dtype::U32,
            _ => return Err(Error::value("bits", format!("width must be 1, 2 or 4 bytes, got {width}"))),
        };
        let dims: Vec<usize> =
            key.shape[..key.shape.rank() - 1].iter().chain(shape.iter()).copied().collect();
        one(Shape::checked("bits", &dims)?, dtype)
    }
}
