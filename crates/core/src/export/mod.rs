//! Functions in files: traced here, run elsewhere, without the code that made them.
//!
//! A file holds one or more traces of a function and the constants that they use; it is a safetensors file whose
//! tensor `program` describes the operations in JSON, with a version. What was fused or defined outside this library is
//! stored as its composite. Reading a file runs nothing of it: every operation's rule checks its parameters and
//! arguments before anything is computed.
//!
//! A trace is for arguments of the shapes of its example, or, when it is *shapeless*, for all sizes at which the
//! function does the same: it is traced at several sizes, and each number that changes (the shape of a reshape, the
//! end of a slice, a count that a mean divides by) is stored as the function of the sizes that gives it.

mod file;
mod fit;
mod sizes;

use crate::array::Array;
use crate::device::{Stream, current_stream};
use crate::graph::program::Program;
use crate::io::{
    Mapped, SafeTensors, load_safetensors, parse_safetensors, save_safetensors, write_safetensors,
};
use crate::op::Meta;
use crate::transforms::{Tree, leaves, rebuild};
use crate::{Error, Result, Shape, random};
use file::{StoredFunction, StoredTrace, VERSION};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};

const EXPORT: &str = "export_function";
const IMPORT: &str = "import_function";
const PROGRAM: &str = "program";
/// Programs that an imported function keeps, for arguments of different sizes.
const CAPACITY: usize = 64;

/// How a function is exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Export {
    /// For arguments of other sizes than the example's, too.
    pub shapeless: bool,
}

/// Gathers traces of a function and writes them into one file.
pub struct Exporter {
    how: Export,
    traces: Vec<StoredTrace>,
    constants: Vec<Array>,
    known: HashMap<(usize, usize), u32>,
}

impl Exporter {
    /// Without a trace yet.
    pub fn new(how: Export) -> Exporter {
        Exporter { how, traces: Vec::new(), constants: Vec::new(), known: HashMap::new() }
    }

    /// Adds the trace of `f` for arguments like `example`. The last arguments may have names, by which callers of the
    /// file give them.
    ///
    /// # Errors
    /// Whatever `f` gives; `InTrace` when it reads a value; `Value` for operations that a file cannot hold, and for
    /// sizes that change in a way which cannot be stored (see [`Export::shapeless`]).
    pub fn trace(
        &mut self,
        example: &[Array],
        names: &[&str],
        f: impl Fn(&[Array]) -> Result<Vec<Array>>,
    ) -> Result<()> {
        let Some(unnamed) = example.len().checked_sub(names.len()) else {
            let msg = format!("{} names for {} arrays", names.len(), example.len());
            return Err(Error::value(EXPORT, msg));
        };
        let metas: Vec<Meta> = example.iter().map(|a| a.meta().clone()).collect();
        let (constants, known) = (&mut self.constants, &mut self.known);
        let mut constant = |a: &Array| {
            *known.entry((Arc::as_ptr(a.node()).addr(), a.out())).or_insert_with(|| {
                constants.push(a.clone());
                constants.len() as u32 - 1
            })
        };
        let mut stored = match self.how.shapeless {
            true => sizes::shapeless(&f, &metas, &mut constant)?,
            false => sizes::fixed(&f, &metas, &mut constant)?,
        };
        for (input, name) in stored.inputs[unnamed..].iter_mut().zip(names) {
            input.name = Some((*name).to_string());
        }
        self.traces.push(stored);
        Ok(())
    }

    /// Writes the file; it appears whole or not at all.
    ///
    /// # Errors
    /// `Value` when there is no trace; whatever evaluating the constants gives; `Io`.
    pub fn save(self, path: impl AsRef<Path>) -> Result<()> {
        save_safetensors(path, &self.tensors()?, &about())
    }

    /// The content of the file that [`Exporter::save`] would write.
    ///
    /// # Errors
    /// As [`Exporter::save`].
    pub fn to_bytes(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        write_safetensors(&mut bytes, "function", &self.tensors()?, &about())?;
        Ok(bytes)
    }

