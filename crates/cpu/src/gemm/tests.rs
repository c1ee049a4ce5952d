//! Products against sums in f64, over shapes, strides, element types and instruction sets.

use half::{bf16, f16};

use super::*;

/// Numbers as pairs of f64, so that one reference serves real and complex types.
trait Number: Element + std::fmt::Debug {
    /// Unit roundoff of a sum, and of the stored result.
    const ROUNDOFF: (f64, f64);
    fn make(re: f64, im: f64) -> Self;
    fn parts(self) -> (f64, f64);
}

macro_rules! number {
    ($t:ty, $roundoff:expr, $make:expr, $parts:expr) => {
        impl Number for $t {
            const ROUNDOFF: (f64, f64) = $roundoff;
            fn make(re: f64, im: f64) -> Self {
                $make(re, im)
            }
            fn parts(self) -> (f64, f64) {
                $parts(self)
            }
        }
    };
}

const F32: f64 = f32::EPSILON as f64;
number!(f32, (F32, F32), |re, _| re as f32, |x: f32| (f64::from(x), 0.0));
number!(f64, (f64::EPSILON, f64::EPSILON), |re, _| re, |x: f64| (x, 0.0));
number!(bf16, (F32, 1.0 / 256.0), |re, _| bf16::from_f64(re), |x: bf16| (x.to_f64(), 0.0));
number!(f16, (F32, 1.0 / 2048.0), |re, _| f16::from_f64(re), |x: f16| (x.to_f64(), 0.0));
number!(C64, (F32, F32), |re, im| C64 { re: re as f32, im: im as f32 }, |x: C64| (
    f64::from(x.re),
    f64::from(x.im)
));

struct Random(u64);

impl Random {
    /// Uniform in -1 to 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
    fn vec<T: Number>(&mut self, len: usize) -> Vec<T> {
        (0..len).map(|_| T::make(self.next(), self.next())).collect()
    }
}

/// The instruction sets that this machine can run.
fn levels() -> Vec<Isa> {
    let all = [
        Isa::Portable,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512,
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Bf16,
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        Isa::Amx,
    ];
    all.into_iter().filter(|isa| isa.runs()).collect()
}

/// How a test lays out an operand.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Lay {
    Rows,
    Cols,
    Padded,
    Reversed,
    Spread,
    BroadcastRows,
}

const LAYS: [Lay; 6] = [Lay::Rows, Lay::Cols, Lay::Padded, Lay::Reversed, Lay::Spread, Lay::BroadcastRows];

/// Length, offset and strides of a matrix.
fn layout(lay: Lay, rows: usize, cols: usize) -> (usize, usize, isize, isize) {
    let (r, c) = (rows as isize, cols as isize);
    match lay {
        Lay::Rows => (rows * cols, 0, c, 1),
        Lay::Cols => (rows * cols, 0, 1, r),
        Lay::Padded => (rows * (cols + 3) + 5, 5, c + 3, 1),
        Lay::Reversed => (rows * cols, (rows * cols).saturating_sub(1), -c, -1),
        Lay::Spread => (rows * cols * 6, 0, c * 6, 2),
        Lay::BroadcastRows => (cols, 0, 0, 1),
    }
}

struct Case {
    m: usize,
    n: usize,
    k: usize,
    a: Lay,
    b: Lay,
    alpha: f32,
    beta: f32,
}

