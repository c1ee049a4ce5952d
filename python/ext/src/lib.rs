//! The extension module `olivine.core`: Olivine's arrays under the names of `mlx.core`.
//!
//! Names, parameters and docstrings stand in the stubs `python/olivine/core/*.pyi`, which are compiled in (`stub`).
//! The tables in `functions` say what each name does; `function` puts both together, so that a function is one line
//! here and one declaration there. Arguments become values in `args` and `input`, results become objects in `give`
//! and `output`.
//!
//! Everything that may wait goes through [`output::blocking`], which lets other Python threads run meanwhile. Errors of
//! the core become exceptions in one place, `fault`.

mod args;
mod array;
mod compile;
mod custom;
mod device;
mod dlpack;
mod evaluate;
mod fault;
mod function;
mod functions;
mod give;
mod indexing;
mod input;
mod output;
mod print;
mod stub;
mod transforms;
mod tree;
mod types;

use olivine_core::Dtype;
use pyo3::prelude::*;

/// A part of the module, which `import olivine.core.NAME` finds, too.
fn part<'py>(module: &Bound<'py, PyModule>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let py = module.py();
    let full = format!("olivine.core.{name}");
    let part = PyModule::new(py, &full)?;
    module.add(name, &part)?;
    py.import("sys")?.getattr("modules")?.set_item(full, &part)?;
    Ok(part)
}

/// Olivine's arrays, with the interface of `mlx.core`.
#[pymodule(gil_used = false)]
fn core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    use functions::{
        conv, create, distributed, elementwise, fast, fft, index, io, linalg, matmul, random, reduce, shape,
        system,
    };
    let py = module.py();
    olivine_cpu::register();
    olivine_cuda::register();
    py.import("sys")?.getattr("modules")?.set_item("olivine.core", module)?;

    module.add_class::<array::PyArray>()?;
    module.add_class::<array::ArrayIterator>()?;
    module.add_class::<array::ArrayLike>()?;
    module.add_class::<indexing::ArrayAt>()?;
    module.add_class::<types::PyDtype>()?;
    module.add_class::<types::PyFinfo>()?;
    module.add_class::<types::PyIinfo>()?;
    module.add_class::<device::PyDevice>()?;
    module.add_class::<device::PyStream>()?;
    module.add_class::<device::ThreadLocalStream>()?;
    module.add_class::<device::StreamContext>()?;
    module.add_class::<print::PrintOptions>()?;
    module.add_class::<custom::PyCustomFunction>()?;
    device::enumerations(module)?;
    for d in Dtype::ALL {
        let name = if d == Dtype::Bool { "bool_".to_owned() } else { types::name(d) };
        module.add(&*name, types::dtype(py, d)?)?;
    }
    module.add("newaxis", py.None())?;
    module.add("pi", std::f64::consts::PI)?;
    module.add("e", std::f64::consts::E)?;
    module.add("euler_gamma", 0.577_215_664_901_532_9)?;
    module.add("inf", f64::INFINITY)?;
    module.add("nan", f64::NAN)?;
    module.add("__version__", "0.32.4")?;

    let own = [
        elementwise::TABLE,
        create::TABLE,
        shape::TABLE,
        reduce::TABLE,
        index::TABLE,
        matmul::TABLE,
        conv::TABLE,
        io::TABLE,
        linalg::ALIASES,
        system::TABLE,
    ];
    function::install(module, "", &own)?;
    function::install(&part(module, "linalg")?, "linalg", &[linalg::TABLE])?;
    function::install(&part(module, "fft")?, "fft", &[fft::TABLE])?;
    function::install(&part(module, "fast")?, "fast", &[fast::TABLE])?;
    let part_random = part(module, "random")?;
    function::install(&part_random, "random", &[random::TABLE])?;
    part_random.add("state", Py::new(py, random::RandomState)?)?;
    let part_distributed = part(module, "distributed")?;
    part_distributed.add_class::<distributed::Group>()?;
    function::install(&part_distributed, "distributed", &[distributed::TABLE])?;
    function::install(&part(module, "metal")?, "metal", &[system::METAL])?;
    function::install(&part(module, "cuda")?, "cuda", &[system::CUDA])?;
    Ok(())
}
