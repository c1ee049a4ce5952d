use super::run;
use crate::kernels::testing::{Bytes, Numbers, coordinates, layouts, places, position, same};
use olivine_core::op::Sort;
use olivine_core::{Complex64, Dtype, Error, Layout, Shape};
use std::cmp::Ordering;

/// NaN last in either direction; complex numbers are tested on their own.
fn compare(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) if descending => b.partial_cmp(&a).unwrap(),
        (false, false) => a.partial_cmp(&b).unwrap(),
    }
}

fn reference(xs: &[f64], descending: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..xs.len()).collect();
    order.sort_by(|&a, &b| compare(xs[a], xs[b], descending));
    order
}

fn bits(x: f64) -> (bool, u64) {
    if x.is_nan() { (true, 0) } else { (false, x.to_bits()) }
}

#[test]
fn every_type_layout_and_axis_is_sorted_stably() {
    let mut numbers = Numbers::new(11);
    for shape in [&[1][..], &[37], &[3000], &[5, 33], &[2, 33_000], &[33, 5], &[3, 4, 5], &[0, 3], &[3, 0]] {
        let all = layouts(shape, &mut numbers);
        let some = if shape.contains(&33_000) { &all[..2] } else { &all[..] };
        for (layout, len) in some {
            let (layout, len) = (layout, *len);
            for dtype in Dtype::ALL.into_iter().filter(|&d| d != Dtype::C64) {
                if layout.elements() > 10_000
                    && !matches!(dtype, Dtype::F16 | Dtype::F32 | Dtype::I64 | Dtype::F64)
                {
                    continue;
                }
                let range = [4, 100_000][numbers.below(2)];
                let values = (0..len).map(|_| match numbers.below(20) {
                    0 => f64::NAN,
                    1 => -0.0,
                    2 => 0.0,
                    3 => f64::INFINITY,
                    _ => numbers.below(range) as f64 - range as f64 / 2.0,
                });
                let values: Vec<f64> = values.collect();
                let bytes = Bytes::of(dtype, values);
                let x = bytes.operand(layout, dtype);
                let spots = places(layout);
                for axis in 0..shape.len() {
                    let rest = Shape::new(shape).without(axis);
                    let mut rows = vec![Vec::new(); rest.elements()];
                    for (i, &spot) in spots.iter().enumerate() {
                        let mut c = coordinates(shape, i);
                        c.remove(axis);
                        rows[position(&rest, &c)].push((i, bytes.get(dtype, spot)));
                    }
                    for descending in [false, true] {
                        let params = |indices| Sort { axis, indices, descending, kth: None };
                        let mut values = Bytes::zeros(spots.len() * dtype.size());
                        run(&params(false), &x, values.mut_slice()).unwrap();
                        let mut indices = Bytes::zeros(spots.len() * 4);
                        run(&params(true), &x, indices.mut_slice()).unwrap();
                        for row in &rows {
                            let xs: Vec<f64> = row.iter().map(|r| r.1).collect();
                            for (j, &k) in reference(&xs, descending).iter().enumerate() {
                                let at = row[j].0;
                                assert_eq!(
                                    indices.typed::<u32>()[at],
                                    k as u32,
                                    "{dtype} {layout:?} {axis} {descending}"
                                );
                                let got = values.get(dtype, at);
                                assert_eq!(bits(got), bits(xs[k]), "{dtype} {layout:?} {axis} {descending}");
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn large_arrays_are_sorted_by_all_threads_as_by_one() {
    let mut numbers = Numbers::new(12);
    let n = 300_000;
    let layout = Layout::contiguous(Shape::new(&[n]));
    let floats: Vec<f32> = (0..n).map(|_| ((numbers.unit() - 0.5) * 1e6) as f32).collect();
    let wide: Vec<i64> = (0..n).map(|_| numbers.next() as i64 >> numbers.below(60)).collect();
    let sort = |bytes: &Bytes, dtype: Dtype, indices| {
        let mut out = Bytes::zeros(n * if indices { 4 } else { dtype.size() });
        let params = Sort { axis: 0, indices, descending: false, kth: None };
        run(&params, &bytes.operand(&layout, dtype), out.mut_slice()).unwrap();
        out
    };
    let bytes = Bytes::from(&floats);
    let mut want = floats.clone();
    want.sort_by(f32::total_cmp);
    assert_eq!(sort(&bytes, Dtype::F32, false).typed::<f32>(), want);
    let order = sort(&bytes, Dtype::F32, true);
    assert!(order.typed::<u32>().iter().zip(&want).all(|(&i, w)| floats[i as usize] == *w));
    let bytes = Bytes::from(&wide);
    let mut want = wide.clone();
    want.sort();
    assert_eq!(sort(&bytes, Dtype::I64, false).typed::<i64>(), want);
    let mut order: Vec<u32> = (0..n as u32).collect();
    order.sort_by_key(|&i| wide[i as usize]);
    assert_eq!(sort(&bytes, Dtype::I64, true).typed::<u32>(), order);
}

#[test]
fn partitions_have_the_right_element_at_the_position() {
    let mut numbers = Numbers::new(13);
    for (n, dtype) in [
        (1, Dtype::F32),
        (40, Dtype::I8),
        (5000, Dtype::BF16),
        (70_000, Dtype::F32),
        (70_000, Dtype::F64),
        (50_000, Dtype::U16),
        (40_000, Dtype::I64),
        (200_000, Dtype::F32),
    ] {
        let layout = Layout::contiguous(Shape::new(&[n]));
        let values: Vec<f64> = (0..n)
            .map(|_| match numbers.below(50) {
                0 => f64::NAN,
                1 => -0.0,
                2 => 0.0,
                _ => numbers.below(1000) as f64 / 7.0 - 50.0,
            })
            .collect();
        let bytes = Bytes::of(dtype, values);
        let x = bytes.operand(&layout, dtype);
        let xs: Vec<f64> = (0..n).map(|i| bytes.get(dtype, i)).collect();
        let negative = |xs: &[f64]| xs.iter().filter(|x| **x == 0.0 && x.is_sign_negative()).count();
        for kth in [0, n / 3, n / 2, n - 1] {
            for descending in [false, true] {
                let order = reference(&xs, descending);
                let params = |indices| Sort { axis: 0, indices, descending, kth: Some(kth) };
                let mut indices = Bytes::zeros(4 * n);
                run(&params(true), &x, indices.mut_slice()).unwrap();
                let mut values = Bytes::zeros(dtype.size() * n);
                run(&params(false), &x, values.mut_slice()).unwrap();
                let mut seen: Vec<u32> = indices.typed::<u32>().to_vec();
                let by_index: Vec<f64> = seen.iter().map(|&i| xs[i as usize]).collect();
                seen.sort();
                assert!(seen.iter().enumerate().all(|(i, &s)| i == s as usize));
                let by_value: Vec<f64> = (0..n).map(|i| values.get(dtype, i)).collect();
                assert_eq!(negative(&by_value), negative(&xs));
                for got in [by_index, by_value] {
                    assert!(same(got[kth], xs[order[kth]]));
                    assert!(got[..kth].iter().all(|&a| compare(a, got[kth], descending).is_le()));
                    assert!(got[kth..].iter().all(|&a| compare(a, got[kth], descending).is_ge()));
                }
            }
        }
    }
}

#[test]
fn complex_numbers_order_by_parts_with_nan_last() {
    let nan = f32::NAN;
    let c = |re, im| Complex64 { re, im };
    let order = |xs: &[Complex64], descending| {
        let layout = Layout::contiguous(Shape::new(&[xs.len()]));
        let (bytes, mut out) = (Bytes::from(xs), Bytes::zeros(4 * xs.len()));
        let mut values = Bytes::zeros(8 * xs.len());
        let x = bytes.operand(&layout, Dtype::C64);
        let params = |indices| Sort { axis: 0, indices, descending, kth: None };
        run(&params(true), &x, out.mut_slice()).unwrap();
        run(&params(false), &x, values.mut_slice()).unwrap();
        let order = out.typed::<u32>().to_vec();
        for (v, &i) in values.typed::<Complex64>().iter().zip(&order) {
            let w = xs[i as usize];
            assert_eq!((v.re.to_bits(), v.im.to_bits()), (w.re.to_bits(), w.im.to_bits()));
        }
        order
    };
    assert_eq!(order(&[c(5.0, nan), c(3.0, 0.0), c(1.0, 0.0)], false), [2, 1, 0]);
    let xs = [c(nan, nan), c(nan, 1.0), c(1.0, nan), c(2.0, 1.0), c(2.0, -1.0), c(-0.0, 3.0), c(0.0, 2.0)];
    assert_eq!(order(&xs, false), [6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(order(&xs, true), [3, 4, 5, 6, 2, 1, 0]);
}

#[test]
fn misfits_are_errors() {
    let layout = Layout::contiguous(Shape::new(&[4]));
    let bytes = Bytes::zeros(16);
    let x = bytes.operand(&layout, Dtype::F32);
    let mut out = Bytes::zeros(16);
    let params = Sort { axis: 0, indices: true, descending: false, kth: Some(4) };
    assert!(matches!(run(&params, &x, out.mut_slice()), Err(Error::Index { op: "argpartition", .. })));
    let params = Sort { axis: 1, indices: false, descending: false, kth: None };
    assert!(matches!(run(&params, &x, out.mut_slice()), Err(Error::Shape { op: "sort", .. })));
    let params = Sort { axis: 0, indices: false, descending: false, kth: None };
    let mut short = Bytes::zeros(8);
    assert!(matches!(run(&params, &x, short.mut_slice()), Err(Error::Value { op: "sort", .. })));
}

#[test]
fn wide_items_fit_into_what_narrow_ones_left() {
    let sorted = |n: usize, d: Dtype| {
        let layout = Layout::contiguous(Shape::new(&[n]));
        let (bytes, mut out) = (Bytes::zeros(n * d.size()), Bytes::zeros(4 * n));
        let params = Sort { axis: 0, indices: true, descending: false, kth: None };
        run(&params, &bytes.operand(&layout, d), out.mut_slice()).unwrap();
        assert_eq!(out.typed::<u32>(), (0..n as u32).collect::<Vec<_>>());
    };
    // An odd number of words, kept for the next row, whose items are two words each.
    sorted(5, Dtype::F32);
    sorted(2, Dtype::U64);
}
