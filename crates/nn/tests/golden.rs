//! Layers, losses, optimizers and schedules give what MLX's give; `data` is written by `scripts/references/nn.py`.

use olivine_core::ops::Mask;
use olivine_core::{Array, Dtype, Result, io, random};
use olivine_nn::init::{Fan, Init};
use olivine_nn::optim::{self, Optimizer, Schedule};
use olivine_nn::visitors::{load_weights, parameters, set_training};
use olivine_nn::*;
use std::collections::BTreeMap;

const SEED: u64 = 11;

type Data = BTreeMap<String, Array>;

fn data(file: &str) -> Data {
    olivine_cpu::register();
    let path = format!("{}/tests/data/{file}.safetensors", env!("CARGO_MANIFEST_DIR"));
    io::load_safetensors(path).expect("the file is there").tensors
}

/// What stands under `case|kind|`, by the rest of its name.
fn of(data: &Data, case: &str, kind: &str) -> Data {
    let start = format!("{case}|{kind}|");
    let named = |(k, a): (&String, &Array)| k.strip_prefix(&start).map(|n| (n.to_owned(), a.clone()));
    data.iter().filter_map(named).collect()
}

fn values(a: &Array) -> Vec<f32> {
    a.astype(Dtype::F32).and_then(|a| a.to_vec()).expect("values")
}

#[track_caller]
fn near(name: &str, got: &Array, want: &Array, tolerance: f32) {
    assert_eq!(got.shape(), want.shape(), "{name}");
    assert_eq!(got.dtype(), want.dtype(), "{name}");
    for (i, (g, w)) in values(got).into_iter().zip(values(want)).enumerate() {
        let close = (g - w).abs() <= tolerance * (1.0 + w.abs());
        assert!(close || g == w, "{name}, element {i}: {g} where MLX has {w}");
    }
}

/// Checks a layer against a case: the same names, shapes and draws of parameters, and the same outputs from the
/// parameters of the file.
#[track_caller]
fn check<L: Module>(
    data: &Data,
    case: &str,
    make: impl Fn() -> Result<L>,
    run: impl Fn(&mut L, &[Array]) -> Result<Vec<Array>>,
) {
    random::seed(SEED).unwrap();
    let mut layer = make().unwrap();
    let wanted = of(data, case, "param");
    let drawn: Data = parameters(&mut layer).unwrap().into_iter().collect();
    let names = |d: &Data| d.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&drawn), names(&wanted), "{case}");
    for (name, want) in &wanted {
        near(&format!("{case} {name}"), &drawn[name], want, 1e-6);
    }
    load_weights(&mut layer, wanted.into_iter().map(|(n, a)| (n, a.into())).collect()).unwrap();
    let inputs: Vec<Array> = of(data, case, "in").into_values().collect();
    let outputs: Vec<Array> = of(data, case, "out").into_values().collect();
    let got = run(&mut layer, &inputs).unwrap();
    assert_eq!(got.len(), outputs.len(), "{case}");
    for (g, w) in got.iter().zip(&outputs) {
        near(case, g, w, 2e-5);
    }
}

macro_rules! simple {
    ($data:ident $($case:literal $make:expr;)*) => { $(
        check(&$data, $case, || $make, |l, x| Ok(vec![l.forward(&x[0])?]));
    )* };
}

