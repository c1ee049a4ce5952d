//! Arguments of the kernels: bytes of a buffer, how elements lie in it, and their type.

use olivine_core::{Dtype, Error, Layout, Result};

/// Evaluates `$e` with `$T` bound to a plain type of `$size` bytes; for kernels that only move elements.
macro_rules! with_size {
    ($size:expr, $T:ident => $e:expr) => {
        match $size {
            1 => {
                type $T = u8;
                $e
            }
            2 => {
                type $T = u16;
                $e
            }
            4 => {
                type $T = u32;
                $e
            }
            _ => {
                type $T = $crate::kernels::operand::Word8;
                $e
            }
        }
    };
}
pub(super) use with_size;

/// An argument of a kernel. The layout counts from the start of `bytes`, in elements of `dtype`.
#[derive(Debug, Clone, Copy)]
pub struct Operand<'a> {
    /// The whole buffer, aligned for the type.
    pub bytes: &'a [u8],
    /// Where the elements are.
    pub layout: &'a Layout,
    /// What they are.
    pub dtype: Dtype,
}

impl<'a> Operand<'a> {
    /// The buffer as elements of type `T`, which has the size of the operand's type. Every element that the
    /// layout reaches lies inside the slice.
    pub(super) fn elements<T: bytemuck::Pod>(&self, op: &'static str) -> Result<&'a [T]> {
        if size_of::<T>() != self.dtype.size() {
            return Err(Error::dtype(
                op,
                format!("{} read as elements of {} bytes", self.dtype, size_of::<T>()),
            ));
        }
        let whole = self.bytes.len() / size_of::<T>() * size_of::<T>();
        // No bytes may lie anywhere.
        let elements: &[T] = if whole == 0 {
            &[]
        } else {
            bytemuck::try_cast_slice(&self.bytes[..whole])
                .map_err(|e| Error::value(op, format!("buffer of {}: {e}", self.dtype)))?
        };
        check_reach(op, self.layout, elements.len())?;
        Ok(elements)
    }
}

impl<'a> Operand<'a> {
    /// The buffer, when it is aligned for the type and every element that the layout reaches lies inside.
    pub(super) fn checked_bytes(&self, op: &'static str) -> Result<&'a [u8]> {
        check_aligned(op, self.bytes, self.dtype)?;
        check_reach(op, self.layout, self.bytes.len() / self.dtype.size())?;
        Ok(self.bytes)
    }
}

/// Start of an output of exactly `n` elements of `dtype`.
pub(super) fn typed_output(op: &'static str, out: &mut [u8], n: usize, dtype: Dtype) -> Result<*mut u8> {
    if out.len() != n * dtype.size() {
        return Err(Error::value(
            op,
            format!("an output of {} bytes for {n} elements of {dtype}", out.len()),
        ));
    }
    check_aligned(op, out, dtype)?;
    Ok(out.as_mut_ptr())
}

/// An error unless elements of `dtype` can be read from the start of `bytes`. Nothing is read of no bytes.
fn check_aligned(op: &'static str, bytes: &[u8], dtype: Dtype) -> Result<()> {
    let align = if dtype == Dtype::C64 { 4 } else { dtype.size() };
    if !bytes.is_empty() && !bytes.as_ptr().addr().is_multiple_of(align) {
        return Err(Error::value(op, format!("a buffer that is not aligned for {dtype}")));
    }
    Ok(())
}

/// An error unless every element of `layout` lies within the first `len`.
pub(super) fn check_reach(op: &'static str, layout: &Layout, len: usize) -> Result<()> {
    if layout.elements() == 0 {
        return Ok(());
    }
    let (mut low, mut high) = (layout.offset() as i128, layout.offset() as i128);
    for (&n, &s) in layout.shape().iter().zip(layout.strides()) {
        let reach = (n as i128 - 1) * s as i128;
        if reach < 0 { low += reach } else { high += reach }
    }
    if low < 0 || high >= len as i128 {
        let msg = format!("a layout that reaches elements {low} to {high} of a buffer of {len}");
        return Err(Error::value(op, msg));
    }
    Ok(())
}

/// The output as exactly `n` elements of type `T`.
pub(super) fn output<'a, T: bytemuck::Pod>(
    op: &'static str,
    out: &'a mut [u8],
    n: usize,
) -> Result<&'a mut [T]> {
    if out.len() != n * size_of::<T>() {
        let msg = format!("an output of {} bytes for {n} elements of {} bytes", out.len(), size_of::<T>());
        return Err(Error::value(op, msg));
    }
    if n == 0 {
        return Ok(&mut []);
    }
    bytemuck::try_cast_slice_mut(out).map_err(|e| Error::value(op, format!("output: {e}")))
}

/// Unsigned stand-in for every type of eight bytes: aligned as the least aligned of them, which is complex.
pub(super) type Word8 = [u32; 2];
