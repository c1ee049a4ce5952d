//! Functions that go through a file, and graphs in print.

use super::setup;
use olivine_core::transforms::{checkpoint, compile, custom_function, grad, vmap};
use olivine_core::{
    Array, Dtype, Error, Export, Exporter, ImportedFunction, Result, export_function, graph_dot, graph_text,
    import_function, random,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

const SHAPELESS: Export = Export { shapeless: true };

fn noise(shape: &[usize], seed: u64) -> Array {
    random::uniform(-1.0, 1.0, shape, Dtype::F32, Some(&random::key(seed).unwrap())).unwrap()
}

fn bits(a: &Array) -> Vec<u32> {
    a.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

/// A folder that goes with the value.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> TempFolder {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("olivine-exported-{}-{n}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        TempFolder(path)
    }
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Exports `f` and reads the file again.
fn through_file(
    how: Export,
    example: &[Array],
    f: impl Fn(&[Array]) -> Result<Vec<Array>>,
) -> Result<ImportedFunction> {
    let folder = TempFolder::new();
    let path = folder.path().join("f.safetensors");
    let mut exporter = Exporter::new(how);
    exporter.trace(example, &[], f)?;
    exporter.save(&path)?;
    import_function(&path)
}

#[track_caller]
fn agrees(g: &ImportedFunction, f: &dyn Fn(&[Array]) -> Result<Vec<Array>>, inputs: &[Array]) {
    let (a, b) = (f(inputs).unwrap(), g.call(inputs).unwrap());
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        assert_eq!(a.shape(), b.shape());
        assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap());
    }
}

#[test]
fn a_function_goes_through_a_file() {
    setup();
    let w = noise(&[5, 4], 1);
    let b = noise(&[4], 2).multiply(&noise(&[4], 3)).unwrap();
    let f = |x: &[Array]| {
        let h = x[0].matmul(&w)?.add(&b)?;
        let p = h.softmax(-1)?;
        Ok(vec![p.log()?.mean(&[], false)?, p, h.argmax(-1, false)?])
    };
    let g = through_file(Export::default(), &[noise(&[3, 5], 4)], f).unwrap();
    agrees(&g, &f, &[noise(&[3, 5], 7)]);
    let e = g.call(&[noise(&[2, 5], 7)]).unwrap_err().to_string();
    assert!(e.contains("[2, 5]") || e.contains("(2, 5)"), "{e}");
    assert!(e.contains("[3, 5] of float32"), "{e}");
}

