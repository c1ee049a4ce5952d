//! NumPy's indexing, reading and writing. Expected values are NumPy 2's unless a comment derives them.

use olivine_core::ops::IndexItem;
use olivine_core::transforms::vmap;
use olivine_core::{Array, Dtype, Error, Result, index};

fn count(shape: &[usize]) -> Result<Array> {
    olivine_cpu::register();
    let n: usize = shape.iter().product();
    Array::arange_int(0, n as i64, 1, Dtype::I32)?.reshape(shape)
}

fn ints(v: &[i32]) -> Result<Array> {
    Array::from_slice(v, &[v.len()])
}

fn values(a: &Array) -> Result<Vec<i32>> {
    a.astype(Dtype::I32)?.to_vec()
}

fn dims(a: &Array) -> Vec<usize> {
    a.shape().to_vec()
}

#[test]
fn integers_ranges_ellipsis_and_new_axes() -> Result<()> {
    let x = count(&[2, 3, 4])?;
    assert_eq!(values(&x.get(&index![1, 2, -1])?)?, [23]);
    assert_eq!(values(&x.get(&index![0, .., 1])?)?, [1, 5, 9]);
    assert_eq!(values(&x.get(&index![ellipsis, 0])?)?, [0, 4, 8, 12, 16, 20]);
    assert_eq!(values(&x.get(&index![-1, 1.., ..;-2])?)?, [19, 17, 23, 21]);
    assert_eq!(dims(&x.get(&index![newaxis, .., ellipsis, newaxis, 0])?), [1, 2, 3, 1]);
    assert_eq!(dims(&x.get(&index![5..])?), [0, 3, 4]);
    let backwards = [IndexItem::Range { start: Some(5), stop: Some(2), step: 1 }];
    assert_eq!(dims(&x.get(&backwards)?), [0, 3, 4]);
    let none: [IndexItem; 0] = index![];
    assert_eq!(dims(&x.get(&none)?), [2, 3, 4]);
    // Python's range takes a step as a dynamic list does, too.
    let dynamic = vec![IndexItem::Int(0), IndexItem::Range { start: Some(2), stop: None, step: -1 }];
    assert_eq!(values(&x.get(&dynamic)?.slice_axis(1, 0, 1)?)?, [8, 4, 0]);
    Ok(())
}

#[test]
fn a_slice_beside_an_index_array_is_cut() -> Result<()> {
    let x = count(&[4, 5])?;
    let columns = ints(&[0, 1])?;
    let y = x.get(&index![-100..4, &columns])?;
    assert_eq!((dims(&y), values(&y)?), (vec![4, 2], vec![0, 1, 5, 6, 10, 11, 15, 16]));
    assert_eq!(dims(&x.get(&index![2..100, &columns])?), [2, 2]);
    Ok(())
}

#[test]
fn arrays_together_stay_in_place_and_apart_come_first() -> Result<()> {
    let x = count(&[2, 3, 4, 5])?;
    let (i, j) = (ints(&[0, 1, 0])?, ints(&[2, -1, 0])?);
    assert_eq!(dims(&x.get(&index![.., &i, &j])?), [2, 3, 5]);
    assert_eq!(dims(&x.get(&index![.., &i, .., &j])?), [3, 2, 4]);
    // An integer beside an array is an array.
    assert_eq!(dims(&x.get(&index![0, .., &i])?), [3, 3, 5]);
    assert_eq!(dims(&x.get(&index![.., 0, &i])?), [2, 3, 5]);
    let rows = i.reshape(&[3, 1])?;
    let y = x.get(&index![1, &rows, &j, 0])?;
    // x[1, r, c, 0] = 60 + 20 r + 5 c.
    assert_eq!((dims(&y), values(&y)?), (vec![3, 3], vec![70, 75, 60, 90, 95, 80, 70, 75, 60]));
    Ok(())
}

#[test]
fn masks_read() -> Result<()> {
    let x = count(&[2, 3])?;
    let odd = x.remainder(&Array::from_scalar(2i32))?;
    let mask = odd.astype(Dtype::Bool)?;
    assert_eq!(values(&x.get(&index![&mask])?)?, [1, 3, 5]);
    let columns = Array::from_slice(&[true, false, true], &[3])?;
    assert_eq!(values(&x.get(&index![.., &columns])?)?, [0, 2, 3, 5]);
    assert_eq!(
        values(&x.get(&index![&ints(&[1, 0])?, &Array::from_slice(&[true, false, true], &[3])?])?)?,
        [3, 2]
    );
    assert_eq!(dims(&x.get(&index![true])?), [1, 2, 3]);
    assert_eq!(dims(&x.get(&index![false])?), [0, 2, 3]);
    let none = Array::zeros(&[2, 3], Dtype::Bool)?;
    assert_eq!(dims(&x.get(&index![&none])?), [0]);
    let wrong = Array::zeros(&[3], Dtype::Bool)?;
    assert!(matches!(x.get(&index![&wrong]), Err(Error::Index { .. })));
    Ok(())
}

