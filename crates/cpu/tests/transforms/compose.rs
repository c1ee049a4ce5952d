//! Transforms of transforms, long graphs, and functions that read values, fail or panic.

use super::{assert_close, setup, values};
use olivine_core::ops::{concatenate, stack};
use olivine_core::transforms::{
    Tree, grad, jvp, jvp_arrays, value_and_grad, vjp, vjp_arrays, vmap, vmap_arrays,
};
use olivine_core::{Array, Dtype, Error, Result};
use std::collections::BTreeMap;

fn floats(v: &[f64]) -> Array {
    Array::from_slice(v, &[v.len()]).unwrap()
}

fn scalar(v: f64) -> Array {
    Array::from_scalar(v)
}

/// f(x) = sum(x^3): gradient 3 x^2, Hessian diag(6 x).
fn cubes(x: &Array) -> Result<Array> {
    x.square()?.multiply(x)?.sum(&[], false)
}

#[test]
fn grad_of_grad_of_grad() {
    setup();
    let f = |x: &Array| x.square()?.square();
    let third = grad(grad(grad(f)));
    assert_eq!(values(&third(&scalar(2.0)).unwrap()), [48.0]);
}

#[test]
fn hessian_by_forward_over_backward_and_backward_over_backward() {
    setup();
    let x = floats(&[1.0, -2.0, 0.5]);
    let eye = Array::from_slice(&[1.0f64, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], &[3, 3]).unwrap();
    let forward = vmap(|t: &Array| jvp(|x: &Array| grad(cubes)(x), &x, t).map(|(_, h)| h), 0, 0);
    let backward = vmap(|t: &Array| vjp(|x: &Array| grad(cubes)(x), &x, t).map(|(_, h)| h), 0, 0);
    let expected = [6.0, 0.0, 0.0, 0.0, -12.0, 0.0, 0.0, 0.0, 3.0];
    assert_eq!(values(&forward(&eye).unwrap()), expected);
    assert_eq!(values(&backward(&eye).unwrap()), expected);
}

#[test]
fn jacobian_of_a_vector_function() {
    setup();
    // f(x, y) = (x y, sin x): rows (y, x) and (cos x, 0).
    let f = |v: &Array| -> Result<Array> {
        let (x, y) = (v.slice_axis(0, 0, 1)?, v.slice_axis(0, 1, 2)?);
        concatenate(&[x.multiply(&y)?, x.sin()?], 0)
    };
    let at = floats(&[0.3, 2.0]);
    let eye = Array::from_slice(&[1.0f64, 0.0, 0.0, 1.0], &[2, 2]).unwrap();
    let rows = vmap(|c: &Array| vjp(f, &at, c).map(|(_, g)| g), 0, 0)(&eye).unwrap();
    let columns = vmap(|t: &Array| jvp(f, &at, t).map(|(_, g)| g), 0, 1)(&eye).unwrap();
    let expected = Array::from_slice(&[2.0, 0.3, 0.3f64.cos(), 0.0], &[2, 2]).unwrap();
    assert_close("rows", &rows, &expected, 1e-15);
    assert_close("columns", &columns, &expected, 1e-15);
}

#[test]
fn gradients_of_every_example() {
    setup();
    let loss = |(w, x): &(Array, Array)| x.matmul(w)?.tanh()?.sum(&[], false);
    let w = floats(&[0.1, -0.4, 0.2]);
    let rows = Array::from_slice(&[1.0f64, 2.0, 3.0, -1.0, 0.5, 0.0], &[2, 3]).unwrap();
    let each = vmap(grad(loss), [None, Some(0)], 0);
    let (by_w, by_x) = each(&(w.clone(), rows.clone())).unwrap();
    let single: Vec<(Array, Array)> = (0..2)
        .map(|i| {
            grad(loss)(&(w.clone(), rows.slice_axis(0, i, i + 1).unwrap().reshape(&[3]).unwrap())).unwrap()
        })
        .collect();
    let stacked =
        |f: &dyn Fn(&(Array, Array)) -> Array| stack(&single.iter().map(f).collect::<Vec<_>>(), 0).unwrap();
    assert_close("by w", &by_w, &stacked(&|s| s.0.clone()), 1e-15);
    assert_close("by x", &by_x, &stacked(&|s| s.1.clone()), 1e-15);
}

