//! Convolutions.

use crate::args::{self, Args};
use crate::fault::{R, value_error};
use crate::function::table;
use olivine_core::Array;
use olivine_core::ops::{ConvParams, ConvolveMode, convolve};
use pyo3::prelude::*;

/// One size for all axes, or one for each.
fn sizes<const N: usize>(a: &Args<'_, '_>, name: &'static str, default: usize) -> R<[usize; N]> {
    match a.opt_shape(name)?.as_deref() {
        None => Ok([default; N]),
        Some([v]) => Ok([*v; N]),
        Some(all) => all
            .try_into()
            .map_err(|_| value_error(format!("[{}] {name} of {} sizes for {N} axes", a.op(), all.len()))),
    }
}

/// Stride, padding, dilation, groups.
type Parameters<const N: usize> = ([usize; N], [usize; N], [usize; N], usize);

fn parameters<const N: usize>(a: &Args<'_, '_>) -> R<Parameters<N>> {
    let (stride, padding) = (sizes(a, "stride", 1)?, sizes(a, "padding", 0)?);
    Ok((stride, padding, sizes(a, "dilation", 1)?, a.size_or("groups", 1)?))
}

/// Padding of [`Array::conv_general`]: a number, one for each axis, or two lists of them.
fn ends(a: &Args<'_, '_>) -> R<Vec<(i64, i64)>> {
    let Some(v) = a.opt("padding") else { return Ok(Vec::new()) };
    if args::is_list(v) && v.len()? == 2 {
        let (low, high) = (v.get_item(0)?, v.get_item(1)?);
        if args::is_list(&low) && args::is_list(&high) {
            let (low, high): (Vec<i64>, Vec<i64>) = (low.extract()?, high.extract()?);
            if low.len() != high.len() {
                return Err(value_error("[conv_general] padding of two lists of different lengths"));
            }
            return Ok(low.into_iter().zip(high).collect());
        }
    }
    Ok(a.ints("padding")?.into_iter().map(|p| (p, p)).collect())
}

fn general(a: &Args<'_, '_>) -> R<Array> {
    let params = ConvParams {
        stride: a.opt_shape("stride")?.unwrap_or_default(),
        padding: ends(a)?,
        kernel_dilation: a.opt_shape("kernel_dilation")?.unwrap_or_default(),
        input_dilation: a.opt_shape("input_dilation")?.unwrap_or_default(),
        groups: a.opt_size("groups")?,
        flip: a.bool_or("flip", false)?,
    };
    Ok(a.array(0)?.conv_general(&a.array(1)?, &params)?)
}

fn line(a: &Args<'_, '_>) -> R<Array> {
    let mode = match a.str_or("mode", "full")?.as_str() {
        "full" => ConvolveMode::Full,
        "same" => ConvolveMode::Same,
        "valid" => ConvolveMode::Valid,
        other => return Err(value_error(format!("[convolve] {other:?} is no mode"))),
    };
    Ok(convolve(&a.array(0)?, &a.array(1)?, mode)?)
}

table! {
    /// Convolutions.
    TABLE;
    "conv1d" => |a| {
        let ([s], [p], [d], g) = parameters::<1>(a)?;
        a.array(0)?.conv1d(&a.array(1)?, s, p, d, g)
    };
    "conv2d" => |a| {
        let (s, p, d, g) = parameters::<2>(a)?;
        a.array(0)?.conv2d(&a.array(1)?, s, p, d, g)
    };
    "conv3d" => |a| {
        let (s, p, d, g) = parameters::<3>(a)?;
        a.array(0)?.conv3d(&a.array(1)?, s, p, d, g)
    };
    "conv_transpose1d" => |a| {
        let (([s], [p], [d], g), [o]) = (parameters::<1>(a)?, sizes(a, "output_padding", 0)?);
        a.array(0)?.conv_transpose1d(&a.array(1)?, s, p, d, o, g)
    };
    "conv_transpose2d" => |a| {
        let ((s, p, d, g), o) = (parameters::<2>(a)?, sizes(a, "output_padding", 0)?);
        a.array(0)?.conv_transpose2d(&a.array(1)?, s, p, d, o, g)
    };
    "conv_transpose3d" => |a| {
        let ((s, p, d, g), o) = (parameters::<3>(a)?, sizes(a, "output_padding", 0)?);
        a.array(0)?.conv_transpose3d(&a.array(1)?, s, p, d, o, g)
    };
    "conv_general" => |a| general(a);
    "convolve" => |a| line(a);
}
