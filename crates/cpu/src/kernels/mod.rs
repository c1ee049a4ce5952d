//! Kernels that language models live on: quantized products, attention, norms, rotary positions, softmax.
//!
//! They take plain slices, lengths and strides, check them against each other, and compute in `f32`
//! whatever the storage type is. A wrong size is a [`KernelError`], never a read outside a slice.

pub mod arg;
pub mod attention;
pub mod conv;
pub mod fft;
pub mod hadamard;
pub mod index;
pub mod intmm;
pub mod linalg;
pub mod norm;
pub mod operand;
pub mod quant;
pub mod random;
pub mod reduce;
pub mod rope;
pub mod scan;
pub mod softmax;
pub mod sort;
mod strided;
#[cfg(test)]
mod testing;
pub(crate) mod tile;
pub mod update;
mod wide;

use crate::lanes::{Element, Kernel, Lanes, dispatch_at, narrow, widen};
use crate::simd::Level;
use half::{bf16, f16};
use std::cell::Cell;
use std::fmt;

/// A kernel was called with arguments that do not fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelError {
    /// The operation.
    pub op: &'static str,
    /// What is wrong, with the actual values.
    pub message: String,
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.op, self.message)
    }
}

impl std::error::Error for KernelError {}

/// Result of a kernel.
pub type Result<T> = std::result::Result<T, KernelError>;

/// Returns a [`KernelError`] of operation `$op` unless the condition holds.
macro_rules! ensure {
    ($cond:expr, $op:expr, $($message:tt)+) => {
        if !$cond {
            return Err($crate::kernels::KernelError { op: $op, message: format!($($message)+) });
        }
    };
}
use ensure;

/// A slice of real numbers in one of the storage types.
#[derive(Debug, Clone, Copy)]
pub enum Floats<'a> {
    /// float32
    F32(&'a [f32]),
    /// float16
    F16(&'a [f16]),
    /// bfloat16
    Bf16(&'a [bf16]),
}

/// A mutable slice of real numbers in one of the storage types.
#[derive(Debug)]
pub enum FloatsMut<'a> {
    /// float32
    F32(&'a mut [f32]),
    /// float16
    F16(&'a mut [f16]),
    /// bfloat16
    Bf16(&'a mut [bf16]),
}

/// Evaluates `$e` with `$x` bound to the typed slice inside a [`Floats`] or [`FloatsMut`].
macro_rules! with_floats {
    ($kind:ident, $v:expr, $x:ident => $e:expr) => {
        match $v {
            $crate::kernels::$kind::F32($x) => $e,
            $crate::kernels::$kind::F16($x) => $e,
            $crate::kernels::$kind::Bf16($x) => $e,
        }
    };
}
use with_floats;

/// Evaluates `$same` with `$x` and `$y` bound to slices of one type if a [`Floats`] and a [`FloatsMut`] agree,
/// else `$other`, for whose sake the rare mixtures need no code of their own.
macro_rules! with_same_floats {
    ($xs:expr, $ys:expr, ($x:ident, $y:ident) => $same:expr, $ym:ident => $other:expr) => {
        match ($xs, $ys) {
            ($crate::kernels::Floats::F32($x), $crate::kernels::FloatsMut::F32($y)) => $same,
            ($crate::kernels::Floats::F16($x), $crate::kernels::FloatsMut::F16($y)) => $same,
            ($crate::kernels::Floats::Bf16($x), $crate::kernels::FloatsMut::Bf16($y)) => $same,
            (_, $ym) => $other,
        }
    };
}
use with_same_floats;

macro_rules! conversions {
    ($($variant:ident $t:ty),*) => {$(
        impl<'a> From<&'a [$t]> for Floats<'a> {
            fn from(x: &'a [$t]) -> Self {
                Floats::$variant(x)
            }
        }
        impl<'a> From<&'a mut [$t]> for FloatsMut<'a> {
            fn from(x: &'a mut [$t]) -> Self {
                FloatsMut::$variant(x)
            }
        }
    )*};
}
conversions!(F32 f32, F16 f16, Bf16 bf16);

impl<'a> Floats<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        with_floats!(Floats, self, x => x.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements of `range`, which the caller has checked.
    fn slice(&self, range: std::ops::Range<usize>) -> Floats<'a> {
        match self {
            Floats::F32(x) => Floats::F32(&x[range]),
            Floats::F16(x) => Floats::F16(&x[range]),
            Floats::Bf16(x) => Floats::Bf16(&x[range]),
        }
    }

    /// Element `i`, widened.
    fn get(&self, i: usize) -> f32 {
        with_floats!(Floats, self, x => x[i].to_f32())
    }

    /// Widens `range` into `dst`, which has its length.
    #[inline(always)]
    fn widen<S: Lanes>(&self, s: S, range: std::ops::Range<usize>, dst: &mut [f32]) {
        with_floats!(Floats, self, x => widen(s, &x[range], dst))
    }
}

