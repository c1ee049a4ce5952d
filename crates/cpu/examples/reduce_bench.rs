//! Times of reductions, searches, scans, sorts, indexing, joins and random bits on this machine.
//!
//!     cargo run --release -p olivine-cpu --example reduce_bench [filter]

use half::bf16;
use olivine_core::op::{ArgKind, ReduceKind, Scan, ScanKind, ScatterMode, Sort};
use olivine_core::shape::AxisSet;
use olivine_core::{Dtype, Layout, Shape};
use olivine_cpu::kernels::operand::Operand;
use olivine_cpu::kernels::{arg, index, random, reduce, scan, sort, update};
use std::time::Instant;

/// Least and median time of some runs, in milliseconds, and what it moves.
fn time(name: &str, bytes: usize, mut f: impl FnMut()) {
    if std::env::args().nth(1).is_some_and(|filter| !name.contains(&filter)) {
        return;
    }
    f();
    let mut times: Vec<f64> = Vec::new();
    let begin = Instant::now();
    while times.len() < 5 || (begin.elapsed().as_millis() < 400 && times.len() < 200) {
        let start = Instant::now();
        f();
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let (least, median) = (times[0], times[times.len() / 2]);
    println!(
        "{name:34} {:9.3} ms least {:9.3} ms median {:7.1} GB/s",
        least * 1e3,
        median * 1e3,
        bytes as f64 / least / 1e9
    );
}

fn contiguous(dims: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(dims))
}

fn f32s<'a>(bytes: &'a [u8], layout: &'a Layout) -> Operand<'a> {
    Operand { bytes, layout, dtype: Dtype::F32 }
}

