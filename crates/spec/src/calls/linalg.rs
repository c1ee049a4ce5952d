//! Linear algebra.

use super::calls;
use crate::args::Args;
use crate::value::Value;
use olivine_core::linalg::{self, Ord};
use olivine_core::{Error, Result};

fn ord(a: &Args) -> Result<Option<Ord>> {
    match a.value("ord") {
        None | Some(Value::None) => Ok(None),
        Some(Value::Int(p)) => Ok(Some(Ord::P(p as f64))),
        Some(Value::Float(p)) => Ok(Some(Ord::P(p))),
        Some(Value::Str(s)) if s == "fro" => Ok(Some(Ord::Frobenius)),
        Some(Value::Str(s)) if s == "nuc" => Ok(Some(Ord::Nuclear)),
        Some(other) => Err(Error::value("norm", format!("order {other:?}"))),
    }
}

fn upper(a: &Args) -> Result<bool> {
    match a.choice("UPLO", &["L", "U"])?.as_str() {
        "L" | "l" => Ok(false),
        "U" | "u" => Ok(true),
        other => Err(Error::value("eigh", format!("triangle {other}"))),
    }
}

calls! { "linalg";
    "linalg.inv" => |a| linalg::inv(&a.array(0)?);
    "linalg.tri_inv" => |a| linalg::tri_inv(&a.array(0)?, a.bool_or("upper", false)?);
    "linalg.cholesky" => |a| linalg::cholesky(&a.array(0)?, a.bool_or("upper", false)?);
    "linalg.cholesky_inv" => |a| linalg::cholesky_inv(&a.array(0)?, a.bool_or("upper", false)?);
    "linalg.pinv" => |a| linalg::pinv(&a.array(0)?, None);
    "linalg.qr" => |a| linalg::qr(&a.array(0)?);
    "linalg.svd" => |a| {
        let x = a.array(0)?;
        if a.bool_or("compute_uv", true)? {
            linalg::svd(&x).map(|(u, s, vt)| vec![u, s, vt])
        } else {
            Ok(vec![linalg::svdvals(&x)?])
        }
    };
    "linalg.eigh" => |a| linalg::eigh(&a.array(0)?, upper(a)?);
    "linalg.eigvalsh" => |a| linalg::eigvalsh(&a.array(0)?, upper(a)?);
    "linalg.eig" => |a| linalg::eig(&a.array(0)?);
    "linalg.eigvals" => |a| linalg::eigvals(&a.array(0)?);
    "linalg.lu" => |a| linalg::lu(&a.array(0)?);
    "linalg.lu_factor" => |a| linalg::lu_factor(&a.array(0)?);
    "linalg.solve" => |a| linalg::solve(&a.array(0)?, &a.array(1)?);
    "linalg.solve_triangular" => |a| {
        linalg::solve_triangular(&a.array(0)?, &a.array(1)?, a.bool_or("upper", false)?)
    };
    "linalg.det" => |a| linalg::det(&a.array(0)?);
    "linalg.slogdet" => |a| linalg::slogdet(&a.array(0)?);
    "linalg.cross" => |a| linalg::cross(&a.array(0)?, &a.array(1)?, a.axis_or("axis", -1)?);
    "linalg.norm" => |a| {
        linalg::norm(&a.array(0)?, ord(a)?, a.opt_axes("axis")?.as_deref(), a.bool_or("keepdims", false)?)
    };
    // The name stands for `norm` in MLX; without axes it is that of the last two here.
    "matrix_norm" => |a| match a.opt_axes("axis")? {
        Some(axes) => linalg::norm(&a.array(0)?, ord(a)?, Some(&axes), a.bool_or("keepdims", false)?),
        None => linalg::matrix_norm(&a.array(0)?, ord(a)?, a.bool_or("keepdims", false)?),
    };
    "linalg.lstsq" => |a| linalg::lstsq(&a.array(0)?, &a.array(1)?, a.opt_f64("rcond")?);
    "linalg.matrix_rank" => |a| linalg::matrix_rank(&a.array(0)?, a.opt_f64("rtol")?);
    "linalg.matrix_power" => |a| linalg::matrix_power(&a.array(0)?, a.int("n")?);
    "linalg.multi_dot" => |a| linalg::multi_dot(&a.rest(0)?);
    "hadamard_transform" => |a| {
        a.array(0)?.hadamard_transform(a.opt_f64("scale")?.map(|s| s as f32))
    };
}
