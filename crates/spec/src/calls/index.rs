//! Reading and writing at positions.

use super::calls;

calls! { "index";
    "take" => |a| match a.opt_axis("axis")? {
        Some(axis) => a.array(0)?.take(&a.array(1)?, axis),
        None => a.array(0)?.flatten()?.take(&a.array(1)?, 0),
    };
    "take_along_axis" => |a| match a.opt_axis("axis")? {
        Some(axis) => a.array(0)?.take_along_axis(&a.array(1)?, axis),
        None => a.array(0)?.flatten()?.take_along_axis(&a.array(1)?.flatten()?, 0),
    };
}
