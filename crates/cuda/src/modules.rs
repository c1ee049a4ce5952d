//! The kernels that a device has loaded.

use crate::api::{self, Context, Function};
use crate::compile::{Unit, compile};
use olivine_core::{Device, Error, Result};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, OnceLock, RwLock};

type Slot = Arc<OnceLock<Result<Function>>>;

/// Kernels by what they were made from. Each is compiled once, also when several threads ask at the same time.
pub(crate) struct Modules<K> {
    loaded: RwLock<HashMap<K, Slot>>,
}

impl<K: Eq + Hash> Modules<K> {
    pub(crate) fn new() -> Self {
        Modules { loaded: RwLock::new(HashMap::new()) }
    }

    /// The kernel of `key`, made from `unit` on first need. The device's context is entered.
    pub(crate) fn get(
        &self,
        key: K,
        place: (Device, Context, i32),
        entry: &str,
        unit: impl FnOnce() -> Unit,
    ) -> Result<Function> {
        let known = self.loaded.read().unwrap_or_else(|e| e.into_inner()).get(&key).cloned();
        let slot = match known {
            Some(slot) => slot,
            None => {
                let mut loaded = self.loaded.write().unwrap_or_else(|e| e.into_inner());
                loaded.entry(key).or_default().clone()
            }
        };
        // Outside the lock: other kernels compile at the same time.
        slot.get_or_init(|| {
            let (device, context, arch) = place;
            let unit = unit();
            let image = compile(&unit, arch).map_err(|e| Error::Device {
                op: "compile kernel",
                device,
                msg: e.to_string(),
            })?;
            context.enter("load kernel", device)?;
            api::load(device, &image, entry)
        })
        .clone()
    }
}
