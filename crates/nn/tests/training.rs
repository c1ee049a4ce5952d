//! What training relies on: which parameters have gradients, state through compiled steps, half precision, files.

use olivine_core::transforms::{Tree, compile_step, grad, vmap_arrays};
use olivine_core::{Array, Dtype, Error, Result, eval, io, random};
use olivine_nn::init::Init;
use olivine_nn::losses::{Reduction, mse_loss};
use olivine_nn::optim::*;
use olivine_nn::visitors::*;
use olivine_nn::*;
use std::cell::Cell;
use std::collections::BTreeMap;

#[derive(Clone, Module)]
struct Net {
    l1: Linear,
    norm: BatchNorm,
    drop: Dropout,
    l2: Linear,
    slope: f64,
}

impl Net {
    fn new() -> Net {
        olivine_cpu::register();
        random::seed(3).unwrap();
        Net {
            l1: Linear::new(4, 8, true).unwrap(),
            norm: BatchNorm::new(8, 1e-5, 0.1).unwrap(),
            drop: Dropout::new(0.2).unwrap(),
            l2: Linear::new(8, 2, true).unwrap(),
            slope: 0.1,
        }
    }

    fn forward(&mut self, x: &Array) -> Result<Array> {
        let hidden = self.norm.forward(&self.l1.forward(x)?)?;
        self.l2.forward(&self.drop.forward(&activations::leaky_relu(&hidden, self.slope)?)?)
    }
}

fn batch(seed: u64) -> (Array, Array) {
    let key = random::key(seed).unwrap();
    let x = random::normal(&[16, 4], Dtype::F32, 0.0, 1.0, Some(&key)).unwrap();
    let y = x.slice_axis(1, 0, 2).unwrap().square().unwrap();
    (x, y)
}

fn step(state: &mut (Net, Optimizer), (x, y): &(Array, Array)) -> Result<Array> {
    let (model, optimizer) = state;
    let (loss, gradients) = value_and_grad(model, |m| mse_loss(&m.forward(x)?, y, Reduction::Mean))?;
    optimizer.update(model, &gradients)?;
    Ok(loss)
}

fn values(tree: &impl Tree) -> Vec<Vec<f32>> {
    let mut all = Vec::new();
    tree.visit(&mut |a| all.push(a.astype(Dtype::F32).unwrap().to_vec().unwrap()));
    all
}

#[test]
fn compiled_steps_do_what_plain_ones_do() {
    let optimizer =
        || Optimizer::new(AdamW::default(), Schedule::Linear { init: 0.0, end: 1e-2, steps: 5 }).unwrap();
    let mut plain = (Net::new(), optimizer());
    let mut losses = Vec::new();
    for i in 0..30 {
        losses.push(step(&mut plain, &batch(i % 3)).unwrap().item::<f32>().unwrap());
    }
    let mut compiled = (Net::new(), optimizer());
    let traces = Cell::new(0);
    let run = compile_step(|state: &mut (Net, Optimizer), xy: &(Array, Array)| {
        traces.set(traces.get() + 1);
        step(state, xy)
    });
    for (i, wanted) in losses.iter().enumerate() {
        let loss = run(&mut compiled, &batch(i as u64 % 3)).unwrap().item::<f32>().unwrap();
        assert!((loss - wanted).abs() <= 1e-6 * wanted.abs(), "step {i}: {loss}, not {wanted}");
    }
    assert!(losses[27] < 0.7 * losses[0], "{losses:?}");
    // One trace without slots and one with them.
    assert_eq!(traces.get(), 2);
    for (a, b) in values(&plain).into_iter().flatten().zip(values(&compiled).into_iter().flatten()) {
        assert!((a - b).abs() <= 1e-5 * (1.0 + a.abs()), "{a} and {b}");
    }
    // A setting of the model, its mode and a frozen parameter each make another trace; another rate would not.
    compiled.0.slope = 0.2;
    run(&mut compiled, &batch(0)).unwrap();
    set_training(&mut compiled.0, false).unwrap();
    run(&mut compiled, &batch(0)).unwrap();
    freeze(&mut compiled.0, |name| name == "l1.bias").unwrap();
    let before = compiled.0.l1.bias.as_ref().unwrap().to_vec::<f32>().unwrap();
    run(&mut compiled, &batch(0)).unwrap();
    assert_eq!(compiled.0.l1.bias.as_ref().unwrap().to_vec::<f32>().unwrap(), before);
    assert_eq!(traces.get(), 5);
    run(&mut compiled, &batch(1)).unwrap();
    assert_eq!(traces.get(), 5);
}

