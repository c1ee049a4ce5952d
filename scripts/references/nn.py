"""Writes what MLX's layers, losses, optimizers and schedules give, for the tests of crates/nn and python/.

    python3 -m venv venv && venv/bin/pip install 'mlx[cpu]==0.32.4'
    venv/bin/python scripts/references/nn.py

The names in the files are CASE|KIND|NAME. `layers` has the parameters that a layer draws from a seed, what goes in and
what comes out; `optimizers` the parameters and the state after five steps.
"""

import pathlib

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten, tree_unflatten

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "crates" / "nn" / "tests" / "data"
SEED = 11


def draw(*shape, low=-2.0, high=2.0, seed=0):
    return mx.random.uniform(low, high, shape, key=mx.random.key(seed))


def save(name, arrays):
    FOLDER.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(FOLDER / f"{name}.safetensors"), arrays)


def layers():
    """Name, constructor, inputs."""
    ids = mx.array([[0, 3, 1], [4, 4, 2]])
    x, images, volumes = draw(2, 5, 6), draw(2, 5, 6, 4), draw(1, 4, 5, 3, 2)
    memory = draw(2, 3, 6, seed=1)
    yield "linear", lambda: nn.Linear(6, 3), [x]
    yield "linear_plain", lambda: nn.Linear(6, 3, bias=False), [x]
    yield "bilinear", lambda: nn.Bilinear(6, 4, 3), [x, draw(2, 5, 4, seed=2)]
    yield "embedding", lambda: nn.Embedding(5, 4), [ids]
    yield "conv1d", lambda: nn.Conv1d(6, 3, 3, stride=2, padding=1), [x]
    yield "conv2d", lambda: nn.Conv2d(4, 3, (3, 2), padding=(1, 0), dilation=1), [images]
    yield "conv2d_grouped", lambda: nn.Conv2d(4, 6, 3, groups=2), [images]
    yield "conv3d", lambda: nn.Conv3d(2, 3, 2), [volumes]
    yield "conv_transpose1d", lambda: nn.ConvTranspose1d(6, 3, 3, stride=2, output_padding=1), [x]
    yield "conv_transpose2d", lambda: nn.ConvTranspose2d(4, 3, 2, stride=2, padding=1), [images]
    yield "conv_transpose3d", lambda: nn.ConvTranspose3d(2, 3, 2), [volumes]
    yield "layer_norm", lambda: nn.LayerNorm(6), [x]
    yield "rms_norm", lambda: nn.RMSNorm(6), [x]
    yield "instance_norm", lambda: nn.InstanceNorm(4, affine=True), [images]
    yield "group_norm", lambda: nn.GroupNorm(2, 4), [images]
    yield "group_norm_neighbours", lambda: nn.GroupNorm(2, 4, pytorch_compatible=True), [images]
    yield "batch_norm", lambda: nn.BatchNorm(4), [images]
    yield "prelu", lambda: nn.PReLU(6), [x]
    yield "max_pool1d", lambda: nn.MaxPool1d(2), [x]
    yield "max_pool2d", lambda: nn.MaxPool2d(3, stride=2, padding=1), [images]
    yield "avg_pool2d", lambda: nn.AvgPool2d(2, stride=1), [images]
    yield "avg_pool3d", lambda: nn.AvgPool3d(2, padding=1), [volumes]
    yield "rnn", lambda: nn.RNN(6, 4), [x]
    yield "gru", lambda: nn.GRU(6, 4), [x]
    yield "lstm", lambda: nn.LSTM(6, 4), [x]
    yield "attention", lambda: nn.MultiHeadAttention(6, 2), [x, memory, memory]
    yield "encoder", lambda: Encoder(), [x]
    yield "transformer", lambda: Transformer(), [x, memory]
    yield "sinusoidal", lambda: nn.SinusoidalPositionalEncoding(8), [mx.arange(5)]
    yield "alibi", lambda: nn.ALiBi(), [draw(1, 6, 3, 4, seed=3)]


class Encoder(nn.TransformerEncoder):
    def __init__(self):
        super().__init__(2, 6, 2, mlp_dims=8, norm_first=False)

    def __call__(self, x):
        return super().__call__(x, nn.MultiHeadAttention.create_additive_causal_mask(x.shape[1]))


