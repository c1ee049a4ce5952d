//! Files of functions that were changed at random: refused or run, but never a panic, an abort or a hang.

use olivine_core::io::SafeTensors;
use olivine_core::{Array, Device, Dtype, Export, Exporter, ImportedFunction, eval, graph_text};
use olivine_spec::draw::{Draw, Profile, Rng};
use olivine_spec::rows::rows;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The program of every kind of operation, and its constants.
fn programs() -> Vec<Json> {
    let mut all = Vec::new();
    for row in rows() {
        for (n, &dtype) in row.dtypes.iter().enumerate().take(3) {
            let parts = [n as u64, row.key.bytes().fold(7, |h, b| h * 31 % 1_000_003 + u64::from(b))];
            let case = (row.draw)(&mut Draw::new(Profile::Plain, &parts), dtype);
            let Ok(x) = case.inputs.iter().map(|i| i.array()).collect::<Result<Vec<Array>, _>>() else {
                continue;
            };
            let mut exporter = Exporter::new(Export { shapeless: n == 0 });
            let f = |x: &[Array]| Array::from_op_multi(case.op.clone(), x).map(|y| y.into_vec());
            if exporter.trace(&x, &[], f).is_err() {
                continue;
            }
            let bytes = exporter.to_bytes().unwrap();
            let file = olivine_core::io::Mapped::read("test", &mut &bytes[..], "test").unwrap();
            let content = olivine_core::io::parse_safetensors(&file).unwrap();
            all.push(serde_json::from_slice(&content.tensors["program"].to_bytes().unwrap()).unwrap());
        }
    }
    all
}

/// Every number, text and list in a value, by path.
fn places(j: &Json, path: &str, out: &mut Vec<String>) {
    match j {
        Json::Array(all) => {
            out.push(path.to_string());
            all.iter().enumerate().for_each(|(i, v)| places(v, &format!("{path}/{i}"), out));
        }
        Json::Object(all) => all.iter().for_each(|(k, v)| places(v, &format!("{path}/{k}"), out)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => out.push(path.to_string()),
    }
}

fn change(j: &mut Json, rng: &mut Rng) {
    let below = |rng: &mut Rng, n: usize| (rng.float() * n as f64) as usize;
    match j {
        Json::Number(_) => {
            let numbers: [i64; 14] = [0, 1, 2, 3, 5, 7, 64, 65, 255, 1 << 31, i64::MAX, -1, -2, i64::MIN];
            *j = Json::from(numbers[below(rng, numbers.len())]);
        }
        Json::Bool(b) => *b = !*b,
        Json::String(s) => {
            let names =
                ["0", "1", "i0", "i1", "c0", "0.1", "float32", "int32", "bool", "complex64", "Sum", "Max"];
            *s = names[below(rng, names.len())].to_string();
        }
        Json::Array(all) => match below(rng, 3) {
            0 => drop(all.pop()),
            1 if !all.is_empty() => all.push(all[0].clone()),
            _ => all.reverse(),
        },
        Json::Null | Json::Object(_) => *j = Json::Null,
    }
}

/// Whether no array of a graph is large.
fn small(text: &str) -> bool {
    text.split('(').all(|part| {
        let dims = part.split(')').next().unwrap_or_default();
        let product: Option<u64> = dims
            .split(", ")
            .filter_map(|d| d.trim_matches(',').parse::<u64>().ok())
            .try_fold(1u64, u64::checked_mul);
        product.is_some_and(|p| p < 1 << 14)
    })
}

#[test]
fn changed_programs_are_refused_or_run() {
    olivine_cpu::register();
    let programs = programs();
    assert!(programs.len() > 100);
    let rounds: usize = std::env::var("OLIVINE_PROGRAMS").ok().and_then(|s| s.parse().ok()).unwrap_or(20_000);
    let mut rng = Rng::of(&[1]);
    let (mut built, mut ran) = (0, 0);
    for _ in 0..rounds {
        let mut program = programs[(rng.float() * programs.len() as f64) as usize].clone();
        let mut all = Vec::new();
        places(&program["traces"], "/traces", &mut all);
        for _ in 0..1 + (rng.float() * 2.0) as usize {
            let path = &all[(rng.float() * all.len() as f64) as usize];
            if let Some(j) = program.pointer_mut(path) {
                change(j, &mut rng);
            }
        }
        let bytes = serde_json::to_vec(&program).unwrap();
        let tensors = BTreeMap::from([
            ("program".to_string(), Array::from_slice(&bytes, &[bytes.len()]).unwrap()),
            ("constant.0".to_string(), Array::from_slice(&[1f32, 2.0], &[2]).unwrap()),
        ]);
        let Ok(f) = ImportedFunction::new(SafeTensors { tensors, metadata: BTreeMap::new() }) else {
            continue;
        };
        let Some(metas) = f.example(0) else { continue };
        if metas.iter().any(|m| m.elements() > 1 << 14) {
            continue;
        }
        let inputs: Result<Vec<Array>, _> = metas
            .iter()
            .map(|m| Array::ones(&m.shape, Dtype::F32).and_then(|a| a.scale(1.5)?.astype(m.dtype)))
            .collect();
        let Ok(y) = inputs.and_then(|x| f.call(&x)) else { continue };
        built += 1;
        if small(&graph_text(&y)) {
            // Such as an index out of range.
            ran += usize::from(eval(&y).is_ok());
        }
    }
    assert!(built > rounds / 20 && ran > rounds / 40, "{built} were accepted, {ran} ran");
    assert!(olivine_core::alloc::stats(Device::CPU).active < 1 << 30);
}