#[test]
fn sizes_that_a_function_does_not_depend_on_are_free() {
    setup();
    let w = noise(&[6, 8], 1);
    type F<'a> = Box<dyn Fn(&[Array]) -> Result<Vec<Array>> + 'a>;
    let functions: Vec<(&str, F<'_>)> = vec![
        ("reshape", Box::new(|x| Ok(vec![x[0].reshape(&[x[0].size()])?]))),
        ("flatten some", {
            Box::new(|x| {
                let s = x[0].shape();
                Ok(vec![x[0].reshape(&[s[0] * s[1], s[2]])?.matmul(&w)?])
            })
        }),
        ("heads", {
            Box::new(|x| {
                let s = x[0].shape().clone();
                let h = x[0].reshape(&[s[0], s[1], 2, 3])?.transpose(&[0, 2, 1, 3])?;
                let p = h.matmul(&h.transpose(&[0, 1, 3, 2])?)?.softmax(-1)?;
                Ok(vec![p.matmul(&h)?.transpose(&[0, 2, 1, 3])?.reshape(&[s[0], s[1], 6])?])
            })
        }),
        ("last", Box::new(|x| Ok(vec![x[0].slice_axis(1, x[0].shape()[1] - 1, x[0].shape()[1])?]))),
        ("mean and var", Box::new(|x| Ok(vec![x[0].mean(&[1], true)?, x[0].var(&[], false, 1)?]))),
        ("positions", {
            Box::new(|x| {
                let n = x[0].shape()[1];
                let at = Array::arange(0.0, n as f64, 1.0, Dtype::F32)?;
                Ok(vec![x[0].sum(&[2], false)?.multiply(&at)?])
            })
        }),
        (
            "ones",
            Box::new(|x| {
                Ok(vec![Array::ones(&x[0].shape()[..2], Dtype::F32)?.add(&x[0].max(&[2], false)?)?])
            }),
        ),
        ("one over root", Box::new(|x| Ok(vec![x[0].scale(1.0 / (x[0].shape()[1] as f64).sqrt())?]))),
        ("derivative", Box::new(|x| grad(|v: &Array| v.square()?.mean(&[], false))(&x[0]).map(|g| vec![g]))),
        ("compiled inside", {
            Box::new(|x| compile(|v: &Array| v.exp()?.add(&v.sin()?))(&x[0]).map(|y| vec![y]))
        }),
        ("batched", Box::new(|x| vmap(|v: &Array| v.cumsum(0, false, true), 0, 0)(&x[0]).map(|y| vec![y]))),
        ("halves", {
            Box::new(|x| {
                let n = x[0].shape()[0];
                let a = x[0].slice_axis(0, 0, n / 2)?;
                Ok(vec![a.multiply(&x[0].slice_axis(0, n / 2, n / 2 * 2)?)?])
            })
        }),
        ("noise", {
            Box::new(|x| {
                let k = random::key(5)?;
                x[0].add(&random::normal(x[0].shape(), Dtype::F32, 0.0, 1.0, Some(&k))?).map(|y| vec![y])
            })
        }),
    ];
    for (name, f) in functions {
        let g =
            through_file(SHAPELESS, &[noise(&[4, 5, 6], 1)], &f).unwrap_or_else(|e| panic!("{name}: {e}"));
        for shape in [[4, 5, 6], [2, 9, 6], [6, 1, 6], [10, 33, 6]] {
            let x = [noise(&shape, 3)];
            if let Err(e) = g.call(&x) {
                panic!("{name} at {shape:?}: {e}");
            }
            agrees(&g, &f, &x);
        }
    }
}

#[test]
fn sizes_of_several_arguments_move_together_where_they_must() {
    setup();
    let f = |x: &[Array]| x[0].matmul(&x[1])?.add(&x[2]).map(|y| vec![y]);
    let g = through_file(SHAPELESS, &[noise(&[3, 4], 1), noise(&[4, 5], 2), noise(&[5], 3)], f).unwrap();
    agrees(&g, &f, &[noise(&[7, 2], 1), noise(&[2, 9], 2), noise(&[9], 3)]);
    assert!(g.call(&[noise(&[7, 2], 1), noise(&[3, 9], 2), noise(&[9], 3)]).is_err());
    assert_eq!(g.signatures().len(), 1);
}

#[test]
fn a_branch_on_a_size_stays_where_the_example_was() {
    setup();
    // A function that takes even sizes only is free at even ones.
    let f = |x: &[Array]| x[0].reshape(&[x[0].size() / 2, 2]).map(|y| vec![y]);
    let g = through_file(SHAPELESS, &[noise(&[4], 1)], f).unwrap();
    agrees(&g, &f, &[noise(&[10], 3)]);
    let e = g.call(&[noise(&[5], 1)]).unwrap_err().to_string();
    assert!(e.contains("multiples of 2"), "{e}");
    // What depends on parity is the same at no other size: it is fixed, and another size is refused.
    let f = |x: &[Array]| {
        let n = x[0].size();
        Ok(vec![if n.is_multiple_of(2) { x[0].scale(n as f64)? } else { x[0].sum(&[], false)? }])
    };
    let g = through_file(SHAPELESS, &[noise(&[4], 1)], f).unwrap();
    agrees(&g, &f, &[noise(&[4], 3)]);
    assert!(g.call(&[noise(&[5], 1)]).is_err());
    // A size that is no sum, product or power of the argument's cannot be written down.
    let f = |x: &[Array]| x[0].scale((x[0].size() as f64).ln()).map(|y| vec![y]);
    let e = through_file(SHAPELESS, &[noise(&[4], 1)], f).unwrap_err().to_string();
    assert!(e.contains("export_function") && e.contains("fixed sizes"), "{e}");
}