#[test]
fn a_constant_rate_changes_without_another_trace() {
    let mut state = (Net::new(), Optimizer::new(Sgd::default(), 0.0).unwrap());
    state.1.init(&mut state.0).unwrap();
    let traces = Cell::new(0);
    let run = compile_step(|state: &mut (Net, Optimizer), xy: &(Array, Array)| {
        traces.set(traces.get() + 1);
        step(state, xy)
    });
    let weight = |s: &(Net, Optimizer)| match &s.0.l1.weight {
        Weight::Dense(w) => w.to_vec::<f32>().unwrap(),
        Weight::Packed(_) => panic!("the weight is dense"),
    };
    let first = weight(&state);
    run(&mut state, &batch(0)).unwrap();
    assert_eq!(weight(&state), first);
    state.1.set_learning_rate(0.1).unwrap();
    run(&mut state, &batch(0)).unwrap();
    assert_ne!(weight(&state), first);
    assert_eq!(traces.get(), 1);
    assert!(matches!(
        Optimizer::new(Sgd::default(), Schedule::Exponential { init: 1.0, decay: 0.5 })
            .unwrap()
            .set_learning_rate(1.0),
        Err(Error::Value { .. })
    ));
}

#[test]
fn gradients_are_of_what_is_trained() {
    let mut net = Net::new();
    let (x, y) = batch(0);
    let names = |g: &Gradients| g.keys().cloned().collect::<Vec<_>>();
    let gradients =
        |net: &mut Net| value_and_grad(net, |m| mse_loss(&m.forward(&x)?, &y, Reduction::Mean)).unwrap().1;
    let all = ["l1.bias", "l1.weight", "l2.bias", "l2.weight", "norm.bias", "norm.weight"];
    assert_eq!(names(&gradients(&mut net)), all);
    freeze(&mut net, |name| name.starts_with("l1")).unwrap();
    assert_eq!(names(&gradients(&mut net)), all[2..]);
    unfreeze(&mut net, |_| true).unwrap();
    assert_eq!(names(&gradients(&mut net)), all);
    freeze(&mut net, |_| true).unwrap();
    let e = value_and_grad(&mut net, |m| m.forward(&x)?.sum(&[], false)).unwrap_err();
    assert!(matches!(e, Error::Dtype { .. }), "{e}");
}

#[test]
fn packed_weights_let_gradients_through_and_have_none() {
    olivine_cpu::register();
    let mut layers = vec![Linear::new(8, 32, true).unwrap(), Linear::new(32, 2, true).unwrap()];
    let spec = olivine_core::op::Affine { group: 32, bits: 8 };
    quantize(&mut layers, spec, |path| path == "1").unwrap();
    let x = Array::ones(&[3, 8], Dtype::F32).unwrap();
    let forward = |l: &mut Vec<Linear>| l[1].forward(&l[0].forward(&x)?)?.sum(&[], false);
    let (_, gradients) = value_and_grad(&mut layers, forward).unwrap();
    assert_eq!(gradients.keys().collect::<Vec<_>>(), ["0.bias", "0.weight", "1.bias"]);
    let slopes = gradients["0.bias"].to_vec::<f32>().unwrap();
    let dense = layers[1].weight.rows(&Array::arange_i32(2).unwrap(), Dtype::F32).unwrap();
    let wanted = dense.sum(&[0], false).unwrap().scale(3.0).unwrap().to_vec::<f32>().unwrap();
    for (a, b) in slopes.iter().zip(&wanted) {
        assert!((a - b).abs() < 1e-4, "{a} and {b}");
    }
}

#[test]
fn running_statistics_come_back_from_the_copy_that_is_differentiated() {
    let mut net = Net::new();
    let (x, y) = batch(1);
    let hidden = net.l1.forward(&x).unwrap();
    value_and_grad(&mut net, |m| mse_loss(&m.forward(&x)?, &y, Reduction::Mean)).unwrap();
    let mean = net.norm.running_mean.as_ref().unwrap().to_vec::<f32>().unwrap();
    let wanted = hidden.mean(&[0], false).unwrap().scale(0.1).unwrap().to_vec::<f32>().unwrap();
    for (a, b) in mean.iter().zip(&wanted) {
        assert!((a - b).abs() < 1e-6, "{a} and {b}");
    }
}

