//! Derivatives of linear algebra, forward; see Giles (2008), "Collected matrix derivative results for forward
//! and reverse mode algorithmic differentiation". Backward is the transpose of the same.
//!
//! Where eigenvalues or singular values coincide, or are zero, the vectors that belong to them are not
//! determined, and what has no slope counts as having none.

use super::{Cotangents, Grad, Linalg, Op};
use crate::{Array, Dtype, Error, Result};

impl Linalg {
    pub(super) fn grad(self) -> Grad {
        match self {
            // The forward rules of all, of these too, solve systems, whose transpose therefore has to stand by itself.
            Linalg::Solve | Linalg::SolveTriangular { .. } => Grad::Explicit { jvp, vjp: transposed_system },
            Linalg::Inverse
            | Linalg::TriangularInverse { .. }
            | Linalg::Cholesky { .. }
            | Linalg::Lu
            | Linalg::Det
            | Linalg::SlogDet
            | Linalg::Qr
            | Linalg::Svd { .. }
            | Linalg::Eigh { .. }
            | Linalg::Eig { .. } => Grad::Forward(jvp),
        }
    }
}

/// With `a x = b`: the cotangent of `b` solves the system of `a^H`, that of `a` is its product with `-x^H`.
fn transposed_system(
    op: &Op,
    inputs: &[Array],
    outputs: &[Array],
    cotangents: &[Option<Array>],
    wanted: &[bool],
) -> Result<Cotangents> {
    let mut back = Cotangents::from_iter([None, None]);
    let (Op::Linalg(o), Some(c)) = (op, &cotangents[0]) else { return Ok(back) };
    let upper = if let Linalg::SolveTriangular { upper } = *o { Some(upper) } else { None };
    let reverse = upper.map_or(*o, |upper| Linalg::SolveTriangular { upper: !upper });
    let by_right = apply(reverse, &[adjoint(&inputs[0])?, c.clone()])?;
    if wanted[0] {
        let by_left = by_right.matmul(&adjoint(&outputs[0])?)?.negative()?;
        back[0] = Some(match upper {
            Some(upper) => triangle(&by_left, upper)?,
            None => by_left,
        });
    }
    if wanted[1] {
        back[1] = Some(by_right);
    }
    Ok(back)
}

/// Conjugate transpose.
fn adjoint(a: &Array) -> Result<Array> {
    let t = a.swapaxes(-1, -2)?;
    if t.dtype().is_complex() { t.conjugate() } else { Ok(t) }
}

fn apply(op: Linalg, inputs: &[Array]) -> Result<Array> {
    Array::from_op(Op::Linalg(op), inputs)
}

fn product(all: &[&Array]) -> Result<Array> {
    let mut y = all[0].clone();
    for a in &all[1..] {
        y = y.matmul(a)?;
    }
    Ok(y)
}

fn triangle(a: &Array, upper: bool) -> Result<Array> {
    if upper { a.triu(0) } else { a.tril(0) }
}

/// The diagonal of square matrices.
fn diagonal(a: &Array) -> Result<Array> {
    a.diagonal(0, -2, -1)
}

fn real(a: &Array) -> Result<Array> {
    if a.dtype().is_complex() { a.real() } else { Ok(a.clone()) }
}

/// Real numbers as the type of `like`.
fn as_type(a: &Array, like: &Array) -> Result<Array> {
    a.astype(like.dtype())
}

/// `1 / x`, and 0 where x is 0.
fn inverse_or_zero(x: &Array) -> Result<Array> {
    let zero = x.equal(&x.scalar_like(0.0))?;
    let safe = Array::select(&zero, &x.scalar_like(1.0), x)?;
    Array::select(&zero, &x.scalar_like(0.0), &safe.reciprocal()?)
}

/// The Hermitian matrix that a triangle of `a` stands for.
fn hermitian(a: &Array, upper: bool) -> Result<Array> {
    let strict = if upper { a.triu(1)? } else { a.tril(-1)? };
    let n = a.shape()[a.rank() - 1];
    let on = as_type(&real(&diagonal(a)?)?.expand_dims(&[-1])?, a)?;
    let eye = Array::identity(n, a.dtype())?;
    strict.add(&adjoint(&strict)?)?.add(&eye.multiply(&on)?)
}

