//! Which public names of MLX have a counterpart, and where.
//!
//! A name is covered when the registry has it ([`crate::calls`]), when it stands for something that is no
//! function of arrays and [`ELSEWHERE`] says which Rust item takes its place, or when [`EXCEPTED`] says why
//! there is none. What is still to be written stands in `data/pending/`, a file for each area.

use crate::calls;
use olivine_core::{
    Array, Device, DeviceKind, Dtype, Export, Exporter, Kind, Result, Stream, alloc, async_eval, backend,
    default_device, eval, export_function, graph_dot, import_function, set_default_device, transforms,
};

/// Public names of MLX 0.32.4, by module, as `dir()` gives them.
const NAMES: &str = include_str!("../data/mlx_names.json");

/// Names that have no counterpart yet.
const PENDING: &[&str] = &[
    include_str!("../data/pending/ops.txt"),
    include_str!("../data/pending/dense.txt"),
    include_str!("../data/pending/quantio.txt"),
    include_str!("../data/pending/core.txt"),
];

/// A Rust item, as text, after the compiler has seen that it exists.
macro_rules! item {
    ($p:expr) => {{
        let _ = $p;
        stringify!($p)
    }};
    (type $t:ty) => {{
        let _: Option<std::marker::PhantomData<$t>> = None;
        stringify!($t)
    }};
}

