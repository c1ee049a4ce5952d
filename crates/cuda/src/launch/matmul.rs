//! Products of matrices by cuBLASLt.
//!
//! The library counts columns first, so a row-major product `a @ b` is asked for as `b.T @ a.T`. Matrices whose
//! rows or columns lie dense are read as they are; others are copied first.

use super::elementwise::{Operand, merge};
use super::{Args, Launch, blocks, operand};
use crate::kernels::{File, Kernel};
use cudarc::cublaslt::{result as lt, sys};
use olivine_core::eval::EvalCtx;
use olivine_core::{Dtype, Error, Result};
use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

/// How to get cuBLASLt, for messages.
const NO_BLAS: &str = "cuBLASLt (libcublasLt.so), which multiplies matrices, cannot be loaded: install the CUDA \
                       toolkit (https://developer.nvidia.com/cuda-downloads) or `pip install nvidia-cublas`, and \
                       put its folder on LD_LIBRARY_PATH";

/// Bytes that a product may use besides its arguments.
const WORKSPACE: usize = 32 << 20;
/// Products whose descriptions are kept.
const KEPT: usize = 4096;

fn present() -> Result<(), String> {
    static FOUND: OnceLock<bool> = OnceLock::new();
    // SAFETY: asks the system's loader for a library by its name.
    let found = *FOUND.get_or_init(|| unsafe { sys::is_culib_present() });
    if found { Ok(()) } else { Err(NO_BLAS.into()) }
}

/// Version of the library, as it counts: 130000 is 13.0.0.
pub(crate) fn version() -> Result<usize, String> {
    present()?;
    // SAFETY: only returns a number.
    catch_unwind(AssertUnwindSafe(|| unsafe { sys::cublasLtGetVersion() }))
        .map_err(|_| "cuBLASLt is older than CUDA 12; install a newer one".into())
}

/// A matrix as the library sees it: leading dimension, and whether it is to be transposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Side {
    leading: i64,
    transposed: bool,
    batch: i64,
    /// Bytes that its address is a multiple of, up to 256.
    aligned: u32,
}

/// Everything that decides how a product is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    dtype: Dtype,
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
    a: Side,
    b: Side,
    out: i64,
}

/// The library's description of a product.
struct Described {
    product: sys::cublasLtMatmulDesc_t,
    a: sys::cublasLtMatrixLayout_t,
    b: sys::cublasLtMatrixLayout_t,
    c: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
    workspace: usize,
}
// SAFETY: descriptions are only read after they are made.
unsafe impl Send for Described {}
// SAFETY: as above.
unsafe impl Sync for Described {}

