//! Small inputs on which other frameworks go wrong, and conventions at points without a derivative.

use super::{assert_close, setup, values};
use olivine_core::ops::{IndexItem, stack};
use olivine_core::transforms::{Compile, compile, compile_with, grad, jvp, vmap, vmap_arrays};
use olivine_core::{Array, Complex64, Dtype, random};

fn floats(v: &[f32]) -> Array {
    Array::from_slice(v, &[v.len()]).unwrap()
}

#[test]
fn a_branch_that_is_not_taken_leaks_no_nan() {
    setup();
    let f = |x: &Array| {
        let r = x.square()?.sqrt()?;
        r.maximum(&r.scalar_like(1e-6))?.sum(&[], false)
    };
    assert_eq!(values(&grad(f)(&floats(&[0.0, 2.0])).unwrap()), [0.0, 1.0]);
    let safe = |x: &Array| {
        let positive = x.greater(&x.scalar_like(0.0))?;
        Array::select(&positive, &x.log()?, &x.scalar_like(0.0))?.sum(&[], false)
    };
    assert_eq!(values(&grad(safe)(&floats(&[0.0, -1.0, 2.0])).unwrap()), [0.0, 0.0, 0.5]);
}

#[test]
fn powers_with_exponent_zero_are_flat() {
    setup();
    let f = |x: &Array| x.power(&Array::from_scalar(0.0f32))?.sum(&[], false);
    assert_eq!(values(&grad(f)(&floats(&[0.0, 3.0])).unwrap()), [0.0, 0.0]);
}

#[test]
fn running_products_with_zeros() {
    setup();
    let f = |x: &Array| x.cumprod(0, false, true)?.sum(&[], false);
    assert_eq!(values(&grad(f)(&floats(&[2.0, 0.0, 0.0, 3.0])).unwrap()), [1.0, 2.0, 0.0, 0.0]);
    let f = |x: &Array| x.prod(&[], false);
    assert_eq!(values(&grad(f)(&floats(&[2.0, 0.0, 5.0])).unwrap()), [0.0, 10.0, 0.0]);
}

#[test]
fn second_derivatives_of_sorts_and_running_maxima() {
    setup();
    let largest =
        |x: &Array| stack(&[x.square()?, x.clone()], 0)?.sort(0, false)?.slice_axis(0, 1, 2)?.sum(&[], false);
    let x = Array::from_scalar(3.0f32);
    assert_eq!(values(&grad(grad(largest))(&x).unwrap()), [2.0]);
    let running =
        |x: &Array| stack(&[x.clone(), x.square()?, x.clone()], 0)?.cummax(0, false, true)?.sum(&[], false);
    assert_eq!(values(&grad(running)(&x).unwrap()), [13.0]);
    assert_eq!(values(&grad(grad(running))(&x).unwrap()), [4.0]);
}

#[test]
fn vmap_keeps_parameters_and_types() {
    setup();
    let rows = Array::from_slice(&[3i32, 1, 2, 0], &[1, 4]).unwrap();
    let y = vmap(|r: &Array| r.partition(2, 0), 0, 0)(&rows).unwrap();
    assert_eq!(y.slice_axis(1, 2, 3).unwrap().to_vec::<i32>().unwrap(), [2]);
    let pair = (Array::from_slice(&[7i32], &[1]).unwrap(), Array::from_slice(&[2i32], &[1]).unwrap());
    let q = vmap(|(a, b): &(Array, Array)| a.floor_divide(b), 0, 0)(&pair).unwrap();
    assert_eq!((q.dtype(), q.to_vec::<i32>().unwrap()), (Dtype::I32, vec![3]));
    let sizes =
        [Array::zeros(&[10, 1], Dtype::F32).unwrap(), Array::zeros(&[1, 1, 1, 5], Dtype::F32).unwrap()];
    let e =
        vmap_arrays(|x| Ok(vec![x[0].add(&x[1])?]), &sizes, &[Some(0), Some(0)], |n| Ok(vec![Some(0); n]));
    assert_eq!(e.unwrap_err().to_string(), "[vmap] array 0 has 10 elements along its axis, array 1 has 1");
}

#[test]
fn equal_extremes_share_the_gradient() {
    setup();
    let f = |x: &Array| x.max(&[], false);
    assert_eq!(values(&grad(f)(&floats(&[2.0, 1.0, 2.0])).unwrap()), [0.5, 0.0, 0.5]);
}

#[test]
fn complex_gradients_point_uphill() {
    setup();
    // |z|^2 grows fastest along z: 2 z.
    let z = Array::from_slice(&[Complex64 { re: 3.0, im: -4.0 }], &[1]).unwrap();
    let f = |z: &Array| z.abs()?.square()?.sum(&[], false);
    let g = grad(f)(&z).unwrap().to_vec::<Complex64>().unwrap();
    assert_eq!((g[0].re, g[0].im), (6.0, -8.0));
    let parts = |z: &Array| {
        let w = z.multiply(z)?;
        w.real()?.add(&w.imag()?.scale(2.0)?)?.sum(&[], false)
    };
    // Re w + 2 Im w with w = z^2; the gradient is conj(2 z) * (1 + 2i).
    let g = grad(parts)(&z).unwrap().to_vec::<Complex64>().unwrap();
    assert_eq!((g[0].re, g[0].im), (6.0 - 16.0, 12.0 + 8.0));
    let t = Array::from_slice(&[Complex64 { re: 0.5, im: 2.0 }], &[1]).unwrap();
    let (_, dy) = jvp(parts, &z, &t).unwrap();
    let expected = (g[0].re * 0.5 + g[0].im * 2.0) as f64;
    assert_close("jvp", &dy, &Array::from_scalar(expected as f32), 1e-6);
}

