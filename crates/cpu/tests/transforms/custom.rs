//! Functions with rules of their own, and functions that are computed again.

use super::{assert_close, setup, values};
use olivine_core::transforms::{checkpoint, compile, custom_function, grad, jvp, vjp, vmap};
use olivine_core::{Array, Dtype, Result, random};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn floats(v: &[f32]) -> Array {
    Array::from_slice(v, &[v.len()]).unwrap()
}

/// `x * y`, whose gradient by `x` is clipped to 1 and that by `y` is tenfold.
fn clipped(x: &(Array, Array)) -> Result<Array> {
    custom_function(|(x, y): &(Array, Array)| x.multiply(y))
        .vjp(|(x, y), c, _| {
            let by_x = c.multiply(y)?.minimum(&y.scalar_like(1.0))?;
            Ok((by_x, c.multiply(x)?.scale(10.0)?))
        })
        .call(x)
}

#[test]
fn a_rule_backward_takes_the_place_of_the_derivative() {
    setup();
    let x = (floats(&[1.0, 2.0]), floats(&[0.5, 3.0]));
    let loss = |x: &(Array, Array)| clipped(x)?.sum(&[], false);
    assert_eq!(values(&loss(&x).unwrap()), [6.5]);
    let (a, b) = grad(loss)(&x).unwrap();
    assert_eq!((values(&a), values(&b)), (vec![0.5, 1.0], vec![10.0, 20.0]));
    // Forward goes through the function, since there is no rule.
    let ones = (floats(&[1.0, 1.0]), floats(&[0.0, 0.0]));
    let (_, t) = jvp(clipped, &x, &ones).unwrap();
    assert_eq!(values(&t), [0.5, 3.0]);
    let (a, _) = compile(grad(loss))(&x).unwrap();
    assert_eq!(values(&a), [0.5, 1.0]);
}

#[test]
fn rules_hold_for_every_element_of_a_batch() {
    setup();
    let rows = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let y = floats(&[0.5, 3.0]);
    let per_row = vmap(grad(|x: &(Array, Array)| clipped(x)?.sum(&[], false)), [Some(0), None], 0);
    let (a, b) = per_row(&(rows.clone(), y.clone())).unwrap();
    assert_eq!(values(&a), [0.5, 1.0, 0.5, 1.0]);
    assert_eq!(values(&b), [10.0, 20.0, 30.0, 40.0]);
    // The gradient of a batch: what all elements share gets the sum.
    let total = |x: &(Array, Array)| vmap(clipped, [Some(0), None], 0)(x)?.sum(&[], false);
    let (a, b) = grad(total)(&(rows, y)).unwrap();
    assert_eq!(values(&a), [0.5, 1.0, 0.5, 1.0]);
    assert_eq!(values(&b), [40.0, 60.0]);
}

#[test]
fn rules_forward_and_for_batches() {
    setup();
    let f = |x: &Array| {
        custom_function(|x: &Array| x.square())
            .jvp(|x, t| x.multiply(t)?.scale(20.0))
            .vmap(|x, flags| {
                assert_eq!(flags, [true]);
                x.square()?.add(&x.scalar_like(1.0))
            })
            .call(x)
    };
    let (y, t) = jvp(f, &floats(&[3.0]), &floats(&[1.0])).unwrap();
    assert_eq!((values(&y), values(&t)), (vec![9.0], vec![60.0]));
    assert_eq!(values(&vmap(f, 0, 0)(&floats(&[3.0, 4.0])).unwrap()), [10.0, 17.0]);
    // Backward goes through the function.
    assert_eq!(values(&grad(|x: &Array| f(x)?.sum(&[], false))(&floats(&[3.0])).unwrap()), [6.0]);
}

#[test]
fn a_rule_that_gives_the_wrong_shape_is_an_error() {
    setup();
    let f = |x: &Array| {
        let wrong = |_: &Array, c: &Array, _: &Array| c.sum(&[], false);
        custom_function(|x: &Array| x.exp()).vjp(wrong).call(x)?.sum(&[], false)
    };
    let e = grad(f)(&floats(&[1.0, 2.0])).unwrap_err().to_string();
    assert!(e.contains("custom function"), "{e}");
}

#[test]
fn checkpoints_give_the_same_gradients_and_reach_what_they_capture() {
    setup();
    let key = random::key(1).unwrap();
    let w = random::uniform(-1.0, 1.0, &[4, 4], Dtype::F32, Some(&key)).unwrap();
    let x = floats(&[0.1, -0.2, 0.3, 0.4]);
    let block = |w: &Array, x: &Array| x.matmul(w)?.tanh();
    let plain = |(w, x): &(Array, Array)| block(w, &block(w, x)?)?.square()?.sum(&[], false);
    let kept = |(w, x): &(Array, Array)| {
        let w = w.clone();
        let f = checkpoint(move |x: &Array| block(&w, x));
        f(&f(x)?)?.square()?.sum(&[], false)
    };
    let (a, b) =
        (grad(plain)(&(w.clone(), x.clone())).unwrap(), grad(kept)(&(w.clone(), x.clone())).unwrap());
    assert_close("captured", &a.0, &b.0, 1e-6);
    assert_close("argument", &a.1, &b.1, 1e-6);
    let c = compile(grad(kept))(&(w.clone(), x.clone())).unwrap();
    assert_close("compiled", &a.0, &c.0, 1e-6);
    let t = (w.clone(), x.clone());
    assert_close("forward", &jvp(plain, &t, &t).unwrap().1, &jvp(kept, &t, &t).unwrap().1, 1e-6);
    let xs = random::uniform(-1.0, 1.0, &[3, 4], Dtype::F32, Some(&key)).unwrap();
    let each = |f: &dyn Fn(&(Array, Array)) -> Result<Array>| {
        vmap(grad(|t: &(Array, Array)| f(t)), [None, Some(0)], 0)(&(w.clone(), xs.clone())).unwrap().0
    };
    assert_close("batch", &each(&plain), &each(&kept), 1e-6);
}

#[test]
fn a_checkpoint_runs_its_operations_again() {
    setup();
    /// Counts how often it is evaluated.
    struct Counted(Arc<AtomicUsize>);
    impl olivine_core::op::CustomOp for Counted {
        fn name(&self) -> &'static str {
            "counted"
        }
        fn infer(&self, inputs: &[&olivine_core::Meta]) -> Result<olivine_core::op::Metas> {
            Ok(std::iter::once(inputs[0].clone()).collect())
        }
        fn eval(&self, _: &mut olivine_core::eval::EvalCtx<'_>) -> Option<Result<()>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            None
        }
        fn fallback(&self, inputs: &[Array]) -> Option<Result<Vec<Array>>> {
            Some(inputs[0].exp().map(|y| vec![y]))
        }
    }
    let count = Arc::new(AtomicUsize::new(0));
    let op = olivine_core::Op::Custom(olivine_core::op::CustomRef(Arc::new(Counted(count.clone()))));
    let f = |x: &Array| Array::from_op(op.clone(), std::slice::from_ref(x))?.square();
    let runs = |f: &dyn Fn(&Array) -> Result<Array>| {
        count.store(0, Ordering::Relaxed);
        let (y, g) = vjp(|x: &Array| f(x), &floats(&[1.0]), &floats(&[1.0])).unwrap();
        olivine_core::eval(&[y, g]).unwrap();
        count.load(Ordering::Relaxed)
    };
    let (plain, again) = (runs(&f), runs(&|x| checkpoint(f)(x)));
    assert!(again > plain, "{again} evaluations with, {plain} without");
    assert_eq!(runs(&|x| compile(checkpoint(f))(x)), again);
}