/// `1 / (v[j] - v[i])` at `[i, j]`, 0 where they are equal.
fn gaps(v: &Array) -> Result<Array> {
    inverse_or_zero(&v.expand_dims(&[-2])?.subtract(&v.expand_dims(&[-1])?)?)
}

fn jvp(op: &Op, inputs: &[Array], outputs: &[Array], tangents: &[Option<Array>]) -> Result<Cotangents> {
    let Op::Linalg(o) = op else { return Ok(Cotangents::new()) };
    let a = &inputs[0];
    let da = match &tangents[0] {
        Some(t) => t.clone(),
        None => a.full_like(0.0)?,
    };
    let one = |y: Array| Ok(Cotangents::from_iter([Some(y)]));
    let y = &outputs[0];
    match *o {
        Linalg::Inverse => one(product(&[y, &da, y])?.negative()?),
        Linalg::TriangularInverse { upper } => one(product(&[y, &triangle(&da, upper)?, y])?.negative()?),
        Linalg::Solve | Linalg::SolveTriangular { .. } => {
            let da = if let Linalg::SolveTriangular { upper } = *o { triangle(&da, upper)? } else { da };
            let moved = da.matmul(y)?;
            let right = match &tangents[1] {
                Some(db) => db.subtract(&moved)?,
                None => moved.negative()?,
            };
            one(apply(*o, &[a.clone(), right])?)
        }
        Linalg::Cholesky { upper } => {
            let lower = if upper { adjoint(y)? } else { y.clone() };
            let ds = hermitian(&da, upper)?;
            let left = apply(Linalg::SolveTriangular { upper: false }, &[lower.clone(), ds])?;
            let middle = apply(Linalg::SolveTriangular { upper: false }, &[lower.clone(), adjoint(&left)?])?;
            // Hermitian; its lower half with half of the diagonal.
            let n = a.shape()[a.rank() - 1];
            let halves = Array::tri(n, n, 0, middle.dtype())?
                .subtract(&Array::identity(n, middle.dtype())?.scale(0.5)?)?;
            let dl = lower.matmul(&middle.multiply(&halves)?)?;
            one(if upper { adjoint(&dl)? } else { dl })
        }
        Linalg::Lu => lu(y, &outputs[2], &da),
        Linalg::Det => {
            let ratio = diagonal(&apply(Linalg::Solve, &[a.clone(), da])?)?.sum(&[-1], false)?;
            one(y.multiply(&ratio)?)
        }
        Linalg::SlogDet => {
            let ratio = diagonal(&apply(Linalg::Solve, &[a.clone(), da])?)?.sum(&[-1], false)?;
            if !a.dtype().is_complex() {
                return Ok(Cotangents::from_iter([None, Some(ratio)]));
            }
            let turn = ratio.subtract(&as_type(&ratio.real()?, &ratio)?)?;
            Ok(Cotangents::from_iter([Some(y.multiply(&turn)?), Some(ratio.real()?)]))
        }
        Linalg::Qr => qr(a, y, &outputs[1], &da),
        Linalg::Svd { vectors } => svd(a, outputs, vectors, &da),
        Linalg::Eigh { upper, vectors } => eigh(a, outputs, upper, vectors, &da),
        Linalg::Eig { vectors } => eig(a, outputs, vectors, &da),
    }
}

/// `a` beside or above parts of the unit matrix, so that it becomes square.
fn squared(a: &Array, n: usize) -> Result<Array> {
    let (rows, columns) = (a.shape()[a.rank() - 2], a.shape()[a.rank() - 1]);
    let eye = Array::identity(n, a.dtype())?;
    let (axis, rest) =
        if rows < n { (-2, eye.slice_axis(0, rows, n)?) } else { (-1, eye.slice_axis(1, columns, n)?) };
    if rows >= n && columns >= n {
        return Ok(a.clone());
    }
    let mut shape: Vec<usize> = a.shape()[..a.rank() - 2].to_vec();
    shape.extend_from_slice(rest.shape());
    crate::ops::concatenate(&[a.clone(), rest.broadcast_to(&shape)?], axis)
}

