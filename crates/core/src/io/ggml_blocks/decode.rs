//! The `f32` values of blocks, as the ggml specification defines them.
//!
//! Written for clarity: this is the reference that the packed forms are tested against, and the
//! way in for tensors that stay dense.

use half::{bf16, f16};

use super::{BlockError, GgmlType, check_length, checked_blocks, half_at, k_scale_bytes, k_scales};

/// Decodes a tensor of `out.len()` elements; `src` holds its blocks back to back.
///
/// # Errors
/// An unsupported `ty`, an element count that is not a whole number of blocks, or a `src` of
/// another length.
pub fn dequantize(ty: GgmlType, src: &[u8], out: &mut [f32]) -> Result<(), BlockError> {
    const OPERATION: &str = "dequantize";
    if !ty.can_dequantize() {
        return Err(BlockError::Unsupported { operation: OPERATION, ty });
    }
    checked_blocks(OPERATION, ty, src, 1, out.len())?;
    match ty {
        GgmlType::F32 => {
            for (o, b) in out.iter_mut().zip(src.as_chunks::<4>().0) {
                *o = f32::from_le_bytes(*b);
            }
        }
        GgmlType::F16 => {
            for (o, b) in out.iter_mut().zip(src.as_chunks::<2>().0) {
                *o = f16::from_le_bytes(*b).to_f32();
            }
        }
        GgmlType::BF16 => {
            for (o, b) in out.iter_mut().zip(src.as_chunks::<2>().0) {
                *o = bf16::from_le_bytes(*b).to_f32();
            }
        }
        _ => {
            let blocks = src.chunks_exact(ty.block_bytes());
            for (o, b) in out.chunks_exact_mut(ty.block_size()).zip(blocks) {
                decode(ty, b, o);
            }
        }
    }
    Ok(())
}

/// Decodes one block into `ty.block_size()` values.
///
/// # Errors
/// An unsupported `ty`, or slices of other lengths than one block's.
pub fn dequantize_block(ty: GgmlType, block: &[u8], out: &mut [f32]) -> Result<(), BlockError> {
    check_length("dequantize_block", "output", ty, ty.block_size(), out.len())?;
    dequantize(ty, block, out)
}

/// `block` and `out` have the lengths of one block of a quantized `ty`.
fn decode(ty: GgmlType, block: &[u8], out: &mut [f32]) {
    let half = |at| half_at(block, at).to_f32();
    match ty {
        GgmlType::Q4_0 => {
            let d = half(0);
            nibbles(&block[2..18], out, |q, _| d * (q as i32 - 8) as f32);
        }
        GgmlType::Q4_1 => {
            let (d, m) = (half(0), half(2));
            nibbles(&block[4..20], out, |q, _| d * q as f32 + m);
        }
        GgmlType::Q5_0 => {
            let (d, high) = (half(0), fifth_bits(&block[2..6]));
            nibbles(&block[6..22], out, |q, i| d * ((q | (high >> i & 1) << 4) as i32 - 16) as f32);
        }
        GgmlType::Q5_1 => {
            let (d, m, high) = (half(0), half(2), fifth_bits(&block[4..8]));
            nibbles(&block[8..24], out, |q, i| d * (q | (high >> i & 1) << 4) as f32 + m);
        }
        GgmlType::Q8_0 => {
            let d = half(0);
            for (o, &q) in out.iter_mut().zip(&block[2..34]) {
                *o = d * q as i8 as f32;
            }
        }
        GgmlType::Q4_K | GgmlType::Q5_K => {
            let (d, dmin) = (half(0), half(2));
            let (scales, mins) = k_scales(k_scale_bytes(block));
            let (high, low) = if ty == GgmlType::Q5_K {
                (Some(&block[16..48]), &block[48..176])
            } else {
                (None, &block[16..144])
            };
            for (g, out) in out.chunks_exact_mut(32).enumerate() {
                let (scale, min) = (d * scales[g] as f32, dmin * mins[g] as f32);
                for (i, o) in out.iter_mut().enumerate() {
                    let mut q = low[g / 2 * 32 + i] >> (g % 2 * 4) & 15;
                    if let Some(high) = high {
                        q |= (high[i] >> g & 1) << 4;
                    }
                    *o = scale * q as f32 - min;
                }
            }
        }
        GgmlType::Q6_K => {
            let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half(208));
            for (g, out) in out.chunks_exact_mut(32).enumerate() {
                let (n, part) = (g / 4, g % 4);
                for (i, o) in out.iter_mut().enumerate() {
                    let l = low[n * 64 + part % 2 * 32 + i] >> (part / 2 * 4) & 15;
                    let h = high[n * 32 + i] >> (part * 2) & 3;
                    let scale = d * scales[g * 2 + i / 16] as i8 as f32;
                    *o = scale * ((l | h << 4) as i32 - 32) as f32;
                }
            }
        }
        other => unreachable!("dequantize admits only the types that it can decode, not {other}"),
    }
}

/// Elements 0 to 15 are the low nibbles of 16 bytes, 16 to 31 the high ones.
fn nibbles(bytes: &[u8], out: &mut [f32], value: impl Fn(u32, usize) -> f32) {
    for (i, &b) in bytes.iter().enumerate() {
        out[i] = value(b as u32 & 15, i);
        out[i + 16] = value(b as u32 >> 4, i + 16);
    }
}

fn fifth_bits(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().expect("four bytes"))
}
