use super::{gather, put_along, scatter, search_sorted, take_along};
use crate::kernels::testing::{Bytes, Numbers, coordinates, layouts, places, position};
use olivine_core::op::ScatterMode;
use olivine_core::{Dtype, Error, Layout, Shape};

const MODES: [ScatterMode; 5] =
    [ScatterMode::Set, ScatterMode::Add, ScatterMode::Prod, ScatterMode::Max, ScatterMode::Min];
const INTEGERS: [Dtype; 8] =
    [Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64, Dtype::I8, Dtype::I16, Dtype::I32, Dtype::I64];

fn meet(mode: ScatterMode, dtype: Dtype, here: f64, new: f64) -> f64 {
    let v = match mode {
        ScatterMode::Set => new,
        ScatterMode::Add => here + new,
        ScatterMode::Prod => here * new,
        ScatterMode::Max => here.max(new),
        ScatterMode::Min => here.min(new),
    };
    // Through the type, so that bool saturates.
    Bytes::of(dtype, [v]).get(dtype, 0)
}

/// Indices into an axis of `size` that leave room for `window`, some of them from the end.
fn indices(numbers: &mut Numbers, dtype: Dtype, n: usize, size: usize, window: usize) -> Vec<f64> {
    let signed = matches!(dtype, Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64);
    (0..n)
        .map(|_| {
            let i = numbers.below(size - window + 1) as f64;
            if signed && numbers.below(3) == 0 { i - size as f64 } else { i }
        })
        .collect()
}

fn at(i: f64, size: usize) -> usize {
    if i < 0.0 { (i + size as f64) as usize } else { i as usize }
}