class Transformer(nn.Transformer):
    def __init__(self):
        super().__init__(6, 2, 1, 1, mlp_dims=8, activation=nn.gelu)

    def __call__(self, source, target):
        return super().__call__(source, target, None, None, None)


def write_layers():
    out = {}
    for name, make, inputs in layers():
        mx.random.seed(SEED)
        layer = make()
        for path, parameter in tree_flatten(layer.parameters()):
            out[f"{name}|param|{path}"] = parameter
        results = layer(*inputs)
        for i, x in enumerate(inputs):
            out[f"{name}|in|{i}"] = x
        for i, y in enumerate(results if isinstance(results, tuple) else [results]):
            out[f"{name}|out|{i}"] = y
        if name == "batch_norm":
            out[f"{name}|after|running_mean"] = layer.running_mean
            out[f"{name}|after|running_var"] = layer.running_var
            layer.eval()
            out[f"{name}|out|1"] = layer(*inputs)
    mx.random.seed(SEED)
    out["dropout|in|0"] = draw(3, 7)
    out["dropout|out|0"] = nn.Dropout(0.3)(out["dropout|in|0"])
    out["dropout2d|in|0"] = draw(2, 3, 3, 5)
    out["dropout2d|out|0"] = nn.Dropout2d(0.4)(out["dropout2d|in|0"])
    mx.random.seed(SEED)
    for name, init in {
        "normal": nn.init.normal(0.5, 2.0),
        "uniform": nn.init.uniform(-1.0, 3.0),
        "glorot_normal": nn.init.glorot_normal(),
        "glorot_uniform": nn.init.glorot_uniform(),
        "he_normal": nn.init.he_normal(),
        "he_uniform": nn.init.he_uniform(),
        "sparse": nn.init.sparse(0.5),
        "orthogonal": nn.init.orthogonal(),
    }.items():
        out[f"init|{name}|"] = init(mx.zeros((4, 6)))
    x = draw(4, 8, low=-4.0, high=4.0, seed=5)
    out["activations|in|"] = x
    functions = """sigmoid tanh relu relu2 relu6 leaky_relu log_softmax softmax softmin elu celu selu softplus softsign
        softshrink hard_shrink silu log_sigmoid gelu gelu_approx gelu_fast_approx glu step mish hardswish hard_tanh"""
    for name in functions.split():
        function = getattr(nn, name, None) or getattr(nn.layers.activations, name)
        out[f"activations|out|{name}"] = function(x)
    out["activations|out|prelu"] = nn.prelu(x, mx.array([0.3]))
    save("layers", out)


def write_losses():
    p, t, logits = draw(4, 3, seed=6), draw(4, 3, seed=7), draw(4, 5, seed=8)
    classes, signs = mx.array([0, 4, 2, 1]), mx.array([[1, -1, 1]] * 4)
    unit, events = draw(4, 3, low=0.05, high=0.95, seed=9), mx.array([[0.0, 1.0, 1.0]] * 4)
    weights = draw(4, low=0.1, high=1.0, seed=10)
    spread = mx.softmax(draw(4, 5, seed=11), axis=-1)
    logs = nn.log_softmax(logits)
    n = draw(4, 3, seed=12)
    out = {"p": p, "t": t, "logits": logits, "classes": classes, "signs": signs, "unit": unit, "events": events}
    out |= {"weights": weights, "spread": spread, "logs": logs, "n": n}
    loss = nn.losses
    cases = {
        "cross_entropy": loss.cross_entropy(logits, classes),
        "cross_entropy_mean": loss.cross_entropy(logits, classes, reduction="mean"),
        "cross_entropy_smooth": loss.cross_entropy(logits, classes, weights, label_smoothing=0.2),
        "cross_entropy_spread": loss.cross_entropy(logits, spread, reduction="sum"),
        "cross_entropy_axis": loss.cross_entropy(logits.T, classes, axis=0),
        "bce_logits": loss.binary_cross_entropy(p, events),
        "bce": loss.binary_cross_entropy(unit, events, with_logits=False, reduction="none"),
        "l1": loss.l1_loss(p, t),
        "mse": loss.mse_loss(p, t),
        "nll": loss.nll_loss(logs, classes),
        "gaussian": loss.gaussian_nll_loss(p, t, unit, full=True, reduction="none"),
        "kl": loss.kl_div_loss(logs, mx.log(spread)),
        "smooth_l1": loss.smooth_l1_loss(p, t, beta=0.7, reduction="none"),
        "triplet": loss.triplet_loss(p, t, n),
        "hinge": loss.hinge_loss(p, signs),
        "huber": loss.huber_loss(p, t, delta=0.8),
        "log_cosh": loss.log_cosh_loss(p, t),
        "cosine": loss.cosine_similarity_loss(p, t),
        "ranking": loss.margin_ranking_loss(p, t, signs, margin=0.1),
    }
    save("losses", {f"in|{k}": v for k, v in out.items()} | {f"out|{k}": v for k, v in cases.items()})


