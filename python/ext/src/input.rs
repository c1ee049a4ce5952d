//! From Python objects to arrays: numbers, nested lists, NumPy arrays, other libraries' arrays.

use crate::array::PyArray;
use crate::dlpack;
use crate::fault::{R, type_error, value_error};
use half::{bf16, f16};
use olivine_core::dtype::Complex64;
use olivine_core::{Array, Dtype, Error, Scalar, ops};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple,
};

/// A number without an array around it.
#[derive(Clone, Copy)]
enum Number {
    Bool(bool),
    Int(i64),
    /// An integer that only `uint64` holds.
    Large(u64),
    Float(f64),
    Complex(f64, f64),
}

/// What Python's numbers are, and NumPy's that count as such.
fn number(v: &Bound<'_, PyAny>) -> R<Option<Number>> {
    if let Ok(b) = v.cast::<PyBool>() {
        return Ok(Some(Number::Bool(b.is_true())));
    }
    if let Ok(f) = v.cast::<PyFloat>() {
        return Ok(Some(Number::Float(f.value())));
    }
    if let Ok(i) = v.cast::<PyInt>() {
        return match i.extract::<i64>() {
            Ok(i) => Ok(Some(Number::Int(i))),
            Err(_) => match i.extract::<u64>() {
                Ok(u) => Ok(Some(Number::Large(u))),
                Err(_) => Err(value_error(format!("[array] {i} does not fit 64 bits"))),
            },
        };
    }
    if let Ok(c) = v.cast::<PyComplex>() {
        return Ok(Some(Number::Complex(c.real(), c.imag())));
    }
    Ok(None)
}

impl Number {
    /// The type that the number has by itself.
    fn dtype(self) -> Dtype {
        match self {
            Number::Bool(_) => Dtype::Bool,
            Number::Int(i) if i32::try_from(i).is_ok() => Dtype::I32,
            Number::Int(_) => Dtype::I64,
            Number::Large(_) => Dtype::U64,
            Number::Float(_) => Dtype::F32,
            Number::Complex(..) => Dtype::C64,
        }
    }

    /// The number in a type, cut where it does not fit.
    fn in_type(self, d: Dtype) -> Scalar {
        match self {
            Number::Bool(b) => Scalar::from_i64(b.into(), d),
            Number::Int(i) => Scalar::from_i64(i, d),
            Number::Large(u) if d.is_integer() => Scalar::from_i64(u as i64, d),
            Number::Large(u) => Scalar::from_f64(u as f64, d),
            Number::Float(f) => Scalar::from_f64(f, d),
            Number::Complex(re, im) if d == Dtype::C64 => {
                Scalar::new(Complex64 { re: re as f32, im: im as f32 })
            }
            Number::Complex(re, _) => Scalar::from_f64(re, d),
        }
    }

    /// Type beside an array of type `like`: the array's where that can hold the kind of number.
    fn beside(self, like: Dtype) -> R<Dtype> {
        let own = self.dtype();
        let d = match self {
            Number::Bool(_) => like,
            Number::Int(_) | Number::Large(_) if like == Dtype::Bool => own,
            Number::Int(_) | Number::Large(_) => like,
            Number::Float(_) => like.to_inexact(),
            Number::Complex(..) => Dtype::C64,
        };
        let fits = match self {
            Number::Int(i) => Scalar::from_i64(i, d).to_f64() == i as f64,
            Number::Large(_) => d == Dtype::U64,
            Number::Bool(_) | Number::Float(_) | Number::Complex(..) => true,
        };
        if d.is_integer() && !fits {
            let text = match self {
                Number::Int(i) => i.to_string(),
                Number::Large(u) => u.to_string(),
                Number::Bool(_) | Number::Float(_) | Number::Complex(..) => String::new(),
            };
            return Err(value_error(format!("[array] {text} is outside {d}")));
        }
        Ok(d)
    }
}