#[test]
fn grad_of_vmap_of_grad() {
    setup();
    let inner = vmap(grad(|x: &Array| x.square()?.multiply(x)), 0, 0);
    let outer = grad(|x: &Array| inner(x)?.sum(&[], false));
    assert_eq!(values(&outer(&floats(&[1.0, 2.0, -3.0])).unwrap()), [6.0, 12.0, -18.0]);
}

#[test]
fn vmap_of_vmap_keeps_the_axes_apart() {
    setup();
    let outer = vmap(
        |(a, b): &(Array, Array)| {
            vmap(|(x, y): &(Array, Array)| x.multiply(y), [None, Some(0)], 0)(&(a.clone(), b.clone()))
        },
        [Some(0), None],
        0,
    );
    let y = outer(&(floats(&[1.0, 2.0]), floats(&[3.0, 4.0, 5.0]))).unwrap();
    assert_eq!(y.shape()[..], [2, 3]);
    assert_eq!(values(&y), [3.0, 4.0, 5.0, 6.0, 8.0, 10.0]);
}

#[test]
fn captured_arrays_of_an_outer_transform_count() {
    setup();
    // d/dx of x * (d/dy of x y^2 at y = 3) = d/dx of 6 x^2.
    let f = |x: &Array| {
        let x = x.clone();
        let inner = grad(|y: &Array| x.multiply(&y.square()?))(&scalar(3.0))?;
        x.multiply(&inner)
    };
    assert_eq!(values(&grad(f)(&scalar(2.0)).unwrap()), [24.0]);
}

#[test]
fn trees_go_in_and_come_out() {
    setup();
    type Params = BTreeMap<String, (Array, Option<Array>)>;
    let params: Params = BTreeMap::from([
        ("a".to_owned(), (floats(&[1.0, 2.0]), None)),
        ("b".to_owned(), (scalar(3.0), Some(floats(&[4.0])))),
    ]);
    let f = |p: &Params| -> Result<(Array, Vec<Array>)> {
        let b = p["b"].1.as_ref().ok_or_else(|| Error::value("test", "b is there"))?;
        let y = p["a"].0.multiply(&p["b"].0)?.multiply(b)?.sum(&[], false)?;
        Ok((y.clone(), vec![y.scale(2.0)?]))
    };
    let ((loss, aux), g) = value_and_grad(f)(&params).unwrap();
    assert_eq!((values(&loss), values(&aux[0])), (vec![36.0], vec![72.0]));
    assert_eq!(values(&g["a"].0), [12.0, 12.0]);
    assert_eq!(values(&g["b"].0), [12.0]);
    assert_eq!(values(g["b"].1.as_ref().unwrap()), [9.0]);
    let mut count = 0;
    g.visit(&mut |_| count += 1);
    assert_eq!(count, 3);
}

#[test]
fn integers_beside_parameters_have_gradients_of_zero() {
    setup();
    let at = Array::from_slice(&[1i32, 1], &[2]).unwrap();
    let f = |(x, at): &(Array, Array)| x.take(at, 0)?.sum(&[], false);
    let (g, none) = grad(f)(&(floats(&[5.0, 6.0]), at)).unwrap();
    assert_eq!((values(&g), values(&none)), (vec![0.0, 2.0], vec![0.0, 0.0]));
    let e = grad(|x: &Array| x.sum(&[], false))(&Array::from_scalar(1i32)).unwrap_err();
    assert_eq!(e.to_string(), "[grad] none of the arguments is a float or complex array");
}