/// Compares the product on every instruction set with the sums in f64.
fn check<T: Number>(case: &Case) {
    let &Case { m, n, k, alpha, beta, .. } = case;
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (m * 31 + n * 17 + k) as u64);
    let (a_len, a_off, a_rs, a_cs) = layout(case.a, m, k);
    let (b_len, b_off, b_rs, b_cs) = layout(case.b, k, n);
    let a: Vec<T> = random.vec(a_len);
    let b: Vec<T> = random.vec(b_len);
    let c_stride = n + 2;
    // With `beta` zero the old contents must not matter.
    let before: Vec<T> = if beta == 0.0 {
        vec![T::make(f64::NAN, f64::NAN); m * c_stride + 1]
    } else {
        random.vec(m * c_stride + 1)
    };
    let at = |off: usize, i: usize, rs: isize, j: usize, cs: isize| {
        (off as isize + i as isize * rs + j as isize * cs) as usize
    };
    let mut want = Vec::with_capacity(m * n);
    let wide: Vec<(f64, f64)> = b.iter().map(|x| x.parts()).collect();
    for i in 0..m {
        let mut sums = vec![(0.0, 0.0, 0.0); n];
        for p in 0..k {
            let x = a[at(a_off, i, a_rs, p, a_cs)].parts();
            for (j, sum) in sums.iter_mut().enumerate() {
                let y = wide[at(b_off, p, b_rs, j, b_cs)];
                sum.0 += x.0 * y.0 - x.1 * y.1;
                sum.1 += x.0 * y.1 + x.1 * y.0;
                sum.2 += (x.0.abs() + x.1.abs()) * (y.0.abs() + y.1.abs());
            }
        }
        want.extend(sums);
    }
    for level in levels() {
        let mut c = before.clone();
        gemm_at(
            level,
            alpha,
            MatRef::new(&a, a_off, m, k, a_rs, a_cs).unwrap(),
            MatRef::new(&b, b_off, k, n, b_rs, b_cs).unwrap(),
            beta,
            MatMut::new(&mut c, 1, m, n, c_stride).unwrap(),
        )
        .unwrap();
        compare(level, case, &before, &want, &c);
    }
}

/// `want` holds real part, imaginary part and sum of magnitudes of every product.
fn compare<T: Number>(level: Isa, case: &Case, before: &[T], want: &[(f64, f64, f64)], c: &[T]) {
    let &Case { m, n, k, alpha, beta, .. } = case;
    let c_stride = n + 2;
    let (alpha, beta) = (f64::from(alpha), f64::from(beta));
    for i in 0..m {
        for j in 0..n {
            let (re, im, size) = want[i * n + j];
            let index = 1 + i * c_stride + j;
            let old = if beta == 0.0 { (0.0, 0.0) } else { before[index].parts() };
            let want = (alpha * re + beta * old.0, alpha * im + beta * old.1);
            let got = c[index].parts();
            // A sum of k products in any order: k roundings, each of at most the sum of magnitudes.
            let sum = (alpha * size).abs() + (beta * old.0).abs() + (beta * old.1).abs();
            let bound =
                (2.0 * k as f64 + 4.0) * T::ROUNDOFF.0 * sum + T::ROUNDOFF.1 * (want.0.abs() + want.1.abs());
            // Half types also lose their subnormal range.
            let least = if T::ROUNDOFF.1 > 1e-4 { 1e-6 } else { 0.0 };
            let error = (got.0 - want.0).abs().max((got.1 - want.1).abs());
            assert!(
                error <= bound + least,
                "{} {level:?} {m}x{n}x{k} {:?} {:?} alpha {alpha} beta {beta}: c[{i}, {j}] is {got:?}, not {want:?}",
                std::any::type_name::<T>(),
                case.a,
                case.b,
            );
        }
    }
    // Nothing outside the output is written.
    for (index, (x, y)) in before.iter().zip(c).enumerate() {
        let inside = index >= 1 && (index - 1) % c_stride < n;
        let same = |x: f64, y: f64| x.to_bits() == y.to_bits();
        assert!(
            inside || (same(x.parts().0, y.parts().0) && same(x.parts().1, y.parts().1)),
            "wrote at {index}"
        );
    }
}

fn check_all(case: &Case) {
    check::<f32>(case);
    check::<f64>(case);
    check::<bf16>(case);
    check::<f16>(case);
    check::<C64>(case);
}

