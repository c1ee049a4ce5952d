//! Joining arrays and writing part of one: copies of a strided source into a strided window.

use super::Shared;
use super::operand::{Operand, output, with_size};
use super::strided::{Axes, Walk, collapse_shape, count, split_inner};
use crate::pool::parallel_ranges;
use olivine_core::layout::row_major;
use olivine_core::{Error, Result, Shape};
use smallvec::SmallVec;

/// Bytes that a task of a large copy moves at least.
const GRAIN: usize = 1 << 17;

/// Copies the elements at `axes.strides[0]` from `src` to those at `axes.strides[1]` from `dst`.
///
/// # Safety
/// Every position of `axes` lies inside what `src` may read and `dst` may write, and no two positions share
/// an element of `dst`.
unsafe fn copy<T: Copy + Send + Sync>(src: *const T, dst: *mut T, axes: &Axes<2>) {
    let (outer, inner) = split_inner(axes);
    let rows = count(outer);
    let (src, dst) = (Shared(src.cast_mut()), Shared(dst));
    let [from, to] = inner.strides;
    let grain = (GRAIN / (inner.len * size_of::<T>()).max(1)).max(1);
    let dense = (from == 1 && to == 1) || inner.len == 1;
    if rows == 1 && dense {
        // One run: split within it.
        parallel_ranges(inner.len, GRAIN / size_of::<T>(), &|r| {
            // SAFETY: the caller's promise for a dense run of `inner.len` elements.
            unsafe {
                std::ptr::copy_nonoverlapping(src.get().add(r.start), dst.get().add(r.start), r.len());
            }
        });
        return;
    }
    parallel_ranges(rows, grain, &|range| {
        let mut walk = Walk::new(outer, [0, 0], range.start);
        for _ in range {
            // SAFETY: offsets are positions of `axes`, covered by the caller's promise.
            unsafe {
                let (s, d) = (src.get().offset(walk.at[0]), dst.get().offset(walk.at[1]));
                if dense {
                    std::ptr::copy_nonoverlapping(s, d, inner.len);
                } else {
                    for j in 0..inner.len as isize {
                        *d.offset(j * to) = *s.offset(j * from);
                    }
                }
            }
            walk.step();
        }
    });
}

/// Writes all of `x` into the window of `out`, row-major of `shape`, that begins at `start` and steps by `step`.
/// The window lies inside `shape`.
fn write(
    op: &'static str,
    x: &Operand<'_>,
    out: &mut [u8],
    shape: &Shape,
    start: &[usize],
    step: &[isize],
) -> Result<()> {
    let sizes = x.layout.shape();
    if sizes.elements() == 0 {
        return Ok(());
    }
    let strides = row_major(shape);
    let first: isize = start.iter().zip(&strides).map(|(&b, &s)| b as isize * s).sum();
    let to: SmallVec<[isize; 4]> = strides.iter().zip(step).map(|(&s, &k)| s * k).collect();
    let axes = collapse_shape(sizes, [x.layout.strides(), &to]);
    with_size!(x.dtype.size(), T => {
        let src = x.elements::<T>(op)?;
        let dst = output::<T>(op, out, shape.elements())?;
        // SAFETY: `elements` checks the reach of the layout, the callers check the window against `shape`;
        // a window has no two positions in one place, since its steps are not 0.
        unsafe { copy(src.as_ptr().add(x.layout.offset()), dst.as_mut_ptr().offset(first), &axes) };
    });
    Ok(())
}