    fn tensors(self) -> Result<BTreeMap<String, Array>> {
        if self.traces.is_empty() {
            return Err(Error::value(EXPORT, "there is no trace to write"));
        }
        let function = StoredFunction { version: VERSION, traces: self.traces };
        let unwritable = |e| Error::value(EXPORT, format!("the program cannot be written: {e}"));
        let json = serde_json::to_vec(&function).map_err(unwritable)?;
        let mut tensors: BTreeMap<String, Array> = BTreeMap::new();
        tensors.insert(PROGRAM.to_string(), Array::from_slice(&json, &[json.len()])?);
        for (i, a) in self.constants.into_iter().enumerate() {
            tensors.insert(format!("constant.{i}"), a);
        }
        Ok(tensors)
    }
}

fn about() -> BTreeMap<String, String> {
    BTreeMap::from([("format".to_string(), "olivine.function".to_string())])
}

/// Writes the trace of `f` for arguments like `example` to a file.
///
/// # Errors
/// As [`Exporter::trace`] and [`Exporter::save`].
pub fn export_function<A: Tree, B: Tree>(
    path: impl AsRef<Path>,
    how: Export,
    example: &A,
    f: impl Fn(&A) -> Result<B>,
) -> Result<()> {
    let mut exporter = Exporter::new(how);
    exporter.trace(&leaves(example), &[], |flat| Ok(leaves(&f(&rebuild(example, flat)?)?)))?;
    exporter.save(path)
}

/// A function from a file.
pub struct ImportedFunction {
    traces: Vec<StoredTrace>,
    constants: Vec<Array>,
    programs: Mutex<Vec<Entry>>,
}

type Key = (usize, Vec<Meta>, Stream);
type Entry = (Key, Arc<Program>);

/// Opens a file of a function.
///
/// # Errors
/// `Io` when the file cannot be read or is none that [`Exporter::save`] writes, or of a newer version.
pub fn import_function<P: AsRef<Path>>(path: P) -> Result<ImportedFunction> {
    let path = path.as_ref();
    ImportedFunction::new(load_safetensors(path)?).map_err(|e| match e {
        Error::Value { msg, .. } => Error::io(IMPORT, path, msg),
        other => other,
    })
}

impl ImportedFunction {
    /// The function that the content of a file describes.
    ///
    /// # Errors
    /// `Value` for content that is none of a function, or of a newer version.
    pub fn new(mut content: SafeTensors) -> Result<ImportedFunction> {
        let bad = |msg: String| Error::value(IMPORT, msg);
        let program = content.tensors.remove(PROGRAM).ok_or_else(|| bad("it holds no function".into()))?;
        let json = program.to_bytes()?;
        #[derive(serde::Deserialize)]
        struct Version {
            version: u32,
        }
        let version: Version =
            serde_json::from_slice(&json).map_err(|e| bad(format!("the program is not readable: {e}")))?;
        if version.version != VERSION {
            return Err(bad(format!(
                "version {} of the format; this build reads {VERSION}",
                version.version
            )));
        }
        let function: StoredFunction =
            serde_json::from_slice(&json).map_err(|e| bad(format!("the program is not readable: {e}")))?;
        let mut constants = Vec::new();
        while let Some(a) = content.tensors.remove(&format!("constant.{}", constants.len())) {
            constants.push(a);
        }
        Ok(ImportedFunction { traces: function.traces, constants, programs: Mutex::new(Vec::new()) })
    }

    /// The function in the content of a file.
    ///
    /// # Errors
    /// As [`import_function`].
    pub fn from_bytes(mut bytes: &[u8]) -> Result<ImportedFunction> {
        ImportedFunction::new(parse_safetensors(&Mapped::read(IMPORT, &mut bytes, "function")?)?)
    }

    /// Results for `inputs`, in the order of the exported function.
    ///
    /// # Errors
    /// `Value`, with the shapes that the file is for, when it is not for these; whatever the operations give.
    pub fn call(&self, inputs: &[Array]) -> Result<Vec<Array>> {
        self.call_named(inputs, &BTreeMap::new())
    }