/// Names that stand for something other than a function of arrays, with what takes their place.
fn elsewhere() -> Vec<(&'static str, &'static str)> {
    fn traits(b: &dyn backend::Backend) {
        let _ = (b.device_count(), b.info(Device::CPU).is_ok());
    }
    let _ = (traits, |s: Stream| s.scope(|| ()));
    // Functions of functions cannot be named without them.
    let _ = |x: &Array| -> Result<()> {
        let f = |x: &Array| x.exp();
        transforms::grad(f)(x)?;
        transforms::value_and_grad(f)(x)?;
        transforms::vjp(f, x, x)?;
        transforms::jvp(f, x, x)?;
        transforms::vmap(f, 0, 0)(x)?;
        transforms::checkpoint(f)(x)?;
        transforms::custom_function(f).call(x)?;
        transforms::compile(f)(x)?;
        export_function("", Export::default(), x, f)
    };
    let mut v = vec![
        ("array", item!(type Array)),
        ("Dtype", item!(type Dtype)),
        ("DtypeCategory", item!(type Kind)),
        ("Device", item!(type Device)),
        ("DeviceType", item!(type DeviceKind)),
        ("Stream", item!(type Stream)),
        ("StreamContext", "Stream::scope"),
        ("stream", "Stream::scope"),
        ("ThreadLocalStream", item!(Stream::new)),
        ("new_stream", item!(Stream::new)),
        ("new_thread_local_stream", item!(Stream::new)),
        ("new_thread_unsafe_stream", item!(Stream::new)),
        ("default_stream", item!(Stream::default_of)),
        ("set_default_stream", "Stream::scope"),
        ("synchronize", item!(Stream::synchronize)),
        ("cpu", item!(Device::CPU)),
        ("gpu", item!(DeviceKind::Cuda)),
        ("default_device", item!(default_device)),
        ("set_default_device", item!(set_default_device)),
        ("is_available", item!(backend::get)),
        ("device_count", "backend::Backend::device_count"),
        ("device_info", "backend::Backend::info"),
        ("eval", item!(eval)),
        ("async_eval", item!(async_eval)),
        ("get_active_memory", item!(alloc::stats)),
        ("get_peak_memory", item!(alloc::stats)),
        ("get_cache_memory", item!(alloc::stats)),
        ("get_memory_limit", item!(alloc::stats)),
        ("reset_peak_memory", item!(alloc::reset_peak)),
        ("set_memory_limit", item!(alloc::set_limit)),
        ("set_cache_limit", item!(alloc::set_cache_limit)),
        ("clear_cache", item!(alloc::clear_cache)),
        ("get_array_buffer_size", item!(Array::nbytes)),
        ("array.nbytes", item!(Array::nbytes)),
        ("array.ndim", item!(Array::rank)),
        ("array.shape", item!(Array::shape)),
        ("array.size", item!(Array::size)),
        ("array.dtype", item!(Array::dtype)),
        ("array.itemsize", item!(Dtype::size)),
        ("array.item", item!(Array::item::<f32>)),
        ("array.tolist", item!(Array::to_vec::<f32>)),
        ("array.__len__", item!(Array::dim)),
        ("array.__bytes__", item!(Array::to_bytes)),
        ("array.__bool__", item!(Array::item::<bool>)),
        ("array.__int__", item!(Array::item::<i64>)),
        ("array.__index__", item!(Array::item::<i64>)),
        ("array.__float__", item!(Array::item::<f32>)),
        ("array.__complex__", item!(Array::item::<olivine_core::Complex64>)),
        ("array.__copy__", item!(<Array as Clone>::clone)),
        ("array.__deepcopy__", item!(<Array as Clone>::clone)),
        ("grad", "transforms::grad"),
        ("value_and_grad", "transforms::value_and_grad"),
        ("vjp", "transforms::vjp"),
        ("jvp", "transforms::jvp"),
        ("vmap", "transforms::vmap"),
        ("checkpoint", "transforms::checkpoint"),
        ("custom_function", "transforms::custom_function"),
        ("compile", "transforms::compile"),
        ("enable_compile", item!(transforms::set_compile)),
        ("disable_compile", item!(transforms::set_compile)),
        ("export_function", "export_function"),
        ("exporter", item!(type Exporter)),
        ("FunctionExporter", item!(type Exporter)),
        ("import_function", item!(import_function::<&str>)),
        ("export_to_dot", item!(graph_dot)),
        ("e", item!(std::f64::consts::E)),
        ("pi", item!(std::f64::consts::PI)),
        ("inf", item!(f64::INFINITY)),
        ("nan", item!(f64::NAN)),
        ("generic", item!(Dtype::kind)),
        ("number", item!(Dtype::kind)),
        ("inexact", item!(Dtype::is_inexact)),
        ("floating", item!(Dtype::is_float)),
        ("integer", item!(Dtype::is_integer)),
        ("complexfloating", item!(Kind::Complex)),
        ("signedinteger", item!(Kind::Signed)),
        ("unsignedinteger", item!(Kind::Unsigned)),
        ("bool_", item!(Dtype::Bool)),
    ];
    v.extend([
        ("uint8", item!(Dtype::U8)),
        ("uint16", item!(Dtype::U16)),
        ("uint32", item!(Dtype::U32)),
        ("uint64", item!(Dtype::U64)),
        ("int8", item!(Dtype::I8)),
        ("int16", item!(Dtype::I16)),
        ("int32", item!(Dtype::I32)),
        ("int64", item!(Dtype::I64)),
        ("float16", item!(Dtype::F16)),
        ("bfloat16", item!(Dtype::BF16)),
        ("float32", item!(Dtype::F32)),
        ("float64", item!(Dtype::F64)),
        ("complex64", item!(Dtype::C64)),
        ("random.seed", item!(olivine_core::random::seed)),
        ("load", "io::load"),
        ("save", "io::save"),
        ("savez", "io::savez"),
        ("savez_compressed", "io::savez_compressed"),
        ("save_safetensors", "io::save_safetensors"),
        ("save_gguf", "io::save_gguf"),
    ]);
    fn files(path: &std::path::Path, a: &Array) -> olivine_core::Result<()> {
        use olivine_core::io;
        let (arrays, text) = (Default::default(), Default::default());
        io::load(path, None)?;
        io::save(path, a)?;
        io::savez(path, &arrays)?;
        io::savez_compressed(path, &arrays)?;
        io::save_safetensors(path, &arrays, &text)?;
        io::save_gguf(path, &arrays, &Default::default())
    }
    let _ = files;
    v
}