#[test]
fn small_sizes_of_every_kind() {
    for m in [0, 1, 2, 3, 5, 8, 17] {
        for n in [0, 1, 3, 7, 16, 33] {
            for k in [0, 1, 2, 15, 33] {
                for beta in [0.0, 1.0] {
                    for (a, b) in [(Lay::Rows, Lay::Rows), (Lay::Rows, Lay::Cols), (Lay::Cols, Lay::Padded)] {
                        check_all(&Case { m, n, k, a, b, alpha: 1.0, beta });
                    }
                }
            }
        }
    }
}

#[test]
fn every_pair_of_layouts() {
    for a in LAYS {
        for b in LAYS {
            for (m, n, k) in [(1, 50, 70), (4, 37, 65), (30, 2, 41), (29, 47, 35)] {
                check_all(&Case { m, n, k, a, b, alpha: 1.0, beta: 0.0 });
            }
        }
    }
}

#[test]
fn alpha_and_beta() {
    for (alpha, beta) in [(0.5, 0.0), (1.0, 1.0), (-2.0, 0.75), (0.0, 1.0), (1.0, -0.5)] {
        for (m, n, k) in [(1, 40, 30), (3, 40, 30), (40, 1, 30), (33, 40, 30), (20, 33, 1700)] {
            check_all(&Case { m, n, k, a: Lay::Rows, b: Lay::Cols, alpha, beta });
            check_all(&Case { m, n, k, a: Lay::Rows, b: Lay::Rows, alpha, beta });
        }
    }
}

#[test]
fn several_blocks_in_every_direction() {
    // Columns beyond a waiting block with k beyond a strip of every type; rows beyond a block.
    for (m, n, k) in [(1, 2100, 600), (7, 800, 1030), (18, 2070, 1700), (2070, 20, 70), (1100, 1, 600)] {
        for (a, b) in [(Lay::Rows, Lay::Cols), (Lay::Rows, Lay::Padded)] {
            let case = Case { m, n, k, a, b, alpha: 1.0, beta: 0.0 };
            check::<f32>(&case);
            check::<bf16>(&case);
        }
    }
    check_all(&Case { m: 65, n: 70, k: 1700, a: Lay::Cols, b: Lay::Rows, alpha: 0.5, beta: 1.0 });
}

#[test]
fn one_nan_or_infinity_reaches_its_row_or_column_only() {
    for level in levels() {
        for (m, n, k) in [(1, 40, 50), (5, 40, 50), (40, 3, 50), (40, 40, 50)] {
            for cols in [false, true] {
                let mut a = vec![1.0f32; m * k];
                let mut b = vec![1.0f32; k * n];
                a[(m - 1) * k + k - 1] = f32::NAN;
                let hot = if cols { k / 2 } else { (k / 2) * n };
                b[hot] = f32::INFINITY;
                let b = if cols {
                    MatRef::row_major(&b, n, k).unwrap().t()
                } else {
                    MatRef::row_major(&b, k, n).unwrap()
                };
                let mut c = vec![0.0f32; m * n];
                let out = MatMut::row_major(&mut c, m, n).unwrap();
                gemm_at(level, 1.0, MatRef::row_major(&a, m, k).unwrap(), b, 0.0, out).unwrap();
                for i in 0..m {
                    for j in 0..n {
                        let x = c[i * n + j];
                        let right = match (i == m - 1, j == 0) {
                            (true, _) => x.is_nan(),
                            (false, true) => x == f32::INFINITY,
                            (false, false) => x == k as f32,
                        };
                        assert!(right, "{level:?} {m}x{n}x{k}: c[{i}, {j}] is {x}");
                    }
                }
            }
        }
    }
}

