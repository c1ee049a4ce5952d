//! Every position.

use super::{grow, write};
use olivine_core::{Array, Result};

/// Memory grows by steps; a position is written in place as long as nobody else holds the arrays.
#[derive(Debug, Clone, Default)]
pub(super) struct Full {
    pair: Option<(Array, Array)>,
}

impl Full {
    pub(super) fn pair(&self) -> Option<(&Array, &Array)> {
        self.pair.as_ref().map(|(k, v)| (k, v))
    }

    pub(super) fn update(&mut self, seen: usize, keys: Array, values: Array) -> Result<(Array, Array)> {
        let end = seen + keys.dim(2)?;
        let room = match &self.pair {
            Some((k, v)) if k.dim(2)? >= end => (k.clone(), v.clone()),
            Some((k, v)) => (grow(k, seen, end, usize::MAX)?, grow(v, seen, end, usize::MAX)?),
            None => (grow(&keys, 0, end, usize::MAX)?, grow(&values, 0, end, usize::MAX)?),
        };
        // The old arrays must be gone before the new ones are evaluated, for their memory to be reused.
        self.pair = None;
        let (k, v) = (write(room.0, &keys, seen)?, write(room.1, &values, seen)?);
        self.pair = Some((k.clone(), v.clone()));
        Ok((k.slice_axis(2, 0, end)?, v.slice_axis(2, 0, end)?))
    }
}