    /// [`ImportedFunction::call`] with arguments by name.
    ///
    /// # Errors
    /// As [`ImportedFunction::call`]; `Value` when names differ from the file's.
    pub fn call_named(&self, inputs: &[Array], named: &BTreeMap<String, Array>) -> Result<Vec<Array>> {
        let stream = current_stream();
        let mut reasons = String::new();
        for (t, stored) in self.traces.iter().enumerate() {
            let matched = match arguments(stored, inputs, named) {
                Ok(all) => {
                    let metas: Vec<Meta> = all.iter().map(|a| a.meta().clone()).collect();
                    stored.sizes_of(&metas).map(|_| (all, metas))
                }
                Err(reason) => Err(reason),
            };
            match matched {
                Ok((all, metas)) => {
                    let program = self.program((t, metas, stream))?;
                    return run(&program, stored.draws, all);
                }
                Err(reason) => reasons += &format!("; trace {t}: {reason}"),
            }
        }
        Err(Error::value(IMPORT, format!("no trace of the file is for these arguments{reasons}")))
    }

    /// The program for arguments like these, made now or before.
    fn program(&self, key: Key) -> Result<Arc<Program>> {
        let lock = || self.programs.lock().unwrap_or_else(|e| e.into_inner());
        if let Some((_, p)) = lock().iter().find(|(k, _)| *k == key) {
            return Ok(p.clone());
        }
        let stored = &self.traces[key.0];
        let program = Arc::new(stored.program(&key.1, &self.constants, key.2)?.folded().optimised()?);
        let mut all = lock();
        all.insert(0, (key, program.clone()));
        all.truncate(CAPACITY);
        Ok(program)
    }

    /// For each axis of each argument of a trace the number of its free size, or `None` where it is as in the example.
    pub fn free_sizes(&self, trace: usize) -> Option<Vec<Vec<Option<usize>>>> {
        let of = |d: &file::Dim| match *d {
            file::Dim::Size(k) => Some(k as usize),
            file::Dim::Fixed(_) => None,
        };
        let t = self.traces.get(trace)?;
        Some(t.inputs.iter().map(|i| i.shape.iter().map(of).collect()).collect())
    }

    /// Shapes and types of the arguments that a trace was made with.
    pub fn example(&self, trace: usize) -> Option<Vec<Meta>> {
        let t = self.traces.get(trace)?;
        let size = |d: &file::Dim| match *d {
            file::Dim::Size(k) => t.sizes.get(k as usize).map(|s| s.0),
            file::Dim::Fixed(d) => Some(d),
        };
        let meta = |i: &file::StoredInput| {
            let dims: Option<Vec<usize>> = i.shape.iter().map(size).collect();
            Some(Meta::new(Shape::checked(IMPORT, &dims?).ok()?, i.dtype))
        };
        t.inputs.iter().map(meta).collect()
    }

    /// Shapes, types and names of the arguments of each trace, as text; sizes that may vary are called `n0`, `n1`.
    pub fn signatures(&self) -> Vec<String> {
        let one = |t: &StoredTrace| {
            let parts = t.inputs.iter().map(|i| match &i.name {
                Some(name) => format!("{name}: {i}"),
                None => i.to_string(),
            });
            parts.collect::<Vec<_>>().join(", ")
        };
        self.traces.iter().map(one).collect()
    }
}

/// Arguments in the order of the trace.
fn arguments(
    stored: &StoredTrace,
    inputs: &[Array],
    named: &BTreeMap<String, Array>,
) -> Result<Vec<Array>, String> {
    let names: Vec<&str> = stored.inputs.iter().filter_map(|i| i.name.as_deref()).collect();
    let unnamed = stored.inputs.len() - names.len();
    if inputs.len() != unnamed || named.len() != names.len() {
        return Err(format!(
            "it takes {unnamed} arrays and the names {names:?}, not {} and {:?}",
            inputs.len(),
            named.keys().collect::<Vec<_>>()
        ));
    }
    let mut all = inputs.to_vec();
    for name in names {
        all.push(named.get(name).cloned().ok_or_else(|| format!("{name:?} is not given"))?);
    }
    Ok(all)
}

fn run(program: &Program, draws: bool, mut inputs: Vec<Array>) -> Result<Vec<Array>> {
    if !draws {
        return Ok(program.emit(&inputs));
    }
    random::with_default_key(|key| {
        inputs.push(key.clone());
        let mut outputs = program.emit(&inputs);
        let next = outputs.pop().unwrap_or_else(|| key.clone());
        Ok((outputs, next))
    })
}

impl std::fmt::Debug for ImportedFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ImportedFunction").field("signatures", &self.signatures()).finish_non_exhaustive()
    }
}
