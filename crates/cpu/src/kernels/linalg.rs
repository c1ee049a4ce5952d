//! Factorizations of many matrices, spread over the threads whole. Everything is computed in double precision
//! and rounded once.

use crate::{pool, raw};
use olivine_core::op::Linalg;
use olivine_core::{Dtype, Error, Result, Shape};
use olivine_cpu_libs::Complex;
use olivine_cpu_libs::linalg::{Element, Failure, Triangle};
use std::sync::Mutex;

/// Numbers in memory and the wide ones that stand for them.
trait Stored: Copy + Send + Sync + 'static {
    type Wide: Element + Default;
    fn widen(self) -> Self::Wide;
    fn narrow(x: Self::Wide) -> Self;
    /// A real number of the matching type.
    fn real(x: f64, out: &mut [u8]);
    const REAL_BYTES: usize;
}

impl Stored for f32 {
    type Wide = f64;
    fn widen(self) -> f64 {
        f64::from(self)
    }
    fn narrow(x: f64) -> f32 {
        x as f32
    }
    fn real(x: f64, out: &mut [u8]) {
        out.copy_from_slice(&(x as f32).to_ne_bytes());
    }
    const REAL_BYTES: usize = 4;
}
impl Stored for f64 {
    type Wide = f64;
    fn widen(self) -> f64 {
        self
    }
    fn narrow(x: f64) -> f64 {
        x
    }
    fn real(x: f64, out: &mut [u8]) {
        out.copy_from_slice(&x.to_ne_bytes());
    }
    const REAL_BYTES: usize = 8;
}
impl Stored for Complex<f32> {
    type Wide = Complex<f64>;
    fn widen(self) -> Complex<f64> {
        Complex::new(f64::from(self.re), f64::from(self.im))
    }
    fn narrow(x: Complex<f64>) -> Complex<f32> {
        Complex::new(x.re as f32, x.im as f32)
    }
    fn real(x: f64, out: &mut [u8]) {
        f32::real(x, out);
    }
    const REAL_BYTES: usize = 4;
}

/// Runs `op` on row-major matrices `a` of shape `shape` and, for systems of equations, right sides of shape
/// `rhs`; results lie row-major too.
///
/// # Errors
/// `Value` for a matrix that has no such result, with the index of the first such matrix; `Dtype`.
pub fn run(
    op: Linalg,
    dtype: Dtype,
    shape: &Shape,
    rhs: &Shape,
    inputs: &[&[u8]],
    results: &mut [&mut [u8]],
) -> Result<()> {
    match dtype {
        Dtype::F32 => batch::<f32>(op, shape, rhs, inputs, results),
        Dtype::F64 => batch::<f64>(op, shape, rhs, inputs, results),
        Dtype::C64 => batch::<Complex<f32>>(op, shape, rhs, inputs, results),
        Dtype::Bool
        | Dtype::U8
        | Dtype::U16
        | Dtype::U32
        | Dtype::U64
        | Dtype::I8
        | Dtype::I16
        | Dtype::I32
        | Dtype::I64
        | Dtype::F16
        | Dtype::BF16 => Err(Error::bad_dtype("linalg", "float32, float64 or complex64", dtype)),
    }
}

/// Elements of bytes that need not be aligned.
fn widen<T: Stored>(bytes: &[u8]) -> Vec<T::Wide> {
    bytes
        .chunks_exact(size_of::<T>())
        // SAFETY: as many bytes as the type has, all of which may be any.
        .map(|c| unsafe { c.as_ptr().cast::<T>().read_unaligned() }.widen())
        .collect()
}

fn narrow<T: Stored>(values: &[T::Wide], out: &mut [u8]) {
    for (chunk, &v) in out.chunks_exact_mut(size_of::<T>()).zip(values) {
        // SAFETY: as many bytes as the type has.
        unsafe { chunk.as_mut_ptr().cast::<T>().write_unaligned(T::narrow(v)) }
    }
}

fn reals<T: Stored>(values: &[f64], out: &mut [u8]) {
    for (chunk, &v) in out.chunks_exact_mut(T::REAL_BYTES).zip(values) {
        T::real(v, chunk);
    }
}

fn indices(values: &[u32], out: &mut [u8]) {
    for (chunk, v) in out.chunks_exact_mut(4).zip(values) {
        chunk.copy_from_slice(&v.to_ne_bytes());
    }
}

fn complexes(values: &[Complex<f64>], out: &mut [u8]) {
    narrow::<Complex<f32>>(values, out);
}

