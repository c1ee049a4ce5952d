"""Losses and initialisers beside MLX's."""

import numpy as np
import pytest
from support import OLIVINE, array, assert_same, noise

mx, nn = OLIVINE.mx, OLIVINE.nn

A, B, C = noise(4, 5), noise(4, 5, seed=1), noise(4, 5, seed=2)
LABELS = np.array([0, 4, 2, 2], dtype=np.int32)
SIGNS = np.sign(C)
PROBABILITIES = 1 / (1 + np.exp(-A))
DISTRIBUTION = np.exp(B) / np.exp(B).sum(-1, keepdims=True)
LOG_A = A - np.log(np.exp(A).sum(-1, keepdims=True))
WEIGHTS = np.abs(noise(4, 5, seed=3))

# Name of the function, arrays, and further arguments.
LOSSES = {
    "cross_entropy": ("cross_entropy", [A, LABELS], {}),
    "cross_entropy of probabilities": ("cross_entropy", [A, DISTRIBUTION], {}),
    "cross_entropy smoothed": ("cross_entropy", [A, LABELS], {"label_smoothing": 0.2}),
    "cross_entropy smoothed probabilities": ("cross_entropy", [A, DISTRIBUTION], {"label_smoothing": 0.2}),
    "cross_entropy along the first axis": ("cross_entropy", [A, np.arange(5) % 4], {"axis": 0}),
    "cross_entropy along another axis": (
        "cross_entropy",
        [noise(2, 3, 4), LABELS[None, :] % 3 + np.zeros((2, 1), np.int32)],
        {"axis": 1},
    ),
    "cross_entropy along the last axis": (
        "cross_entropy",
        [noise(2, 3, 4), np.ones((2, 3), np.uint32)],
        {"axis": 2},
    ),
    "cross_entropy weighted": ("cross_entropy", [A, LABELS, WEIGHTS[:, 0]], {}),
    "cross_entropy of large logits": ("cross_entropy", [A * 1000, LABELS], {}),
    "cross_entropy of a vector": ("cross_entropy", [A[0], np.array(3)], {}),
    "cross_entropy of padding": ("cross_entropy", [A, np.array([-1, 2, -1, 0])], {}),
    "binary_cross_entropy": ("binary_cross_entropy", [A, PROBABILITIES], {}),
    "binary_cross_entropy of large logits": ("binary_cross_entropy", [A * 1000, PROBABILITIES], {}),
    "binary_cross_entropy of probabilities": (
        "binary_cross_entropy",
        [PROBABILITIES, DISTRIBUTION],
        {"with_logits": False},
    ),
    "binary_cross_entropy weighted": ("binary_cross_entropy", [A, PROBABILITIES, WEIGHTS], {}),
    "l1_loss": ("l1_loss", [A, B], {}),
    "mse_loss": ("mse_loss", [A, B], {}),
    "nll_loss": ("nll_loss", [LOG_A, LABELS], {}),
    "nll_loss along the first axis": ("nll_loss", [LOG_A, np.arange(5) % 4], {"axis": 0}),
    "gaussian_nll_loss": ("gaussian_nll_loss", [A, B, WEIGHTS], {}),
    "gaussian_nll_loss full": ("gaussian_nll_loss", [A, B, WEIGHTS], {"full": True, "eps": 0.5}),
    "kl_div_loss": ("kl_div_loss", [LOG_A, np.log(DISTRIBUTION)], {}),
    "kl_div_loss along the first axis": ("kl_div_loss", [LOG_A, np.log(DISTRIBUTION)], {"axis": 0}),
    "smooth_l1_loss": ("smooth_l1_loss", [A, B], {}),
    "smooth_l1_loss of beta": ("smooth_l1_loss", [A, B], {"beta": 0.3}),
    "triplet_loss": ("triplet_loss", [A, B, C], {}),
    "triplet_loss with all": ("triplet_loss", [A, B, C], {"axis": 0, "p": 3, "margin": 2.0, "eps": 1e-3}),
    "hinge_loss": ("hinge_loss", [A, SIGNS], {}),
    "huber_loss": ("huber_loss", [A, B], {}),
    "huber_loss of delta": ("huber_loss", [A, B], {"delta": 0.4}),
    "log_cosh_loss": ("log_cosh_loss", [A * 50, B], {}),
    "cosine_similarity_loss": ("cosine_similarity_loss", [A, B], {}),
    "cosine_similarity_loss with all": ("cosine_similarity_loss", [A, B], {"axis": 0, "eps": 3.0}),
    "margin_ranking_loss": ("margin_ranking_loss", [A, B, SIGNS], {}),
    "margin_ranking_loss with margin": ("margin_ranking_loss", [A, B, SIGNS], {"margin": 0.3}),
}


@pytest.mark.parametrize("reduction", ["none", "mean", "sum", None])
@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_gradient(name, reduction):
    function, arrays, options = LOSSES[name]
    if reduction is not None:
        options = {**options, "reduction": reduction}

    def case(side):
        inputs = [array(side, x) for x in arrays]
        loss = getattr(side.nn.losses, function)
        gradient = side.mx.grad(lambda first: loss(first, *inputs[1:], **options).sum())(inputs[0])
        return [loss(*inputs, **options), gradient]

    result = assert_same(case, rtol=2e-5, atol=2e-6)
    assert not isinstance(result, Exception)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", LOSSES)
def test_half_precision(name, dtype):
    function, arrays, options = LOSSES[name]
    if "large" in name:
        return
    tolerance = 1e-2 if dtype == "float16" else 6e-2

    def case(side):
        inputs = [array(side, x, dtype if x.dtype == np.float32 else None) for x in arrays]
        return getattr(side.nn.losses, function)(*inputs, **options)

    assert_same(case, rtol=tolerance, atol=tolerance)


