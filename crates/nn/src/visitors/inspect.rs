//! Names, numbers and sizes of parameters.

use crate::{Module, Visitor, Weight};
use olivine_core::{Array, Result};

struct Names(Vec<(String, Array)>);

impl Visitor for Names {
    fn array(&mut self, path: &str, array: &mut Array) -> Result<()> {
        self.0.push((path.to_owned(), array.clone()));
        Ok(())
    }
}

/// All arrays with their names, in the order of fields.
pub fn parameters(module: &mut (impl Module + ?Sized)) -> Result<Vec<(String, Array)>> {
    let mut names = Names(Vec::new());
    module.visit("", &mut names)?;
    Ok(names.0)
}

struct Count(usize);

impl Visitor for Count {
    fn array(&mut self, _: &str, array: &mut Array) -> Result<()> {
        self.0 += array.size();
        Ok(())
    }

    fn weight(&mut self, _: &str, weight: &mut Weight) -> Result<()> {
        self.0 += weight.shape().elements();
        Ok(())
    }
}

/// Number of parameters; packed ones count as if unpacked.
pub fn count(module: &mut (impl Module + ?Sized)) -> Result<usize> {
    let mut count = Count(0);
    module.visit("", &mut count)?;
    Ok(count.0)
}

/// Bytes of all parameters as they are kept.
pub fn nbytes(module: &mut (impl Module + ?Sized)) -> Result<usize> {
    Ok(parameters(module)?.iter().map(|(_, a)| a.nbytes()).sum())
}