#[test]
fn several_traces_and_names_share_a_file() {
    setup();
    let folder = TempFolder::new();
    let path = folder.path().join("f.safetensors");
    let w = noise(&[3], 9);
    let f = |x: &[Array]| x[0].multiply(&w)?.add(&x[1]).map(|y| vec![y]);
    let mut exporter = Exporter::new(Export::default());
    exporter.trace(&[noise(&[3], 1), noise(&[3], 2)], &["bias"], f).unwrap();
    exporter.trace(&[noise(&[2, 3], 1), noise(&[3], 2)], &["bias"], f).unwrap();
    exporter.save(&path).unwrap();
    let g = import_function(&path).unwrap();
    for shape in [&[3][..], &[2, 3]] {
        let (x, b) = (noise(shape, 4), noise(&[3], 5));
        let named = BTreeMap::from([("bias".to_string(), b.clone())]);
        let y = g.call_named(std::slice::from_ref(&x), &named).unwrap();
        assert_eq!(bits(&y[0]), bits(&f(&[x.clone(), b.clone()]).unwrap()[0]));
        assert!(g.call(&[x, b]).is_err());
    }
}

#[test]
fn derivatives_pass_through_an_imported_function() {
    setup();
    let f = |x: &Array| x.sin()?.multiply(x)?.sum(&[], false);
    let folder = TempFolder::new();
    let path = folder.path().join("f.safetensors");
    export_function(&path, SHAPELESS, &noise(&[4], 1), f).unwrap();
    let g = import_function(&path).unwrap();
    let x = noise(&[6], 2);
    let a = grad(f)(&x).unwrap();
    let b = grad(|x: &Array| Ok(g.call(std::slice::from_ref(x))?.remove(0)))(&x).unwrap();
    assert_eq!(bits(&a), bits(&b));
}

#[test]
fn custom_functions_are_stored_as_what_they_do() {
    setup();
    let f = |x: &[Array]| {
        let twice = custom_function(|x: &Array| x.scale(2.0)).vjp(|_, c: &Array, _| c.scale(7.0));
        let y = checkpoint(|x: &Array| x.exp())(&twice.call(&x[0])?)?;
        Ok(vec![y])
    };
    let g = through_file(SHAPELESS, &[noise(&[4], 1)], f).unwrap();
    agrees(&g, &f, &[noise(&[9], 2)]);
}

#[test]
fn draws_of_an_imported_function_go_on() {
    setup();
    let g = through_file(Export::default(), &[noise(&[4], 1)], |x| {
        x[0].add(&random::uniform(0.0, 1.0, &[4], Dtype::F32, None)?).map(|y| vec![y])
    })
    .unwrap();
    let x = noise(&[4], 1);
    let a = bits(&g.call(std::slice::from_ref(&x)).unwrap()[0]);
    let b = bits(&g.call(std::slice::from_ref(&x)).unwrap()[0]);
    assert_ne!(a, b);
}

