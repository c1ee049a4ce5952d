//! The printed form of arrays, which is that of MLX: at most six elements of an axis, numbers as C's `%g` writes them.

use half::{bf16, f16};
use olivine_core::Dtype;
use pyo3::prelude::*;
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, Ordering};

/// Digits after the point; negative for six significant ones.
static PRECISION: AtomicI32 = AtomicI32::new(-1);

/// Elements at each end of an axis that is printed in part.
const ENDS: usize = 3;

/// How arrays are printed.
#[pyclass(name = "PrintOptions", module = "olivine.core")]
#[derive(Clone, Copy)]
pub struct PrintOptions {
    /// Digits of floats after the point; -1 for six significant ones.
    #[pyo3(get, set)]
    precision: i32,
}

#[pymethods]
impl PrintOptions {
    #[new]
    #[pyo3(signature = (precision = -1))]
    fn new(precision: i32) -> Self {
        PrintOptions { precision }
    }
    fn __repr__(&self) -> String {
        format!("PrintOptions(precision={})", self.precision)
    }
}

/// The options that hold now.
pub fn get() -> PrintOptions {
    PrintOptions { precision: PRECISION.load(Ordering::Relaxed) }
}

/// Sets the options.
pub fn set(precision: i32) {
    PRECISION.store(precision, Ordering::Relaxed);
}

/// Options for the time of a `with` block.
#[pyclass(name = "_PrintOptionsContext", module = "olivine.core")]
pub struct PrintContext {
    /// Those of the block.
    pub inside: i32,
    /// Those around it.
    pub outside: i32,
}

#[pymethods]
impl PrintContext {
    fn __enter__(mut slf: PyRefMut<'_, Self>) -> PyRefMut<'_, Self> {
        slf.outside = PRECISION.swap(slf.inside, Ordering::Relaxed);
        slf
    }
    #[pyo3(signature = (*_args))]
    fn __exit__(&self, _args: &Bound<'_, pyo3::types::PyTuple>) {
        set(self.outside);
    }
}

/// A float with as many digits after the point as are asked for, else with six significant ones as C's `%g` writes it.
fn float(out: &mut String, v: f64, precision: i32) {
    if v.is_nan() {
        out.push_str(if v.is_sign_negative() { "-nan" } else { "nan" });
        return;
    }
    if v.is_infinite() {
        out.push_str(if v < 0.0 { "-inf" } else { "inf" });
        return;
    }
    if let Ok(after) = usize::try_from(precision) {
        let _ = write!(out, "{v:.after$}");
        return;
    }
    let digits = 6;
    let scientific = format!("{v:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |s: &str| {
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_owned() } else { s.to_owned() }
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    } else {
        let after = (digits as i32 - 1 - exponent).max(0) as usize;
        out.push_str(&trimmed(&format!("{v:.after$}")));
    }
}

fn element(out: &mut String, d: Dtype, b: &[u8]) {
    macro_rules! number {
        ($t:ty) => {
            <$t>::from_ne_bytes(b.try_into().unwrap_or_default())
        };
    }
    let precision = PRECISION.load(Ordering::Relaxed);
    let _ = match d {
        Dtype::Bool => write!(out, "{}", if b[0] != 0 { "True" } else { "False" }),
        Dtype::U8 => write!(out, "{}", b[0]),
        Dtype::U16 => write!(out, "{}", number!(u16)),
        Dtype::U32 => write!(out, "{}", number!(u32)),
        Dtype::U64 => write!(out, "{}", number!(u64)),
        Dtype::I8 => write!(out, "{}", b[0] as i8),
        Dtype::I16 => write!(out, "{}", number!(i16)),
        Dtype::I32 => write!(out, "{}", number!(i32)),
        Dtype::I64 => write!(out, "{}", number!(i64)),
        Dtype::F16 => return float(out, f16::from_bits(number!(u16)).to_f64(), precision),
        Dtype::BF16 => return float(out, bf16::from_bits(number!(u16)).to_f64(), precision),
        Dtype::F32 => return float(out, f64::from(number!(f32)), precision),
        Dtype::F64 => return float(out, number!(f64), precision),
        Dtype::C64 => {
            let part = |b: &[u8]| f64::from(f32::from_ne_bytes(b.try_into().unwrap_or_default()));
            let (re, im) = (part(&b[..4]), part(&b[4..]));
            float(out, re, precision);
            if im >= 0.0 || im.is_nan() {
                out.push('+');
            }
            float(out, im, precision);
            out.push('j');
            return;
        }
    };
}

fn axis(out: &mut String, shape: &[usize], d: Dtype, data: &[u8], depth: usize) {
    let (n, rest) = (shape[0], &shape[1..]);
    let part = data.len().checked_div(n).unwrap_or(0);
    let separator = if rest.is_empty() { ", " } else { ",\n" };
    out.push('[');
    let mut i = 0;
    while i < n {
        if i > 0 && !rest.is_empty() {
            out.extend(std::iter::repeat_n(' ', 7 + depth));
        }
        if n > 2 * ENDS && i == ENDS {
            out.push_str("...");
            i = n - ENDS - 1;
        } else {
            let here = &data[i * part..(i + 1) * part];
            if rest.is_empty() { element(out, d, here) } else { axis(out, rest, d, here, depth + 1) }
        }
        if i + 1 < n {
            out.push_str(separator);
        }
        i += 1;
    }
    out.push(']');
}

/// An array's printed form, from its elements in row-major order.
pub fn array(shape: &[usize], d: Dtype, data: &[u8]) -> String {
    let mut out = "array(".to_owned();
    if shape.is_empty() {
        element(&mut out, d, data)
    } else {
        axis(&mut out, shape, d, data, 0)
    }
    let _ = write!(out, ", dtype={d})");
    out
}
