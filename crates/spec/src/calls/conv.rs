//! Convolutions.

use super::calls;
use crate::args::Args;
use crate::value::Value;
use olivine_core::ops::{ConvParams, ConvolveMode, convolve};
use olivine_core::{Array, Error, Result};

/// One size for all axes, or one for each.
fn sizes<const N: usize>(a: &Args, name: &str, default: usize) -> Result<[usize; N]> {
    match a.opt_shape(name)?.as_deref() {
        None => Ok([default; N]),
        Some([v]) => Ok([*v; N]),
        Some(all) => all
            .try_into()
            .map_err(|_| Error::value(a.op(), format!("{name} of {} sizes for {N} axes", all.len()))),
    }
}

/// Stride, padding, dilation, groups.
type Parameters<const N: usize> = ([usize; N], [usize; N], [usize; N], usize);

fn parameters<const N: usize>(a: &Args) -> Result<Parameters<N>> {
    let (stride, padding) = (sizes(a, "stride", 1)?, sizes(a, "padding", 0)?);
    Ok((stride, padding, sizes(a, "dilation", 1)?, a.size_or("groups", 1)?))
}

/// Padding of [`Array::conv_general`]: a number, one for each axis, or two lists of them.
fn ends(a: &Args) -> Result<Vec<(i64, i64)>> {
    let wrong = || Error::value("conv_general", "padding is numbers, or two lists of them");
    let int = |v: &Value| if let Value::Int(i) = v { Ok(*i) } else { Err(wrong()) };
    match a.value("padding") {
        None | Some(Value::None) => Ok(Vec::new()),
        Some(Value::Int(p)) => Ok(vec![(p, p)]),
        Some(Value::List(all)) => match &all[..] {
            [Value::List(low), Value::List(high)] if low.len() == high.len() => {
                low.iter().zip(high).map(|(l, h)| Ok((int(l)?, int(h)?))).collect()
            }
            all => all.iter().map(|v| int(v).map(|p| (p, p))).collect(),
        },
        Some(_) => Err(wrong()),
    }
}

fn general(a: &Args) -> Result<Array> {
    let params = ConvParams {
        stride: a.opt_shape("stride")?.unwrap_or_default(),
        padding: ends(a)?,
        kernel_dilation: a.opt_shape("kernel_dilation")?.unwrap_or_default(),
        input_dilation: a.opt_shape("input_dilation")?.unwrap_or_default(),
        groups: a.opt_size("groups")?,
        flip: a.bool_or("flip", false)?,
    };
    a.array(0)?.conv_general(&a.array(1)?, &params)
}

calls! { "conv";
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
    "convolve" => |a| {
        let mode = match a.choice("mode", &["full", "same", "valid"])?.as_str() {
            "full" => ConvolveMode::Full,
            "same" => ConvolveMode::Same,
            "valid" => ConvolveMode::Valid,
            other => return Err(Error::value("convolve", format!("mode {other}"))),
        };
        convolve(&a.array(0)?, &a.array(1)?, mode)
    };
}