/// `P da = dL U + L dU`; what is missing to square factors is filled up with ones.
fn lu(packed: &Array, perm: &Array, da: &Array) -> Result<Cotangents> {
    let r = packed.rank();
    let (m, n) = (packed.shape()[r - 2], packed.shape()[r - 1]);
    let k = m.min(n);
    let l = packed.slice_axis(-1, 0, k)?.tril(-1)?;
    let l = squared(&l.add(&Array::eye(m, k, 0, l.dtype())?)?, m)?;
    let u = squared(&packed.slice_axis(-2, 0, k)?.triu(0)?, n)?;
    let rows = perm.expand_dims(&[-1])?.broadcast_to(da.shape())?;
    let da = da.take_along_axis(&rows, -2)?;
    let left = apply(Linalg::SolveTriangular { upper: false }, &[l.clone(), da])?;
    // X U = left.
    let both =
        apply(Linalg::SolveTriangular { upper: false }, &[u.swapaxes(-1, -2)?, left.swapaxes(-1, -2)?])?;
    let both = both.swapaxes(-1, -2)?;
    let y = l.matmul(&both.tril(-1)?)?.add(&both.triu(0)?.matmul(&u)?)?;
    Ok(Cotangents::from_iter([Some(y), None, None]))
}

fn qr(a: &Array, q: &Array, r: &Array, da: &Array) -> Result<Cotangents> {
    let (m, n) = (a.shape()[a.rank() - 2], a.shape()[a.rank() - 1]);
    let k = m.min(n);
    // The square part of a wide matrix decides about q.
    let (r1, da1) = (r.slice_axis(-1, 0, k)?, da.slice_axis(-1, 0, k)?);
    let c = apply(Linalg::SolveTriangular { upper: false }, &[r1.swapaxes(-1, -2)?, da1.swapaxes(-1, -2)?])?;
    let c = c.swapaxes(-1, -2)?;
    let inner = adjoint(q)?.matmul(&c)?;
    let lower = inner.tril(-1)?;
    let mut turn = lower.subtract(&adjoint(&lower)?)?;
    if inner.dtype().is_complex() {
        let imaginary = inner.subtract(&as_type(&inner.real()?, &inner)?)?;
        turn = turn.add(&imaginary.multiply(&Array::identity(k, inner.dtype())?)?)?;
    }
    let dq = q.matmul(&turn.subtract(&inner)?)?.add(&c)?;
    let mut dr = inner.subtract(&turn)?.matmul(&r1)?;
    if n > k {
        let (a2, da2) = (a.slice_axis(-1, k, n)?, da.slice_axis(-1, k, n)?);
        let dr2 = adjoint(&dq)?.matmul(&a2)?.add(&adjoint(q)?.matmul(&da2)?)?;
        dr = crate::ops::concatenate(&[dr, dr2], -1)?;
    }
    Ok(Cotangents::from_iter([Some(dq), Some(dr)]))
}

fn eigh(a: &Array, outputs: &[Array], upper: bool, vectors: bool, da: &Array) -> Result<Cotangents> {
    let (w, v) = match vectors {
        true => (outputs[0].clone(), outputs[1].clone()),
        false => pair(Linalg::Eigh { upper, vectors: true }, a)?,
    };
    let inner = product(&[&adjoint(&v)?, &hermitian(da, upper)?, &v])?;
    let dw = real(&diagonal(&inner)?)?;
    if !vectors {
        return Ok(Cotangents::from_iter([Some(dw)]));
    }
    let turn = as_type(&gaps(&w)?, &inner)?.multiply(&inner)?;
    Ok(Cotangents::from_iter([Some(dw), Some(v.matmul(&turn)?)]))
}

fn pair(op: Linalg, a: &Array) -> Result<(Array, Array)> {
    let all = Array::from_op_multi(Op::Linalg(op), std::slice::from_ref(a))?;
    match &all[..] {
        [x, y] => Ok((x.clone(), y.clone())),
        _ => Err(Error::value(op.name(), format!("{} results, not two", all.len()))),
    }
}