/// Writes the inputs one after the other along `axis` into `out`, row-major.
///
/// # Errors
/// `Shape` or `Dtype` when the inputs do not fit each other, `Value` when `out` does not fit them.
pub fn concat(axis: usize, inputs: &[Operand<'_>], out: &mut [u8]) -> Result<()> {
    let op = "concatenate";
    let Some(first) = inputs.first() else {
        return Err(Error::value(op, "takes at least one array"));
    };
    let base = first.layout.shape();
    if axis >= base.rank() {
        return Err(Error::shape(op, format!("axis {axis} is out of range for shape {base}")));
    }
    let mut total = 0;
    for x in inputs {
        let s = x.layout.shape();
        if s.rank() != base.rank() || (0..s.rank()).any(|i| i != axis && s[i] != base[i]) {
            return Err(Error::shape(op, format!("shapes {base} and {s} differ beside axis {axis}")));
        }
        if x.dtype != first.dtype {
            return Err(Error::dtype(op, format!("types {} and {} differ", first.dtype, x.dtype)));
        }
        total += s[axis];
    }
    let shape = base.with(axis, total);
    if out.len() != shape.elements() * first.dtype.size() {
        return Err(Error::value(op, format!("an output of {} bytes for shape {shape}", out.len())));
    }
    let mut start: SmallVec<[usize; 4]> = SmallVec::from_elem(0, shape.rank());
    let step: SmallVec<[isize; 4]> = SmallVec::from_elem(1, shape.rank());
    for x in inputs {
        write(op, x, out, &shape, &start, &step)?;
        start[axis] += x.layout.shape()[axis];
    }
    Ok(())
}

/// Replaces the elements of `out`, row-major of `shape`, at `start + j * step` by those of `update`.
///
/// # Errors
/// `Index` when the window leaves `shape`, `Value` for a step of 0 over several elements.
pub fn slice_update(
    shape: &Shape,
    start: &[usize],
    step: &[isize],
    update: &Operand<'_>,
    out: &mut [u8],
) -> Result<()> {
    let op = "slice_update";
    let sizes = update.layout.shape();
    if start.len() != shape.rank() || step.len() != shape.rank() || sizes.rank() != shape.rank() {
        return Err(Error::shape(op, format!("a window of {} axes for shape {shape}", start.len())));
    }
    for i in 0..shape.rank() {
        if sizes[i] == 0 {
            return Ok(());
        }
        let last = start[i] as i128 + (sizes[i] as i128 - 1) * step[i] as i128;
        if start[i] >= shape[i] || last < 0 || last >= shape[i] as i128 {
            let msg = format!(
                "axis {i}: start {}, step {}, {} elements do not lie within shape {shape}",
                start[i], step[i], sizes[i]
            );
            return Err(Error::index(op, msg));
        }
        if step[i] == 0 && sizes[i] > 1 {
            return Err(Error::value(op, format!("axis {i}: step 0 for {} elements", sizes[i])));
        }
    }
    write(op, update, out, shape, start, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::testing::{Bytes, Numbers, coordinates, layouts, places, position};
    use olivine_core::Dtype;

    #[test]
    fn joined_arrays_follow_each_other() {
        let mut numbers = Numbers::new(7);
        for (shape, axis) in
            [(&[4][..], 0), (&[2, 3], 0), (&[2, 3], 1), (&[3, 4, 5], 1), (&[0, 2], 1), (&[300, 200], 1)]
        {
            for dtype in [Dtype::Bool, Dtype::F16, Dtype::F32, Dtype::C64] {
                let parts: Vec<(olivine_core::Layout, Bytes)> = (0..3)
                    .map(|k| {
                        let shape = Shape::new(shape).with(axis, shape[axis] + k);
                        let mut all = layouts(&shape, &mut numbers);
                        let (layout, len) = all.swap_remove(numbers.below(all.len()));
                        (layout, Bytes::of(dtype, (0..len).map(|_| numbers.below(100) as f64)))
                    })
                    .collect();
                let total: usize = parts.iter().map(|(l, _)| l.shape()[axis]).sum();
                let whole = Shape::new(shape).with(axis, total);
                let mut out = Bytes::zeros(whole.elements() * dtype.size());
                let operands: Vec<_> = parts.iter().map(|(l, b)| b.operand(l, dtype)).collect();
                concat(axis, &operands, out.mut_slice()).unwrap();
                let mut before = 0;
                for (layout, bytes) in &parts {
                    for (i, &spot) in places(layout).iter().enumerate() {
                        let mut c = coordinates(layout.shape(), i);
                        c[axis] += before;
                        assert_eq!(out.get(dtype, position(&whole, &c)), bytes.get(dtype, spot));
                    }
                    before += layout.shape()[axis];
                }
            }
        }
    }

    #[test]
    fn windows_are_written_and_nothing_else() {
        let mut numbers = Numbers::new(8);
        for _ in 0..200 {
            let rank = 1 + numbers.below(4);
            let shape: Shape = (0..rank).map(|_| 1 + numbers.below(9)).collect();
            let mut start = Vec::new();
            let mut step = Vec::new();
            let mut size = Vec::new();
            for &n in shape.iter() {
                let k = [1isize, 1, 1, 2, -1, -2][numbers.below(6)];
                let most = n.div_ceil(k.unsigned_abs());
                let count = numbers.below(most + 1);
                let reach = count.max(1) - 1;
                let slack = n - reach * k.unsigned_abs();
                let low = numbers.below(slack);
                start.push(if k < 0 { low + reach * k.unsigned_abs() } else { low });
                step.push(k);
                size.push(count);
            }
            for dtype in [Dtype::U8, Dtype::BF16, Dtype::I32, Dtype::F64] {
                let mut all = layouts(&size, &mut numbers);
                let (layout, len) = all.swap_remove(numbers.below(all.len()));
                let update = Bytes::of(dtype, (0..len).map(|_| 1.0 + numbers.below(100) as f64));
                let mut out = Bytes::zeros(shape.elements() * dtype.size());
                let mut want = vec![0.0; shape.elements()];
                for (i, &spot) in places(&layout).iter().enumerate() {
                    let c: Vec<usize> = coordinates(&size, i)
                        .iter()
                        .enumerate()
                        .map(|(a, &j)| (start[a] as isize + j as isize * step[a]) as usize)
                        .collect();
                    want[position(&shape, &c)] = update.get(dtype, spot);
                }
                slice_update(&shape, &start, &step, &update.operand(&layout, dtype), out.mut_slice())
                    .unwrap();
                let got: Vec<f64> = (0..want.len()).map(|i| out.get(dtype, i)).collect();
                assert_eq!(got, want, "{shape} {start:?} {step:?} {size:?}");
            }
        }
    }

    #[test]
    fn windows_outside_are_refused() {
        let shape = Shape::new(&[4]);
        let layout = olivine_core::Layout::contiguous(Shape::new(&[2]));
        let update = Bytes::from(&[1f32, 2.0]);
        let mut out = Bytes::zeros(16);
        for (start, step) in [(3, 1), (0, -1), (4, 0), (0, 4), (usize::MAX, 1), (1, isize::MIN)] {
            let x = update.operand(&layout, Dtype::F32);
            let e = slice_update(&shape, &[start], &[step], &x, out.mut_slice());
            assert!(matches!(e, Err(Error::Index { op: "slice_update", .. })), "{start} {step}");
        }
        let e = slice_update(&shape, &[1], &[0], &update.operand(&layout, Dtype::F32), out.mut_slice());
        assert!(matches!(e, Err(Error::Value { .. })));
        assert_eq!(out, Bytes::zeros(16));
        let e = concat(
            0,
            &[update.operand(&layout, Dtype::F32), update.operand(&layout, Dtype::I32)],
            out.mut_slice(),
        );
        assert!(matches!(e, Err(Error::Dtype { op: "concatenate", .. })));
    }
}
