//! Products.

use super::calls;

calls! { "matmul";
    "matmul" => |a| a.array(0)?.matmul(&a.array(1)?);
}
