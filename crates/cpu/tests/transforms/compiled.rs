//! Compiled functions: equal to the functions, bit for bit, whatever they are made of.

use super::{assert_close, setup, values};
use olivine_core::transforms::{
    Compile, Compiled, compile, compile_step, compile_with, grad, jvp, set_compile, value_and_grad, vmap,
};
use olivine_core::{Array, Dtype, Error, Result, random};
use std::cell::Cell;
use std::sync::Mutex;

/// Switching compilation off is for the whole process.
static SWITCH: Mutex<()> = Mutex::new(());

fn floats(v: &[f32]) -> Array {
    Array::from_slice(v, &[v.len()]).unwrap()
}

fn noise(shape: &[usize], seed: u64) -> Array {
    random::uniform(-1.0, 1.0, shape, Dtype::F32, Some(&random::key(seed).unwrap())).unwrap()
}

fn bits(a: &Array) -> Vec<u32> {
    a.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn gelu(x: &Array) -> Result<Array> {
    let half = x.scale(std::f64::consts::FRAC_1_SQRT_2)?.erf()?.add(&x.scalar_like(1.0))?;
    x.multiply(&half)?.scale(0.5)
}

fn softmax_by_hand(x: &Array) -> Result<Array> {
    let e = x.subtract(&x.max(&[-1], true)?)?.exp()?;
    e.divide(&e.sum(&[-1], true)?)
}

#[test]
fn compiled_and_plain_give_the_same_bits() {
    setup();
    let _on = SWITCH.lock();
    let f = |(x, w): &(Array, Array)| {
        let h = gelu(&x.matmul(w)?)?;
        let p = softmax_by_hand(&h)?;
        let again = h.square()?.sum(&[0], false)?;
        Ok((p.clone(), vec![again, p.log()?.mean(&[], false)?, x.clone()]))
    };
    let arguments = (noise(&[5, 7], 1), noise(&[7, 300], 2));
    let (a, more) = f(&arguments).unwrap();
    let compiled = compile(f);
    for _ in 0..3 {
        let (b, others) = compiled(&arguments).unwrap();
        assert_eq!(bits(&a), bits(&b));
        for (x, y) in more.iter().zip(&others) {
            assert_eq!(bits(x), bits(y));
        }
    }
}

#[test]
fn a_function_is_traced_once_for_every_kind_of_argument() {
    setup();
    let _on = SWITCH.lock();
    let runs = Cell::new(0);
    let f = |x: &Vec<Array>| {
        runs.set(runs.get() + 1);
        x.iter().skip(1).try_fold(x[0].clone(), |a, b| a.add(b))
    };
    let compiled = compile(f);
    let one = floats(&[1.0, 2.0]);
    let expect = |x: Vec<Array>, total: usize, value: &[f64]| {
        assert_eq!(values(&compiled(&x).unwrap()), value);
        assert_eq!(runs.get(), total);
    };
    expect(vec![one.clone(), one.clone()], 1, &[2.0, 4.0]);
    expect(vec![floats(&[5.0, 6.0]), one.clone()], 1, &[6.0, 8.0]);
    expect(vec![one.clone(); 3], 2, &[3.0, 6.0]);
    expect(vec![floats(&[1.0]), floats(&[2.0])], 3, &[3.0]);
    expect(vec![one.astype(Dtype::F16).unwrap(), one.clone()], 4, &[2.0, 4.0]);
    expect(vec![one.clone(), one.clone()], 4, &[2.0, 4.0]);
}

#[test]
fn the_oldest_trace_goes_first_and_one_stays_without_shapes() {
    setup();
    let _on = SWITCH.lock();
    let runs = Cell::new(0);
    let f = |x: &Array| {
        runs.set(runs.get() + 1);
        x.mean(&[], false)
    };
    let small = compile_with(Compile { capacity: 2, ..Compile::default() }, f);
    for n in [1, 2, 1, 3, 1, 2] {
        small(&noise(&[n], 0)).unwrap();
    }
    assert_eq!(runs.get(), 4);
    let shapeless = compile_with(Compile { shapeless: true, ..Compile::default() }, f);
    for n in 1..20usize {
        let x = Array::arange(0.0, n as f64, 1.0, Dtype::F32).unwrap();
        assert_eq!(values(&shapeless(&x).unwrap()), [(n - 1) as f64 / 2.0]);
    }
}

#[test]
fn states_are_arguments_and_results() {
    setup();
    let _on = SWITCH.lock();
    let f = |s: &mut (Array, Vec<Array>), x: &Array| {
        s.0 = s.0.add(x)?;
        s.1.push(s.0.square()?);
        if s.1.len() > 2 {
            s.1.remove(0);
        }
        s.0.sum(&[], false)
    };
    let step = compile_step(f);
    let (mut a, mut b) = ((floats(&[0.0, 1.0]), vec![]), (floats(&[0.0, 1.0]), vec![]));
    for i in 0..6 {
        let x = floats(&[i as f32, 0.5]);
        assert_eq!(values(&f(&mut a, &x).unwrap()), values(&step(&mut b, &x).unwrap()));
    }
    assert_eq!(values(&a.0), values(&b.0));
    assert_eq!(a.1.len(), b.1.len());
    assert_eq!(values(&a.1[1]), values(&b.1[1]));
}

#[test]
fn draws_from_the_default_key_go_on_as_without_compilation() {
    setup();
    let _on = SWITCH.lock();
    // In a thread of its own key: other tests draw too.
    let draw = |x: &Array| random::uniform(0.0, 1.0, x.shape(), Dtype::F32, None)?.add(x);
    let x = floats(&[0.0; 4]);
    let f = |x: &Array| draw(x);
    let outer = compile(|x: &Array| {
        let a = f(x)?;
        let b = compile(f)(x)?;
        Ok((a, b))
    });
    let (a, b) = outer(&x).unwrap();
    let (c, d) = outer(&x).unwrap();
    let all = [values(&a), values(&b), values(&c), values(&d)];
    for i in 0..4 {
        for j in 0..i {
            assert_ne!(all[i], all[j], "draws {j} and {i}");
        }
    }
    // A failing function leaves the key alone.
    let failing = compile(|x: &Array| {
        draw(x)?;
        x.reshape(&[3])
    });
    assert!(failing(&x).is_err());
    assert!(random::next_key().unwrap().awaits().is_none());
}

#[test]
fn compiled_functions_compose_with_the_other_transforms() {
    setup();
    let _on = SWITCH.lock();
    let f = |x: &Array| gelu(x)?.multiply(&softmax_by_hand(x)?)?.sum(&[], false);
    let x = noise(&[6], 3);
    let plain = grad(f)(&x).unwrap();
    for (what, g) in [
        ("grad of compile", grad(compile(f))(&x).unwrap()),
        ("compile of grad", compile(grad(f))(&x).unwrap()),
        ("compile of grad of compile", compile(grad(compile(f)))(&x).unwrap()),
    ] {
        assert_close(what, &g, &plain, 1e-6);
    }
    let rows = noise(&[3, 6], 4);
    let expected = vmap(grad(f), 0, 0)(&rows).unwrap();
    for (what, g) in [
        ("vmap of grad of compile", vmap(grad(compile(f)), 0, 0)(&rows).unwrap()),
        ("compile of vmap of grad", compile(vmap(grad(f), 0, 0))(&rows).unwrap()),
        ("vmap of compile of grad", vmap(compile(grad(f)), 0, 0)(&rows).unwrap()),
    ] {
        assert_close(what, &g, &expected, 1e-6);
    }
    let t = noise(&[6], 5);
    let (y, dy) = jvp(f, &x, &t).unwrap();
    let (z, dz) = jvp(compile(f), &x, &t).unwrap();
    assert_close("value", &z, &y, 1e-6);
    assert_close("jvp of compile", &dz, &dy, 1e-5);
    let both = compile(value_and_grad(f));
    assert_close("value and gradient", &both(&x).unwrap().1, &plain, 1e-6);
}

#[test]
fn arrays_of_an_outer_function_are_not_kept() {
    setup();
    let _on = SWITCH.lock();
    let x = floats(&[1.0, 2.0]);
    let y = floats(&[3.0, 5.0]);
    // The inner function captures an argument of the outer one, another in every call.
    let inner = |c: &Array, x: &Array| {
        let c = c.clone();
        compile(move |x: &Array| x.multiply(&c))(x)
    };
    let g = grad(|c: &Array| inner(c, &y)?.sum(&[], false));
    assert_eq!(values(&g(&x).unwrap()), [3.0, 5.0]);
    assert_eq!(values(&g(&y).unwrap()), [3.0, 5.0]);
    let holder = Mutex::new(x.clone());
    let compiled = compile(|x: &Array| x.multiply(&holder.lock().unwrap_or_else(|e| e.into_inner())));
    let product = vmap(
        |c: &Array| {
            *holder.lock().unwrap_or_else(|e| e.into_inner()) = c.clone();
            compiled(&y.slice_axis(0, 0, 1)?.squeeze(&[0])?)
        },
        0,
        0,
    );
    assert_eq!(values(&product(&x).unwrap()), [3.0, 6.0]);
    assert_eq!(values(&product(&y).unwrap()), [9.0, 15.0]);
}

#[test]
fn reading_a_value_is_an_error_that_names_compile() {
    setup();
    let _on = SWITCH.lock();
    let e = compile(|x: &Array| Array::from_slice(&x.to_vec::<f32>()?, &[1]))(&floats(&[1.0])).unwrap_err();
    assert!(matches!(e, Error::InTrace { transform: "compile", .. }), "{e}");
    let leak = Mutex::new(None);
    let f = compile(|x: &Array| {
        *leak.lock().unwrap_or_else(|e| e.into_inner()) = Some(x.exp()?);
        Ok(x.clone())
    });
    f(&floats(&[1.0])).unwrap();
    let leaked = leak.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap();
    assert!(matches!(leaked.eval(), Err(Error::InTrace { transform: "compile", .. })));
}

#[test]
fn switched_off_it_runs_the_function() {
    setup();
    let _off = SWITCH.lock();
    let runs = Cell::new(0);
    let f = compile(|x: &Array| {
        runs.set(runs.get() + 1);
        x.square()
    });
    let x = floats(&[2.0]);
    set_compile(false);
    for _ in 0..3 {
        assert_eq!(values(&f(&x).unwrap()), [4.0]);
    }
    set_compile(true);
    assert_eq!(runs.get(), 3);
    f(&x).unwrap();
    f(&x).unwrap();
    assert_eq!(runs.get(), 4);
}

#[test]
fn flat_functions_keep_what_the_caller_needs() {
    setup();
    let _on = SWITCH.lock();
    let f = Compiled::<&'static str>::new(Compile::default());
    let x = [floats(&[1.0]), floats(&[2.0])];
    let (like, y) = f.call(&x, b"first", |x| Ok(("sum", vec![x[0].add(&x[1])?]))).unwrap();
    assert_eq!((like, values(&y[0])), ("sum", vec![3.0]));
    let (like, y) = f.call(&x, b"first", |_| Err(Error::value("test", "traced again"))).unwrap();
    assert_eq!((like, values(&y[0])), ("sum", vec![3.0]));
    let (like, y) = f.call(&x, b"second", |x| Ok(("product", vec![x[0].multiply(&x[1])?]))).unwrap();
    assert_eq!((like, values(&y[0]), f.len()), ("product", vec![2.0], 2));
    f.clear();
    assert!(f.is_empty());
}

#[test]
fn long_chains_and_ladders_compile_in_a_small_stack() {
    setup();
    let _on = SWITCH.lock();
    let work = || {
        let chain = compile(|x: &Array| (0..100_000).try_fold(x.clone(), |a, _| a.add(&a.scalar_like(1.0))));
        assert_eq!(values(&chain(&floats(&[0.5])).unwrap()), [100_000.5]);
        let ladder = compile(|x: &Array| {
            (0..20_000).try_fold(x.clone(), |a, _| {
                let parts = a.split_sizes(&[1, 1], 0)?;
                olivine_core::ops::concatenate(&[parts[1].clone(), parts[0].clone()], 0)
            })
        });
        assert_eq!(values(&ladder(&floats(&[1.0, 2.0])).unwrap()), [1.0, 2.0]);
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}