fn full(s: Scalar) -> R<Array> {
    Ok(match s.dtype() {
        // The common ones are constants, which take no memory and fuse.
        Dtype::F32 => Array::from_scalar(f32::from_bits(s.bits() as u32)),
        Dtype::I32 => Array::from_scalar(s.bits() as u32 as i32),
        Dtype::Bool => Array::from_scalar(s.bits() & 1 == 1),
        Dtype::F16 => Array::from_scalar(f16::from_bits(s.bits() as u16)),
        Dtype::BF16 => Array::from_scalar(bf16::from_bits(s.bits() as u16)),
        d => Array::from_bytes(&s.bytes()[..d.size()], &[], d)?,
    })
}

/// What can stand where an array is wanted: arrays, numbers, arrays of other libraries. `None` for anything else. Beside
/// an array of type `like`, numbers and other libraries' arrays take that type where it can hold their kind.
pub fn operand(v: &Bound<'_, PyAny>, like: Option<Dtype>) -> R<Option<Array>> {
    if let Ok(a) = v.cast::<PyArray>() {
        return Ok(Some(a.get().get()));
    }
    if let Some(n) = number(v)? {
        let d = match like {
            Some(like) => n.beside(like)?,
            None => n.dtype(),
        };
        return full(n.in_type(d)).map(Some);
    }
    let Some(a) = foreign(v)? else { return Ok(None) };
    Ok(Some(match like {
        Some(like) if like.kind() >= a.dtype().kind() => a.astype(like)?,
        _ => a,
    }))
}

