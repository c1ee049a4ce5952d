//! Programs of function files, as arbitrary JSON: they may be refused but must not panic, nor may the graph that they
//! describe.
//!
//! `RUSTC_BOOTSTRAP=1 cargo fuzz run function` from the repository root runs it with the stable compiler.
#![no_main]

use libfuzzer_sys::fuzz_target;
use olivine_core::io::SafeTensors;
use olivine_core::{Array, ImportedFunction};
use std::collections::BTreeMap;

fuzz_target!(init: olivine_cpu::register(), |program: &[u8]| {
    let tensors = BTreeMap::from([
        ("program".to_string(), Array::from_slice(program, &[program.len()]).expect("bytes")),
        ("constant.0".to_string(), Array::from_slice(&[1.0f32, 2.0], &[2]).expect("floats")),
    ]);
    let Ok(f) = ImportedFunction::new(SafeTensors { tensors, metadata: BTreeMap::new() }) else { return };
    let metas = f.example(0).unwrap_or_default();
    let inputs: Result<Vec<Array>, _> = metas.iter().map(|m| Array::zeros(&m.shape, m.dtype)).collect();
    if let Ok(inputs) = inputs {
        let _ = f.call(&inputs);
    }
});