/// Operators and methods that are a function under another name.
const SAME_AS: &[(&str, &str)] = &[
    ("array.__abs__", "abs"),
    ("array.__add__", "add"),
    ("array.__radd__", "add"),
    ("array.__iadd__", "add"),
    ("array.__sub__", "subtract"),
    ("array.__rsub__", "subtract"),
    ("array.__isub__", "subtract"),
    ("array.__mul__", "multiply"),
    ("array.__rmul__", "multiply"),
    ("array.__imul__", "multiply"),
    ("array.__truediv__", "divide"),
    ("array.__rtruediv__", "divide"),
    ("array.__itruediv__", "divide"),
    ("array.__floordiv__", "floor_divide"),
    ("array.__rfloordiv__", "floor_divide"),
    ("array.__ifloordiv__", "floor_divide"),
    ("array.__mod__", "remainder"),
    ("array.__rmod__", "remainder"),
    ("array.__imod__", "remainder"),
    ("array.__pow__", "power"),
    ("array.__rpow__", "power"),
    ("array.__ipow__", "power"),
    ("array.__matmul__", "matmul"),
    ("array.__imatmul__", "matmul"),
    ("array.__and__", "bitwise_and"),
    ("array.__iand__", "bitwise_and"),
    ("array.__or__", "bitwise_or"),
    ("array.__ior__", "bitwise_or"),
    ("array.__xor__", "bitwise_xor"),
    ("array.__ixor__", "bitwise_xor"),
    ("array.__lshift__", "left_shift"),
    ("array.__ilshift__", "left_shift"),
    ("array.__rshift__", "right_shift"),
    ("array.__irshift__", "right_shift"),
    ("array.__invert__", "bitwise_invert"),
    ("array.__neg__", "negative"),
    ("array.T", "transpose"),
    ("array.mT", "matrix_transpose"),
    ("array.__iter__", "unstack"),
    ("ArrayIterator", "unstack"),
    ("newaxis", "expand_dims"),
    ("ArrayAt", "array.at"),
];

const PYTHON: &str = "Python's own protocol; belongs to the Python package";
const METAL: &str = "Metal only";
const CUDA: &str = "CUDA only";
const GROUPS: &str = "comes with the distributed part";

/// Names without a counterpart, with the reason.
const EXCEPTED: &[(&str, &str)] = &[
    ("ArrayLike", PYTHON),
    ("from_dlpack", PYTHON),
    ("asarray", PYTHON),
    ("PrintOptions", PYTHON),
    ("printoptions", PYTHON),
    ("get_printoptions", PYTHON),
    ("set_printoptions", PYTHON),
    ("array.__array__", PYTHON),
    ("array.__array_namespace__", PYTHON),
    ("array.__dlpack__", PYTHON),
    ("array.__dlpack_device__", PYTHON),
    ("array.__setstate__", PYTHON),
    ("array.__pos__", PYTHON),
    ("linalg", "a module"),
    ("fft", "a module"),
    ("random", "a module"),
    ("fast", "a module"),
    ("euler_gamma", "the number 0.5772156649015329"),
    ("clear_streams", "a stream's worker thread lives as long as the process"),
    ("metal", METAL),
    ("cuda", CUDA),
    ("distributed", GROUPS),
    ("set_wired_limit", METAL),
    ("fast.metal_kernel", METAL),
    ("fast.cuda_kernel", CUDA),
    ("fast.precompiled_cuda_kernel", CUDA),
];

/// Whole modules without a counterpart.
const EXCEPTED_MODULES: &[(&str, &str)] =
    &[("mlx.core.metal", METAL), ("mlx.core.cuda", CUDA), ("mlx.core.distributed", GROUPS)];

