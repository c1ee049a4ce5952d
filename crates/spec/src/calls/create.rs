//! Constants and ranges.

use super::calls;
use olivine_core::{Array, Dtype};

calls! { "create";
    "zeros" => |a| Array::zeros(&a.shape("shape")?, a.dtype_or("dtype", Dtype::F32)?);
    "ones" => |a| Array::ones(&a.shape("shape")?, a.dtype_or("dtype", Dtype::F32)?);
    "zeros_like" => |a| a.array(0)?.full_like(0.0);
    "ones_like" => |a| a.array(0)?.full_like(1.0);
}