impl Drop for Described {
    fn drop(&mut self) {
        // SAFETY: made by the library, and nobody has them any more. What a launch needs of them is copied.
        unsafe {
            let _ = lt::destroy_matmul_desc(self.product);
            for layout in [self.a, self.b, self.c] {
                let _ = lt::destroy_matrix_layout(layout);
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Handle(sys::cublasLtHandle_t);
// SAFETY: the library allows one handle in many threads.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// The library on one device.
pub(crate) struct Blas {
    handle: OnceLock<Result<Handle, String>>,
    described: Mutex<HashMap<Key, Arc<Described>>>,
}

impl Blas {
    pub(crate) fn new() -> Blas {
        Blas { handle: OnceLock::new(), described: Mutex::default() }
    }

    fn handle(&self) -> Result<Handle, String> {
        let open = || {
            version()?;
            lt::create_handle().map(Handle).map_err(|e| e.to_string())
        };
        self.handle.get_or_init(open).clone()
    }

    fn described(&self, key: Key) -> Result<Arc<Described>, String> {
        let mut all = self.described.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(d) = all.get(&key) {
            return Ok(d.clone());
        }
        if all.len() >= KEPT {
            all.clear();
        }
        let d = Arc::new(describe(self.handle()?, key).map_err(|e| format!("cuBLASLt: {e}"))?);
        all.insert(key, d.clone());
        Ok(d)
    }
}

fn types(d: Dtype) -> Option<(sys::cudaDataType, sys::cublasComputeType_t, sys::cudaDataType)> {
    use sys::cublasComputeType_t as C;
    use sys::cudaDataType_t as T;
    match d {
        Dtype::F16 => Some((T::CUDA_R_16F, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F)),
        Dtype::BF16 => Some((T::CUDA_R_16BF, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F)),
        Dtype::F32 => Some((T::CUDA_R_32F, C::CUBLAS_COMPUTE_32F, T::CUDA_R_32F)),
        Dtype::F64 => Some((T::CUDA_R_64F, C::CUBLAS_COMPUTE_64F, T::CUDA_R_64F)),
        Dtype::C64 => Some((T::CUDA_C_32F, C::CUBLAS_COMPUTE_32F, T::CUDA_C_32F)),
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64 => None,
    }
}

fn describe(handle: Handle, key: Key) -> Result<Described, lt::CublasError> {
    use sys::cublasLtMatmulDescAttributes_t as P;
    use sys::cublasLtMatmulPreferenceAttributes_t as F;
    use sys::cublasLtMatrixLayoutAttribute_t as L;
    let unsupported = lt::CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED);
    let (data, compute, scale) = types(key.dtype).ok_or(unsupported)?;
    let layout = |rows: usize, columns: usize, leading: i64, batch: i64| {
        let made = lt::create_matrix_layout(data, rows as u64, columns as u64, leading)?;
        let count = key.batch as i32;
        // SAFETY: attributes of these sizes, on a layout just made.
        unsafe {
            lt::set_matrix_layout_attribute(
                made,
                L::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                (&raw const count).cast(),
                size_of::<i32>(),
            )?;
            lt::set_matrix_layout_attribute(
                made,
                L::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                (&raw const batch).cast(),
                size_of::<i64>(),
            )?;
        }
        Ok(made)
    };
    // The first matrix of the library is `b.T`, the second `a.T`, with columns first.
    let side = |s: Side, rows: usize, columns: usize| {
        let (r, c) = if s.transposed { (columns, rows) } else { (rows, columns) };
        layout(r, c, s.leading, s.batch)
    };
    let first = side(key.b, key.n, key.k)?;
    let second = side(key.a, key.k, key.m)?;
    let c = layout(key.n, key.m, key.n as i64, key.out)?;
    let product = lt::create_matmul_desc(compute, scale)?;
    let preference = lt::create_matmul_pref()?;
    // SAFETY: attributes of these sizes on descriptions just made.
    let found = unsafe {
        for (attribute, s) in
            [(P::CUBLASLT_MATMUL_DESC_TRANSA, key.b), (P::CUBLASLT_MATMUL_DESC_TRANSB, key.a)]
        {
            // CUBLAS_OP_N and CUBLAS_OP_T.
            let how = i32::from(s.transposed);
            lt::set_matmul_desc_attribute(product, attribute, (&raw const how).cast(), size_of::<i32>())?;
        }
        let most = WORKSPACE as u64;
        lt::set_matmul_pref_attribute(
            preference,
            F::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            (&raw const most).cast(),
            size_of::<u64>(),
        )?;
        for (attribute, bytes) in [
            (F::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.b.aligned),
            (F::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.a.aligned),
        ] {
            lt::set_matmul_pref_attribute(
                preference,
                attribute,
                (&raw const bytes).cast(),
                size_of::<u32>(),
            )?;
        }
        let found = lt::get_matmul_algo_heuristic(handle.0, product, first, second, c, c, preference);
        let _ = lt::destroy_matmul_pref(preference);
        found
    };
    let described =
        |algorithm, workspace| Described { product, a: first, b: second, c, algorithm, workspace };
    match found {
        Ok(h) => Ok(described(h.algo, h.workspaceSize)),
        Err(e) => {
            drop(described(sys::cublasLtMatmulAlgo_t { data: [0; 8] }, 0));
            Err(e)
        }
    }
}

/// How a matrix of `rows` by `columns` can be read where it lies.
fn side(o: &Operand, rows: usize, columns: usize, batch: isize) -> Option<Side> {
    let r = o.strides.len();
    let (rs, cs) = (o.strides[r - 2], o.strides[r - 1]);
    let aligned = 1u32 << o.at.trailing_zeros().min(8);
    let plain = (cs == 1 || columns == 1) && (rs >= columns as isize || rows == 1);
    if plain {
        let leading = if rows == 1 { columns as i64 } else { rs as i64 };
        return Some(Side { leading, transposed: false, batch: batch as i64, aligned });
    }
    let turned = (rs == 1 || rows == 1) && (cs >= rows as isize || columns == 1);
    if turned {
        let leading = if columns == 1 { rows as i64 } else { cs as i64 };
        return Some(Side { leading, transposed: true, batch: batch as i64, aligned });
    }
    None
}

pub(super) fn matmul(ctx: &mut EvalCtx<'_>, l: &mut Launch<'_>) -> Result<()> {
    let meta = &ctx.outs[0];
    let (d, shape) = (meta.dtype, meta.shape.clone());
    let rank = shape.rank();
    let (m, n) = (shape[rank - 2], shape[rank - 1]);
    let k = ctx.inputs[0].view.layout.shape()[rank - 1];
    let bytes = meta.bytes();
    let out = ctx.alloc(0)?.ptr;
    if k == 0 {
        return l.fill(out, 0, bytes);
    }
    let mut sides = [operand(&ctx.inputs[0]), operand(&ctx.inputs[1])];
    if m == 1 && n > 1 && shape[..rank - 2].iter().all(|&n| n == 1) && vector(l, d, &sides, out, k, n)? {
        return Ok(());
    }
    let extents = [(m, k), (k, n)];
    for (i, o) in sides.iter_mut().enumerate() {
        if side(o, extents[i].0, extents[i].1, 0).is_none() {
            let at = l.dense(&ctx.inputs[i])?;
            *o = Operand::dense(at, ctx.inputs[i].view.layout.shape(), d);
        }
    }
    let full = olivine_core::layout::row_major(&shape);
    let lead = |s: &[isize]| -> Vec<isize> { s[..rank - 2].to_vec() };
    let axes = [lead(&sides[0].strides), lead(&sides[1].strides), lead(&full)];
    let merged = merge(&shape[..rank - 2], &[&axes[0], &axes[1], &axes[2]]);
    // The last batch axis goes to the library; the others, which are rare, one after the other.
    let last = merged.sizes.len().checked_sub(1);
    let batch = last.map_or(1, |i| merged.sizes[i]);
    let step = |operand: usize| last.map_or(0, |i| merged.strides[operand][i]);
    let outer = &merged.sizes[..last.unwrap_or(0)];
    let size = d.size() as isize;
    for i in 0..outer.iter().product::<usize>() {
        let mut at = [sides[0].at, sides[1].at, out];
        let mut rest = i;
        for axis in (0..outer.len()).rev() {
            let c = (rest % outer[axis]) as isize;
            rest /= outer[axis];
            for (operand, at) in at.iter_mut().enumerate() {
                *at = at.wrapping_add_signed((c * merged.strides[operand][axis] * size) as i64);
            }
        }
        let moved = |k: usize| Operand { at: at[k], ..sides[k].clone() };
        let (Some(a), Some(b)) = (side(&moved(0), m, k, step(0)), side(&moved(1), k, n, step(1))) else {
            return l.unsupported("an argument has strides that cannot be read");
        };
        one(l, Key { dtype: d, m, n, k, batch, a, b, out: step(2) as i64 }, at)?;
    }
    Ok(())
}

/// A row times a matrix whose columns lie dense, as a weight's do; false when they do not.
fn vector(l: &Launch<'_>, d: Dtype, [a, b]: &[Operand; 2], out: u64, k: usize, n: usize) -> Result<bool> {
    let last = a.strides.len() - 1;
    let stride = b.strides[last];
    let pieces = |v: usize| (v * d.size()).is_multiple_of(16);
    let dense = a.strides[last] == 1 && b.strides[last - 1] == 1 && stride >= k as isize;
    let aligned =
        a.at.is_multiple_of(16) && b.at.is_multiple_of(16) && pieces(k) && pieces(stride.unsigned_abs());
    if !(dense && aligned && matches!(d, Dtype::F16 | Dtype::BF16 | Dtype::F32)) {
        return Ok(false);
    }
    // Two rows share what is loaded of the vector, where there are enough of them to fill the device.
    let r = if n >= l.gpu.properties.processors as usize * 32 { 2 } else { 1 };
    let kernel = Kernel::new(File::Gemv, "dense").set("T", d).set("R", r as i64);
    let mut args = Args::default();
    args.u64(a.at).u64(b.at).u64(out).size(k).size(n).i64(stride as i64);
    l.run(l.kernel(kernel)?, [blocks(l, n, 8 * r as u32)?, 1, 1], [32, 8], 0, args)?;
    Ok(true)
}

fn one(l: &mut Launch<'_>, key: Key, [a, b, out]: [u64; 3]) -> Result<()> {
    let failed = |msg: String| Error::Device { op: "matmul", device: l.gpu.device, msg };
    let blas = &l.gpu.blas;
    let handle = blas.handle().map_err(failed)?;
    let d = blas.described(key).map_err(failed)?;
    let workspace = if d.workspace > 0 { l.temporary(d.workspace)? } else { 0 };
    // One and zero of every type of factor: the first bytes of these are those of the narrower ones.
    let single = [[1.0f32, 0.0], [0.0, 0.0]];
    let double = [1.0f64, 0.0];
    let (alpha, beta): (*const c_void, *const c_void) = if key.dtype == Dtype::F64 {
        ((&raw const double[0]).cast(), (&raw const double[1]).cast())
    } else {
        ((&raw const single[0]).cast(), (&raw const single[1]).cast())
    };
    let stream = l.stream.raw()?;
    // SAFETY: descriptions of the matrices at these addresses, which lie inside arguments and result; the factors
    // are read before the call returns.
    let sent = unsafe {
        lt::matmul(
            handle.0,
            d.product,
            alpha,
            beta,
            b as *const c_void,
            d.a,
            a as *const c_void,
            d.b,
            out as *const c_void,
            d.c,
            out as *mut c_void,
            d.c,
            &d.algorithm,
            workspace as *mut c_void,
            d.workspace,
            stream.0.cast(),
        )
    };
    sent.map_err(|e| Error::Device { op: "matmul", device: l.gpu.device, msg: format!("cuBLASLt: {e}") })
}
