//! Products of matrices, batched over leading axes.

use super::{Grad, Meta, Metas, Op, View, one};
use crate::shape::Shape;
use crate::{Array, Dtype, Error, Result};
use serde::{Deserialize, Serialize};

/// Products of matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Matmul {
    /// `[batch, m, k] @ [batch, k, n]`, with equal leading axes; ops broadcast before.
    Product,
    /// Arguments: `a` and `b` as above, and `c` of the result's shape: `alpha * a @ b + beta * c`, rounded once.
    Add {
        /// Bits of the `f32` factor of the product.
        alpha: u32,
        /// Bits of the `f32` factor of `c`.
        beta: u32,
    },
    /// Arguments: `a [.., m, k]`, `b [.., k, n]`, and two `u32` arrays of one shape, which count the matrices of
    /// `a` and of `b` over all leading axes. The product of each pair: shape of the indices, then `[m, n]`.
    Gather,
    /// Arguments: `a [m, k]`, `b [k, n]`, and `u32` limits `[.., 2]`. The products over `k` from the first to
    /// before the second limit: shape of the limits without the last axis, then `[m, n]`.
    Segmented,
}

impl Matmul {
    pub(super) fn name(self) -> &'static str {
        match self {
            Matmul::Product => "matmul",
            Matmul::Add { .. } => "addmm",
            Matmul::Gather => "gather_mm",
            Matmul::Segmented => "segmented_mm",
        }
    }

    pub(super) fn infer(self, inputs: &[&Meta]) -> Result<Metas> {
        let name = self.name();
        let wanted = match self {
            Matmul::Product => 2,
            Matmul::Add { .. } | Matmul::Segmented => 3,
            Matmul::Gather => 4,
        };
        let (&[a, b, ..], true) = (inputs, inputs.len() == wanted) else {
            return Err(Error::value(name, format!("takes {wanted} arrays, got {}", inputs.len())));
        };
        let takes = a.dtype.is_inexact() || (a.dtype.is_integer() && matches!(self, Matmul::Product));
        if a.dtype != b.dtype || !takes {
            let msg = format!("takes numbers of one type, got {} and {}", a.dtype, b.dtype);
            return Err(Error::dtype(name, msg));
        }
        let (r, s) = (a.shape.rank(), b.shape.rank());
        let lead = match self {
            Matmul::Product | Matmul::Add { .. } => r == s && r >= 2 && a.shape[..r - 2] == b.shape[..r - 2],
            Matmul::Gather => true,
            Matmul::Segmented => r == 2 && s == 2,
        };
        if r < 2 || s < 2 || a.shape[r - 1] != b.shape[s - 2] || !lead {
            return Err(Error::shape(name, format!("shapes {} and {} do not fit", a.shape, b.shape)));
        }
        let (m, n) = (a.shape[r - 2], b.shape[s - 1]);
        let product = |lead: &[usize]| {
            let shape: Vec<usize> = lead.iter().copied().chain([m, n]).collect();
            Shape::checked(name, &shape)
        };
        match self {
            Matmul::Product => one(product(&a.shape[..r - 2])?, a.dtype),
            Matmul::Add { .. } => {
                let (c, shape) = (inputs[2], product(&a.shape[..r - 2])?);
                if c.dtype != a.dtype || c.shape != shape {
                    let msg = format!("{} {} is added to a product of {} {shape}", c.dtype, c.shape, a.dtype);
                    return Err(Error::shape(name, msg));
                }
                one(shape, a.dtype)
            }
            Matmul::Gather => {
                let (lhs, rhs) = (inputs[2], inputs[3]);
                if lhs.dtype != Dtype::U32 || rhs.dtype != Dtype::U32 || lhs.shape != rhs.shape {
                    let msg = format!(
                        "indices are uint32 of one shape, got {} {} and {} {}",
                        lhs.dtype, lhs.shape, rhs.dtype, rhs.shape
                    );
                    return Err(Error::shape(name, msg));
                }
                one(product(&lhs.shape)?, a.dtype)
            }
            Matmul::Segmented => {
                let limits = inputs[2];
                let Some((2, lead)) = limits.shape.split_last() else {
                    let msg = format!("limits of segments have shape (.., 2), got {}", limits.shape);
                    return Err(Error::shape(name, msg));
                };
                if limits.dtype != Dtype::U32 {
                    return Err(Error::bad_dtype(name, "limits in uint32", limits.dtype));
                }
                one(product(lead)?, a.dtype)
            }
        }
    }

    pub(super) fn fallback(self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
        match (self, inputs) {
            (Matmul::Add { alpha, beta }, [a, b, c]) => {
                let (alpha, beta) = (f32::from_bits(alpha) as f64, f32::from_bits(beta) as f64);
                let d = a.dtype();
                // Half types would round, and overflow, before the factors apply.
                let wide = if matches!(d, Dtype::F16 | Dtype::BF16) { Dtype::F32 } else { d };
                let sum = || {
                    let y = a.astype(wide)?.matmul(&b.astype(wide)?)?.scale(alpha)?;
                    y.add(&c.astype(wide)?.scale(beta)?)?.astype(d)
                };
                Some(sum().map(|y| vec![y]))
            }
            (Matmul::Gather, [a, b, lhs, rhs]) => {
                let pick = |x: &Array, i: &Array| {
                    let r = x.rank();
                    let n: usize = x.shape()[..r - 2].iter().product();
                    x.reshape(&[n, x.shape()[r - 2], x.shape()[r - 1]])?.take(i, 0)
                };
                Some(pick(a, lhs).and_then(|a| a.matmul(&pick(b, rhs)?)).map(|y| vec![y]))
            }
            (Matmul::Segmented, [a, b, limits]) => {
                // Whatever lies outside a segment is replaced by zeros.
                let sum = || {
                    let k = a.shape()[1];
                    let at = Array::arange(0.0, k as f64, 1.0, Dtype::U32)?;
                    let first = limits.slice_axis(-1, 0, 1)?.expand_dims(&[-1])?;
                    let last = limits.slice_axis(-1, 1, 2)?.expand_dims(&[-1])?;
                    let inside = at.greater_equal(&first)?.logical_and(&at.less(&last)?)?;
                    let none = a.scalar_like(0.0);
                    let a = Array::select(&inside, a, &none)?;
                    // `b` has a row of zeros wherever `a` has: infinities there must not meet zeros.
                    let b = Array::select(&inside.swapaxes(-1, -2)?, b, &none)?;
                    a.matmul(&b)
                };
                Some(sum().map(|y| vec![y]))
            }
            _ => None,
        }
    }
}

