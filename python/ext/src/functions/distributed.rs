//! Groups of processes: `olivine.core.distributed`. One process is a group of one.

use crate::args::Args;
use crate::fault::{R, runtime_error, type_error, value_error};
use crate::function::table;
use olivine_core::Array;
use pyo3::prelude::*;

/// A group of processes that work together.
#[pyclass(frozen, name = "Group", module = "olivine.core.distributed")]
pub struct Group;

#[pymethods]
impl Group {
    /// This process's number among those of the group.
    fn rank(&self) -> usize {
        0
    }
    /// How many processes there are.
    fn size(&self) -> usize {
        1
    }
    /// A part of the group.
    #[pyo3(signature = (color, key = -1))]
    fn split(&self, color: i64, key: i64) -> PyResult<Group> {
        let _ = (color, key);
        Err(runtime_error("[split] a group of one process has no parts").into())
    }
}

const BACKENDS: [&str; 5] = ["any", "ring", "mpi", "nccl", "jaccl"];

fn backend(a: &Args<'_, '_>) -> R<String> {
    let name = a.str_or("backend", "any")?;
    if BACKENDS.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(value_error(format!("[{}] {name:?} is no backend: {} are", a.op(), BACKENDS.join(", "))))
}

fn init(a: &Args<'_, '_>) -> R<Py<PyAny>> {
    let name = backend(a)?;
    if a.bool_or("strict", false)? {
        return Err(runtime_error(format!("[init] backend {name:?} cannot join several processes")));
    }
    Ok(Py::new(a.py, Group)?.into_any())
}

/// The argument, which is the result where one process is all there is.
fn alone(a: &Args<'_, '_>) -> R<Array> {
    group(a)?;
    a.array(0)
}

fn group(a: &Args<'_, '_>) -> R<()> {
    match a.opt("group") {
        Some(g) if g.cast::<Group>().is_err() => {
            Err(type_error(format!("[{}] group is a Group, got {}", a.op(), g.get_type().name()?)))
        }
        _ => Ok(()),
    }
}

fn nobody(a: &Args<'_, '_>) -> R<Array> {
    group(a)?;
    Err(value_error(format!("[{}] a group of one process has nobody to send to or receive from", a.op())))
}

table! {
    /// Functions of `distributed`.
    TABLE;
    "is_available" => |a| a.str_or("backend", "any").map(|_| false);
    "init" => |a| init(a);
    "all_sum" => |a| alone(a);
    "all_max" => |a| alone(a);
    "all_min" => |a| alone(a);
    "all_gather" => |a| alone(a);
    "sum_scatter" => |a| alone(a);
    "send" => |a| nobody(a);
    "recv" => |a| nobody(a);
    "recv_like" => |a| nobody(a);
}