/// Eigenvectors keep their length; their phase does not turn.
fn eig(a: &Array, outputs: &[Array], vectors: bool, da: &Array) -> Result<Cotangents> {
    let (w, v) = match vectors {
        true => (outputs[0].clone(), outputs[1].clone()),
        false => pair(Linalg::Eig { vectors: true }, a)?,
    };
    let da = da.astype(Dtype::C64)?;
    let inner = apply(Linalg::Solve, &[v.clone(), da.matmul(&v)?])?;
    let dw = diagonal(&inner)?;
    if !vectors {
        return Ok(Cotangents::from_iter([Some(dw)]));
    }
    let dv = v.matmul(&gaps(&w)?.multiply(&inner)?)?;
    let along = v.conjugate()?.multiply(&dv)?.sum(&[-2], true)?.real()?.astype(Dtype::C64)?;
    Ok(Cotangents::from_iter([Some(dw), Some(dv.subtract(&v.multiply(&along)?)?)]))
}

/// Singular vectors beyond the rank of the shape turn as little as they can.
fn svd(a: &Array, outputs: &[Array], vectors: bool, da: &Array) -> Result<Cotangents> {
    let all = match vectors {
        true => outputs.to_vec(),
        false => {
            Array::from_op_multi(Op::Linalg(Linalg::Svd { vectors: true }), std::slice::from_ref(a))?.to_vec()
        }
    };
    let (u, s, vh) = (&all[0], &all[1], &all[2]);
    let (m, n) = (a.shape()[a.rank() - 2], a.shape()[a.rank() - 1]);
    let k = m.min(n);
    let inner = product(&[&adjoint(u)?, da, &adjoint(vh)?])?;
    let square = inner.slice_axis(-1, 0, k)?.slice_axis(-2, 0, k)?;
    let ds = real(&diagonal(&square)?)?;
    if !vectors {
        return Ok(Cotangents::from_iter([Some(ds)]));
    }
    let row = as_type(&s.expand_dims(&[-2])?, &square)?;
    let column = as_type(&s.expand_dims(&[-1])?, &square)?;
    let squares = s.square()?;
    let f = as_type(&gaps(&squares)?, &square)?;
    let back = adjoint(&square)?;
    let mut left = f.multiply(&square.multiply(&row)?.add(&column.multiply(&back)?)?)?;
    let right = f.multiply(&column.multiply(&square)?.add(&back.multiply(&row)?)?)?;
    if square.dtype().is_complex() {
        // The phase that both vectors share goes to the left ones.
        let half = as_type(&inverse_or_zero(s)?.scale(0.5)?.expand_dims(&[-2])?, &square)?;
        let phase = square.subtract(&back)?.multiply(&half)?;
        left = left.add(&phase.multiply(&Array::identity(k, square.dtype())?)?)?;
    }
    let by_size = as_type(&inverse_or_zero(s)?.expand_dims(&[-2])?, &square)?;
    // [[turn, -x^H], [x, 0]] for what lies outside the first k vectors.
    let bordered = |turn: &Array, outside: Option<Array>| -> Result<Array> {
        let Some(x) = outside else { return Ok(turn.clone()) };
        let x = x.multiply(&by_size)?;
        let rest = x.matmul(&adjoint(&x)?)?.full_like(0.0)?;
        let top = crate::ops::concatenate(&[turn.clone(), adjoint(&x)?.negative()?], -1)?;
        let bottom = crate::ops::concatenate(&[x, rest], -1)?;
        crate::ops::concatenate(&[top, bottom], -2)
    };
    let below = (m > k).then(|| inner.slice_axis(-2, k, m)).transpose()?;
    let beside = (n > k).then(|| inner.slice_axis(-1, k, n).and_then(|x| adjoint(&x))).transpose()?;
    let du = u.matmul(&bordered(&left, below)?)?;
    let dvh = adjoint(&bordered(&right, beside)?)?.matmul(vh)?;
    Ok(Cotangents::from_iter([Some(du), Some(ds), Some(dvh)]))
}
