//! Speed of the matrix product over a table of shapes.
//!
//! `cargo run --release -p olivine-cpu --example gemm_bench [-- WORD...]` prints the best and the median of
//! several runs as GFLOP/s and as GB/s of operands touched; words keep the lines that contain one of them.

use std::time::{Duration, Instant};

use half::{bf16, f16};
use olivine_cpu::gemm::{Element, MatMut, MatRef, gemm};

/// Rows, columns, depth, and whether the right operand is stored transposed (`[n, k]`, as weights are).
const SHAPES: &[(usize, usize, usize, bool)] = &[
    (1024, 1024, 1024, false),
    (1024, 1024, 1024, true),
    (2048, 2048, 2048, false),
    (512, 512, 512, true),
    (256, 256, 256, true),
    (128, 128, 128, false),
    (64, 64, 64, false),
    (32, 32, 32, false),
    (256, 1536, 576, true),
    (256, 576, 1536, true),
    (256, 49152, 576, true),
    (256, 4096, 4096, true),
    (4096, 64, 576, true),
    (32, 4096, 4096, true),
    (24, 4096, 4096, true),
    (16, 4096, 4096, true),
    (8, 4096, 4096, true),
    (4, 4096, 4096, true),
    (2, 4096, 4096, true),
    (1, 4096, 4096, true),
    (16, 4096, 4096, false),
    (8, 4096, 4096, false),
    (4, 4096, 4096, false),
    (1, 4096, 4096, false),
    (4096, 1, 4096, false),
    (4096, 4, 4096, false),
    (1, 1536, 576, true),
    (1, 576, 1536, true),
    (1, 49152, 576, true),
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    println!("level {:?}, {} threads", olivine_cpu::simd::level(), olivine_cpu::pool::threads());
    for &shape in SHAPES {
        measure::<f32>("f32", shape, &words, |x| x);
        measure::<bf16>("bf16", shape, &words, bf16::from_f32);
        measure::<f16>("f16", shape, &words, f16::from_f32);
        if shape.0 == 1024 {
            measure::<f64>("f64", shape, &words, f64::from);
        }
    }
}

fn measure<T: Element>(
    name: &str,
    (m, n, k, transposed): (usize, usize, usize, bool),
    words: &[String],
    make: impl Fn(f32) -> T,
) {
    let label = format!("{name:5} {m} x {n} x {k}{}", if transposed { " nt" } else { "" });
    if !words.is_empty() && !words.iter().any(|w| label.contains(w.as_str())) {
        return;
    }
    let mut state = 1u32;
    let mut fill = |len: usize| -> Vec<T> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            make((state >> 8) as f32 / (1 << 23) as f32 - 1.0)
        };
        (0..len).map(|_| next()).collect()
    };
    let (a, b, mut c) = (fill(m * k), fill(k * n), fill(m * n));
    let mut run = || {
        let a = MatRef::row_major(&a, m, k).expect("a");
        let b =
            if transposed { MatRef::row_major(&b, n, k).map(MatRef::t) } else { MatRef::row_major(&b, k, n) };
        let c = MatMut::row_major(&mut c, m, n).expect("c");
        gemm(1.0, a, b.expect("b"), 0.0, c).expect("sizes match");
    };
    run();
    let mut times = Vec::new();
    let start = Instant::now();
    while times.len() < 5 || (start.elapsed() < Duration::from_millis(300) && times.len() < 20_000) {
        let t = Instant::now();
        run();
        times.push(t.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[times.len() / 2]);
    let flops = 2.0 * m as f64 * n as f64 * k as f64;
    let bytes = ((m * k + k * n + m * n) * size_of::<T>()) as f64;
    println!(
        "{label:28} best {:9.1} us {:7.1} GFLOP/s {:6.2} GB/s   median {:9.1} us {:7.1} GFLOP/s",
        best * 1e6,
        flops / best * 1e-9,
        bytes / best * 1e-9,
        median * 1e6,
        flops / median * 1e-9
    );
}