#[test]
fn masks_write() -> Result<()> {
    let a = count(&[3])?;
    let mask = Array::from_slice(&[true, false, true], &[3])?;
    assert_eq!(values(&a.set(&index![&mask], &Array::from_scalar(7i32))?)?, [7, 1, 7]);
    assert_eq!(values(&a.set(&index![false], &Array::from_scalar(9i32))?)?, [0, 1, 2]);
    assert_eq!(values(&a.set(&index![true], &Array::from_scalar(9i32))?)?, [9, 9, 9]);
    assert_eq!(values(&a.set(&index![&mask], &ints(&[5, 6])?)?)?, [5, 1, 6]);
    assert!(matches!(a.set(&index![&mask], &ints(&[5, 6, 7])?), Err(Error::Shape { .. })));
    let x = count(&[3, 2])?;
    assert_eq!(values(&x.set(&index![&mask], &ints(&[8, 9])?)?)?, [8, 9, 2, 3, 8, 9]);
    let both = ints(&[1, 2, 3, 4])?.reshape(&[2, 2])?;
    assert_eq!(values(&x.set(&index![&mask], &both)?)?, [1, 2, 2, 3, 3, 4]);
    Ok(())
}

#[test]
fn assignment_through_a_slice_and_an_array() -> Result<()> {
    let x = count(&[1, 4])?;
    let i = ints(&[0, 1])?;
    assert_eq!(values(&x.set(&index![.., &i], &Array::zeros(&[1, 2], Dtype::I32)?)?)?, [0, 0, 2, 3]);
    let x = count(&[5])?;
    let turned = x.get(&index![..;-1])?;
    let tripled = turned.multiply(&Array::from_scalar(3i32))?;
    let y = x.zeros_like()?.set(&index![..;-1], &tripled)?;
    assert_eq!(values(&y)?, [0, 3, 6, 9, 12]);
    // Values may have leading axes of size 1 that the place lacks.
    assert_eq!(values(&x.set(&index![1..3], &count(&[1, 1, 2])?)?)?, [0, 0, 1, 3, 4]);
    assert!(x.set(&index![1..3], &count(&[3])?).is_err());
    Ok(())
}

#[test]
fn a_written_block_does_not_wrap_to_the_next_row() -> Result<()> {
    olivine_cpu::register();
    let x = Array::zeros(&[3, 4], Dtype::F32)?;
    let block = Array::full(&[1, 2, 2], 1f32)?;
    let at = [Array::from_slice(&[1i32], &[1])?, Array::from_slice(&[2i32], &[1])?];
    let y = x.scatter(&at, &block, &[0, 1], olivine_core::op::ScatterMode::Set)?;
    let want = [0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1].map(|v| v as f32);
    assert_eq!(y.to_vec::<f32>()?, want);
    // A block that would leave the array is refused as a whole.
    let at = [Array::from_slice(&[2i32], &[1])?, Array::from_slice(&[2i32], &[1])?];
    let y = x.scatter(&at, &block, &[0, 1], olivine_core::op::ScatterMode::Set)?;
    assert!(matches!(y.eval(), Err(Error::Index { .. })));
    Ok(())
}

#[test]
fn every_update_counts_at_repeated_positions() -> Result<()> {
    olivine_cpu::register();
    let x = Array::from_slice(&[1f32, 2.0, 3.0], &[3])?;
    let i = index![&ints(&[0, 0, 2])?];
    let v = Array::from_slice(&[2f32, 4.0, 8.0], &[3])?;
    let spot = x.at(&i);
    assert_eq!(spot.get()?.to_vec::<f32>()?, [1.0, 1.0, 3.0]);
    assert_eq!(spot.add(&v)?.to_vec::<f32>()?, [7.0, 2.0, 11.0]);
    assert_eq!(spot.subtract(&v)?.to_vec::<f32>()?, [-5.0, 2.0, -5.0]);
    assert_eq!(spot.multiply(&v)?.to_vec::<f32>()?, [8.0, 2.0, 24.0]);
    assert_eq!(spot.divide(&v)?.to_vec::<f32>()?, [0.125, 2.0, 0.375]);
    assert_eq!(spot.maximum(&v)?.to_vec::<f32>()?, [4.0, 2.0, 8.0]);
    assert_eq!(spot.minimum(&v)?.to_vec::<f32>()?, [1.0, 2.0, 3.0]);
    assert_eq!(spot.set(&v)?.to_vec::<f32>()?, [4.0, 2.0, 8.0]);
    let basic = index![1..];
    assert_eq!(x.at(&basic).add(&Array::from_scalar(1f32))?.to_vec::<f32>()?, [1.0, 3.0, 4.0]);
    assert!(matches!(count(&[3])?.at(&basic).divide(&ints(&[2, 2])?), Err(Error::Dtype { .. })));
    Ok(())
}

