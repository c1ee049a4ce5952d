//! Parameters from a checkpoint.

use crate::visitors::parameters;
use crate::{Module, Visitor, Weight, join};
use olivine_core::{Array, Error, Result, Shape, io};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The parameters of a checkpoint by name. A packed weight is one entry, under the name that its dense form
/// has.
pub type Weights = BTreeMap<String, Weight>;

/// Replaces every parameter by the checkpoint's of the same name.
///
/// # Errors
/// `Value` that lists all parameters the checkpoint lacks, all that the model lacks, and all of another
/// shape.
pub fn load_weights(module: &mut (impl Module + ?Sized), weights: Weights) -> Result<()> {
    let mut load = Load { weights, missing: Vec::new(), misshaped: Vec::new() };
    module.visit("", &mut load)?;
    let unexpected: Vec<String> = load.weights.into_keys().collect();
    let mut msg = String::new();
    for (what, names) in
        [("missing", load.missing), ("unexpected", unexpected), ("of another shape", load.misshaped)]
    {
        list(&mut msg, what, &names);
    }
    if msg.is_empty() { Ok(()) } else { Err(Error::value("load_weights", msg)) }
}

/// Names that an error lists of each kind.
const LISTED: usize = 12;

fn list(msg: &mut String, what: &str, names: &[String]) {
    if names.is_empty() {
        return;
    }
    if !msg.is_empty() {
        msg.push_str("; ");
    }
    let shown = names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    // Writing to a string cannot fail.
    let _ = write!(msg, "{} parameters are {what}: {shown}", names.len());
    if names.len() > LISTED {
        let _ = write!(msg, ", and {} more", names.len() - LISTED);
    }
}

struct Load {
    weights: Weights,
    missing: Vec<String>,
    misshaped: Vec<String>,
}

impl Load {
    /// The checkpoint's parameter, when it is there and of this shape.
    fn take(&mut self, name: &str, shape: &Shape) -> Option<Weight> {
        let Some(found) = self.weights.remove(name) else {
            self.missing.push(name.to_owned());
            return None;
        };
        if found.shape() != *shape {
            self.misshaped.push(format!("{name} {} where the model has {shape}", found.shape()));
            return None;
        }
        Some(found)
    }
}

impl Visitor for Load {
    fn array(&mut self, path: &str, array: &mut Array) -> Result<()> {
        match self.take(path, &array.shape().clone()) {
            Some(Weight::Dense(a)) => *array = Array::clone(&a),
            Some(Weight::Packed(_)) => {
                return Err(Error::value(
                    "load_weights",
                    format!("{path} is packed, which only matrices can be"),
                ));
            }
            None => {}
        }
        Ok(())
    }

    fn weight(&mut self, owner: &str, weight: &mut Weight) -> Result<()> {
        if let Some(mut w) = self.take(&join(owner, "weight"), &weight.shape()) {
            if let (Weight::Dense(new), Weight::Dense(old)) = (&mut w, &*weight) {
                new.set_frozen(old.is_frozen());
            }
            *weight = w;
        }
        Ok(())
    }
}

/// Writes all arrays of a model to a safetensors file, under their names.
///
/// # Errors
/// `Io` when the file cannot be written; whatever evaluation gives.
pub fn save_file(module: &mut (impl Module + ?Sized), path: impl AsRef<Path>) -> Result<()> {
    let arrays = parameters(module)?.into_iter().collect();
    io::save_safetensors(path, &arrays, &BTreeMap::new())
}

/// Replaces every array of a model by that of the same name in a safetensors file. Packed weights are put together
/// by the loaders of language models.
///
/// # Errors
/// `Io` when the file cannot be read; as for [`load_weights`].
pub fn load_file(module: &mut (impl Module + ?Sized), path: impl AsRef<Path>) -> Result<()> {
    let file = io::load_safetensors(path)?;
    load_weights(module, file.tensors.into_iter().map(|(name, a)| (name, Weight::from(a))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Linear;
    use olivine_core::Dtype;
    use olivine_core::op::Affine;

    fn dense(shape: &[usize]) -> Weight {
        Array::zeros(shape, Dtype::F16).unwrap().into()
    }

    #[test]
    fn one_error_names_all_that_is_wrong() {
        let mut layers = vec![Linear::zeros(4, 2, true).unwrap(), Linear::zeros(2, 3, false).unwrap()];
        let given = [("0.weight", dense(&[2, 4])), ("1.weight", dense(&[2, 3])), ("2.weight", dense(&[1]))];
        let given: Weights = given.into_iter().map(|(n, w)| (n.to_owned(), w)).collect();
        let e = load_weights(&mut layers, given).unwrap_err();
        assert_eq!(
            e.to_string(),
            "[load_weights] 1 parameters are missing: 0.bias; 1 parameters are unexpected: 2.weight; \
             1 parameters are of another shape: 1.weight (2, 3) where the model has (3, 2)"
        );
    }

    #[test]
    fn packed_weights_take_the_place_of_dense_ones() {
        let zeros = |shape: &[usize], dtype| Array::zeros(shape, dtype).unwrap();
        let packed = Weight::Packed(crate::Packed {
            words: zeros(&[3, 8], Dtype::U32),
            scales: zeros(&[3, 2], Dtype::F16),
            biases: zeros(&[3, 2], Dtype::F16),
            spec: Affine { group: 32, bits: 4 },
        });
        let mut layer = Linear::zeros(64, 3, false).unwrap();
        load_weights(&mut layer, Weights::from([("weight".to_owned(), packed)])).unwrap();
        assert_eq!(layer.dims(), (64, 3));
        assert_eq!(crate::visitors::count(&mut layer).unwrap(), 192);
        assert_eq!(crate::visitors::nbytes(&mut layer).unwrap(), 3 * 8 * 4 + 2 * 3 * 2 * 2);
    }
}