#[test]
fn layers_have_the_parameters_and_outputs_of_mlx() {
    let d = data("layers");
    simple! { d
        "linear" Linear::new(6, 3, true);
        "linear_plain" Linear::new(6, 3, false);
        "embedding" Embedding::new(5, 4);
        "conv1d" Ok(Conv1d { stride: [2], padding: [1], ..Conv1d::new(6, 3, [3])? });
        "conv2d" Ok(Conv2d { padding: [1, 0], ..Conv2d::new(4, 3, [3, 2])? });
        "conv2d_grouped" Conv2d::grouped(4, 6, [3, 3], 2);
        "conv3d" Conv3d::new(2, 3, [2, 2, 2]);
        "conv_transpose1d"
            Ok(ConvTranspose1d { stride: [2], output_padding: [1], ..ConvTranspose1d::new(6, 3, [3])? });
        "conv_transpose2d"
            Ok(ConvTranspose2d { stride: [2, 2], padding: [1, 1], ..ConvTranspose2d::new(4, 3, [2, 2])? });
        "conv_transpose3d" ConvTranspose3d::new(2, 3, [2, 2, 2]);
        "layer_norm" LayerNorm::new(6, 1e-5);
        "rms_norm" RmsNorm::new(6, 1e-5);
        "instance_norm" InstanceNorm::new(4, 1e-5, true);
        "group_norm" Ok(GroupNorm { neighbours: false, ..GroupNorm::new(2, 4, 1e-5)? });
        "group_norm_neighbours" GroupNorm::new(2, 4, 1e-5);
        "prelu" Prelu::new(6, 0.25);
        "max_pool1d" MaxPool1d::new([2]);
        "max_pool2d" Ok(MaxPool2d::new([3, 3])?.stride([2, 2])?.padding([1, 1]));
        "avg_pool2d" AvgPool2d::new([2, 2])?.stride([1, 1]);
        "avg_pool3d" Ok(AvgPool3d::new([2, 2, 2])?.padding([1, 1, 1]));
    }
    check(&d, "bilinear", || Bilinear::new(6, 4, 3, true), |l, x| Ok(vec![l.forward(&x[0], &x[1])?]));
    check(&d, "rnn", || Rnn::new(6, 4, true), |l, x| Ok(vec![l.forward(&x[0], None)?]));
    check(&d, "gru", || Gru::new(6, 4, true), |l, x| Ok(vec![l.forward(&x[0], None)?]));
    let lstm = |l: &mut Lstm, x: &[Array]| {
        let (hidden, cell) = l.forward(&x[0], None, None)?;
        Ok(vec![hidden, cell])
    };
    check(&d, "lstm", || Lstm::new(6, 4, true), lstm);
    let attend =
        |l: &mut MultiHeadAttention, x: &[Array]| Ok(vec![l.forward(&x[0], &x[1], &x[2], &Mask::None)?]);
    check(&d, "attention", || MultiHeadAttention::new(6, 2), attend);
    for checkpoint in [false, true] {
        let small = TransformerConfig { mlp_dims: Some(8), checkpoint, ..TransformerConfig::new(6, 2) };
        let encoder = || TransformerEncoder::new(2, &TransformerConfig { norm_first: false, ..small });
        check(&d, "encoder", encoder, |l, x| Ok(vec![l.forward(&x[0], &Mask::Causal)?]));
        let transformer =
            || Transformer::new(1, 1, &TransformerConfig { activation: activations::gelu, ..small });
        let none = Mask::None;
        check(&d, "transformer", transformer, |l, x| Ok(vec![l.forward(&x[0], &x[1], &none, &none, &none)?]));
    }
    let batch = |l: &mut BatchNorm, x: &[Array]| {
        let first = l.forward(&x[0])?;
        for (name, got) in [("running_mean", &l.running_mean), ("running_var", &l.running_var)] {
            near(name, got.as_ref().expect("kept"), &of(&d, "batch_norm", "after")[name], 1e-6);
        }
        set_training(l, false)?;
        Ok(vec![first, l.forward(&x[0])?])
    };
    check(&d, "batch_norm", || BatchNorm::new(4, 1e-5, 0.1), batch);
}

#[test]
fn encodings_of_positions_are_those_of_mlx() {
    let d = data("layers");
    let encoding = SinusoidalEncoding::new(8, 0.0001, 1.0).unwrap();
    near("sinusoidal", &encoding.forward(&d["sinusoidal|in|0"]).unwrap(), &d["sinusoidal|out|0"], 1e-6);
    near("alibi", &alibi(&d["alibi|in|0"], 0, None).unwrap(), &d["alibi|out|0"], 1e-6);
}

#[test]
fn draws_are_those_of_mlx() {
    let d = data("layers");
    random::seed(SEED).unwrap();
    let drop = |layer: Dropout, case: &str| {
        near(case, &layer.forward(&d[&format!("{case}|in|0")]).unwrap(), &d[&format!("{case}|out|0")], 0.0);
    };
    drop(Dropout::new(0.3).unwrap(), "dropout");
    drop(Dropout::channels2d(0.4).unwrap(), "dropout2d");
    random::seed(SEED).unwrap();
    let mode = Fan::In;
    for (name, init) in [
        ("normal", Init::Normal { mean: 0.5, std: 2.0 }),
        ("uniform", Init::Uniform { low: -1.0, high: 3.0 }),
        ("glorot_normal", Init::GlorotNormal { gain: 1.0 }),
        ("glorot_uniform", Init::GlorotUniform { gain: 1.0 }),
        ("he_normal", Init::HeNormal { mode, gain: 1.0 }),
        ("he_uniform", Init::HeUniform { mode, gain: 1.0 }),
        ("sparse", Init::Sparse { sparsity: 0.5, mean: 0.0, std: 1.0 }),
        ("orthogonal", Init::Orthogonal { gain: 1.0 }),
    ] {
        near(name, &init.draw(&[4, 6]).unwrap(), &d[&format!("init|{name}|")], 1e-5);
    }
}

