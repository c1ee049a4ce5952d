//! Functions of the module and methods of its classes: what the stubs declare, with the code that serves it.

use crate::args::Args;
use crate::device;
use crate::fault::{R, value_error};
use crate::stub::{self, Signature};
use pyo3::ffi::c_str;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple};
use std::collections::HashMap;
use std::sync::OnceLock;

/// The code of a function.
pub type Run = fn(&Args<'_, '_>) -> R<Py<PyAny>>;

/// A name and the code that serves it; methods of a class as `class.name`.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Name in its module.
    pub name: &'static str,
    /// What it does.
    pub run: Run,
}

/// Entries, one `"name", "other name" => |a| result;` each, as a constant.
macro_rules! table {
    ($(#[$doc:meta])* $table:ident; $($($name:literal),+ => |$a:ident| $body:expr;)*) => {
        $(#[$doc])*
        pub const $table: &[$crate::function::Entry] = &[$($(
            $crate::function::Entry {
                name: $name,
                run: |$a: &$crate::args::Args<'_, '_>| -> $crate::fault::R<pyo3::Py<pyo3::PyAny>> {
                    $crate::give::Give::give($body?, $a.py)
                },
            },
        )+)*];
    };
}
pub(crate) use table;

/// The stubs, by module.
const STUBS: &[(&str, &str)] = &[
    ("", include_str!("../../olivine/core/__init__.pyi")),
    ("cuda", include_str!("../../olivine/core/cuda.pyi")),
    ("distributed", include_str!("../../olivine/core/distributed.pyi")),
    ("fast", include_str!("../../olivine/core/fast.pyi")),
    ("fft", include_str!("../../olivine/core/fft.pyi")),
    ("linalg", include_str!("../../olivine/core/linalg.pyi")),
    ("metal", include_str!("../../olivine/core/metal.pyi")),
    ("random", include_str!("../../olivine/core/random.pyi")),
];

/// All that the stubs declare, by module and name.
fn declared() -> &'static HashMap<&'static str, HashMap<String, Signature>> {
    static ALL: OnceLock<HashMap<&'static str, HashMap<String, Signature>>> = OnceLock::new();
    ALL.get_or_init(|| STUBS.iter().map(|&(module, text)| (module, stub::parse(text))).collect())
}

/// Calls an entry with what Python gives, on the stream that is asked for.
fn call(
    py: Python<'_>,
    run: Run,
    signature: &Signature,
    given: &Bound<'_, PyTuple>,
    named: Option<&Bound<'_, PyDict>>,
) -> R<Py<PyAny>> {
    let args = Args::bind(py, signature, given, named)?;
    match signature.stream.and_then(|i| args.opt(i)) {
        Some(s) => device::to_stream(s)?.scope(|| run(&args)),
        None => run(&args),
    }
}

/// `inspect.Signature` of a declaration.
fn inspected(py: Python<'_>, signature: &Signature) -> PyResult<Py<PyAny>> {
    let mut parts: Vec<String> = Vec::new();
    let (mut slash, mut star) = (true, true);
    for p in &signature.parameters {
        use stub::Kind::{Either, More, Named, Positional, Rest};
        if slash && p.kind != Positional {
            if !parts.is_empty() {
                parts.push("/".into());
            }
            slash = false;
        }
        if star && p.kind == Named {
            parts.push("*".into());
            star = false;
        }
        let mark = match p.kind {
            Rest => {
                star = false;
                "*"
            }
            More => "**",
            Positional | Either | Named => "",
        };
        let default = p.default.map_or_else(String::new, |d| format!("={d}"));
        parts.push(format!("{mark}{}{default}", p.name));
    }
    if slash && !parts.is_empty() {
        parts.push("/".into());
    }
    let locals = PyDict::new(py);
    let code = format!("lambda {}: None", parts.join(", "));
    let code = std::ffi::CString::new(code).map_err(|e| value_error(e.to_string()))?;
    let function = py.eval(&code, Some(&py.import("olivine.core")?.dict()), Some(&locals))?;
    Ok(py.import("inspect")?.call_method1("signature", (function,))?.unbind())
}

macro_rules! callable {
    ($(#[$doc:meta])* $class:ident, $name:literal; $($extra:tt)*) => {
        $(#[$doc])*
        #[pyclass(frozen, weakref, name = $name, module = "olivine.core")]
        pub struct $class {
            signature: &'static Signature,
            run: Run,
            module: &'static str,
            inspected: PyOnceLock<Py<PyAny>>,
        }

        #[pymethods]
        impl $class {
            #[pyo3(signature = (*args, **kwargs))]
            fn __call__(
                &self,
                py: Python<'_>,
                args: &Bound<'_, PyTuple>,
                kwargs: Option<&Bound<'_, PyDict>>,
            ) -> PyResult<Py<PyAny>> {
                Ok(call(py, self.run, self.signature, args, kwargs)?)
            }
            #[getter]
            fn __name__(&self) -> &str {
                self.signature.name.rsplit('.').next().unwrap_or_default()
            }
            #[getter]
            fn __qualname__(&self) -> &str {
                &self.signature.name
            }
            #[getter]
            fn __module__(&self) -> String {
                if self.module.is_empty() { "olivine.core".into() } else { format!("olivine.core.{}", self.module) }
            }
            #[getter]
            fn __doc__(&self) -> &str {
                &self.signature.doc
            }
            #[getter]
            fn __signature__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
                Ok(self.inspected.get_or_try_init(py, || inspected(py, self.signature))?.clone_ref(py))
            }
            #[getter]
            fn __text_signature__(&self) -> &str {
                self.signature.text
            }
            fn __repr__(&self) -> String {
                format!("<function {}.{}>", self.__module__(), self.signature.name)
            }
            fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (Py<PyAny>, String))> {
                let (owner, name) = match self.signature.name.rsplit_once('.') {
                    Some((class, name)) => (py.import(self.__module__())?.getattr(class)?, name),
                    None => (py.import(self.__module__())?.into_any(), &self.signature.name[..]),
                };
                let getattr = py.import("builtins")?.getattr("getattr")?.unbind();
                Ok((getattr, (owner.unbind(), name.to_owned())))
            }
            $($extra)*
        }
    };
}

callable! {
    /// A function of the module.
    Function, "function";
}

callable! {
    /// A method of one of its classes.
    Method, "method";
    fn __get__(
        slf: Bound<'_, Self>,
        object: Option<&Bound<'_, PyAny>>,
        _class: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        match object.filter(|o| !o.is_none()) {
            None => Ok(slf.into_any().unbind()),
            Some(o) => bound(slf.py(), slf.as_any(), o),
        }
    }
}

/// The method of an object.
fn bound(py: Python<'_>, method: &Bound<'_, PyAny>, object: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    static KIND: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let kind = KIND.get_or_try_init(py, || -> PyResult<_> {
        Ok(py.eval(c_str!("type((lambda self: None).__get__(0))"), None, None)?.unbind())
    })?;
    kind.call1(py, (method, object))
}

/// Puts the entries of a module there, and those of its classes on the classes.
pub fn install(module: &Bound<'_, PyModule>, name: &'static str, entries: &[&[Entry]]) -> PyResult<()> {
    let by_name: HashMap<&str, Run> =
        entries.iter().flat_map(|table| table.iter()).map(|e| (e.name, e.run)).collect();
    for (key, signature) in &declared()[name] {
        let inspected = PyOnceLock::new();
        match key.split_once('.') {
            None => {
                if let Some(&run) = by_name.get(key.as_str()) {
                    module.add(key.as_str(), Function { signature, run, module: name, inspected })?;
                }
            }
            Some((class, method)) => {
                // A method does what the function of its name does, unless it has an entry of its own.
                let own = by_name.get(key.as_str());
                let run = own.or_else(|| if class == "array" { by_name.get(method) } else { None });
                if let Some(&run) = run
                    && !method.starts_with("__")
                {
                    let method_object = Method { signature, run, module: name, inspected };
                    module.getattr(class)?.setattr(method, method_object)?;
                }
            }
        }
    }
    Ok(())
}