/// Two operands, of which one may be a number that takes the other's type.
pub fn pair(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> R<Option<(Array, Array)>> {
    let known = |v: &Bound<'_, PyAny>| v.cast::<PyArray>().ok().map(|a| a.get().get().dtype());
    let (like_a, like_b) = (known(a), known(b));
    let a = operand(a, like_b)?;
    let b = operand(b, like_a)?;
    Ok(a.zip(b))
}

/// An array of another library, or of an object that says how it becomes one.
pub fn foreign(v: &Bound<'_, PyAny>) -> R<Option<Array>> {
    let py = v.py();
    if v.is_instance_of::<PyString>()
        || v.is_instance_of::<PyList>()
        || v.is_instance_of::<PyTuple>()
        || v.is_instance_of::<PyDict>()
        || v.is_none()
        || v.is_instance_of::<pyo3::types::PyType>()
    {
        return Ok(None);
    }
    if let Some(convert) = v.getattr_opt(intern!(py, "__mlx_array__"))? {
        let a = convert.call0()?;
        return match a.cast::<PyArray>() {
            Ok(a) => Ok(Some(a.get().get())),
            Err(_) => Err(type_error(format!("[array] __mlx_array__ gave {}", a.get_type().name()?))),
        };
    }
    if let Some(interface) = v.getattr_opt(intern!(py, "__array_interface__"))? {
        if let Ok(interface) = interface.cast::<PyDict>()
            && let Some(a) = from_interface(v, interface)?
        {
            return Ok(Some(a));
        }
        return from_numpy_call(v).map(Some);
    }
    if v.hasattr(intern!(py, "__dlpack__"))? {
        return dlpack::import(v, Some(true)).map(Some);
    }
    if v.hasattr(intern!(py, "__array__"))? {
        return from_numpy_call(v).map(Some);
    }
    // Whatever shows memory, such as `memoryview` and `array.array`; text of bytes does not count.
    if !v.is_instance_of::<PyBytes>()
        && !v.is_instance_of::<PyByteArray>()
        && pyo3::buffer::PyUntypedBuffer::get(v).is_ok()
    {
        return from_numpy_call(v).map(Some);
    }
    Ok(None)
}

/// Through NumPy, which knows more than this module does.
fn from_numpy_call(v: &Bound<'_, PyAny>) -> R<Array> {
    let a = v.py().import("numpy")?.call_method1("asarray", (v,))?;
    let interface = a.getattr("__array_interface__")?;
    match from_interface(&a, interface.cast::<PyDict>()?)? {
        Some(a) => Ok(a),
        None => {
            Err(type_error(format!("[array] elements of type {} are none of Olivine's", a.getattr("dtype")?)))
        }
    }
}

/// An array from NumPy's description of its memory. `None` where that is not described by an address.
///
/// Float64 becomes float32, as in MLX.
fn from_interface(v: &Bound<'_, PyAny>, interface: &Bound<'_, PyDict>) -> R<Option<Array>> {
    let Some(data) = interface.get_item("data")? else { return Ok(None) };
    let Ok((address, _)) = data.extract::<(usize, bool)>() else { return Ok(None) };
    let (Some(shape), Some(kind)) = (interface.get_item("shape")?, interface.get_item("typestr")?) else {
        return Ok(None);
    };
    let (shape, kind): (Vec<usize>, String) = (shape.extract()?, kind.extract()?);
    let (order, code) = kind.split_at(1);
    let dtype = match code {
        "b1" => Dtype::Bool,
        "u1" => Dtype::U8,
        "u2" => Dtype::U16,
        "u4" => Dtype::U32,
        "u8" => Dtype::U64,
        "i1" => Dtype::I8,
        "i2" => Dtype::I16,
        "i4" => Dtype::I32,
        "i8" => Dtype::I64,
        "f2" => Dtype::F16,
        "f4" => Dtype::F32,
        "f8" => Dtype::F64,
        "c8" => Dtype::C64,
        "V2" if v.getattr("dtype")?.getattr("name")?.extract::<String>()? == "bfloat16" => Dtype::BF16,
        "c16" | "f16" => {
            let to = if code == "c16" { "complex64" } else { "float32" };
            let narrow = v.py().import("numpy")?.call_method1("asarray", (v, to))?;
            let interface = narrow.getattr("__array_interface__")?;
            return from_interface(&narrow, interface.cast::<PyDict>()?);
        }
        _ => return Err(type_error(format!("[array] elements of type {kind:?} are none of Olivine's"))),
    };
    let size = dtype.size();
    let strides: Vec<isize> = match interface.get_item("strides")?.filter(|s| !s.is_none()) {
        Some(s) => s.extract()?,
        None => {
            let rows = olivine_core::layout::row_major(&shape);
            rows.iter().map(|s| s * size as isize).collect()
        }
    };
    if strides.len() != shape.len() {
        return Ok(None);
    }
    let swap = order == if cfg!(target_endian = "little") { ">" } else { "<" };
    // SAFETY: the object describes memory of its own, which lives as long as it does and cannot be freed while the
    // interpreter is attached to this thread.
    let mut bytes = unsafe { gather(address as *const u8, &shape, &strides, size) }?;
    if swap {
        let word = if dtype == Dtype::C64 { 4 } else { size };
        bytes.chunks_exact_mut(word).for_each(<[u8]>::reverse);
    }
    if dtype == Dtype::Bool {
        bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    let a = Array::from_bytes(&bytes, &shape, dtype)?;
    Ok(Some(a))
}

/// The elements at a place in memory in row-major order.
///
/// # Safety
/// Every element that shape and strides (in bytes) reach from `base` is readable memory.
pub unsafe fn gather(base: *const u8, shape: &[usize], strides: &[isize], size: usize) -> R<Vec<u8>> {
    let total = shape.iter().try_fold(size, |n, &d| n.checked_mul(d));
    let total =
        total.ok_or_else(|| value_error(format!("[array] shape {shape:?} is more than memory holds")))?;
    let mut out = Vec::new();
    out.try_reserve_exact(total).map_err(|_| {
        crate::fault::Fault::from(Error::value("array", format!("{total} bytes do not fit into memory")))
    })?;
    if total == 0 {
        return Ok(out);
    }
    // How many trailing axes lie in one row.
    let (mut run, mut inner) = (size, shape.len());
    while inner > 0 && (strides[inner - 1] == run as isize || shape[inner - 1] == 1) {
        run *= shape[inner - 1];
        inner -= 1;
    }
    let mut at = vec![0usize; inner];
    let mut offset = 0isize;
    loop {
        // SAFETY: promised by the caller: the run is made of elements that shape and strides reach.
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(base.offset(offset), run) });
        let mut axis = inner;
        loop {
            if axis == 0 {
                return Ok(out);
            }
            axis -= 1;
            at[axis] += 1;
            offset += strides[axis];
            if at[axis] < shape[axis] {
                break;
            }
            offset -= strides[axis] * shape[axis] as isize;
            at[axis] = 0;
        }
    }
}

