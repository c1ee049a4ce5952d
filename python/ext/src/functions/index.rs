//! Reading and writing at positions.

use crate::args::Args;
use crate::fault::R;
use crate::function::table;
use olivine_core::Array;

/// The axis, or all elements of the given arrays in a row.
fn along(axis: Option<i32>, arrays: &mut [Array]) -> R<i32> {
    match axis {
        Some(axis) => Ok(axis),
        None => {
            for x in arrays {
                *x = x.flatten()?;
            }
            Ok(0)
        }
    }
}

fn take(a: &Args<'_, '_>) -> R<Array> {
    let (x, at) = (a.array(0)?, a.array("indices")?);
    Ok(match a.opt_axis("axis")? {
        Some(axis) => x.take(&at, axis)?,
        None => x.flatten()?.take(&at, 0)?,
    })
}

table! {
    /// Functions of positions.
    TABLE;
    "take" => |a| take(a);
    "take_along_axis" => |a| {
        let mut v = [a.array(0)?, a.array(1)?];
        let axis = along(a.axis_given("axis", -1)?, &mut v)?;
        v[0].take_along_axis(&v[1], axis)
    };
    "put_along_axis" => |a| {
        let x = a.array(0)?;
        let mut v = [x.clone(), a.array(1)?, a.array_like(2, &x)?];
        let axis = along(a.opt_axis("axis")?, &mut v)?;
        v[0].put_along_axis(&v[1], &v[2], axis)?.reshape(x.shape())
    };
    "slice" => |a| {
        let axes = a.opt_axes("axes")?.unwrap_or_default();
        a.array(0)?.slice_from(&a.array("start_indices")?, &axes, &a.shape("slice_size")?)
    };
    "slice_update" => |a| {
        let axes = a.opt_axes("axes")?.unwrap_or_default();
        a.array(0)?.slice_update_from(&a.array("update")?, &a.array("start_indices")?, &axes)
    };
}
