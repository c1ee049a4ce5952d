//! Evaluation of trees.

use crate::fault::R;
use crate::output::blocking;
use crate::tree;
use olivine_core::Array;
use pyo3::prelude::*;

/// Computes arrays and waits for them.
pub fn eval(py: Python<'_>, arrays: &[Array]) -> R<()> {
    blocking(py, || olivine_core::eval(arrays))
}

/// All arrays in the arguments of a call.
pub fn collect(args: &[Bound<'_, PyAny>]) -> R<Vec<Array>> {
    let mut all = Vec::new();
    for v in args {
        tree::arrays(v, false, &mut all)?;
    }
    Ok(all)
}