#[test]
fn gather_and_scatter_follow_the_definition() {
    let mut numbers = Numbers::new(2);
    type Case = (&'static [usize], &'static [u8], &'static [usize], &'static [usize]);
    let cases: [Case; 8] = [
        (&[9], &[0], &[1], &[5]),
        (&[6, 7], &[0], &[1, 7], &[4]),
        (&[6, 7], &[1], &[6, 1], &[2, 3]),
        (&[6, 7], &[0, 1], &[1, 1], &[11]),
        (&[3, 4], &[0, 1], &[2, 2], &[3]),
        (&[5, 3, 4], &[0, 2], &[1, 3, 2], &[2, 2]),
        (&[5, 6], &[], &[5, 6], &[]),
        (&[8, 150], &[0], &[1, 150], &[500]),
    ];
    for (shape, axes, sizes, lead) in cases {
        let (n, sizes) = (lead.iter().product::<usize>(), Shape::new(sizes));
        let have: Vec<usize> = lead.iter().chain(sizes.iter()).copied().collect();
        for (k, dtype) in Dtype::ALL.into_iter().enumerate() {
            let integer = INTEGERS[(k + shape.len()) % INTEGERS.len()];
            let values: Vec<Vec<f64>> = axes
                .iter()
                .map(|&a| indices(&mut numbers, integer, n, shape[a as usize], sizes[a as usize]))
                .collect();
            let arrays: Vec<Bytes> = values.iter().map(|v| Bytes::of(integer, v.iter().copied())).collect();
            let lead_layout = Layout::contiguous(Shape::new(lead));
            let ops: Vec<_> = arrays.iter().map(|b| b.operand(&lead_layout, integer)).collect();
            // Where element `i` of the result, or of the updates, is in the array.
            let place = |i: usize| {
                let c = coordinates(&have, i);
                let p = position(lead, &c[..lead.len()]);
                let mut full = c[lead.len()..].to_vec();
                for (v, &a) in values.iter().zip(axes) {
                    full[a as usize] += at(v[p], shape[a as usize]);
                }
                position(shape, &full)
            };
            let total: usize = have.iter().product();
            for (layout, len) in layouts(shape, &mut numbers) {
                let bytes = Bytes::of(dtype, (0..len).map(|_| numbers.below(50) as f64));
                let spots = places(&layout);
                let mut out = Bytes::zeros(total * dtype.size());
                gather(axes, &sizes, &bytes.operand(&layout, dtype), &ops, out.mut_slice()).unwrap();
                for i in 0..total {
                    assert_eq!(out.get(dtype, i), bytes.get(dtype, spots[place(i)]), "{dtype} {layout:?}");
                }
            }
            for (layout, len) in layouts(&have, &mut numbers) {
                for mode in MODES {
                    let few = if mode == ScatterMode::Prod { 2 } else { 4 };
                    let updates = Bytes::of(dtype, (0..len).map(|_| numbers.below(few) as f64));
                    let elements: usize = shape.iter().product();
                    let mut out = Bytes::of(dtype, (0..elements).map(|_| numbers.below(3) as f64));
                    let x = updates.operand(&layout, dtype);
                    let mut want: Vec<f64> = (0..elements).map(|i| out.get(dtype, i)).collect();
                    let done = scatter(axes, mode, &Shape::new(shape), &x, &ops, out.mut_slice());
                    done.unwrap();
                    for (i, &spot) in places(&layout).iter().enumerate() {
                        let p = place(i);
                        want[p] = meet(mode, dtype, want[p], updates.get(dtype, spot));
                    }
                    for (i, &w) in want.iter().enumerate() {
                        // Sums past 256 round in halves of eight bits.
                        let close =
                            (out.get(dtype, i) - w).abs() <= if dtype == Dtype::BF16 { 8.0 } else { 0.0 };
                        assert!(
                            close || dtype.size() == 1,
                            "{mode:?} {dtype} [{i}] {} {w}",
                            out.get(dtype, i)
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn large_scatters_are_those_of_one_thread() {
    let mut numbers = Numbers::new(3);
    for (rows, width, n) in [(1000, 1, 60_000), (50, 8, 20_000), (40, 300, 400)] {
        let shape = Shape::new(&[rows, width]);
        let index: Vec<i32> = (0..n).map(|_| numbers.below(rows) as i32).collect();
        let updates: Vec<f32> = (0..n * width).map(|_| numbers.unit() as f32).collect();
        let (i, u) = (Bytes::from(&index), Bytes::from(&updates));
        let (li, lu) = (Layout::contiguous(Shape::new(&[n])), Layout::contiguous(Shape::new(&[n, 1, width])));
        for mode in MODES {
            let mut want = vec![1.0f32; rows * width];
            for (p, &row) in index.iter().enumerate() {
                for c in 0..width {
                    let (here, new) = (&mut want[row as usize * width + c], updates[p * width + c]);
                    *here = match mode {
                        ScatterMode::Set => new,
                        ScatterMode::Add => *here + new,
                        ScatterMode::Prod => *here * new,
                        ScatterMode::Max => here.max(new),
                        ScatterMode::Min => here.min(new),
                    };
                }
            }
            let mut out = Bytes::from(&vec![1.0f32; rows * width]);
            let (i, u) = (i.operand(&li, Dtype::I32), u.operand(&lu, Dtype::F32));
            scatter(&[0], mode, &shape, &u, &[i], out.mut_slice()).unwrap();
            assert_eq!(out.typed::<f32>(), want, "{mode:?} {rows} {width}");
        }
    }
}

#[test]
fn a_block_is_pasted_without_wrapping() {
    let (row, column) = (Bytes::from(&[1i32]), Bytes::from(&[2i32]));
    let (one, four) = (Layout::contiguous(Shape::new(&[1])), Layout::contiguous(Shape::new(&[1, 2, 2])));
    let updates = Bytes::from(&[1.0f32, 2.0, 3.0, 4.0]);
    let mut out = Bytes::zeros(48);
    let ops = [row.operand(&one, Dtype::I32), column.operand(&one, Dtype::I32)];
    let u = updates.operand(&four, Dtype::F32);
    scatter(&[0, 1], ScatterMode::Set, &Shape::new(&[3, 4]), &u, &ops, out.mut_slice()).unwrap();
    assert_eq!(out.typed::<f32>(), [0., 0., 0., 0., 0., 0., 1., 2., 0., 0., 3., 4.]);
}

#[test]
fn nan_stays_in_scattered_extremes() {
    let layout = Layout::contiguous(Shape::new(&[2]));
    let updates_layout = Layout::contiguous(Shape::new(&[2, 1]));
    for dtype in [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64] {
        for mode in [ScatterMode::Max, ScatterMode::Min] {
            for pair in [[f64::NAN, 1.0], [1.0, f64::NAN]] {
                let (i, u) = (Bytes::from(&[0u8, 0]), Bytes::of(dtype, pair));
                let mut out = Bytes::of(dtype, [0.0]);
                let (i, u) = (i.operand(&layout, Dtype::U8), u.operand(&updates_layout, dtype));
                scatter(&[0], mode, &Shape::new(&[1]), &u, &[i], out.mut_slice()).unwrap();
                assert!(out.get(dtype, 0).is_nan(), "{dtype} {mode:?} {pair:?}");
            }
        }
    }
}

#[test]
fn take_and_put_along_follow_the_definition() {
    let mut numbers = Numbers::new(4);
    for (shape, axis, n) in [
        (&[5][..], 0, 8),
        (&[4, 6], 0, 3),
        (&[4, 6], 1, 9),
        (&[2, 3, 4], 1, 5),
        (&[300, 70], 1, 70),
        (&[3, 2], 1, 0),
    ] {
        let have = Shape::new(shape).with(axis, n);
        let total = have.elements();
        for (k, dtype) in Dtype::ALL.into_iter().enumerate() {
            let integer = INTEGERS[k % INTEGERS.len()];
            for (layout, len) in layouts(&have, &mut numbers) {
                let values = indices(&mut numbers, integer, len, shape[axis], 1);
                let index = Bytes::of(integer, values.iter().copied());
                let i = index.operand(&layout, integer);
                let spots = places(&layout);
                let place = |e: usize| {
                    let mut c = coordinates(&have, e);
                    c[axis] = at(values[spots[e]], shape[axis]);
                    position(shape, &c)
                };
                let (x_layout, x_len) = layouts(shape, &mut numbers).swap_remove(numbers.below(5));
                let x = Bytes::of(dtype, (0..x_len).map(|_| numbers.below(50) as f64));
                let x_spots = places(&x_layout);
                let mut out = Bytes::zeros(total * dtype.size());
                take_along(axis, &x.operand(&x_layout, dtype), &i, out.mut_slice()).unwrap();
                for e in 0..total {
                    assert_eq!(out.get(dtype, e), x.get(dtype, x_spots[place(e)]));
                }
                let (v_layout, v_len) = layouts(&have, &mut numbers).swap_remove(numbers.below(5));
                let v = Bytes::of(dtype, (0..v_len).map(|_| numbers.below(2) as f64));
                let v_spots = places(&v_layout);
                for mode in MODES {
                    let elements: usize = shape.iter().product();
                    let mut out = Bytes::of(dtype, (0..elements).map(|_| numbers.below(3) as f64));
                    let mut want: Vec<f64> = (0..elements).map(|e| out.get(dtype, e)).collect();
                    let done = put_along(
                        axis,
                        mode,
                        &Shape::new(shape),
                        &i,
                        &v.operand(&v_layout, dtype),
                        out.mut_slice(),
                    );
                    done.unwrap();
                    for (e, &spot) in v_spots.iter().enumerate() {
                        let p = place(e);
                        want[p] = meet(mode, dtype, want[p], v.get(dtype, spot));
                    }
                    let got: Vec<f64> = (0..elements).map(|e| out.get(dtype, e)).collect();
                    assert_eq!(got, want, "{mode:?} {dtype}");
                }
            }
        }
    }
}

#[test]
fn what_is_out_of_range_is_named_and_nothing_is_written() {
    let shape = Shape::new(&[5]);
    let (layout, updates_layout) =
        (Layout::contiguous(Shape::new(&[2])), Layout::contiguous(Shape::new(&[2, 1])));
    for (bad, message) in
        [(5, "5"), (-6, "-6"), (i64::MIN, "-9223372036854775808"), (1 << 40, "1099511627776")]
    {
        let i = Bytes::from(&[0i64, bad]);
        let u = Bytes::from(&[9.0f32, 9.0]);
        let mut out = Bytes::from(&[1.0f32; 5]);
        let before = out.clone();
        let index = i.operand(&layout, Dtype::I64);
        let e = scatter(
            &[0],
            ScatterMode::Set,
            &shape,
            &u.operand(&updates_layout, Dtype::F32),
            &[index],
            out.mut_slice(),
        )
        .unwrap_err();
        assert_eq!(e.to_string(), format!("[scatter] index {message} is out of range for axis 0 of size 5"));
        assert!(matches!(e, Error::Index { .. }));
        let e =
            put_along(0, ScatterMode::Add, &shape, &index, &u.operand(&layout, Dtype::F32), out.mut_slice());
        assert!(matches!(e, Err(Error::Index { op: "put_along_axis", .. })));
        assert_eq!(out, before);
        let mut taken = Bytes::zeros(8);
        let x_layout = Layout::contiguous(shape.clone());
        let x = out.operand(&x_layout, Dtype::F32);
        assert!(matches!(take_along(0, &x, &index, taken.mut_slice()), Err(Error::Index { .. })));
        assert!(matches!(
            gather(&[0], &Shape::new(&[1]), &x, &[index], taken.mut_slice()),
            Err(Error::Index { op: "take", .. })
        ));
    }
    let huge = Bytes::from(&[u64::MAX, 0]);
    let mut out = Bytes::zeros(8);
    let x_layout = Layout::contiguous(shape.clone());
    let x = Bytes::from(&[0f32; 5]);
    let e = gather(
        &[0],
        &Shape::new(&[1]),
        &x.operand(&x_layout, Dtype::F32),
        &[huge.operand(&layout, Dtype::U64)],
        out.mut_slice(),
    );
    assert!(e.unwrap_err().to_string().contains("18446744073709551615"));
    // A window that starts inside but ends outside.
    let last = Bytes::from(&[0i32, 4]);
    let mut out = Bytes::zeros(16);
    let e = gather(
        &[0],
        &Shape::new(&[2]),
        &x.operand(&x_layout, Dtype::F32),
        &[last.operand(&layout, Dtype::I32)],
        out.mut_slice(),
    );
    assert_eq!(
        e.unwrap_err().to_string(),
        "[gather] index 4 of a window of 2 is out of range for axis 0 of size 5"
    );
}

#[test]
fn indices_into_an_empty_axis_are_out_of_range() {
    let (layout, empty) = (Layout::contiguous(Shape::new(&[1])), Layout::contiguous(Shape::new(&[0])));
    let (x, i) = (Bytes::zeros(0), Bytes::from(&[0i32]));
    let mut out = Bytes::zeros(4);
    let e = take_along(0, &x.operand(&empty, Dtype::F32), &i.operand(&layout, Dtype::I32), out.mut_slice());
    assert!(matches!(e, Err(Error::Index { .. })), "{e:?}");
    let none = Bytes::zeros(0);
    take_along(0, &x.operand(&empty, Dtype::F32), &none.operand(&empty, Dtype::I32), &mut []).unwrap();
}

#[test]
fn searches_count_what_comes_before() {
    let mut numbers = Numbers::new(6);
    // Few and many numbers to look up, also not a whole number of those that are looked up together.
    for (n, many) in [(0, 5), (1, 3), (7, 100), (1000, 33), (5000, 4), (300, 5000)] {
        for dtype in Dtype::ALL.into_iter().filter(|&d| d != Dtype::C64) {
            let mut sorted: Vec<f64> = (0..n).map(|_| numbers.below(40) as f64 - 20.0).collect();
            sorted = (0..n).map(|i| Bytes::of(dtype, [sorted[i]]).get(dtype, 0)).collect();
            sorted.sort_by(f64::total_cmp);
            if dtype.is_float() && n > 5 {
                sorted[n - 2..].fill(f64::NAN);
            }
            let s = Bytes::of(dtype, sorted.iter().copied());
            let (layout, len) = layouts(&[many], &mut numbers).swap_remove(numbers.below(5));
            let values: Vec<f64> = (0..len)
                .map(|_| if numbers.below(20) == 0 { f64::NAN } else { numbers.below(44) as f64 - 22.0 })
                .collect();
            let v = Bytes::of(dtype, values);
            for right in [false, true] {
                let mut out = Bytes::zeros(4 * many);
                let line = Layout::contiguous(Shape::new(&[n]));
                search_sorted(right, &s.operand(&line, dtype), &v.operand(&layout, dtype), out.mut_slice())
                    .unwrap();
                for (i, &spot) in places(&layout).iter().enumerate() {
                    let x = v.get(dtype, spot);
                    let before = |&&y: &&f64| match (x.is_nan(), y.is_nan()) {
                        (true, true) => right,
                        (true, false) => true,
                        (false, _) => y < x || (right && y == x),
                    };
                    let want = sorted.iter().filter(before).count();
                    assert_eq!(out.typed::<u32>()[i] as usize, want, "{dtype} {n} {many} {right} {x}");
                }
            }
        }
    }
}