/// What `array(value, dtype)` gives.
pub fn make(v: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> R<Array> {
    let to = |a: Array| -> R<Array> {
        Ok(match dtype {
            Some(d) => a.astype(d)?,
            None => a,
        })
    };
    if let Ok(a) = v.cast::<PyArray>() {
        return to(a.get().get());
    }
    if let Some(n) = number(v)? {
        return full(n.in_type(dtype.unwrap_or(n.dtype())));
    }
    if v.is_instance_of::<PyList>() || v.is_instance_of::<PyTuple>() {
        return nested(v, dtype);
    }
    if v.is_none() {
        return Err(type_error("[array] takes a number, a list, a tuple or an array, got None"));
    }
    match foreign(v)? {
        // Float64 of other libraries becomes float32 unless it is asked for, as in MLX.
        Some(a) if dtype.is_none() && a.dtype() == Dtype::F64 => Ok(a.astype(Dtype::F32)?),
        Some(a) => to(a),
        None => {
            Err(value_error(format!("[array] a value of type {} cannot be an array", v.get_type().name()?)))
        }
    }
}

/// The numbers of nested lists, in order, with the shape of the nest. `None` as soon as there is an array among them.
struct Nest {
    shape: Vec<usize>,
    numbers: Vec<Number>,
}

fn nested(v: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> R<Array> {
    let mut nest = Nest { shape: Vec::new(), numbers: Vec::new() };
    if !nest.collect(v, 0)? {
        return stacked(v, dtype);
    }
    let own = nest.numbers.iter().map(|n| n.dtype()).reduce(|a, b| match (a, b) {
        (Dtype::U64, Dtype::I32 | Dtype::I64) | (Dtype::I32 | Dtype::I64, Dtype::U64) => Dtype::F32,
        (a, b) => a.promote(b),
    });
    let d = dtype.or(own).unwrap_or(Dtype::F32);
    let size = d.size();
    let mut bytes = Vec::with_capacity(nest.numbers.len() * size);
    for n in &nest.numbers {
        bytes.extend_from_slice(&n.in_type(d).bytes()[..size]);
    }
    Ok(Array::from_bytes(&bytes, &nest.shape, d)?)
}

impl Nest {
    /// Whether everything was numbers.
    fn collect(&mut self, v: &Bound<'_, PyAny>, depth: usize) -> R<bool> {
        let items: Vec<Bound<'_, PyAny>> = match v.cast::<PyList>() {
            Ok(l) => l.iter().collect(),
            Err(_) => v.cast::<PyTuple>()?.iter().collect(),
        };
        if depth == self.shape.len() {
            // Beside lists of numbers there is no room for another axis.
            if !self.numbers.is_empty() {
                return Err(ragged());
            }
            self.shape.push(items.len());
        } else if self.shape[depth] != items.len() {
            return Err(ragged());
        }
        if depth > 64 {
            return Err(value_error("[array] lists are nested more than 64 deep"));
        }
        for item in &items {
            let deeper = item.is_instance_of::<PyList>() || item.is_instance_of::<PyTuple>();
            if deeper {
                if !self.collect(item, depth + 1)? {
                    return Ok(false);
                }
            } else if let Some(n) = number(item)? {
                if depth + 1 != self.shape.len() {
                    return Err(ragged());
                }
                self.numbers.push(n);
            } else {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn ragged() -> crate::fault::Fault {
    value_error("[array] lists of one depth must have one length")
}

/// Lists with arrays in them.
fn stacked(v: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> R<Array> {
    let mut parts = Vec::new();
    for item in v.try_iter()? {
        let item = item?;
        parts.push(make(&item, None)?);
    }
    if parts.iter().any(|p| p.shape() != parts[0].shape()) {
        return Err(ragged());
    }
    let types: Vec<Dtype> = parts.iter().map(Array::dtype).collect();
    let d = match dtype {
        Some(d) => d,
        None => olivine_core::dtype::result_type(&types)?,
    };
    let parts = parts.iter().map(|p| p.astype(d)).collect::<Result<Vec<_>, _>>()?;
    Ok(ops::stack(&parts, 0)?)
}
