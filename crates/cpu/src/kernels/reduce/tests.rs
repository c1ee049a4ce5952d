use super::run;
use crate::kernels::operand::Operand;
use crate::kernels::testing::{Bytes, Numbers, coordinates, layouts, places, position, same};
use olivine_core::op::{Reduce, ReduceKind};
use olivine_core::shape::AxisSet;
use olivine_core::{Complex64, Dtype, Error, Layout, Scalar, Shape};

const KINDS: [ReduceKind; 6] =
    [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min, ReduceKind::All, ReduceKind::Any];

fn set(mask: usize, rank: usize) -> AxisSet {
    let axes: Vec<i32> = (0..rank as i32).filter(|a| mask >> a & 1 == 1).collect();
    AxisSet::resolve("test", &axes, rank).unwrap()
}

/// The reduction of numbers, one after the other.
fn reference(kind: ReduceKind, xs: &[f64]) -> f64 {
    let nan = xs.iter().any(|x| x.is_nan());
    match kind {
        ReduceKind::Sum => xs.iter().sum(),
        ReduceKind::Prod => xs.iter().product(),
        ReduceKind::Max | ReduceKind::Min if nan => f64::NAN,
        ReduceKind::Max => xs.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ReduceKind::Min => xs.iter().copied().fold(f64::INFINITY, f64::min),
        ReduceKind::All => xs.iter().all(|&x| x != 0.0) as u8 as f64,
        ReduceKind::Any => xs.iter().any(|&x| x != 0.0) as u8 as f64,
    }
}

/// The same of integers, which wrap.
fn wrapped(kind: ReduceKind, xs: &[f64], to: Dtype) -> f64 {
    let xs = xs.iter().map(|&x| x as i64);
    let exact = match kind {
        ReduceKind::Prod => xs.fold(1, i64::wrapping_mul),
        _ => xs.fold(0, i64::wrapping_add),
    };
    Scalar::from_i64(exact, to).to_f64()
}

fn reduce(kind: ReduceKind, axes: AxisSet, x: &Operand<'_>) -> (Bytes, Dtype) {
    let dtype = Reduce::output(kind, x.dtype);
    let n: usize =
        x.layout.shape().iter().enumerate().filter(|&(i, _)| !axes.contains(i)).map(|(_, &d)| d).product();
    let mut out = Bytes::zeros(n * dtype.size());
    run(kind, axes, x, out.mut_slice()).unwrap();
    (out, dtype)
}