#[test]
fn a_stopped_gradient_is_a_constant() {
    setup();
    let f = |x: &Array| x.multiply(&x.stop_gradient()?)?.sum(&[], false);
    assert_eq!(values(&grad(f)(&floats(&[3.0])).unwrap()), [3.0]);
}

#[test]
fn compiled_functions_do_not_mix_up_what_differs_in_a_parameter() {
    setup();
    let f = compile(|x: &Array| Ok((x.log()?, x.log2()?)));
    let (a, b) = f(&floats(&[8.0])).unwrap();
    assert_eq!(values(&b), [3.0]);
    assert!((values(&a)[0] - 2.0794415).abs() < 1e-6);
}

#[test]
fn a_compiled_function_gives_what_each_call_asks_for() {
    setup();
    // As many results as the argument has.
    let f = compile(|(x, y): &(Array, Option<Array>)| match y {
        None => Ok((x.clone(), None)),
        Some(y) => Ok((x.add(&x.scalar_like(1.0))?, Some(y.clone()))),
    });
    let x = floats(&[1.0]);
    for _ in 0..2 {
        let (a, b) = f(&(x.clone(), None)).unwrap();
        assert_eq!((values(&a), b.is_none()), (vec![1.0], true));
        let (a, b) = f(&(x.clone(), Some(floats(&[5.0])))).unwrap();
        assert_eq!((values(&a), values(&b.unwrap())), (vec![2.0], vec![5.0]));
    }
}

#[test]
fn shapeless_functions_follow_the_sizes() {
    setup();
    let how = Compile { shapeless: true, ..Compile::default() };
    let f = compile_with(how, |x: &Array| x.slice_axis(0, 1, x.shape()[0])?.scale(2.0));
    assert_eq!(values(&f(&floats(&[1.0; 3])).unwrap()), [2.0; 2]);
    assert_eq!(values(&f(&floats(&[1.0; 5])).unwrap()), [2.0; 4]);
    // An axis that was 1 when the function was traced.
    let f = compile_with(how, |x: &Array| x.sum(&[0], false));
    assert_eq!(values(&f(&Array::ones(&[1, 3], Dtype::F32).unwrap()).unwrap()), [1.0; 3]);
    assert_eq!(values(&f(&Array::ones(&[4, 3], Dtype::F32).unwrap()).unwrap()), [4.0; 3]);
    // A reshape to a size that was read.
    let f = compile_with(how, |x: &Array| x.reshape(&[x.size()]));
    assert_eq!(f(&Array::ones(&[2, 3], Dtype::F32).unwrap()).unwrap().shape()[..], [6]);
    assert_eq!(f(&Array::ones(&[4, 5], Dtype::F32).unwrap()).unwrap().shape()[..], [20]);
}

#[test]
fn views_and_masks_inside_compiled_functions() {
    setup();
    // A value that is read through two broadcast views.
    let f = |x: &Array| x.expand_dims(&[1])?.multiply(&x.expand_dims(&[0])?)?.add(&x.expand_dims(&[1])?);
    let x = floats(&[1.0, 2.0, 3.0]);
    assert_eq!(values(&compile(f)(&x).unwrap()), values(&f(&x).unwrap()));
    // An assignment to a reversed slice.
    let f = |x: &Array| {
        let y = x.slice(&[(None, None, -1)])?.scale(3.0)?;
        x.full_like(0.0)?.at(&[IndexItem::Range { start: None, stop: None, step: -1 }]).add(&y)
    };
    let x = floats(&[0.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(values(&f(&x).unwrap()), [0.0, 3.0, 6.0, 9.0, 12.0]);
    assert_eq!(values(&compile(f)(&x).unwrap()), [0.0, 3.0, 6.0, 9.0, 12.0]);
    // Where a maximum over two of six axes is.
    let x =
        random::uniform(-1.0, 1.0, &[2, 3, 4, 2, 3, 2], Dtype::F32, Some(&random::key(3).unwrap())).unwrap();
    let f = |x: &Array| x.equal(&x.max(&[2, 4], true)?)?.astype(Dtype::F32);
    assert_eq!(values(&compile(f)(&x).unwrap()), values(&f(&x).unwrap()));
    let g = grad(|x: &Array| x.max(&[2, 4], true)?.sum(&[], false));
    assert_eq!(values(&compile(|x: &Array| g(x))(&x).unwrap()), values(&g(&x).unwrap()));
}

#[test]
fn differently_sized_batches_are_refused() {
    setup();
    let add = |(a, b): &(Array, Array)| a.add(b);
    let (a, b) =
        (Array::ones(&[10, 1], Dtype::F32).unwrap(), Array::ones(&[1, 1, 1, 5], Dtype::F32).unwrap());
    assert!(vmap(add, 0, 0)(&(a, b)).is_err());
}
