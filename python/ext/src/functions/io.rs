//! Files: paths, and objects that read and write bytes.

use crate::args::Args;
use crate::array::PyArray;
use crate::fault::{R, runtime_error, type_error, value_error};
use crate::function::table;
use crate::give::{self, Give};
use crate::output::blocking;
use olivine_core::io::gguf::{ArrayValue, Metadata as GgufMetadata, Value};
use olivine_core::io::{self, Content, Format, Loaded, Metadata};
use olivine_core::{Array, Dtype};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Where to read or write.
enum Place<'a, 'py> {
    Path(PathBuf),
    File(&'a Bound<'py, PyAny>),
}

fn place<'a, 'py>(a: &'a Args<'_, 'py>, method: &str) -> R<Place<'a, 'py>> {
    let v = a.need("file")?;
    if v.is_instance_of::<PyString>() || v.hasattr("__fspath__")? {
        return Ok(Place::Path(v.extract()?));
    }
    if v.hasattr(method)? {
        return Ok(Place::File(v));
    }
    let kind = v.get_type().name()?;
    Err(value_error(format!("[{}] file is a path or a file opened in binary mode, got {kind}", a.op())))
}

/// A Python file that Rust writes to or reads.
struct PyFile(Py<PyAny>);

fn io_error(e: PyErr) -> std::io::Error {
    std::io::Error::other(e.to_string())
}

impl Read for PyFile {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        Python::attach(|py| {
            let data = self.0.call_method1(py, "read", (out.len(),)).map_err(io_error)?;
            let data = data.bind(py).cast::<PyBytes>().map_err(|e| io_error(e.into()))?.as_bytes().to_vec();
            let n = data.len().min(out.len());
            out[..n].copy_from_slice(&data[..n]);
            Ok(n)
        })
    }
}

