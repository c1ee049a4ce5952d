//! Functions about types and shapes rather than values.

use super::calls;
use olivine_core::dtype::{FloatInfo, IntInfo, can_cast, isdtype, issubdtype, result_type};
use olivine_core::{Array, Dtype, Error, Result};

/// Something about a type as the array `[bits, least, largest]`.
fn limits(op: &'static str, found: Option<[f64; 3]>, dtype: Dtype) -> Result<Array> {
    let Some(l) = found else { return Err(Error::bad_dtype(op, "a type of that kind", dtype)) };
    Array::from_slice(&l, &[3])
}

calls! { "types";
    "can_cast" => |a| Ok::<_, Error>(can_cast(a.dtype(0)?, a.dtype(1)?));
    "issubdtype" => |a| Ok::<_, Error>(issubdtype(a.dtype(0)?, a.dtype(1)?));
    "isdtype" => |a| {
        let kinds = ["numeric", "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating"];
        isdtype(a.dtype(0)?, &a.choice("kind", &kinds)?)
    };
    "result_type" => |a| {
        let dtypes: Vec<Dtype> = a.rest(0)?.iter().map(Array::dtype).collect();
        Array::zeros(&[], result_type(&dtypes)?)
    };
    "finfo" => |a| {
        let d = a.dtype(0)?;
        limits("finfo", FloatInfo::of(d).map(|i| [i.bits as f64, i.min, i.max]), d)
    };
    "iinfo" => |a| {
        let d = a.dtype(0)?;
        limits("iinfo", IntInfo::of(d).map(|i| [i.bits as f64, i.min as f64, i.max as f64]), d)
    };
}
