//! Linear algebra: `olivine.core.linalg`.

use crate::args::Args;
use crate::fault::{R, value_error};
use crate::function::table;
use crate::give::{Give, Several};
use olivine_core::Array;
use olivine_core::linalg::{self, Ord};
use pyo3::prelude::*;
use pyo3::types::PyString;

fn ord(a: &Args<'_, '_>) -> R<Option<Ord>> {
    let Some(v) = a.opt("ord") else { return Ok(None) };
    if !v.is_instance_of::<PyString>() {
        return Ok(Some(Ord::P(a.f64("ord")?)));
    }
    match a.str("ord")?.as_str() {
        "fro" | "f" => Ok(Some(Ord::Frobenius)),
        "nuc" => Ok(Some(Ord::Nuclear)),
        other => Err(value_error(format!("[norm] {other:?} is no order"))),
    }
}

/// The norm that `linalg.norm` and `matrix_norm` give.
pub fn norm(a: &Args<'_, '_>) -> R<Array> {
    Ok(linalg::norm(&a.array(0)?, ord(a)?, a.opt_axes("axis")?.as_deref(), a.bool_or("keepdims", false)?)?)
}

fn upper(a: &Args<'_, '_>) -> R<bool> {
    match a.str_or("UPLO", "L")?.as_str() {
        "L" | "l" => Ok(false),
        "U" | "u" => Ok(true),
        other => Err(value_error(format!("[{}] {other:?} is no triangle", a.op()))),
    }
}

fn svd(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let x = a.array(0)?;
    if a.bool_or("compute_uv", true)? {
        let (u, s, vt) = linalg::svd(&x)?;
        return Several(vec![u, s, vt]).give(a.py);
    }
    linalg::svdvals(&x)?.give(a.py)
}

table! {
    /// Functions of `linalg`.
    TABLE;
    "norm" => |a| norm(a);
    "inv" => |a| linalg::inv(&a.array(0)?);
    "tri_inv" => |a| linalg::tri_inv(&a.array(0)?, a.bool_or("upper", false)?);
    "cholesky" => |a| linalg::cholesky(&a.array(0)?, a.bool_or("upper", false)?);
    "cholesky_inv" => |a| linalg::cholesky_inv(&a.array(0)?, a.bool_or("upper", false)?);
    "pinv" => |a| linalg::pinv(&a.array(0)?, None);
    "qr" => |a| linalg::qr(&a.array(0)?);
    "svd" => |a| svd(a);
    "eigh" => |a| linalg::eigh(&a.array(0)?, upper(a)?);
    "eigvalsh" => |a| linalg::eigvalsh(&a.array(0)?, upper(a)?);
    "eig" => |a| linalg::eig(&a.array(0)?);
    "eigvals" => |a| linalg::eigvals(&a.array(0)?);
    "lu" => |a| linalg::lu(&a.array(0)?);
    "lu_factor" => |a| linalg::lu_factor(&a.array(0)?);
    "solve" => |a| linalg::solve(&a.array(0)?, &a.array(1)?);
    "solve_triangular" => |a| linalg::solve_triangular(&a.array(0)?, &a.array(1)?, a.bool_or("upper", false)?);
    "det" => |a| linalg::det(&a.array(0)?);
    "slogdet" => |a| linalg::slogdet(&a.array(0)?);
    "cross" => |a| linalg::cross(&a.array(0)?, &a.array(1)?, a.axis_or("axis", -1)?);
}

table! {
    /// Functions of `linalg` that the module itself has, too.
    ALIASES;
    "matrix_norm" => |a| norm(a);
}