impl Write for PyFile {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        Python::attach(|py| {
            self.0.call_method1(py, "write", (PyBytes::new(py, data),)).map_err(io_error)?;
            Ok(data.len())
        })
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Bytes in memory first: writers of archives go back and forth.
#[derive(Default)]
struct Memory(Cursor<Vec<u8>>);

impl Write for Memory {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        self.0.write(data)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Memory {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

fn named_arrays(a: &Args<'_, '_>) -> R<BTreeMap<String, Array>> {
    let v = a.need("arrays")?;
    let dict = v.cast::<PyDict>().map_err(|_| a.wrong("arrays", "a dict of arrays", v))?;
    let mut all = BTreeMap::new();
    for (name, value) in dict.iter() {
        let (Ok(name), Ok(array)) = (name.extract::<String>(), value.cast::<PyArray>()) else {
            return Err(a.wrong("arrays", "a dict of arrays by name", &value));
        };
        all.insert(name, array.get().get());
    }
    Ok(all)
}

fn save(a: &Args<'_, '_>) -> R<()> {
    let x = a.array("arr")?;
    match place(a, "write")? {
        Place::Path(path) => blocking(a.py, || io::save(path, &x)),
        Place::File(f) => {
            let mut out = PyFile(f.clone().unbind());
            blocking(a.py, || io::write_npy(&mut out, "file", &x))
        }
    }
}

fn savez(a: &Args<'_, '_>, compressed: bool) -> R<()> {
    let unnamed = a.rest_arrays()?;
    let mut named = Vec::new();
    if let Some(more) = &a.more {
        for (name, v) in more.iter() {
            let name: String = name.extract()?;
            match crate::input::operand(&v, None)? {
                Some(x) => named.push((name, x)),
                None => return Err(type_error(format!("[savez] {name:?} is no array"))),
            }
        }
    }
    let pairs: Vec<(&str, Array)> = named.iter().map(|(n, x)| (n.as_str(), x.clone())).collect();
    let all = io::npz::named(&unnamed, &pairs)?;
    match place(a, "write")? {
        Place::Path(path) => {
            blocking(
                a.py,
                || {
                    if compressed { io::savez_compressed(path, &all) } else { io::savez(path, &all) }
                },
            )
        }
        Place::File(f) => {
            let mut memory = Memory::default();
            blocking(a.py, || io::write_npz(&mut memory, "file", &all, compressed))?;
            PyFile(f.clone().unbind()).write_all(memory.0.get_ref()).map_err(|e| runtime_error(e.to_string()))
        }
    }
}

fn save_safetensors(a: &Args<'_, '_>) -> R<()> {
    let all = named_arrays(a)?;
    let mut metadata = BTreeMap::new();
    if let Some(v) = a.opt("metadata") {
        let dict: BTreeMap<String, String> =
            v.extract().map_err(|_| a.wrong("metadata", "a dict of str by str", v))?;
        metadata.extend(dict);
    }
    match place(a, "write")? {
        Place::Path(mut path) => {
            if path.extension().is_none_or(|e| e != "safetensors") {
                path.as_mut_os_string().push(".safetensors");
            }
            blocking(a.py, || io::save_safetensors(path, &all, &metadata))
        }
        Place::File(f) => {
            let mut out = PyFile(f.clone().unbind());
            blocking(a.py, || io::write_safetensors(&mut out, "file", &all, &metadata))
        }
    }
}

/// What GGUF keeps of an array: a number, or a list of numbers.
fn to_gguf(py: Python<'_>, key: &str, v: &Bound<'_, PyAny>) -> R<Value> {
    if v.is_instance_of::<PyString>() {
        return Ok(Value::String(v.extract()?));
    }
    if let Ok(list) = v.cast::<PyList>() {
        let texts: Vec<String> = list
            .extract()
            .map_err(|_| value_error(format!("[save_gguf] {key:?}: a list of str is expected")))?;
        return Ok(Value::Array(ArrayValue::String(texts.iter().collect())));
    }
    let Some(x) = crate::input::operand(v, None)? else {
        return Err(value_error(format!("[save_gguf] {key:?}: takes an array, a str or a list of str")));
    };
    if x.rank() > 1 {
        return Err(value_error(format!(
            "[save_gguf] {key:?}: takes at most one axis, got shape {}",
            x.shape()
        )));
    }
    crate::output::ready(py, &x)?;
    macro_rules! numbers {
        ($($d:ident as $t:ty => $v:ident),*) => {
            match x.dtype() {
                $(Dtype::$d => {
                    let all = x.to_vec::<$t>()?;
                    Ok(match x.rank() {
                        0 => Value::$v(all[0]),
                        _ => Value::Array(ArrayValue::$v(all)),
                    })
                })*
                d => Err(value_error(format!("[save_gguf] {key:?}: metadata of {d} is not possible"))),
            }
        };
    }
    numbers!(Bool as bool => Bool, U8 as u8 => U8, U16 as u16 => U16, U32 as u32 => U32, U64 as u64 => U64,
        I8 as i8 => I8, I16 as i16 => I16, I32 as i32 => I32, I64 as i64 => I64, F32 as f32 => F32, F64 as f64 => F64)
}

fn from_gguf(py: Python<'_>, v: &Value) -> R<Py<PyAny>> {
    macro_rules! numbers {
        ($($v:ident),*) => {
            match v {
                Value::String(s) => s.clone().give(py),
                Value::Array(ArrayValue::String(all)) => {
                    let texts: Vec<&str> = (0..all.len()).filter_map(|i| all.get(i)).collect();
                    Ok(PyList::new(py, texts)?.into_any().unbind())
                }
                Value::Array(ArrayValue::Array(all)) => {
                    let parts =
                        all.iter().map(|a| from_gguf(py, &Value::Array(a.clone()))).collect::<R<Vec<_>>>()?;
                    Ok(PyList::new(py, parts)?.into_any().unbind())
                }
                $(Value::$v(x) => give::array(py, Array::from_scalar(*x)),
                Value::Array(ArrayValue::$v(all)) => give::array(py, Array::from_slice(all, &[all.len()])?),)*
            }
        };
    }
    numbers!(Bool, U8, U16, U32, U64, I8, I16, I32, I64, F32, F64)
}

fn save_gguf(a: &Args<'_, '_>) -> R<()> {
    let all = named_arrays(a)?;
    let mut metadata = GgufMetadata::default();
    if let Some(v) = a.opt("metadata") {
        let dict = v.cast::<PyDict>().map_err(|_| a.wrong("metadata", "a dict", v))?;
        for (key, value) in dict.iter() {
            let key: String = key.extract()?;
            let value = to_gguf(a.py, &key, &value)?;
            metadata.insert(key, value).map_err(|e| value_error(format!("[save_gguf] {e}")))?;
        }
    }
    match place(a, "write")? {
        Place::Path(mut path) => {
            if path.extension().is_none_or(|e| e != "gguf") {
                path.as_mut_os_string().push(".gguf");
            }
            blocking(a.py, || io::save_gguf(path, &all, &metadata))
        }
        Place::File(f) => {
            let mut out = PyFile(f.clone().unbind());
            blocking(a.py, || io::write_gguf(&mut out, "file", &all, &metadata))
        }
    }
}

fn load(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let py = a.py;
    let format = a.opt("format").map(|_| a.str("format")).transpose()?;
    let format = format.map(|f| Format::named(&f)).transpose()?;
    let loaded = match place(a, "read")? {
        Place::Path(path) => blocking(py, || io::load(path, format))?,
        Place::File(f) => {
            let name: String = match f.getattr_opt("name")? {
                Some(n) => n.str()?.to_string(),
                None => "file".into(),
            };
            let format = match format {
                Some(f) => f,
                None => Format::of(name.as_ref())?,
            };
            let mut from = PyFile(f.clone().unbind());
            blocking(py, || io::load_from(&mut from, name, format))?
        }
    };
    let Loaded { content, metadata } = loaded;
    let content = match content {
        Content::One(x) => x.give(py)?,
        Content::Named(all) => {
            let dict = PyDict::new(py);
            for (name, x) in all {
                dict.set_item(name, give::array(py, x)?)?;
            }
            dict.into_any().unbind()
        }
    };
    if !a.bool_or("return_metadata", false)? {
        return Ok(content);
    }
    let said = PyDict::new(py);
    match metadata {
        Metadata::None => return Err(value_error("[load] this format has no metadata")),
        Metadata::Text(all) => {
            for (key, text) in all {
                said.set_item(key, text)?;
            }
        }
        Metadata::Gguf(all) => {
            for (key, v) in all.iter() {
                said.set_item(key, from_gguf(py, v)?)?;
            }
        }
    }
    Ok(PyTuple::new(py, [content, said.into_any().unbind()])?.into_any().unbind())
}

table! {
    /// Functions of files.
    TABLE;
    "save" => |a| save(a);
    "savez" => |a| savez(a, false);
    "savez_compressed" => |a| savez(a, true);
    "save_safetensors" => |a| save_safetensors(a);
    "save_gguf" => |a| save_gguf(a);
    "load" => |a| load(a);
}
