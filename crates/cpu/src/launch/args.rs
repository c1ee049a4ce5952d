//! Arguments and results of a launch as a task of the queue holds them.

use crate::elementwise::copy_dense;
use crate::kernels::{Floats, FloatsMut, KernelError};
use crate::raw;
use olivine_core::backend::Input;
use olivine_core::buffer::{Buffer, DevMem};
use olivine_core::eval::EvalCtx;
use olivine_core::queue::HostQueue;
use olivine_core::{Dtype, Error, Layout, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// An argument.
#[derive(Debug, Clone)]
pub(super) struct Arg {
    pub mem: DevMem,
    pub layout: Layout,
    pub dtype: Dtype,
}

impl Arg {
    pub(super) fn of(input: &Input) -> Arg {
        Arg { mem: input.mem, layout: input.view.layout.clone(), dtype: input.view.dtype }
    }

    /// All elements of the buffer; the layout counts from the first one.
    ///
    /// # Safety
    /// `T` has the size of the type and any bits are a value of it; called in a task of the launch.
    pub(super) unsafe fn buffer<'a, T: Copy>(&self) -> &'a [T] {
        // SAFETY: whole elements of the memory, which the launch keeps.
        unsafe { raw::slice(self.mem, 0, self.mem.bytes / size_of::<T>()) }
    }

    /// The elements of a row-major argument.
    ///
    /// # Safety
    /// The argument lies row-major; else as for [`Arg::buffer`].
    pub(super) unsafe fn dense<'a, T: Copy>(&self) -> &'a [T] {
        debug_assert!(self.layout.is_contiguous());
        // SAFETY: the layout lies inside the memory.
        unsafe { raw::slice(self.mem, self.layout.offset(), self.layout.elements()) }
    }

    /// Elements `start..` of the buffer, of one of the small float types.
    ///
    /// # Safety
    /// Called in a task of the launch.
    unsafe fn floats_from<'a>(&self, start: usize, len: usize) -> Result<Floats<'a>> {
        // SAFETY: the caller's promise; callers pass ranges inside the memory.
        unsafe {
            match self.dtype {
                Dtype::F32 => Ok(Floats::F32(raw::slice(self.mem, start, len))),
                Dtype::F16 => Ok(Floats::F16(raw::slice(self.mem, start, len))),
                Dtype::BF16 => Ok(Floats::Bf16(raw::slice(self.mem, start, len))),
                Dtype::Bool
                | Dtype::U8
                | Dtype::U16
                | Dtype::U32
                | Dtype::U64
                | Dtype::I8
                | Dtype::I16
                | Dtype::I32
                | Dtype::I64
                | Dtype::F64
                | Dtype::C64 => Err(not_small(self.dtype)),
            }
        }
    }

    /// The elements of a row-major argument of one of the small float types.
    ///
    /// # Safety
    /// As for [`Arg::dense`].
    pub(super) unsafe fn floats<'a>(&self) -> Result<Floats<'a>> {
        debug_assert!(self.layout.is_contiguous());
        // SAFETY: the layout lies inside the memory.
        unsafe { self.floats_from(self.layout.offset(), self.layout.elements()) }
    }

    /// The buffer from the layout's first element on, for layouts whose strides are not negative.
    ///
    /// # Safety
    /// Called in a task of the launch.
    pub(super) unsafe fn floats_on<'a>(&self) -> Result<Floats<'a>> {
        let start = self.layout.offset();
        // SAFETY: the offset lies inside the memory; the rest of it follows.
        unsafe { self.floats_from(start, (self.mem.bytes / self.dtype.size()).saturating_sub(start)) }
    }

    /// Strides of an argument that kernels can walk as they are: the last axis dense and none negative.
    pub(super) fn row_strides(&self) -> Option<SmallVec<[usize; 4]>> {
        let (&last, _) = self.layout.strides().split_last()?;
        if last != 1 && self.layout.shape().last() != Some(&1) {
            return None;
        }
        self.layout.strides().iter().map(|&s| usize::try_from(s).ok()).collect()
    }
}

/// Memory of row-major copies of arguments, given back when the launch is sent.
#[derive(Default)]
pub(super) struct Copies(SmallVec<[Arc<Buffer>; 2]>);

impl Copies {
    /// Argument `k` lying row-major: itself where it does, else a copy that the queue makes first.
    pub(super) fn dense(&mut self, ctx: &EvalCtx<'_>, queue: &Arc<HostQueue>, k: usize) -> Result<Arg> {
        let arg = Arg::of(&ctx.inputs[k]);
        if arg.layout.is_contiguous() { Ok(arg) } else { self.copy(ctx, queue, &arg) }
    }

    /// Argument `k` as kernels that take strides of rows want it: see [`Arg::row_strides`].
    pub(super) fn rows(&mut self, ctx: &EvalCtx<'_>, queue: &Arc<HostQueue>, k: usize) -> Result<Arg> {
        let arg = Arg::of(&ctx.inputs[k]);
        if arg.row_strides().is_some() { Ok(arg) } else { self.copy(ctx, queue, &arg) }
    }

    fn copy(&mut self, ctx: &EvalCtx<'_>, queue: &Arc<HostQueue>, arg: &Arg) -> Result<Arg> {
        let (op, n, size) = (ctx.op.name(), arg.layout.elements(), arg.dtype.size());
        let (buffer, mem) = Buffer::alloc(op, ctx.stream, n * size)?;
        self.0.push(buffer);
        copy_dense(queue, op, arg.mem, &arg.layout, size, mem)?;
        Ok(Arg { mem, layout: Layout::contiguous(arg.layout.shape().clone()), dtype: arg.dtype })
    }
}

/// A result of one of the small float types.
///
/// # Safety
/// The memory is a result of the launch that the calling task belongs to, and holds `n` elements.
pub(super) unsafe fn floats_mut<'a>(mem: DevMem, d: Dtype, n: usize) -> Result<FloatsMut<'a>> {
    // SAFETY: the caller's promise.
    unsafe {
        match d {
            Dtype::F32 => Ok(FloatsMut::F32(raw::slice_mut(mem, n))),
            Dtype::F16 => Ok(FloatsMut::F16(raw::slice_mut(mem, n))),
            Dtype::BF16 => Ok(FloatsMut::Bf16(raw::slice_mut(mem, n))),
            Dtype::Bool
            | Dtype::U8
            | Dtype::U16
            | Dtype::U32
            | Dtype::U64
            | Dtype::I8
            | Dtype::I16
            | Dtype::I32
            | Dtype::I64
            | Dtype::F64
            | Dtype::C64 => Err(not_small(d)),
        }
    }
}

/// What a kernel says is wrong, as an error of core.
pub(super) fn refused(e: KernelError) -> Error {
    Error::value(e.op, e.message)
}

/// Core's rules keep other types from these kernels.
fn not_small(d: Dtype) -> Error {
    Error::bad_dtype("cpu kernel", "float16, bfloat16 or float32", d)
}