#[test]
fn half_types_overflow_to_infinity_and_keep_nan() {
    for level in levels() {
        for m in [1, 20] {
            let a = vec![f16::from_f32(300.0); m * 4];
            let b = vec![f16::from_f32(300.0); 4 * 20];
            let mut c = vec![f16::ZERO; m * 20];
            let (ma, mb) = (MatRef::row_major(&a, m, 4).unwrap(), MatRef::row_major(&b, 4, 20).unwrap());
            gemm_at(level, 1.0, ma, mb, 0.0, MatMut::row_major(&mut c, m, 20).unwrap()).unwrap();
            assert!(c.iter().all(|x| *x == f16::INFINITY));
            let a = vec![bf16::NAN; m * 4];
            let b = vec![bf16::ONE; 4 * 20];
            let mut c = vec![bf16::ZERO; m * 20];
            let (ma, mb) = (MatRef::row_major(&a, m, 4).unwrap(), MatRef::row_major(&b, 4, 20).unwrap());
            gemm_at(level, 1.0, ma, mb, 0.0, MatMut::row_major(&mut c, m, 20).unwrap()).unwrap();
            assert!(c.iter().all(|x| x.is_nan()));
        }
    }
}

fn product<T: Number>(level: Isa, a: &[T], b: MatRef<'_, T>, m: usize) -> Vec<T> {
    let mut c = vec![T::make(0.0, 0.0); m * b.cols()];
    let a = MatRef::row_major(a, m, b.rows()).unwrap();
    let out = MatMut::row_major(&mut c, m, b.cols()).unwrap();
    gemm_at(level, 1.0, a, b, 0.0, out).unwrap();
    c
}

fn bits<T: Number>(v: &[T]) -> Vec<(u64, u64)> {
    v.iter().map(|x| (x.parts().0.to_bits(), x.parts().1.to_bits())).collect()
}

fn rows_alone_equal_rows_together<T: Number>(groups: &[&[usize]]) {
    let (n, k) = (150, 700);
    let mut random = Random(7);
    let a: Vec<T> = random.vec(100 * k);
    let b: Vec<T> = random.vec(k * n);
    for level in levels() {
        for b in [MatRef::row_major(&b, k, n).unwrap(), MatRef::row_major(&b, n, k).unwrap().t()] {
            for sizes in groups {
                let whole = bits(&product(level, &a, b, *sizes.last().unwrap()));
                for &m in *sizes {
                    assert!(bits(&product(level, &a, b, m)) == whole[..m * n], "{level:?}, {m} rows");
                }
                let alone = crate::pool::with_limit(1, || product(level, &a, b, *sizes.last().unwrap()));
                assert!(bits(&alone) == whole, "{level:?}, one thread");
            }
        }
    }
}

#[test]
fn a_row_does_not_depend_on_its_neighbours_or_on_threads() {
    let few: Vec<usize> = (1..=FEW_ROWS).collect();
    let many = [FEW_ROWS + 1, FEW_ROWS + 2, 40, 57, 100];
    rows_alone_equal_rows_together::<f32>(&[&few, &many]);
    rows_alone_equal_rows_together::<f16>(&[&few, &many]);
    // Tiles take over from nine rows on.
    rows_alone_equal_rows_together::<bf16>(&[&few[..8], &many]);
}

#[test]
fn bad_operands_are_errors_that_name_the_sizes() {
    let x = vec![0.0f32; 12];
    let mut y = vec![0.0f32; 12];
    let bounds = |rows, cols, rs, cs| MatRef::new(&x, 0, rows, cols, rs, cs).err();
    assert!(bounds(3, 4, 4, 1).is_none());
    for bad in
        [(3, 5, 4, 1), (3, 4, 5, 1), (2, 2, -1, 1), (usize::MAX, 2, 1, 1), (2, 2, isize::MAX, isize::MAX)]
    {
        assert!(matches!(bounds(bad.0, bad.1, bad.2, bad.3), Some(GemmError::Bounds { .. })), "{bad:?}");
    }
    assert!(bounds(usize::MAX, usize::MAX, isize::MIN, isize::MIN).is_some());
    assert!(MatRef::new(&x, 13, 0, 4, 4, 1).is_ok());
    assert!(MatRef::new(&x, usize::MAX, 1, 1, 0, 0).is_err());
    assert!(matches!(MatMut::new(&mut y, 0, 3, 4, 3), Err(GemmError::Overlap { .. })));
    let (a, b) = (MatRef::row_major(&x, 3, 4).unwrap(), MatRef::row_major(&x, 3, 4).unwrap());
    let error = gemm(1.0, a, b, 0.0, MatMut::row_major(&mut y, 3, 4).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "[matmul] cannot multiply 3 x 4 by 3 x 4 into 3 x 4");
}