#[test]
fn what_is_no_function_is_refused() {
    setup();
    let folder = TempFolder::new();
    let path = folder.path().join("f.safetensors");
    assert!(matches!(Exporter::new(SHAPELESS).save(&path), Err(Error::Value { .. })));
    assert!(matches!(import_function(&path), Err(Error::Io { .. })));
    let program = |json: &str| {
        let a = Array::from_slice(json.as_bytes(), &[json.len()]).unwrap();
        let tensors = BTreeMap::from([("program".to_string(), a)]);
        olivine_core::io::save_safetensors(&path, &tensors, &BTreeMap::new()).unwrap();
        import_function(&path)
    };
    let e = program("{\"version\": 2, \"traces\": 5}").unwrap_err().to_string();
    assert!(e.contains("version 2"), "{e}");
    assert!(program("{\"version\": 1, \"traces\": 5}").is_err());
    let trace = |steps: &str, outputs: &str| {
        program(&format!(
            "{{\"version\":1,\"traces\":[{{\"inputs\":[{{\"dtype\":\"float32\",\"shape\":[{{\"Fixed\":4}}]}}],\
             \"sizes\":[],\"constants\":[],\"steps\":[{steps}],\"outputs\":[{outputs}],\"draws\":false}}]}}"
        ))
        .and_then(|g| g.call(&[noise(&[4], 1)]))
    };
    assert!(trace("{\"op\":{\"Unary\":\"Exp\"},\"takes\":[\"i0\"]}", "\"0\"").is_ok());
    for (steps, outputs) in [
        ("{\"op\":{\"Unary\":\"Exp\"},\"takes\":[\"i1\"]}", "\"0\""),
        ("{\"op\":{\"Unary\":\"Exp\"},\"takes\":[\"0\"]}", "\"0\""),
        ("{\"op\":{\"Unary\":\"Exp\"},\"takes\":[\"c0\"]}", "\"0\""),
        ("{\"op\":{\"Unary\":\"Exp\"},\"takes\":[]}", "\"0\""),
        ("{\"op\":{\"Unary\":\"Exp\"},\"takes\":[\"i0\"]}", "\"0.1\""),
        ("{\"op\":{\"View\":{\"Reshape\":[5]}},\"takes\":[\"i0\"]}", "\"0\""),
        ("{\"op\":{\"View\":{\"Transpose\":[3]}},\"takes\":[\"i0\"]}", "\"0\""),
        ("{\"takes\":[\"i0\"]}", "\"0\""),
        ("{\"op\":\"Leaf\",\"takes\":[]}", "\"0\""),
    ] {
        assert!(trace(steps, outputs).is_err(), "{steps} {outputs}");
    }
}

#[test]
fn graphs_can_be_read() {
    setup();
    let x = Array::from_slice(&[1f32, 2.0, 3.0, 4.0], &[2, 2]).unwrap();
    let y = x.reshape(&[4]).unwrap().exp().unwrap().sum(&[0], true).unwrap();
    let text = graph_text(&[y.clone(), x.clone()]);
    assert_eq!(
        text,
        "%0: float32(2, 2) = array\n\
         v0: float32(4,) = reshape(%0) [4]\n\
         v1: float32(4,) = exp(v0)\n\
         v2: float32(1,) = sum(v1) {axes:1,keepdims:true,kind:Sum}\n\
         return v2, %0\n"
    );
    let dot = graph_dot(&[("y \"quoted\"", y.clone())]);
    assert!(
        dot.starts_with("digraph") && dot.contains("a0 -> s0;") && dot.contains("\\\"quoted\\\""),
        "{dot}"
    );
    let fused = compile(|x: &Array| x.exp()?.add(&x.sin()?))(&x).unwrap();
    let text = graph_text(std::slice::from_ref(&fused));
    assert!(text.contains("t0 = exp(x0); t1 = sin(x0); t2 = add(t0, t1); t2"), "{text}");
    y.eval().unwrap();
    assert_eq!(graph_text(std::slice::from_ref(&y)), "%0: float32(1,) = sum\nreturn %0\n");
}

#[test]
fn long_chains_and_ladders_are_exported_and_printed_in_a_small_stack() {
    setup();
    let work = || {
        let chain = |x: &[Array]| Ok(vec![(0..100_000).try_fold(x[0].clone(), |a, _| a.add(&x[0]))?]);
        let ladder = |x: &[Array]| {
            let y = (0..20_000).try_fold(x[0].clone(), |a, _| {
                let parts = a.split(2, 0)?;
                olivine_core::ops::concatenate(&[parts[1].clone(), parts[0].clone()], 0)
            });
            Ok(vec![y?])
        };
        let x = noise(&[2], 1);
        for f in [&chain as &dyn Fn(&[Array]) -> Result<Vec<Array>>, &ladder] {
            let g = through_file(Export::default(), std::slice::from_ref(&x), f).unwrap();
            agrees(&g, f, std::slice::from_ref(&x));
            let y = f(std::slice::from_ref(&x)).unwrap();
            assert!(graph_text(&y).lines().count() > 20_000);
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
}