impl FloatsMut<'_> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        with_floats!(FloatsMut, self, x => x.len())
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A pointer that tasks on several threads write through, each to places of its own.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);
// SAFETY: the kernels hand disjoint parts to the tasks.
unsafe impl<T: Send> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The pointer. A method, so that closures capture the whole wrapper.
    #[inline(always)]
    fn get(self) -> *mut T {
        self.0
    }
}

/// A cache line, which a register of 16 lanes fills: loads that straddle lines take twice as long.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// Floats in a line.
const LINE: usize = 16;

/// Floats that start on a cache line.
#[derive(Default)]
struct Aligned {
    lines: Vec<Line>,
    len: usize,
}

impl Aligned {
    /// `len` zeros.
    fn zeros(len: usize) -> Self {
        Aligned { lines: vec![Line([0.0; LINE]); len.div_ceil(LINE)], len }
    }
}

impl std::ops::Deref for Aligned {
    type Target = [f32];
    #[inline(always)]
    fn deref(&self) -> &[f32] {
        // SAFETY: lines are arrays of floats without padding, and there are at least `len` of them.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl std::ops::DerefMut for Aligned {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// Working memory of a task, kept by its thread for the next one. Contents are unspecified.
struct Scratch(Aligned);

thread_local! {
    static SPARE: Cell<Aligned> = const { Cell::new(Aligned { lines: Vec::new(), len: 0 }) };
}

/// Above this many lines a thread does not keep its buffer.
const KEPT: usize = 1 << 18;

impl Scratch {
    /// `len` floats that start on a cache line.
    #[inline(never)]
    fn take(len: usize) -> Self {
        let mut buf = SPARE.take();
        if buf.lines.len() < len.div_ceil(LINE) {
            buf = Aligned::zeros(len);
        }
        buf.len = len;
        Scratch(buf)
    }
}

impl std::ops::Deref for Scratch {
    type Target = [f32];
    #[inline(always)]
    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl std::ops::DerefMut for Scratch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let buf = std::mem::take(&mut self.0);
        // A nested buffer may have been put back meanwhile: the larger one stays.
        let kept = SPARE.take();
        if buf.lines.len() <= KEPT && buf.lines.len() > kept.lines.len() {
            SPARE.set(buf);
        } else {
            SPARE.set(kept);
        }
    }
}

struct Widen<'a>(Floats<'a>, &'a mut [f32]);
impl Kernel for Widen<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        self.0.widen(s, 0..self.0.len(), self.1);
    }
}

/// Widens all of `src` into `dst` of the same length.
fn widen_all(at: Level, src: Floats<'_>, dst: &mut [f32]) {
    dispatch_at(at, Widen(src, dst));
}

/// Runs `f` on a widened copy of `x`, into `out` through `f32`.
fn through_f32(
    at: Level,
    x: Floats<'_>,
    out: FloatsMut<'_>,
    f: impl FnOnce(Floats<'_>, FloatsMut<'_>) -> Result<()>,
) -> Result<()> {
    let mut wide = vec![0.0; x.len()];
    widen_all(at, x, &mut wide);
    match out {
        FloatsMut::F32(out) => f(Floats::F32(&wide), FloatsMut::F32(out)),
        out => {
            let mut buf = vec![0.0; out.len()];
            f(Floats::F32(&wide), FloatsMut::F32(&mut buf))?;
            narrow_all(at, &buf, out);
            Ok(())
        }
    }
}

struct Narrow<'a>(&'a [f32], FloatsMut<'a>);
impl Kernel for Narrow<'_> {
    type Output = ();
    #[inline(always)]
    fn run<S: Lanes>(self, s: S) {
        with_floats!(FloatsMut, self.1, y => narrow(s, self.0, y))
    }
}

/// Rounds all of `src` into `dst` of the same length.
fn narrow_all(at: Level, src: &[f32], dst: FloatsMut<'_>) {
    dispatch_at(at, Narrow(src, dst));
}
