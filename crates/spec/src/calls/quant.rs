//! Packed weights.

use super::calls;

calls! { "quant";
    "quantize" => |a| a.array(0)?.quantize(a.size_or("group_size", 64)?, a.size_or("bits", 4)? as u8);
    "dequantize" => |a| {
        let (s, b) = (a.array("scales")?, a.array("biases")?);
        let dtype = a.dtype_or("dtype", s.dtype())?;
        a.array(0)?.dequantize(&s, &b, a.size_or("group_size", 64)?, a.size_or("bits", 4)? as u8, dtype)
    };
    "quantized_matmul" => |a| {
        let (s, b) = (a.array("scales")?, a.array("biases")?);
        let (t, g, n) = (a.bool_or("transpose", true)?, a.size_or("group_size", 64)?, a.size_or("bits", 4)?);
        a.array(0)?.quantized_matmul(&a.array(1)?, &s, &b, t, g, n as u8)
    };
}
