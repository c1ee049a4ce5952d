//! Elementwise functions.

use crate::args::Args;
use crate::fault::{R, value_error};
use crate::function::table;
use olivine_core::Array;

/// Two arrays and how close they have to be.
fn close(a: &Args<'_, '_>) -> R<(Array, Array, f64, f64, bool)> {
    let (x, y) = a.pair()?;
    Ok((x, y, a.f64_or("rtol", 1e-5)?, a.f64_or("atol", 1e-8)?, a.bool_or("equal_nan", false)?))
}

fn clip(a: &Args<'_, '_>) -> R<Array> {
    let x = a.array(0)?;
    let (low, high) = (a.opt_array_like("a_min", &x)?, a.opt_array_like("a_max", &x)?);
    if low.is_none() && high.is_none() {
        return Err(value_error("[clip] at most one of a_min and a_max may be None"));
    }
    Ok(x.clip(low.as_ref(), high.as_ref())?)
}

table! {
    /// Functions of elements.
    TABLE;
    "abs" => |a| a.array(0)?.abs();
    "negative" => |a| a.array(0)?.negative();
    "sign" => |a| a.array(0)?.sign();
    "ceil" => |a| a.array(0)?.ceil();
    "floor" => |a| a.array(0)?.floor();
    "round" => |a| a.array(0)?.round_to(a.int_or("decimals", 0)?.clamp(-400, 400) as i32);
    "trunc" => |a| a.array(0)?.trunc();
    "stop_gradient" => |a| a.array(0)?.stop_gradient();
    "positive" => |a| a.array(0);
    "degrees" => |a| a.array(0)?.degrees();
    "radians" => |a| a.array(0)?.radians();
    "isfinite" => |a| a.array(0)?.isfinite();
    "isposinf" => |a| a.array(0)?.isposinf();
    "isneginf" => |a| a.array(0)?.isneginf();
    "isnan" => |a| a.array(0)?.isnan();
    "isinf" => |a| a.array(0)?.isinf();
    "nan_to_num" => |a| {
        a.array(0)?.nan_to_num(a.f64_or("nan", 0.0)?, a.opt_f64("posinf")?, a.opt_f64("neginf")?)
    };
    "sqrt" => |a| a.array(0)?.sqrt();
    "rsqrt" => |a| a.array(0)?.rsqrt();
    "square" => |a| a.array(0)?.square();
    "reciprocal" => |a| a.array(0)?.reciprocal();
    "exp" => |a| a.array(0)?.exp();
    "expm1" => |a| a.array(0)?.expm1();
    "log" => |a| a.array(0)?.log();
    "log2" => |a| a.array(0)?.log2();
    "log10" => |a| a.array(0)?.log10();
    "log1p" => |a| a.array(0)?.log1p();
    "sin" => |a| a.array(0)?.sin();
    "cos" => |a| a.array(0)?.cos();
    "tan" => |a| a.array(0)?.tan();
    "arcsin", "asin" => |a| a.array(0)?.arcsin();
    "arccos", "acos" => |a| a.array(0)?.arccos();
    "arctan", "atan" => |a| a.array(0)?.arctan();
    "sinh" => |a| a.array(0)?.sinh();
    "cosh" => |a| a.array(0)?.cosh();
    "tanh" => |a| a.array(0)?.tanh();
    "arcsinh", "asinh" => |a| a.array(0)?.arcsinh();
    "arccosh", "acosh" => |a| a.array(0)?.arccosh();
    "arctanh", "atanh" => |a| a.array(0)?.arctanh();
    "erf" => |a| a.array(0)?.erf();
    "erfinv" => |a| a.array(0)?.erfinv();
    "sigmoid" => |a| a.array(0)?.sigmoid();
    "logical_not" => |a| a.array(0)?.logical_not();
    "bitwise_invert" => |a| a.array(0)?.bitwise_invert();
    "real" => |a| a.array(0)?.real();
    "imag" => |a| a.array(0)?.imag();
    "conjugate", "conj" => |a| a.array(0)?.conjugate();
    "add" => |a| a.pair().map(|(x, y)| x.add(&y))?;
    "subtract" => |a| a.pair().map(|(x, y)| x.subtract(&y))?;
    "multiply" => |a| a.pair().map(|(x, y)| x.multiply(&y))?;
    "divide" => |a| a.pair().map(|(x, y)| x.divide(&y))?;
    "floor_divide" => |a| a.pair().map(|(x, y)| x.floor_divide(&y))?;
    "remainder" => |a| a.pair().map(|(x, y)| x.remainder(&y))?;
    "power", "pow" => |a| a.pair().map(|(x, y)| x.power(&y))?;
    "maximum" => |a| a.pair().map(|(x, y)| x.maximum(&y))?;
    "minimum" => |a| a.pair().map(|(x, y)| x.minimum(&y))?;
    "arctan2", "atan2" => |a| a.pair().map(|(x, y)| x.arctan2(&y))?;
    "logaddexp" => |a| a.pair().map(|(x, y)| x.logaddexp(&y))?;
    "logical_and" => |a| a.pair().map(|(x, y)| x.logical_and(&y))?;
    "logical_or" => |a| a.pair().map(|(x, y)| x.logical_or(&y))?;
    "logical_xor" => |a| a.pair().map(|(x, y)| x.logical_xor(&y))?;
    "divmod" => |a| a.pair().and_then(|(x, y)| {
        let (quotient, rest) = x.divmod(&y)?;
        Ok(vec![quotient, rest])
    });
    "isclose" => |a| close(a).map(|(x, y, r, t, n)| x.isclose(&y, r, t, n))?;
    "allclose" => |a| close(a).map(|(x, y, r, t, n)| x.allclose(&y, r, t, n))?;
    "array_equal" => |a| {
        let nan = a.bool_or("equal_nan", false)?;
        a.pair().map(|(x, y)| x.array_equal(&y, nan))?
    };
    "bitwise_and" => |a| a.pair().map(|(x, y)| x.bitwise_and(&y))?;
    "bitwise_or" => |a| a.pair().map(|(x, y)| x.bitwise_or(&y))?;
    "bitwise_xor" => |a| a.pair().map(|(x, y)| x.bitwise_xor(&y))?;
    "left_shift", "bitwise_left_shift" => |a| a.pair().map(|(x, y)| x.left_shift(&y))?;
    "right_shift", "bitwise_right_shift" => |a| a.pair().map(|(x, y)| x.right_shift(&y))?;
    "equal" => |a| a.pair().map(|(x, y)| x.equal(&y))?;
    "not_equal" => |a| a.pair().map(|(x, y)| x.not_equal(&y))?;
    "less" => |a| a.pair().map(|(x, y)| x.less(&y))?;
    "less_equal" => |a| a.pair().map(|(x, y)| x.less_equal(&y))?;
    "greater" => |a| a.pair().map(|(x, y)| x.greater(&y))?;
    "greater_equal" => |a| a.pair().map(|(x, y)| x.greater_equal(&y))?;
    "clip" => |a| clip(a);
    "where" => |a| {
        let condition = a.array(0)?;
        a.pair_at(1, 2).map(|(x, y)| Array::select(&condition, &x, &y))?
    };
    "astype" => |a| a.array(0)?.astype(a.dtype("dtype")?);
    "view" => |a| a.array(0)?.view_as(a.dtype("dtype")?);
}