FAULTS = {
    "reduction": lambda losses, a, b: losses.mse_loss(a, b, reduction="median"),
    "smoothing": lambda losses, a, b: losses.cross_entropy(a, b, label_smoothing=1.0),
    "negative smoothing": lambda losses, a, b: losses.cross_entropy(a, b, label_smoothing=-0.1),
    "cross_entropy shapes": lambda losses, a, b: losses.cross_entropy(a, b[:2]),
    "cross_entropy class shapes": lambda losses, a, b: losses.cross_entropy(a, b[:2, 0]),
    "cross_entropy weights": lambda losses, a, b: losses.cross_entropy(a, b, weights=a),
    "binary shapes": lambda losses, a, b: losses.binary_cross_entropy(a, b[0]),
    "binary weights": lambda losses, a, b: losses.binary_cross_entropy(a, b, weights=a[0]),
    "l1 shapes": lambda losses, a, b: losses.l1_loss(a, b[0]),
    "mse shapes": lambda losses, a, b: losses.mse_loss(a, b[0]),
    "smooth_l1 shapes": lambda losses, a, b: losses.smooth_l1_loss(a, b[0]),
    "gaussian shapes": lambda losses, a, b: losses.gaussian_nll_loss(a, b[0], b),
    "gaussian variance shapes": lambda losses, a, b: losses.gaussian_nll_loss(a, b, b[0]),
    "ranking shapes": lambda losses, a, b: losses.margin_ranking_loss(a, b, b[0]),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name):
    error = assert_same(lambda side: FAULTS[name](side.nn.losses, array(side, A), array(side, B)))
    assert isinstance(error, ValueError)


def test_certain_and_wrong_has_a_finite_gradient():
    p, t = mx.array([0.0, 1.0, 0.5]), mx.array([1.0, 0.0, 1.0])
    loss = nn.losses.binary_cross_entropy(p, t, with_logits=False, reduction="none")
    np.testing.assert_allclose(np.array(loss), [100, 100, np.log(2)], rtol=1e-6)
    gradient = mx.grad(lambda p: nn.losses.binary_cross_entropy(p, t, with_logits=False))(p)
    assert bool(mx.all(mx.isfinite(gradient)))


def test_impossible_probabilities_are_not_hidden():
    loss = nn.losses.binary_cross_entropy(mx.array([-0.5]), mx.array([1.0]), with_logits=False)
    assert bool(mx.isnan(loss))


def test_similarity_of_a_zero_vector_has_a_finite_gradient():
    zero, other = mx.zeros((1, 3)), mx.ones((1, 3))
    gradient = mx.grad(lambda x: nn.losses.cosine_similarity_loss(x, other).sum())(zero)
    assert bool(mx.all(mx.isfinite(gradient)))
    assert nn.losses.cosine_similarity_loss(zero, other).tolist() == [0.0]


def test_smooth_l1_without_a_parabola():
    x, y = mx.array([0.0, 2.0]), mx.array([0.0, 5.0])
    value, gradient = mx.value_and_grad(lambda x: nn.losses.smooth_l1_loss(x, y, beta=0.0))(x)
    assert value.item() == 1.5 and bool(mx.all(mx.isfinite(gradient)))


SHAPES = [(3, 4), (4, 4), (5, 2), (2, 3, 4), (6,)]
INITIALIZERS = {
    "constant": lambda init, mx: init.constant(0.3),
    "constant half": lambda init, mx: init.constant(2, mx.float16),
    "normal": lambda init, mx: init.normal(0.5, 2.0),
    "normal half": lambda init, mx: init.normal(dtype=mx.bfloat16),
    "uniform": lambda init, mx: init.uniform(-1.0, 3.0),
    "identity": lambda init, mx: init.identity(),
    "identity half": lambda init, mx: init.identity(mx.float16),
    "glorot_normal": lambda init, mx: init.glorot_normal(),
    "glorot_uniform": lambda init, mx: init.glorot_uniform(mx.float16),
    "he_normal": lambda init, mx: init.he_normal(),
    "he_uniform": lambda init, mx: init.he_uniform(),
    "sparse": lambda init, mx: init.sparse(0.4, 1.0, 0.5),
    "sparse none": lambda init, mx: init.sparse(0.0),
    "sparse half": lambda init, mx: init.sparse(0.5, dtype=mx.float16),
    "orthogonal": lambda init, mx: init.orthogonal(0.5),
    "orthogonal half": lambda init, mx: init.orthogonal(dtype=mx.float16),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", INITIALIZERS)
def test_initializer(name, shape):
    assert_same(lambda side: INITIALIZERS[name](side.nn.init, side.mx)(side.mx.zeros(shape)), atol=2e-6)


@pytest.mark.parametrize("name", ["glorot_normal", "glorot_uniform"])
def test_gain(name):
    assert_same(lambda side: getattr(side.nn.init, name)()(side.mx.zeros((4, 5)), gain=3.0))


@pytest.mark.parametrize("name", ["he_normal", "he_uniform"])
@pytest.mark.parametrize("mode", ["fan_in", "fan_out", "fan_avg"])
def test_fan(name, mode):
    assert_same(lambda side: getattr(side.nn.init, name)()(side.mx.zeros((4, 2, 5)), mode, 3.0))


def test_columns_of_a_tall_orthogonal_matrix():
    w = np.array(nn.init.orthogonal()(mx.zeros((7, 3))))
    np.testing.assert_allclose(w.T @ w, np.eye(3), atol=1e-5)