/// Every entry of a batch equals the product alone.
fn check_batch(m: usize, n: usize, k: usize, c_stride: usize, batch: &[Offsets]) {
    let most = |f: fn(&Offsets) -> usize| batch.iter().map(f).max().unwrap_or(0);
    let mut random = Random(11);
    let a: Vec<f32> = random.vec(most(|o| o.a) + m * k);
    let b: Vec<f32> = random.vec(most(|o| o.b) + k * n);
    let before: Vec<f32> = random.vec(most(|o| o.c) + m * c_stride + n);
    let (mut got, mut want) = (before.clone(), before);
    let (left, right) = (
        BatchRef { data: &a[..], rows: m, cols: k, row_stride: k as isize, col_stride: 1 },
        BatchRef { data: &b[..], rows: k, cols: n, row_stride: n as isize, col_stride: 1 },
    );
    gemm_batched(
        0.5,
        left,
        right,
        1.0,
        BatchMut { data: &mut got, rows: m, cols: n, row_stride: c_stride },
        batch,
    )
    .unwrap();
    for at in batch {
        let a = MatRef::new(&a, at.a, m, k, k as isize, 1).unwrap();
        let b = MatRef::new(&b, at.b, k, n, n as isize, 1).unwrap();
        gemm(0.5, a, b, 1.0, MatMut::new(&mut want, at.c, m, n, c_stride).unwrap()).unwrap();
    }
    for (x, y) in got.iter().zip(&want) {
        assert!(
            (x - y).abs() <= 4.0 * k as f32 * f32::EPSILON * (1.0 + y.abs()),
            "{m}x{n}x{k}: {x} is not {y}"
        );
    }
}

#[test]
fn batches_equal_products_one_by_one() {
    let (m, n, k) = (6, 20, 30);
    let entries = |f: fn(usize) -> Offsets| (0..9).map(f).collect::<Vec<_>>();
    // Apart; side by side in the rows of a larger matrix; one common `b`; overlapping, in order.
    check_batch(m, n, k, 20, &entries(|i| Offsets { a: i * 180, b: i * 600, c: i * 120 }));
    check_batch(m, n, k, 180, &entries(|i| Offsets { a: i * 180, b: i / 3 * 600, c: i * 20 }));
    check_batch(m, n, k, 20, &entries(|i| Offsets { a: i * 180, b: 7, c: i * 120 }));
    check_batch(m, n, k, 20, &entries(|i| Offsets { a: i * 180, b: i * 600, c: (i % 2) * 10 }));
    check_batch(1, n, k, 20, &entries(|i| Offsets { a: i * 30, b: i * 600, c: 500 - i * 20 }));
    check_batch(m, n, k, 20, &[]);
    check_batch(130, 140, 150, 140, &entries(|i| Offsets { a: i * 19500, b: i * 21000, c: i * 18200 }));
}

#[test]
fn a_bad_entry_of_a_batch_is_an_error_and_leaves_the_output() {
    let x = [1.0f32; 24];
    let mut y = [7.0f32; 8];
    let matrix = BatchRef { data: &x[..], rows: 2, cols: 2, row_stride: 2, col_stride: 1 };
    let good = Offsets { a: 0, b: 4, c: 0 };
    for bad in [Offsets { a: 21, ..good }, Offsets { b: 21, ..good }, Offsets { c: 5, ..good }] {
        let c = BatchMut { data: &mut y[..], rows: 2, cols: 2, row_stride: 2 };
        let error = gemm_batched(1.0, matrix, matrix, 0.0, c, &[good, bad]).unwrap_err();
        assert!(matches!(error, GemmError::Bounds { .. }), "{error}");
    }
    assert!(y.iter().all(|&v| v == 7.0));
}