#[test]
fn values_may_be_read_inside_a_gradient() {
    setup();
    let f = |a: &Array| {
        let a = a.add(&Array::ones(&[2, 2, 2], Dtype::F64)?)?;
        let below = a.less(&a.scalar_like(0.0))?.to_vec::<bool>()?;
        assert_eq!(below, [false; 8]);
        let _ = a.to_vec::<f64>()?;
        let y = a.square()?;
        y.eval()?;
        y.sum(&[], false)
    };
    let g = grad(f)(&Array::full(&[2, 2, 2], 3.0f64).unwrap()).unwrap();
    assert_eq!(values(&g), [8.0; 8]);
}

#[test]
fn a_value_read_inside_vmap_is_an_error_that_names_it() {
    setup();
    let e = vmap(|x: &Array| x.to_vec::<f64>().map(|_| x.clone()), 0, 0)(&floats(&[1.0])).unwrap_err();
    assert!(matches!(e, Error::InTrace { transform: "vmap", .. }), "{e}");
}

#[test]
fn an_array_taken_out_of_vmap_has_no_value() {
    setup();
    let mut leaked = None;
    let f = |x: &[Array]| {
        leaked = Some(x[0].add(&x[0])?);
        Ok(x.to_vec())
    };
    vmap_arrays(f, &[floats(&[1.0, 2.0])], &[Some(0)], |n| Ok(vec![Some(0); n])).unwrap();
    let e = leaked.unwrap().eval().unwrap_err();
    assert!(matches!(e, Error::InTrace { transform: "vmap", .. }), "{e}");
}

#[test]
fn transforms_on_several_threads_nest_without_growth() {
    setup();
    let work = || {
        let inner = |x: &Array, y: &Array| {
            let mut p = x.add(y)?;
            for _ in 0..3000 {
                p = p.add(&x.multiply(y)?)?;
            }
            p.sum(&[], false)
        };
        let one = floats(&[1.0]);
        let outer = |x: &Array| {
            let there = || grad(|y: &Array| inner(x, y))(&floats(&[2.0]))?.sum(&[], false);
            std::thread::scope(|s| s.spawn(there).join().unwrap())
        };
        // By y: 1 + 3000 x; by x of that: 3000.
        assert_eq!(values(&grad(outer)(&one).unwrap()), [3000.0]);
    };
    std::thread::Builder::new().stack_size(1 << 20).spawn(work).unwrap().join().unwrap();
}

#[test]
fn errors_and_panics_leave_no_trace_behind() {
    setup();
    let x = floats(&[1.0, 2.0]);
    let mut kept = None;
    let failing = |a: &[Array]| {
        kept = Some(a[0].sin()?);
        a[0].matmul(&scalar(1.0)).map(|y| vec![y])
    };
    assert!(vjp_arrays(failing, std::slice::from_ref(&x), std::slice::from_ref(&x)).is_err());
    let panics =
        std::panic::catch_unwind(|| grad(|_: &Array| -> Result<Array> { panic!("inside") })(&floats(&[1.0])));
    assert!(panics.is_err());
    // What was marked then is an ordinary array now.
    let kept = kept.unwrap();
    kept.eval().unwrap();
    assert_eq!(values(&kept), [1.0f64.sin(), 2.0f64.sin()]);
    assert_eq!(values(&grad(cubes)(&x).unwrap()), [3.0, 12.0]);
}

#[test]
fn a_kept_loss_does_not_keep_its_graph() {
    setup();
    let x = Array::full(&[1 << 20], 0.5f64).unwrap().add(&scalar(0.0)).unwrap();
    x.eval().unwrap();
    let before = olivine_core::alloc::stats(olivine_core::Device::CPU).active;
    let mut losses = Vec::new();
    for _ in 0..20 {
        let (loss, g) = value_and_grad(|x: &Array| {
            let y = x.exp()?;
            y.eval()?;
            y.square()?.sum(&[], false)
        })(&x)
        .unwrap();
        g.eval().unwrap();
        loss.eval().unwrap();
        losses.push(loss);
    }
    let held = olivine_core::alloc::stats(olivine_core::Device::CPU).active.saturating_sub(before);
    assert!(held < 4 << 20, "{held} bytes are held by 20 scalars");
}

