//! What every language model can do.

use crate::KvCache;
use olivine_core::{Array, Error, Result};
use olivine_nn::Module;

/// A decoder: ids and what came before to scores of the next id.
///
/// The two halves are apart because only few positions need logits: a prompt's last one, and none at all
/// while a long prompt is taken in.
pub trait LanguageModel: Module + Send + Sync {
    /// Ids `[batch, length]` to the vectors that [`LanguageModel::logits`] takes, `[batch, length, hidden]`;
    /// `caches`, one for each layer, take in the new positions.
    fn hidden(&self, ids: &Array, caches: &mut [KvCache]) -> Result<Array>;

    /// Vectors to scores of every id: `[..., hidden]` to `[..., vocabulary]`.
    fn logits(&self, hidden: &Array) -> Result<Array>;

    /// An empty cache for each layer, of the kind that the layer needs.
    fn caches(&self) -> Vec<KvCache>;

    /// Ids `[batch, length]` to logits `[batch, length, vocabulary]`.
    fn forward(&self, ids: &Array, caches: &mut [KvCache]) -> Result<Array> {
        self.logits(&self.hidden(ids, caches)?)
    }
}

/// The length of `ids [batch, length]`, checked together with the caches.
pub(crate) fn check(name: &'static str, ids: &Array, caches: &[KvCache], layers: usize) -> Result<usize> {
    if caches.len() != layers {
        return Err(Error::value(name, format!("{} caches for {layers} layers", caches.len())));
    }
    match ids.shape()[..] {
        [_, length] if length > 0 => Ok(length),
        _ => Err(Error::shape(name, format!("ids are [batch, length], got shape {}", ids.shape()))),
    }
}
