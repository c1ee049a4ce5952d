//! Products.

use super::calls;

calls! { "matmul";
    "matmul" => |a| a.array(0)?.matmul(&a.array(1)?);
    "addmm" => |a| {
        let (alpha, beta) = (a.f32_or("alpha", 1.0)?, a.f32_or("beta", 1.0)?);
        a.array(0)?.addmm(&a.array(1)?, &a.array(2)?, alpha, beta)
    };
    "gather_mm" => |a| {
        let (lhs, rhs) = (a.opt_array("lhs_indices")?, a.opt_array("rhs_indices")?);
        let sorted = a.bool_or("sorted_indices", false)?;
        a.array(0)?.gather_mm(&a.array(1)?, lhs.as_ref(), rhs.as_ref(), sorted)
    };
    "block_masked_mm" => |a| {
        let (out, lhs) = (a.opt_array("mask_out")?, a.opt_array("mask_lhs")?);
        let (rhs, block) = (a.opt_array("mask_rhs")?, a.size_or("block_size", 64)?);
        a.array(0)?.block_masked_mm(&a.array(1)?, block, out.as_ref(), lhs.as_ref(), rhs.as_ref())
    };
    "segmented_mm" => |a| a.array(0)?.segmented_mm(&a.array(1)?, &a.array("segments")?);
}
