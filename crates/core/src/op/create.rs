//! Arrays out of nothing: constants, ranges, and data that is read when it is first needed.

use super::{Meta, Metas, arity, one};
use crate::dtype::Scalar;
use crate::shape::Shape;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Arrays out of nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Create {
    /// Every element is `value`.
    Full {
        /// The element.
        value: Scalar,
        /// Sizes.
        shape: Shape,
    },
    /// `start + i * step` for `i < len`; both scalars have the type of the result.
    Arange {
        /// First element.
        start: Scalar,
        /// Distance.
        step: Scalar,
        /// How many.
        len: usize,
    },
    /// Whatever a [`Source`] gives, such as a part of a file.
    #[serde(skip)]
    Load(SourceRef),
}

/// Data that is read, on the host, when an array of it is first evaluated.
pub trait Source: Send + Sync {
    /// What it is, for errors and prints.
    fn describe(&self) -> String;
    /// The arrays that it gives.
    fn metas(&self) -> Metas;
    /// Writes all arrays, each row-major into a slice of exactly its bytes.
    fn read(&self, outputs: &mut [&mut [u8]]) -> Result<()>;
}

/// A shared [`Source`]; two are equal when they are the same one.
#[derive(Clone)]
pub struct SourceRef(pub Arc<dyn Source>);

impl std::fmt::Debug for SourceRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.describe())
    }
}
impl PartialEq for SourceRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
impl Eq for SourceRef {}
impl Hash for SourceRef {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).cast::<()>().hash(state);
    }
}

impl Create {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Create::Full { .. } => "full",
            Create::Arange { .. } => "arange",
            Create::Load(_) => "load",
        }
    }

    pub(super) fn infer(&self, inputs: &[&Meta]) -> Result<Metas> {
        let [] = arity(self.name(), inputs)?;
        match self {
            Create::Full { value, shape } => one(Shape::checked("full", shape)?, value.dtype()),
            Create::Arange { start, step, len } => {
                if start.dtype() != step.dtype() {
                    let msg = format!("start is {} and step {}", start.dtype(), step.dtype());
                    return Err(Error::dtype("arange", msg));
                }
                one(Shape::checked("arange", &[*len])?, start.dtype())
            }
            Create::Load(s) => Ok(SmallVec::from_iter(s.0.metas())),
        }
    }
}