/// How a name is covered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cover {
    /// The registry has a function of this name.
    Function(&'static str),
    /// A Rust item takes its place.
    Item(&'static str),
    /// There is none, for this reason.
    Excepted(&'static str),
    /// Not written yet.
    Pending,
    /// Nobody has thought of it.
    Missing,
}

/// One public name of MLX.
#[derive(Debug, Clone)]
pub struct Name {
    /// Module, such as `mlx.core.fft`.
    pub module: String,
    /// Name in the module.
    pub name: String,
    /// As the registry writes it.
    pub short: String,
    /// How it is covered.
    pub cover: Cover,
}

/// Names that are said to be pending.
pub fn pending() -> Vec<&'static str> {
    PENDING.iter().flat_map(|t| t.lines()).map(str::trim).filter(|l| !l.is_empty()).collect()
}

fn cover(module: &str, short: &str, bare: &str) -> Cover {
    let by_name =
        |list: &[(&'static str, &'static str)]| list.iter().find(|(n, _)| *n == short).map(|(_, v)| *v);
    // A method is the function of its name unless it has an entry of its own.
    let method = (module == "mlx.core.array").then_some(bare);
    if let Some(c) = calls::find(short).or_else(|| calls::find(method?)) {
        return Cover::Function(c.name);
    }
    if let Some(item) = by_name(&elsewhere()) {
        return Cover::Item(item);
    }
    let excepted = EXCEPTED_MODULES.iter().find(|(m, _)| *m == module).map(|(_, why)| *why);
    if let Some(why) = excepted.or_else(|| by_name(EXCEPTED)) {
        return Cover::Excepted(why);
    }
    let same = by_name(SAME_AS);
    if let Some(c) = same.and_then(calls::find) {
        return Cover::Function(c.name);
    }
    let pending = pending();
    let is_pending = |n: &str| pending.contains(&n);
    if is_pending(short) || method.is_some_and(is_pending) || same.is_some_and(is_pending) {
        return Cover::Pending;
    }
    Cover::Missing
}

/// Every public name of MLX and how it is covered.
pub fn names() -> Result<Vec<Name>, String> {
    let modules: std::collections::BTreeMap<String, Vec<String>> =
        serde_json::from_str(NAMES).map_err(|e| format!("data/mlx_names.json: {e}"))?;
    let mut all = Vec::new();
    for (module, names) in modules {
        let prefix = module.strip_prefix("mlx.core").unwrap_or(&module).trim_start_matches('.');
        for name in names {
            let short = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            let cover = cover(&module, &short, &name);
            all.push(Name { module: module.clone(), name, short, cover });
        }
    }
    Ok(all)
}

/// What is wrong with the lists: names that nobody covers, and pending ones that exist or that MLX lacks.
pub fn problems() -> Result<Vec<String>, String> {
    let all = names()?;
    let mut found: Vec<String> = all
        .iter()
        .filter(|n| n.cover == Cover::Missing)
        .map(|n| format!("{} of {} has no counterpart", n.name, n.module))
        .collect();
    for p in pending() {
        if calls::find(p).is_some() {
            found.push(format!("{p} is registered and must not be pending"));
        } else if !all.iter().any(|n| n.short == p || n.name == p) {
            found.push(format!("{p} is pending, but MLX has no such name"));
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    found.extend(
        calls::all().filter(|c| !seen.insert(c.name)).map(|c| format!("{} is registered twice", c.name)),
    );
    Ok(found)
}

/// The page `docs/coverage.md`.
pub fn page() -> Result<String, String> {
    use std::fmt::Write;
    let all = names()?;
    let count = |f: fn(&Cover) -> bool| all.iter().filter(|n| f(&n.cover)).count();
    let mut out = String::from(
        "# Names of MLX and their counterparts\n\nWritten by `cargo xtask docs` from the registry in \
         `crates/spec/src/calls`; do not edit.\n\n",
    );
    let _ = writeln!(
        out,
        "{} public names of `mlx.core` (0.32.4): {} are functions here, {} are other Rust items, {} have no \
         counterpart for the reason given, {} are not written yet.",
        all.len(),
        count(|c| matches!(c, Cover::Function(_))),
        count(|c| matches!(c, Cover::Item(_))),
        count(|c| matches!(c, Cover::Excepted(_))),
        count(|c| matches!(c, Cover::Pending | Cover::Missing)),
    );
    let mut module = "";
    for n in &all {
        if n.module != module {
            module = &n.module;
            let _ = write!(out, "\n## {module}\n\n| name | counterpart |\n| --- | --- |\n");
        }
        let cell = match &n.cover {
            Cover::Function(f) if *f == n.short => "yes".to_owned(),
            Cover::Function(f) => format!("`{f}`"),
            Cover::Item(i) => format!("`{i}`"),
            Cover::Excepted(why) => format!("none: {why}"),
            Cover::Pending | Cover::Missing => "not yet".to_owned(),
        };
        let _ = writeln!(out, "| `{}` | {cell} |", n.name);
    }
    Ok(out)
}
