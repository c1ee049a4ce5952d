//! Shapes: views, joining, parting.

use super::calls;
use olivine_core::ops::{concatenate, stack};

calls! { "shape";
    "reshape" => |a| a.array(0)?.reshape(&a.ints("shape")?);
    "transpose", "permute_dims" => |a| match a.opt_axes("axes")? {
        Some(axes) => a.array(0)?.transpose(&axes),
        None => a.array(0)?.t(),
    };
    "swapaxes" => |a| a.array(0)?.swapaxes(a.axis("axis1")?, a.axis("axis2")?);
    "moveaxis" => |a| a.array(0)?.moveaxis(a.axis("source")?, a.axis("destination")?);
    "expand_dims" => |a| a.array(0)?.expand_dims(&a.axes("axis")?);
    "broadcast_to" => |a| a.array(0)?.broadcast_to(&a.shape("shape")?);
    "concatenate", "concat" => |a| concatenate(&a.arrays(0)?, a.axis_or("axis", 0)?);
    "stack" => |a| stack(&a.arrays(0)?, a.axis_or("axis", 0)?);
    "view" => |a| a.array(0)?.view_as(a.dtype("dtype")?);
}