#[test]
fn what_is_out_of_range_is_named() -> Result<()> {
    let x = count(&[4])?;
    let e = x.get(&index![1i64 << 40]).unwrap_err();
    assert_eq!(e.to_string(), "[get] index 1099511627776 is out of range for axis 0 of size 4");
    assert!(matches!(x.get(&index![-5]), Err(Error::Index { .. })));
    assert!(matches!(x.get(&index![0, 0]), Err(Error::Shape { .. })));
    assert!(matches!(x.get(&index![ellipsis, ellipsis]), Err(Error::Index { .. })));
    assert!(x.get(&index![..;0]).is_err());
    let float = Array::from_scalar(1f32);
    assert!(matches!(x.get(&index![&float]), Err(Error::Dtype { .. })));
    for bad in [4, -5, i32::MAX, i32::MIN] {
        let i = ints(&[0, bad])?;
        let e = x.get(&index![&i])?.eval().unwrap_err();
        assert!(matches!(&e, Error::Index { .. }), "{e}");
        let text = e.to_string();
        assert!(text.contains(&bad.to_string()) && text.contains('4') && text.contains("axis 0"), "{text}");
        let e = x.set(&index![&i], &Array::from_scalar(1i32))?.eval().unwrap_err();
        assert!(matches!(e, Error::Index { op: "scatter", .. }), "{e}");
        assert!(matches!(x.take(&i, 0)?.eval(), Err(Error::Index { .. })));
        assert!(matches!(x.take_along_axis(&i, 0)?.eval(), Err(Error::Index { .. })));
        let put = x.put_along_axis(&i, &Array::from_scalar(1i32), 0)?;
        assert!(matches!(put.eval(), Err(Error::Index { .. })));
    }
    Ok(())
}

#[test]
fn windows_that_arrays_place() -> Result<()> {
    let x = count(&[3, 4])?;
    let start = ints(&[2, 1])?;
    assert_eq!(values(&x.slice_from(&start, &[1, 0], &[2, 2])?)?, [6, 7, 10, 11]);
    assert_eq!(values(&x.slice_from(&Array::from_scalar(1i32), &[-1], &[1, 3])?)?, [1, 2, 3]);
    let ones = Array::ones(&[1, 2], Dtype::I32)?;
    let y = x.slice_update_from(&ones, &ints(&[1, 1])?, &[0, 1])?;
    assert_eq!(values(&y)?, [0, 1, 2, 3, 4, 1, 1, 7, 8, 9, 10, 11]);
    assert!(x.slice_from(&start, &[1, 0], &[3, 3])?.eval().is_err());
    assert!(x.slice_from(&start, &[1], &[1, 1]).is_err());
    Ok(())
}

#[test]
fn a_traced_function_cannot_ask_for_a_shape_that_values_decide() -> Result<()> {
    let x = count(&[3])?;
    let refuses = |r: Result<()>, name: &str| matches!(r, Err(Error::InTrace { op, .. }) if op == name);
    let inside = |traced: &Array| {
        let y = traced.add(&x)?;
        assert_eq!(y.awaits(), Some("vmap"));
        let mask = y.astype(Dtype::Bool)?;
        assert!(refuses(y.nonzero().map(drop), "nonzero"));
        assert!(refuses(y.unique().map(drop), "unique"));
        assert!(refuses(y.bincount(None, 0).map(drop), "bincount"));
        assert!(refuses(x.get(&index![&mask]).map(drop), "get"));
        assert!(matches!(y.to_vec::<i32>(), Err(Error::InTrace { transform: "vmap", .. })));
        // A shape that is given needs no values, nor does one value for all places of a mask.
        assert_eq!(dims(&y.unique_sized(2, None)?.values), [2]);
        assert_eq!(dims(&x.set(&index![&mask], &Array::from_scalar(1i32))?), [3]);
        y.square()
    };
    let y = vmap(inside, 0, 0)(&count(&[2, 3])?)?;
    assert_eq!(values(&y)?, [0, 4, 16, 9, 25, 49]);
    Ok(())
}