fn main() {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let n = 1 << 24;
    let xs: Vec<f32> = (0..n).map(|_| (next() >> 40) as f32 / (1 << 24) as f32 - 0.5).collect();
    let floats: &[u8] = bytemuck::cast_slice(&xs);
    let mut out = vec![0u64; n];
    let out: &mut [u8] = bytemuck::cast_slice_mut(&mut out);

    let (flat, square, thin, tall) =
        (contiguous(&[n]), contiguous(&[4096, 4096]), contiguous(&[n / 2, 2]), contiguous(&[n / 64, 64]));
    for (kind, name) in [(ReduceKind::Sum, "sum"), (ReduceKind::Max, "max"), (ReduceKind::Any, "any")] {
        time(&format!("{name} 16M f32"), 4 * n, || {
            let size = if kind == ReduceKind::Any { 1 } else { 4 };
            reduce::run(kind, AxisSet::one(0), &f32s(floats, &flat), &mut out[..size]).unwrap();
        });
    }
    for (axis, layout, label) in [
        (0, &square, "4096 x 4096"),
        (1, &square, "4096 x 4096"),
        (0, &thin, "8M x 2"),
        (1, &tall, "256k x 64"),
    ] {
        time(&format!("sum axis {axis} of {label} f32"), 4 * n, || {
            let m = n / layout.shape()[axis];
            reduce::run(ReduceKind::Sum, AxisSet::one(axis), &f32s(floats, layout), &mut out[..4 * m])
                .unwrap();
        });
    }
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::I32, Dtype::Bool] {
        let m = 4 * n / dtype.size();
        let layout = contiguous(&[m]);
        let x = Operand { bytes: floats, layout: &layout, dtype };
        time(&format!("sum 64 MB {dtype}"), 4 * n, || {
            reduce::run(
                ReduceKind::Sum,
                AxisSet::one(0),
                &x,
                &mut out[..dtype.size().max(if dtype == Dtype::Bool { 4 } else { 1 })],
            )
            .unwrap();
        });
    }
    time("sum 64 x 64 f32", 4 * 4096, || {
        reduce::run(ReduceKind::Sum, AxisSet::one(1), &f32s(floats, &contiguous(&[64, 64])), &mut out[..256])
            .unwrap();
    });

    for vocabulary in [50_000, 262_144] {
        let row = contiguous(&[1, vocabulary]);
        time(&format!("argmax 1 x {vocabulary} f32"), 4 * vocabulary, || {
            arg::run(ArgKind::Max, 1, &f32s(floats, &row), &mut out[..4]).unwrap();
        });
        for (indices, name) in [(false, "partition"), (true, "argpartition")] {
            time(&format!("{name} 1 x {vocabulary} f32"), 4 * vocabulary, || {
                let params = Sort { axis: 1, indices, descending: false, kth: Some(vocabulary - 40) };
                sort::run(&params, &f32s(floats, &row), &mut out[..4 * vocabulary]).unwrap();
            });
        }
        time(&format!("argsort 1 x {vocabulary} f32"), 4 * vocabulary, || {
            let params = Sort { axis: 1, indices: true, descending: true, kth: None };
            sort::run(&params, &f32s(floats, &row), &mut out[..4 * vocabulary]).unwrap();
        });
    }
    let million = contiguous(&[1_000_000]);
    for (indices, name) in [(false, "sort"), (true, "argsort")] {
        time(&format!("{name} 1M f32"), 4_000_000, || {
            let params = Sort { axis: 0, indices, descending: false, kth: None };
            sort::run(&params, &f32s(floats, &million), &mut out[..4_000_000]).unwrap();
        });
    }
    let rows = contiguous(&[1000, 1000]);
    time("sort 1000 x 1000 f32, last axis", 4_000_000, || {
        let params = Sort { axis: 1, indices: false, descending: false, kth: None };
        sort::run(&params, &f32s(floats, &rows), &mut out[..4_000_000]).unwrap();
    });
    time("cumsum 16M f32", 8 * n, || {
        let params = Scan { kind: ScanKind::Sum, axis: 0, reverse: false, inclusive: true };
        scan::run(&params, &f32s(floats, &flat), &mut out[..4 * n]).unwrap();
    });
    time("cumsum axis 0 of 4096 x 4096 f32", 8 * n, || {
        let params = Scan { kind: ScanKind::Sum, axis: 0, reverse: false, inclusive: true };
        scan::run(&params, &f32s(floats, &square), &mut out[..4 * n]).unwrap();
    });

    let ids: Vec<u32> = (0..8192).map(|_| (next() % 16_384) as u32).collect();
    let (one, many) = (contiguous(&[1]), contiguous(&[8192]));
    let table = contiguous(&[16_384, 1024]);
    for (layout, label) in [(&one, "1"), (&many, "8192")] {
        let m = layout.elements();
        let i = Operand { bytes: bytemuck::cast_slice(&ids), layout, dtype: Dtype::U32 };
        time(&format!("gather {label} rows of 1024 f32"), m * 8192, || {
            index::gather(&[0], &Shape::new(&[1, 1024]), &f32s(floats, &table), &[i], &mut out[..m * 4096])
                .unwrap();
        });
    }
    let i = Operand { bytes: bytemuck::cast_slice(&ids), layout: &many, dtype: Dtype::U32 };
    let updates = contiguous(&[8192, 1, 1024]);
    time("scatter add 8192 rows of 1024 f32", 8192 * 12288, || {
        let u = f32s(floats, &updates);
        index::scatter(&[0], ScatterMode::Add, table.shape(), &u, &[i], &mut out[..4 * n]).unwrap();
    });

    let cache = Shape::new(&[1, 8, 4096, 128]);
    let tokens = contiguous(&[1, 1, 8, 128]).transpose(&[0, 2, 1, 3]);
    let halves: Vec<bf16> = vec![bf16::ONE; 1024];
    let token = Operand { bytes: bytemuck::cast_slice(&halves), layout: &tokens, dtype: Dtype::BF16 };
    time("slice update of a cache, one token", 4096, || {
        let bytes = cache.elements() * 2;
        update::slice_update(&cache, &[0, 0, 77, 0], &[1; 4], &token, &mut out[..bytes]).unwrap();
    });
    let half = contiguous(&[4096, 2048]);
    time("concatenate 2 of 4096 x 2048, axis 1", 8 * n, || {
        update::concat(1, &[f32s(floats, &half), f32s(floats, &half)], &mut out[..4 * n]).unwrap();
    });
    let (key, key_layout) = ([1u32, 2], contiguous(&[2]));
    let key = Operand { bytes: bytemuck::cast_slice(&key), layout: &key_layout, dtype: Dtype::U32 };
    time("random bits 16M u32", 4 * n, || random::bits(4, &key, &mut out[..4 * n]).unwrap());
}