impl Matmul {
    pub(super) fn grad(self) -> Grad {
        match self {
            Matmul::Product => Grad::Multilinear(transpose),
            Matmul::Add { .. } | Matmul::Gather | Matmul::Segmented => Grad::ViaFallback,
        }
    }
}

fn transpose(op: &Op, inputs: &[Array], cotangents: &[Option<Array>], i: usize) -> Result<Option<Array>> {
    let Some(c) = &cotangents[0] else { return Ok(None) };
    let other = &inputs[1 - i];
    let other = if other.dtype().is_complex() { other.conjugate()? } else { other.clone() };
    if i == 1 && is_transposed(&inputs[1]) {
        // The weights of a layer. Their gradient comes out as they lie in memory, so that the steps of optimizers
        // read it from end to end.
        let product = Array::from_op(op.clone(), &[c.swapaxes(-1, -2)?, other])?;
        return product.swapaxes(-1, -2).map(Some);
    }
    let other = other.swapaxes(-1, -2)?;
    let pair = if i == 0 { [c.clone(), other] } else { [other, c.clone()] };
    Array::from_op(op.clone(), &pair).map(Some)
}

/// Whether an array is another one with its last two axes swapped.
fn is_transposed(a: &Array) -> bool {
    let Op::View(View::Transpose(perm)) = a.op() else { return false };
    let n = perm.len();
    n >= 2
        && perm.iter().enumerate().all(|(i, &p)| {
            let swapped = match n - i {
                1 => n - 2,
                2 => n - 1,
                _ => i,
            };
            usize::from(p) == swapped
        })
}

/// A batch of left sides for one right side is one product with more rows.
pub(super) fn batched(op: &Op, inputs: &[Array], flags: &[bool], n: usize) -> Result<Vec<Array>> {
    let Op::Matmul(matmul) = op else { return Ok(Vec::new()) };
    if matches!(matmul, Matmul::Gather | Matmul::Segmented) {
        let composite = |x: &[Array]| matmul.fallback(x).unwrap_or_else(|| Ok(Vec::new()));
        return crate::transforms::batch_function(composite, inputs, flags, n);
    }
    if *matmul == Matmul::Product && !flags[1] && inputs[1].rank() == 2 {
        return Ok(vec![inputs[0].matmul(&inputs[1])?]);
    }
    let all: Vec<Array> = inputs
        .iter()
        .zip(flags)
        .map(
            |(x, &b)| {
                if b { Ok(x.clone()) } else { x.broadcast_to(&crate::transforms::prefixed(n, x.shape())) }
            },
        )
        .collect::<Result<_>>()?;
    Ok(vec![Array::from_op(op.clone(), &all)?])
}