#[test]
fn half_precision_survives_gradients_of_zero() {
    olivine_cpu::register();
    let rules: Vec<(&str, Optimizer)> = vec![
        ("sgd", Optimizer::new(Sgd { momentum: 0.9, ..Sgd::default() }, 0.1).unwrap()),
        ("rmsprop", Optimizer::new(RmsProp::default(), 0.1).unwrap()),
        ("adagrad", Optimizer::new(Adagrad::default(), 0.1).unwrap()),
        ("adadelta", Optimizer::new(AdaDelta::default(), 0.1).unwrap()),
        ("adam", Optimizer::new(Adam::default(), 0.1).unwrap()),
        ("adam corrected", Optimizer::new(Adam { bias_correction: true, ..Adam::default() }, 0.1).unwrap()),
        ("adamw", Optimizer::new(AdamW::default(), 0.1).unwrap()),
        ("adamax", Optimizer::new(Adamax::default(), 0.1).unwrap()),
        ("lion", Optimizer::new(Lion::default(), 0.1).unwrap()),
        ("adafactor", Optimizer::without_rate(Adafactor::default()).unwrap()),
        ("muon", Optimizer::new(Muon::default(), 0.1).unwrap()),
    ];
    for dtype in [Dtype::F16, Dtype::BF16] {
        for (name, mut optimizer) in rules.clone() {
            let mut p: Gradients = [("w", vec![3, 2]), ("b", vec![4])]
                .into_iter()
                .map(|(n, shape)| (n.to_owned(), Array::ones(&shape, dtype).unwrap()))
                .collect();
            let zeros: Gradients =
                p.iter().map(|(n, a)| (n.clone(), Array::zeros(a.shape(), dtype).unwrap())).collect();
            for _ in 0..3 {
                p = optimizer.apply(&zeros, &p).unwrap();
            }
            for (n, a) in &p {
                assert_eq!(a.dtype(), dtype, "{name} {n}");
                let v: Vec<f32> = a.astype(Dtype::F32).unwrap().to_vec().unwrap();
                assert!(v.iter().all(|x| (0.5..=1.0).contains(x)), "{name} {dtype} {n}: {v:?}");
            }
        }
    }
}