SHAPES = {"a.weight": (3, 4), "a.bias": (4,), "k": (2, 3, 2)}


def optimizers():
    yield "sgd", lambda: optim.SGD(0.1)
    yield "sgd_momentum", lambda: optim.SGD(0.1, momentum=0.9, weight_decay=0.01, dampening=0.1)
    yield "sgd_nesterov", lambda: optim.SGD(0.1, momentum=0.9, nesterov=True)
    yield "rmsprop", lambda: optim.RMSprop(0.01)
    yield "adagrad", lambda: optim.Adagrad(0.1)
    yield "adadelta", lambda: optim.AdaDelta(1.0)
    yield "adam", lambda: optim.Adam(0.01)
    yield "adam_corrected", lambda: optim.Adam(0.01, bias_correction=True)
    yield "adamw", lambda: optim.AdamW(0.01, weight_decay=0.1)
    yield "adamax", lambda: optim.Adamax(0.01)
    yield "lion", lambda: optim.Lion(0.01, weight_decay=0.1)
    yield "adafactor", lambda: optim.Adafactor()
    yield (
        "adafactor_rate",
        lambda: optim.Adafactor(0.01, beta_1=0.9, weight_decay=0.1, relative_step=False, scale_parameter=False),
    )
    yield "adafactor_warmup", lambda: optim.Adafactor(warmup_init=True)
    yield "muon", lambda: optim.Muon(0.02)
    yield "scheduled", lambda: optim.SGD(optim.cosine_decay(0.1, 4))
    yield (
        "multi",
        lambda: optim.MultiOptimizer([optim.SGD(0.5), optim.Adam(0.01)], [lambda path, _: path.endswith("bias")]),
    )


def write_optimizers():
    first = {name: draw(*shape, seed=20 + i) for i, (name, shape) in enumerate(SHAPES.items())}
    steps = [
        {name: draw(*shape, seed=30 + 3 * s + i) for i, (name, shape) in enumerate(SHAPES.items())} for s in range(5)
    ]
    out = {f"first||{name}": p for name, p in first.items()}
    for s, gradients in enumerate(steps):
        out |= {f"gradient|{s}|{name}": g for name, g in gradients.items()}
    for case, make in optimizers():
        optimizer = make()
        parameters = tree_unflatten(list(first.items()))
        for gradients in steps:
            parameters = optimizer.apply_gradients(tree_unflatten(list(gradients.items())), parameters)
        out |= {f"{case}|param|{name}": p for name, p in tree_flatten(parameters)}
        out |= {f"{case}|state|{name}": a for name, a in tree_flatten(optimizer.state)}
    clipped, norm = optim.clip_grad_norm(tree_unflatten(list(steps[0].items())), 1.5)
    out |= {f"clip|param|{name}": g for name, g in tree_flatten(clipped)} | {"clip|norm|": norm}
    schedules = {
        "exponential": optim.exponential_decay(0.1, 0.9),
        "step": optim.step_decay(0.1, 0.5, 3),
        "cosine": optim.cosine_decay(0.1, 7, 0.01),
        "linear": optim.linear_schedule(0.0, 0.1, 5),
        "joined": optim.join_schedules([optim.linear_schedule(0.0, 0.1, 3), optim.cosine_decay(0.1, 5)], [3]),
    }
    for name, schedule in schedules.items():
        values = [mx.array(schedule(mx.array(s, mx.uint64))).astype(mx.float32) for s in range(12)]
        out[f"schedule|{name}|"] = mx.stack(values)
    save("optimizers", out)


write_layers()
write_losses()
write_optimizers()