/// With the stack that threads get by default.
fn in_a_small_stack(f: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(2 << 20).spawn(f).unwrap().join().unwrap();
}

#[test]
fn a_long_chain_has_derivatives_and_batches() {
    setup();
    in_a_small_stack(|| {
        const N: usize = 200_000;
        let chain = |x: &[Array]| {
            let mut y = x[0].clone();
            for _ in 0..N {
                y = y.add(&x[0])?;
            }
            Ok(vec![y])
        };
        let x = floats(&[1.0, 2.0]);
        let (_, g) = vjp_arrays(chain, std::slice::from_ref(&x), &[floats(&[1.0, 1.0])]).unwrap();
        assert_eq!(values(&g[0]), [N as f64 + 1.0; 2]);
        let (y, t) = jvp_arrays(chain, std::slice::from_ref(&x), &[floats(&[1.0, 0.5])]).unwrap();
        assert_eq!(values(&t[0]), [N as f64 + 1.0, (N as f64 + 1.0) / 2.0]);
        assert_eq!(values(&y[0]), [N as f64 + 1.0, 2.0 * (N as f64 + 1.0)]);
        let y = vmap_arrays(chain, &[x], &[Some(0)], |n| Ok(vec![Some(0); n])).unwrap();
        assert_eq!(values(&y[0]), [N as f64 + 1.0, 2.0 * (N as f64 + 1.0)]);
    });
}

#[test]
fn a_long_ladder_of_splits_and_joins_has_derivatives() {
    setup();
    in_a_small_stack(|| {
        let ladder = |x: &[Array]| {
            let mut y = x[0].clone();
            for _ in 0..50_000 {
                let parts = y.split(2, 0)?;
                y = concatenate(&[parts[1].clone(), parts[0].clone()], 0)?;
            }
            Ok(vec![y])
        };
        let x = floats(&[1.0, 2.0]);
        let (y, g) = vjp_arrays(ladder, std::slice::from_ref(&x), &[floats(&[3.0, 4.0])]).unwrap();
        assert_eq!((values(&y[0]), values(&g[0])), (vec![1.0, 2.0], vec![3.0, 4.0]));
        let (_, t) = jvp_arrays(ladder, &[x], &[floats(&[3.0, 4.0])]).unwrap();
        assert_eq!(values(&t[0]), [3.0, 4.0]);
    });
}

#[test]
fn wrong_axes_and_cotangents_are_errors() {
    setup();
    let x = floats(&[1.0, 2.0]);
    let same = |x: &[Array]| Ok(x.to_vec());
    let to = |n: usize| Ok(vec![Some(0); n]);
    for (axes, message) in [
        (vec![None], "[vmap] none of the arrays has an axis to map over"),
        (vec![Some(1)], "[vmap] axis 1 is out of range for an array of 1 axes"),
        (vec![], "[vmap] 0 axes for 1 arrays"),
    ] {
        assert_eq!(vmap_arrays(same, std::slice::from_ref(&x), &axes, to).unwrap_err().to_string(), message);
    }
    let e = vmap_arrays(same, std::slice::from_ref(&x), &[Some(0)], |_| Ok(vec![None])).unwrap_err();
    assert_eq!(e.to_string(), "[vmap] result 0 depends on the element, but has no axis");
    let e = vjp_arrays(same, std::slice::from_ref(&x), &[floats(&[1.0])]).unwrap_err();
    assert!(matches!(e, Error::Shape { .. }), "{e}");
    let e = grad(|x: &Array| x.square())(&x).unwrap_err();
    assert!(e.to_string().contains("the loss is a real scalar"), "{e}");
}