#[test]
fn training_goes_on_from_files() {
    let folder = std::env::temp_dir().join(format!("olivine-training-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (weights, state) = (folder.join("weights.safetensors"), folder.join("state.safetensors"));
    let optimizer = || {
        let sgd = Optimizer::new(Sgd { momentum: 0.9, ..Sgd::default() }, 0.01).unwrap();
        MultiOptimizer::new(Optimizer::new(Adam { bias_correction: true, ..Adam::default() }, 0.01).unwrap())
            .with(sgd, |name, _| name.ends_with("bias"))
    };
    let go = |net: &mut Net, optimizer: &mut MultiOptimizer, steps: std::ops::Range<u64>| {
        for i in steps {
            random::seed(i).unwrap();
            let (x, y) = batch(i);
            let f = |m: &mut Net| mse_loss(&m.forward(&x)?, &y, Reduction::Mean);
            let (_, gradients) = value_and_grad(net, f).unwrap();
            optimizer.update(net, &gradients).unwrap();
        }
    };
    let (mut net, mut first) = (Net::new(), optimizer());
    go(&mut net, &mut first, 0..4);
    save_file(&mut net, &weights).unwrap();
    io::save_safetensors(&state, &first.state(), &BTreeMap::new()).unwrap();
    go(&mut net, &mut first, 4..8);

    let (mut again, mut second) = (Net::new(), optimizer());
    load_file(&mut again, &weights).unwrap();
    let saved = io::load_safetensors(&state).unwrap().tensors;
    second.load_state(saved.clone(), &mut again).unwrap();
    go(&mut again, &mut second, 4..8);
    assert_eq!(values(&net), values(&again));
    assert_eq!(values(&first), values(&second));

    let mut lacking = saved.clone();
    lacking.remove("states.1.l1.weight.m").unwrap();
    let e = second.load_state(lacking, &mut again).unwrap_err();
    assert!(e.to_string().contains("l1.weight.m"), "{e}");
    let mut more = saved;
    more.insert("states.0.l9.bias.v".into(), Array::from_scalar(1.0f32));
    let e = second.load_state(more, &mut again).unwrap_err();
    assert!(e.to_string().contains("l9.bias.v"), "{e}");
    assert_eq!(values(&first), values(&second));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn modules_are_trees_for_every_transform() {
    olivine_cpu::register();
    random::seed(5).unwrap();
    let layer = Linear::new(3, 1, true).unwrap();
    let x = random::normal(&[6, 3], Dtype::F32, 0.0, 1.0, None).unwrap();
    let slopes = grad(|(l, x): &(Linear, Array)| l.forward(x)?.square()?.sum(&[], false));
    let (whole, _) = slopes(&(layer.clone(), x.clone())).unwrap();
    // Gradients of single examples, and their sum: the layer is the same for all of them.
    let mut arrays = Vec::new();
    layer.visit(&mut |a| arrays.push(a.clone()));
    arrays.push(x.expand_dims(&[1]).unwrap());
    let each = vmap_arrays(
        |a| {
            let mut next = a.iter().cloned();
            let model = layer.map(&mut |_| Ok(next.next().expect("one for each")))?;
            let (gradients, _) = slopes(&(model, a[2].clone()))?;
            let mut out = Vec::new();
            gradients.visit(&mut |a| out.push(a.clone()));
            Ok(out)
        },
        &arrays,
        &[None, None, Some(0)],
        |n| Ok(vec![Some(0); n]),
    )
    .unwrap();
    eval(&each).unwrap();
    for (sum, want) in each.iter().map(|g| g.sum(&[0], false).unwrap()).zip(values(&whole)) {
        for (a, b) in sum.to_vec::<f32>().unwrap().into_iter().zip(want) {
            assert!((a - b).abs() < 1e-4 * (1.0 + b.abs()), "{a} and {b}");
        }
    }
}

#[test]
fn bad_arguments_are_errors_that_say_so() {
    olivine_cpu::register();
    let x = Array::ones(&[2, 3], Dtype::F32).unwrap();
    let says = |e: Error, part: &str| assert!(e.to_string().contains(part), "{e}");
    says(Dropout::new(1.0).unwrap_err(), "0..1");
    says(Conv2d::grouped(3, 4, [1, 1], 2).unwrap_err(), "2 groups");
    says(Conv2d::new(3, 4, [1, 1]).unwrap().forward(&x).unwrap_err(), "4 axes");
    says(MaxPool1d::new([0]).unwrap_err(), "positive");
    says(MaxPool1d::new([9]).unwrap().forward(&x.expand_dims(&[0]).unwrap()).unwrap_err(), "do not fit");
    says(MultiHeadAttention::new(6, 4).unwrap_err(), "4 heads");
    says(GroupNorm::new(2, 3, 1e-5).unwrap_err(), "2 groups");
    says(GroupNorm::new(1, 4, 1e-5).unwrap().forward(&x).unwrap_err(), "(2, 3)");
    says(Optimizer::new(Adam { betas: [1.0, 0.9], ..Adam::default() }, 0.1).unwrap_err(), "betas");
    says(Optimizer::new(Sgd { nesterov: true, ..Sgd::default() }, 0.1).unwrap_err(), "Nesterov");
    says(
        Optimizer::new(Sgd::default(), Schedule::Cosine { init: 1.0, steps: 0, end: 0.0 }).unwrap_err(),
        "one step",
    );
    let mut net = Net::new();
    let strange = Gradients::from([("l3.weight".to_owned(), x.clone())]);
    let mut sgd = Optimizer::new(Sgd::default(), 0.1).unwrap();
    says(sgd.update(&mut net, &strange).unwrap_err(), "l3.weight");
    let misshaped = Gradients::from([("l1.weight".to_owned(), x.clone())]);
    says(sgd.update(&mut net, &misshaped).unwrap_err(), "l1.weight");
    let smooth = losses::CrossEntropy { label_smoothing: 1.0, ..losses::CrossEntropy::default() };
    says(smooth.loss(&x, &Array::arange_i32(2).unwrap()).unwrap_err(), "0..1");
    says(losses::cross_entropy(&x, &Array::arange_i32(3).unwrap(), Reduction::Mean).unwrap_err(), "targets");
    says(clip_grad_norm(&strange, -1.0).unwrap_err(), "at least 0");
    says(Init::Identity.draw(&[2, 3]).unwrap_err(), "square");
}