#[test]
fn every_kind_type_layout_and_axis_set_matches_the_definition() {
    let mut numbers = Numbers::new(1);
    for shape in [&[][..], &[1], &[7], &[40], &[3, 5], &[6, 70], &[70, 6], &[3, 1, 4], &[2, 3, 4, 5]] {
        for (layout, len) in layouts(shape, &mut numbers) {
            let at = places(&layout);
            for dtype in Dtype::ALL {
                // Small integers, so that sums are exact in every type; products of many ones and few twos.
                let wide: Vec<f64> = (0..len).map(|_| numbers.below(9) as f64 - 4.0).collect();
                let flat: Vec<f64> =
                    (0..len).map(|_| [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 0.5][numbers.below(8)]).collect();
                for kind in KINDS {
                    if dtype == Dtype::C64 && matches!(kind, ReduceKind::Max | ReduceKind::Min) {
                        continue;
                    }
                    let values = if kind == ReduceKind::Prod { &flat } else { &wide };
                    let bytes = Bytes::of(dtype, values.iter().copied());
                    let x = bytes.operand(&layout, dtype);
                    for mask in 0..1 << shape.len() {
                        let axes = set(mask, shape.len());
                        let kept: Vec<usize> = (0..shape.len()).filter(|&i| !axes.contains(i)).collect();
                        let dims: Vec<usize> = kept.iter().map(|&i| shape[i]).collect();
                        let mut groups = vec![Vec::new(); dims.iter().product()];
                        for (i, &at) in at.iter().enumerate() {
                            let c = coordinates(shape, i);
                            let c: Vec<usize> = kept.iter().map(|&i| c[i]).collect();
                            groups[position(&dims, &c)].push(bytes.get(dtype, at));
                        }
                        let (out, to) = reduce(kind, axes, &x);
                        for (i, group) in groups.iter().enumerate() {
                            let want = match kind {
                                ReduceKind::Sum | ReduceKind::Prod if to.is_integer() => {
                                    wrapped(kind, group, to)
                                }
                                _ => Bytes::of(to, [reference(kind, group)]).get(to, 0),
                            };
                            let got = out.get(to, i);
                            assert!(
                                same(got, want),
                                "{kind:?} {dtype} {layout:?} {axes:?} [{i}]: {got} {want}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn long_float_sums_are_accurate() {
    let n = 20_000_000;
    let bytes = Bytes::from(&vec![0.1f32; n]);
    let want = 0.1f32 as f64 * n as f64;
    let (out, _) = reduce(
        ReduceKind::Sum,
        AxisSet::one(0),
        &bytes.operand(&Layout::contiguous(Shape::new(&[n])), Dtype::F32),
    );
    assert!((out.get(Dtype::F32, 0) / want - 1.0).abs() < 1e-7);
    let columns = Layout::contiguous(Shape::new(&[n / 2, 2]));
    let (out, _) = reduce(ReduceKind::Sum, AxisSet::one(0), &bytes.operand(&columns, Dtype::F32));
    for c in 0..2 {
        assert!((out.get(Dtype::F32, c) / (want / 2.0) - 1.0).abs() < 1e-7);
    }
    let n = 300_000;
    for dtype in [Dtype::F16, Dtype::BF16] {
        let bytes = Bytes::of(dtype, (0..n).map(|_| 0.1));
        let want = bytes.get(dtype, 0) * n as f64;
        let (out, _) = reduce(
            ReduceKind::Sum,
            AxisSet::one(0),
            &bytes.operand(&Layout::contiguous(Shape::new(&[n])), dtype),
        );
        assert!((out.get(dtype, 0) / want - 1.0).abs() < 4e-3, "{dtype} {} {want}", out.get(dtype, 0));
    }
}

#[test]
fn long_double_sums_lose_few_bits() {
    let n = 3_000_000;
    let bytes = Bytes::from(&vec![0.1f64; n]);
    for (shape, axis) in [(vec![n], 0), (vec![n / 600, 600], 0), (vec![n / 3, 3], 0)] {
        let layout = Layout::contiguous(Shape::new(&shape));
        let (out, _) = reduce(ReduceKind::Sum, AxisSet::one(axis), &bytes.operand(&layout, Dtype::F64));
        let want = 0.1 * shape[0] as f64;
        assert!((out.get(Dtype::F64, 0) / want - 1.0).abs() < 2e-14, "{shape:?}");
    }
}

#[test]
fn results_do_not_depend_on_the_threads() {
    // A second caller at the same time runs its tasks alone, on one thread.
    let mut numbers = Numbers::new(5);
    let xs: Vec<f64> = (0..700_000).map(|_| numbers.unit() - 0.3).collect();
    let bytes = Bytes::from(&xs);
    for shape in [vec![700_000], vec![70_000, 10], vec![1000, 700], vec![7, 100_000]] {
        let layout = Layout::contiguous(Shape::new(&shape));
        for axis in 0..shape.len() {
            let x = bytes.operand(&layout, Dtype::F64);
            let sum = || reduce(ReduceKind::Sum, AxisSet::one(axis), &x).0;
            let first = sum();
            let inner = std::sync::Mutex::new(Vec::new());
            crate::pool::parallel_for(2, &|_| {
                let nested = sum();
                inner.lock().unwrap().push(nested);
            });
            assert!(inner.into_inner().unwrap().iter().all(|b| *b == first));
        }
    }
}

#[test]
fn nan_is_the_extreme_and_true() {
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
        for n in [3, 50, 5000] {
            for place in [0, n / 2, n - 1] {
                let bytes = Bytes::of(dtype, (0..n).map(|i| if i == place { f64::NAN } else { i as f64 }));
                let layout = Layout::contiguous(Shape::new(&[n]));
                let x = bytes.operand(&layout, dtype);
                for kind in [ReduceKind::Max, ReduceKind::Min] {
                    assert!(reduce(kind, AxisSet::one(0), &x).0.get(dtype, 0).is_nan());
                }
            }
        }
        let layout = Layout::contiguous(Shape::new(&[1]));
        let negative_zero = Bytes::of(dtype, [-0.0]);
        let x = negative_zero.operand(&layout, dtype);
        assert_eq!(reduce(ReduceKind::Any, AxisSet::one(0), &x).0.get(Dtype::Bool, 0), 0.0);
        assert_eq!(reduce(ReduceKind::All, AxisSet::one(0), &x).0.get(Dtype::Bool, 0), 0.0);
        let nan = Bytes::of(dtype, [f64::NAN]);
        assert_eq!(
            reduce(ReduceKind::All, AxisSet::one(0), &nan.operand(&layout, dtype)).0.get(Dtype::Bool, 0),
            1.0
        );
    }
}

#[test]
fn rows_of_a_reversed_view() {
    let bytes = Bytes::of(Dtype::F32, (0..6).map(|i| i as f64));
    let layout = Layout::contiguous(Shape::new(&[2, 3])).slice(&[0, 2], &[1, -1], &Shape::new(&[2, 3]));
    let (out, _) = reduce(ReduceKind::Sum, AxisSet::one(1), &bytes.operand(&layout, Dtype::F32));
    assert_eq!(out.typed::<f32>(), [3.0, 12.0]);
}

#[test]
fn integers_widen_and_wrap() {
    let layout = Layout::contiguous(Shape::new(&[2]));
    let bytes = Bytes::from(&[100i8, 100]);
    let (out, dtype) = reduce(ReduceKind::Sum, AxisSet::one(0), &bytes.operand(&layout, Dtype::I8));
    assert_eq!((out.typed::<i32>(), dtype), (&[200][..], Dtype::I32));
    let bytes = Bytes::from(&[i32::MAX, 1]);
    let (out, _) = reduce(ReduceKind::Sum, AxisSet::one(0), &bytes.operand(&layout, Dtype::I32));
    assert_eq!(out.typed::<i32>(), [i32::MIN]);
    let bytes = Bytes::from(&[1u64 << 63, 2]);
    let (out, _) = reduce(ReduceKind::Prod, AxisSet::one(0), &bytes.operand(&layout, Dtype::U64));
    assert_eq!(out.typed::<u64>(), [0]);
}

#[test]
fn complex_products_multiply() {
    let layout = Layout::contiguous(Shape::new(&[4]));
    let i = Complex64 { re: 0.0, im: 1.0 };
    let bytes = Bytes::from(&[i, i, i, Complex64 { re: 2.0, im: 1.0 }]);
    let x = bytes.operand(&layout, Dtype::C64);
    let (prod, _) = reduce(ReduceKind::Prod, AxisSet::one(0), &x);
    assert_eq!(prod.typed::<Complex64>(), [Complex64 { re: 1.0, im: -2.0 }]);
    let (sum, _) = reduce(ReduceKind::Sum, AxisSet::one(0), &x);
    assert_eq!(sum.typed::<Complex64>(), [Complex64 { re: 2.0, im: 4.0 }]);
}

#[test]
fn nothing_gives_the_identity() {
    let layout = Layout::contiguous(Shape::new(&[0, 3]));
    let bytes = Bytes::zeros(0);
    let x = bytes.operand(&layout, Dtype::F32);
    let value = |kind| {
        let (out, dtype) = reduce(kind, AxisSet::one(0), &x);
        (0..3).map(|i| out.get(dtype, i)).collect::<Vec<_>>()
    };
    assert_eq!(value(ReduceKind::Sum), [0.0; 3]);
    assert_eq!(value(ReduceKind::Prod), [1.0; 3]);
    assert_eq!(value(ReduceKind::All), [1.0; 3]);
    assert_eq!(value(ReduceKind::Any), [0.0; 3]);
    let mut out = Bytes::zeros(12);
    assert!(matches!(
        run(ReduceKind::Max, AxisSet::one(0), &x, out.mut_slice()),
        Err(Error::Value { op: "max", .. })
    ));
    run(ReduceKind::Max, AxisSet::one(1), &x, &mut []).unwrap();
}

#[test]
fn misfits_are_errors() {
    let layout = Layout::contiguous(Shape::new(&[4]));
    let bytes = Bytes::zeros(12);
    let mut out = [0u8; 4];
    let short = run(ReduceKind::Sum, AxisSet::one(0), &bytes.operand(&layout, Dtype::F32), &mut out);
    assert!(matches!(short, Err(Error::Value { op: "sum", .. })), "{short:?}");
    let axis = run(ReduceKind::Sum, AxisSet::one(1), &bytes.operand(&layout, Dtype::F32), &mut out);
    assert!(matches!(axis, Err(Error::Shape { op: "sum", .. })));
}