fn batch<T: Stored>(
    op: Linalg,
    shape: &Shape,
    rhs: &Shape,
    inputs: &[&[u8]],
    results: &mut [&mut [u8]],
) -> Result<()> {
    let name = op_name(op);
    let r = shape.rank();
    if r < 2 || inputs.is_empty() || inputs[0].len() != shape.elements() * size_of::<T>() {
        return Err(Error::value(name, format!("matrices of shape {shape}")));
    }
    let (m, n) = (shape[r - 2], shape[r - 1]);
    let count: usize = shape[..r - 2].iter().product();
    let cols = rhs.last().copied().unwrap_or(0);
    if count == 0 {
        return Ok(());
    }
    let step = |bytes: usize| bytes / count;
    let outs: Vec<(raw::Ptr, usize)> =
        results.iter_mut().map(|o| (raw::Ptr::new(o.as_mut_ptr()), step(o.len()))).collect();
    let failed: Mutex<Option<(usize, Failure)>> = Mutex::new(None);
    let each = |i: usize| {
        let part = |k: usize| {
            let size = step(inputs[k].len());
            widen::<T>(&inputs[k][i * size..(i + 1) * size])
        };
        let mut parts: Vec<&mut [u8]> = outs
            .iter()
            // SAFETY: part `i` of a result that is divided into `count` of them; no other task has it.
            .map(|&(p, size)| unsafe { std::slice::from_raw_parts_mut(p.get().add(i * size), size) })
            .collect();
        let b = if inputs.len() > 1 { part(1) } else { Vec::new() };
        if let Err(e) = one::<T>(op, &part(0), (m, n), &b, cols, &mut parts) {
            let mut first = failed.lock().unwrap_or_else(|e| e.into_inner());
            if first.is_none_or(|(at, _)| i < at) {
                *first = Some((i, e));
            }
        }
    };
    if m.max(n) * m.min(n) * m.min(n) * count < 1 << 12 {
        (0..count).for_each(each);
    } else {
        pool::parallel_for(count, &each);
    }
    match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
        None => Ok(()),
        Some((i, e)) => Err(Error::value(name, format!("matrix {i} of {count}: {e}"))),
    }
}

fn op_name(op: Linalg) -> &'static str {
    olivine_core::Op::Linalg(op).name()
}

fn triangle(upper: bool) -> Triangle {
    if upper { Triangle::Upper } else { Triangle::Lower }
}

/// One matrix. `outs` has the results that the operation says, of the sizes that it says.
fn one<T: Stored>(
    op: Linalg,
    a: &[T::Wide],
    (m, n): (usize, usize),
    b: &[T::Wide],
    cols: usize,
    outs: &mut [&mut [u8]],
) -> std::result::Result<(), Failure> {
    let zeros = |len: usize| vec![T::Wide::default(); len];
    let k = m.min(n);
    match op {
        Linalg::Inverse => {
            let mut x = zeros(n * n);
            T::Wide::inverse(a, n, &mut x)?;
            narrow::<T>(&x, outs[0]);
        }
        Linalg::TriangularInverse { upper } => {
            let mut x = zeros(n * n);
            T::Wide::triangular_inverse(a, n, triangle(upper), &mut x)?;
            narrow::<T>(&x, outs[0]);
        }
        Linalg::Solve => {
            let mut x = zeros(n * cols);
            T::Wide::solve(a, n, b, cols, &mut x)?;
            narrow::<T>(&x, outs[0]);
        }
        Linalg::SolveTriangular { upper } => {
            let mut x = zeros(n * cols);
            T::Wide::solve_triangular(a, n, triangle(upper), b, cols, &mut x)?;
            narrow::<T>(&x, outs[0]);
        }
        Linalg::Cholesky { upper } => {
            let mut x = zeros(n * n);
            T::Wide::cholesky(a, n, triangle(upper), &mut x)?;
            narrow::<T>(&x, outs[0]);
        }
        Linalg::Lu => {
            let (mut lu, mut swaps, mut rows) = (zeros(m * n), vec![0; k], vec![0; m]);
            T::Wide::lu(a, m, n, &mut lu, &mut swaps, &mut rows)?;
            narrow::<T>(&lu, outs[0]);
            indices(&swaps, outs[1]);
            indices(&rows, outs[2]);
        }
        Linalg::Det => narrow::<T>(&[T::Wide::determinant(a, n)?], outs[0]),
        Linalg::SlogDet => {
            let d = T::Wide::sign_log_determinant(a, n)?;
            narrow::<T>(&[d.sign], outs[0]);
            reals::<T>(&[d.log], outs[1]);
        }
        Linalg::Qr => {
            let (mut q, mut r) = (zeros(m * k), zeros(k * n));
            T::Wide::qr(a, m, n, &mut q, &mut r)?;
            narrow::<T>(&q, outs[0]);
            narrow::<T>(&r, outs[1]);
        }
        Linalg::Svd { vectors: false } => {
            let mut s = vec![0.0; k];
            T::Wide::singular_values(a, m, n, &mut s)?;
            reals::<T>(&s, outs[0]);
        }
        Linalg::Svd { vectors: true } => {
            let (mut u, mut s, mut vh) = (zeros(m * m), vec![0.0; k], zeros(n * n));
            T::Wide::svd(a, m, n, &mut u, &mut s, &mut vh)?;
            narrow::<T>(&u, outs[0]);
            reals::<T>(&s, outs[1]);
            narrow::<T>(&vh, outs[2]);
        }
        Linalg::Eigh { upper, vectors: false } => {
            let mut w = vec![0.0; n];
            T::Wide::eigenvalues_hermitian(a, n, triangle(upper), &mut w)?;
            reals::<T>(&w, outs[0]);
        }
        Linalg::Eigh { upper, vectors: true } => {
            let (mut w, mut v) = (vec![0.0; n], zeros(n * n));
            T::Wide::eigen_hermitian(a, n, triangle(upper), &mut w, &mut v)?;
            reals::<T>(&w, outs[0]);
            narrow::<T>(&v, outs[1]);
        }
        Linalg::Eig { vectors: false } => {
            let mut w = vec![Complex::default(); n];
            T::Wide::eigenvalues(a, n, &mut w)?;
            complexes(&w, outs[0]);
        }
        Linalg::Eig { vectors: true } => {
            let (mut w, mut v) = (vec![Complex::default(); n], vec![Complex::default(); n * n]);
            T::Wide::eigen(a, n, &mut w, &mut v)?;
            complexes(&w, outs[0]);
            complexes(&v, outs[1]);
        }
    }
    Ok(())
}