#[test]
fn activations_are_those_of_mlx() {
    use activations::*;
    let d = data("layers");
    let x = &d["activations|in|"];
    for (name, got) in [
        ("sigmoid", sigmoid(x)),
        ("tanh", tanh(x)),
        ("relu", relu(x)),
        ("relu2", relu2(x)),
        ("relu6", relu6(x)),
        ("leaky_relu", leaky_relu(x, 0.01)),
        ("log_softmax", log_softmax(x, -1)),
        ("softmax", softmax(x, -1)),
        ("softmin", softmin(x, -1)),
        ("elu", elu(x, 1.0)),
        ("celu", celu(x, 1.0)),
        ("selu", selu(x)),
        ("softplus", softplus(x)),
        ("softsign", softsign(x)),
        ("softshrink", softshrink(x, 0.5)),
        ("hard_shrink", hard_shrink(x, 0.5)),
        ("silu", silu(x)),
        ("log_sigmoid", log_sigmoid(x)),
        ("gelu", gelu(x)),
        ("gelu_approx", gelu_approx(x)),
        ("gelu_fast_approx", gelu_fast_approx(x)),
        ("glu", glu(x, -1)),
        ("step", step(x, 0.0)),
        ("prelu", prelu(x, &Array::from_scalar(0.3f32))),
        ("mish", mish(x)),
        ("hardswish", hardswish(x)),
        ("hard_tanh", hard_tanh(x, -1.0, 1.0)),
    ] {
        near(name, &got.unwrap(), &d[&format!("activations|out|{name}")], 2e-6);
    }
}

#[test]
fn losses_are_those_of_mlx() {
    use losses::*;
    let d = data("losses");
    let x = |name: &str| d[&format!("in|{name}")].clone();
    let (p, t, n, logits, classes) = (&x("p"), &x("t"), &x("n"), &x("logits"), &x("classes"));
    let (signs, unit, events, spread, logs) =
        (&x("signs"), &x("unit"), &x("events"), &x("spread"), &x("logs"));
    let plain = CrossEntropy { reduction: Reduction::None, ..CrossEntropy::default() };
    let smooth = CrossEntropy { weights: Some(x("weights")), label_smoothing: 0.2, ..plain.clone() };
    let mean = Reduction::Mean;
    let none = Reduction::None;
    for (name, got) in [
        ("cross_entropy", cross_entropy(logits, classes, none)),
        ("cross_entropy_mean", cross_entropy(logits, classes, mean)),
        ("cross_entropy_smooth", smooth.loss(logits, classes)),
        (
            "cross_entropy_spread",
            CrossEntropy { reduction: Reduction::Sum, ..plain.clone() }.loss(logits, spread),
        ),
        ("cross_entropy_axis", CrossEntropy { axis: 0, ..plain }.loss(&logits.t().unwrap(), classes)),
        ("bce_logits", binary_cross_entropy(p, events, None, true, mean)),
        ("bce", binary_cross_entropy(unit, events, None, false, none)),
        ("l1", l1_loss(p, t, mean)),
        ("mse", mse_loss(p, t, mean)),
        ("nll", nll_loss(logs, classes, -1, none)),
        ("gaussian", gaussian_nll_loss(p, t, unit, true, 1e-6, none)),
        ("kl", kl_div_loss(logs, &spread.log().unwrap(), -1, none)),
        ("smooth_l1", smooth_l1_loss(p, t, 0.7, none)),
        ("triplet", TripletLoss { reduction: none, ..TripletLoss::default() }.loss(p, t, n)),
        ("hinge", hinge_loss(p, signs, none)),
        ("huber", huber_loss(p, t, 0.8, none)),
        ("log_cosh", log_cosh_loss(p, t, none)),
        ("cosine", cosine_similarity_loss(p, t, 1, 1e-8, none)),
        ("ranking", margin_ranking_loss(p, t, signs, 0.1, none)),
    ] {
        near(name, &got.unwrap(), &d[&format!("out|{name}")], 3e-6);
    }
}

