//! Products of matrices, batched over leading axes.

use super::{Meta, Metas, arity, one};
use crate::{Error, Result};

/// Product of matrices: `[batch, m, k] @ [batch, k, n]`, with equal leading axes; ops broadcast before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matmul;

impl Matmul {
    pub(super) fn name(self) -> &'static str {
        "matmul"
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let [a, b] = arity("matmul", inputs)?;
        if a.dtype != b.dtype || !a.dtype.is_inexact() {
            return Err(Error::dtype(
                "matmul",
                format!("takes floats of one type, got {} and {}", a.dtype, b.dtype),
            ));
        }
        let (r, s) = (a.shape.rank(), b.shape.rank());
        let fits =
            r >= 2 && r == s && a.shape[..r - 2] == b.shape[..r - 2] && a.shape[r - 1] == b.shape[r - 2];
        if !fits {
            return Err(Error::shape("matmul", format!("shapes {} and {} do not fit", a.shape, b.shape)));
        }
        one(a.shape.with(r - 1, b.shape[r - 1]), a.dtype)
    }
}