fn one(rule: impl optim::Rule + 'static, rate: f64) -> Optimizer {
    Optimizer::new(rule, rate).unwrap()
}

#[test]
fn five_steps_of_every_optimizer_are_those_of_mlx() {
    use optim::*;
    let d = data("optimizers");
    let factor =
        Adafactor { beta_1: Some(0.9), weight_decay: 0.1, relative_step: false, ..Adafactor::default() };
    let momentum = Sgd { momentum: 0.9, ..Sgd::default() };
    let relative = |rule: Adafactor| Optimizer::without_rate(rule).unwrap();
    let cosine = Schedule::Cosine { init: 0.1, steps: 4, end: 0.0 };
    for (case, mut optimizer) in [
        ("sgd", one(Sgd::default(), 0.1)),
        ("sgd_momentum", one(Sgd { weight_decay: 0.01, dampening: 0.1, ..momentum }, 0.1)),
        ("sgd_nesterov", one(Sgd { nesterov: true, ..momentum }, 0.1)),
        ("rmsprop", one(RmsProp::default(), 0.01)),
        ("adagrad", one(Adagrad::default(), 0.1)),
        ("adadelta", one(AdaDelta::default(), 1.0)),
        ("adam", one(Adam::default(), 0.01)),
        ("adam_corrected", one(Adam { bias_correction: true, ..Adam::default() }, 0.01)),
        ("adamw", one(AdamW { weight_decay: 0.1, ..AdamW::default() }, 0.01)),
        ("adamax", one(Adamax::default(), 0.01)),
        ("lion", one(Lion { weight_decay: 0.1, ..Lion::default() }, 0.01)),
        ("adafactor", relative(Adafactor::default())),
        ("adafactor_rate", one(Adafactor { scale_parameter: false, ..factor }, 0.01)),
        ("adafactor_warmup", relative(Adafactor { warmup_init: true, ..Adafactor::default() })),
        ("muon", one(Muon::default(), 0.02)),
        ("scheduled", Optimizer::new(Sgd::default(), cosine).unwrap()),
    ] {
        check_steps(&d, case, |g, p| optimizer.apply(g, p));
        check_state(&d, case, &optimizer.state());
    }
    let mut multi = MultiOptimizer::new(one(Adam::default(), 0.01))
        .with(one(Sgd::default(), 0.5), |name, _| name.ends_with("bias"));
    check_steps(&d, "multi", |g, p| multi.apply(g, p));
    check_state(&d, "multi", &multi.state());
}

fn check_steps(d: &Data, case: &str, mut step: impl FnMut(&Gradients, &Gradients) -> Result<Gradients>) {
    let mut p = of(d, "first", "");
    for s in 0..5 {
        p = step(&of(d, "gradient", &s.to_string()), &p).unwrap();
    }
    for (name, want) in of(d, case, "param") {
        near(&format!("{case} {name}"), &p[&name], &want, 5e-6);
    }
}

fn check_state(d: &Data, case: &str, state: &Data) {
    let wanted = of(d, case, "state");
    assert_eq!(state.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{case}");
    for (name, want) in &wanted {
        near(&format!("{case} {name}"), &state[name], want, 1e-5);
    }
}

#[test]
fn schedules_and_clipping_are_those_of_mlx() {
    let d = data("optimizers");
    let linear = |steps| Schedule::Linear { init: 0.0, end: 0.1, steps };
    let cosine = |steps, end| Schedule::Cosine { init: 0.1, steps, end };
    for (name, schedule) in [
        ("exponential", Schedule::Exponential { init: 0.1, decay: 0.9 }),
        ("step", Schedule::Step { init: 0.1, decay: 0.5, steps: 3 }),
        ("cosine", cosine(7, 0.01)),
        ("linear", linear(5)),
        ("joined", Schedule::Joined(Box::new(linear(3)), vec![(3, cosine(5, 0.0))])),
    ] {
        let at = |s: u64| schedule.at(&Array::from_scalar(s));
        let got: Vec<Array> = (0..12).map(at).collect::<Result<_>>().unwrap();
        near(name, &Array::stack(&got, 0).unwrap(), &d[&format!("schedule|{name}|")], 1e-7);
    }
    let (clipped, norm) = optim::clip_grad_norm(&of(&d, "gradient", "0"), 1.5).unwrap();
    near("norm", &norm, &d["clip|norm|"], 1e-6);
    for (name, want) in of(&d, "clip", "param") {
        near(&name, &clipped[&name], &want, 1e-6);
    }
}
