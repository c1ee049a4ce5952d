"""Optimizers and schedules beside MLX's, their state through files, and half precision."""

import numpy as np
import pytest
from support import OLIVINE, array, assert_same, noise

mx, nn, optim, utils = OLIVINE.mx, OLIVINE.nn, OLIVINE.optim, OLIVINE.utils

OPTIMIZERS = {
    "SGD": lambda o: o.SGD(0.1),
    "SGD momentum": lambda o: o.SGD(0.1, momentum=0.9),
    "SGD with all": lambda o: o.SGD(0.1, 0.9, 0.01, 0.2),
    "SGD nesterov": lambda o: o.SGD(0.1, 0.9, nesterov=True),
    "RMSprop": lambda o: o.RMSprop(0.01),
    "RMSprop with all": lambda o: o.RMSprop(0.01, 0.9, 1e-3),
    "Adagrad": lambda o: o.Adagrad(0.1),
    "AdaDelta": lambda o: o.AdaDelta(1.0),
    "AdaDelta with all": lambda o: o.AdaDelta(0.5, 0.8, 1e-3),
    "Adam": lambda o: o.Adam(0.01),
    "Adam corrected": lambda o: o.Adam(0.01, [0.8, 0.9], 1e-6, True),
    "Adam of a tuple": lambda o: o.Adam(0.01, betas=(0.8, 0.9)),
    "AdamW": lambda o: o.AdamW(0.01),
    "AdamW corrected": lambda o: o.AdamW(0.01, weight_decay=0.1, bias_correction=True),
    "Adamax": lambda o: o.Adamax(0.01),
    "Lion": lambda o: o.Lion(0.01),
    "Lion decaying": lambda o: o.Lion(0.01, [0.8, 0.9], 0.1),
    "Adafactor": lambda o: o.Adafactor(),
    "Adafactor with a rate": lambda o: o.Adafactor(0.01, relative_step=False),
    "Adafactor with all": lambda o: o.Adafactor(
        0.01, (1e-20, 1e-2), 0.5, -0.6, 0.9, 0.01, False, True, warmup_init=True
    ),
    "Muon": lambda o: o.Muon(0.02),
    "Muon with all": lambda o: o.Muon(0.02, 0.9, 0.1, False, 3),
    "Adam scheduled": lambda o: o.Adam(o.linear_schedule(0.0, 0.1, 3)),
    "SGD scheduled": lambda o: o.SGD(
        o.join_schedules([o.step_decay(0.1, 0.5, 2), o.cosine_decay(0.1, 5)], [2])
    ),
    "several": lambda o: o.MultiOptimizer(
        [o.Muon(0.02), o.AdamW(0.01), o.SGD(o.exponential_decay(0.1, 0.9))],
        [lambda path, g: "deep" in path, lambda path, g: g.ndim == 2],
    ),
}

PARAMETERS = {
    "matrix": noise(4, 6),
    "vector": noise(5, seed=1),
    "deep": {"list": [noise(3, 2, seed=2), {"kernel": noise(2, 3, 2, seed=3)}]},
    "scalar": noise(seed=4),
}


def tree_of(side, seed, dtype, scale=1.0):
    def fresh(x):
        return array(side, noise(*x.shape, seed=seed + x.size, scale=scale), dtype)

    return side.utils.tree_map(fresh, PARAMETERS)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps(name):
    def case(side):
        optimizer = OPTIMIZERS[name](side.optim)
        parameters = tree_of(side, 0, "float32")
        history = []
        for step in range(4):
            parameters = optimizer.apply_gradients(tree_of(side, 100 + step, "float32"), parameters)
            history.append(ordered(parameters))
        return [history, ordered(optimizer.state), optimizer.learning_rate if "Adafactor" != name else None]

    # An iteration of Newton and Schulz multiplies rounding errors.
    loose = "Muon" in name or name == "several"
    assert_same(case, rtol=1e-3 if loose else 2e-5, atol=1e-4 if loose else 1e-6)


def ordered(tree):
    """MLX puts the entries of merged states in the order of chance."""
    if isinstance(tree, dict):
        return {key: ordered(tree[key]) for key in sorted(tree)}
    return [ordered(item) for item in tree] if isinstance(tree, (list, tuple)) else tree


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_bfloat16(name):
    """Olivine rounds a step once, MLX every operation."""

    def case(side):
        optimizer = OPTIMIZERS[name](side.optim)
        parameters = tree_of(side, 0, "bfloat16")
        for step in range(3):
            parameters = optimizer.apply_gradients(tree_of(side, 100 + step, "bfloat16"), parameters)
        return [ordered(parameters), ordered(optimizer.state)]

    assert_same(case, rtol=5e-2, atol=5e-2)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_float16(name):
    def case(side):
        optimizer = OPTIMIZERS[name](side.optim)
        parameters = tree_of(side, 0, "float16")
        for step in range(3):
            parameters = optimizer.apply_gradients(tree_of(side, 100 + step, "float16"), parameters)
        return ordered(parameters)

    assert_same(case, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_zero_gradients_stay_finite(name, dtype):
    optimizer = OPTIMIZERS[name](optim)
    parameters = start = tree_of(OLIVINE, 0, dtype)
    for _ in range(3):
        parameters = optimizer.apply_gradients(utils.tree_map(mx.zeros_like, start), parameters)
    for (path, before), (_, after) in zip(utils.tree_flatten(start), utils.tree_flatten(ordered(parameters))):
        del path
        assert bool(mx.all(mx.isfinite(after))) and after.dtype == getattr(mx, dtype)
        assert before.dtype == after.dtype


@pytest.mark.parametrize(
    "name", ["Adam", "Adam corrected", "AdamW", "Adamax", "RMSprop", "Adagrad", "Adafactor"]
)
def test_small_float16_gradients_step_as_in_float32(name):
    """The square of 1e-4 is zero in float16."""

    def new(dtype):
        optimizer = OPTIMIZERS[name](optim)
        parameters = {"w": mx.zeros((8,), dtype)}
        gradients = {"w": (mx.arange(1, 9) * 1e-4).astype(mx.float16).astype(dtype)}
        for _ in range(5):
            parameters = optimizer.apply_gradients(gradients, parameters)
        return np.array(parameters["w"].astype(mx.float32))

    np.testing.assert_allclose(new(mx.float16), new(mx.float32), rtol=5e-3, atol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_saves_and_resumes(name, tmp_path):
    file = str(tmp_path / "state.safetensors")
    first = OPTIMIZERS[name](optim)
    parameters = tree_of(OLIVINE, 0, "float32")
    for step in range(3):
        parameters = first.apply_gradients(tree_of(OLIVINE, step, "float32"), parameters)
    mx.save_safetensors(file, dict(utils.tree_flatten(first.state)))

    second = OPTIMIZERS[name](optim)
    second.state = utils.tree_unflatten(list(mx.load(file).items()))
    gradients = tree_of(OLIVINE, 9, "float32")
    expected = first.apply_gradients(gradients, parameters)
    resumed = second.apply_gradients(gradients, parameters)
    for (path, a), (_, b) in zip(utils.tree_flatten(ordered(expected)), utils.tree_flatten(ordered(resumed))):
        np.testing.assert_array_equal(np.array(a), np.array(b), err_msg=path)


def test_update_of_a_model_with_frozen_layers():
    def case(side):
        nn = side.nn
        # No bias in front of the norm: its gradient would be rounding alone, which AdamW scales up.
        model = nn.Sequential(
            nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4, bias=False), nn.BatchNorm(4), nn.Linear(4, 1)
        )
        model.layers[0].freeze()
        optimizer = side.optim.AdamW(0.01)
        x = array(side, noise(8, 3))
        losses = []
        for step in range(4):
            if step == 2:
                model.layers[0].unfreeze()
                optimizer.init(model.trainable_parameters())
            loss, grads = nn.value_and_grad(model, lambda: (model(x) ** 2).mean())()
            optimizer.update(model, grads)
            losses.append(loss)
        return [losses, model.parameters(), ordered(optimizer.state)]

    assert_same(case)


def test_frozen_parts_survive_saving():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    model.layers[1].freeze()
    optimizer = optim.Adam(0.1)
    grads = utils.tree_map(mx.ones_like, model.trainable_parameters())
    optimizer.update(model, grads)
    again = optim.Adam(0.1)
    again.state = utils.tree_unflatten(utils.tree_flatten(optimizer.state))
    a = optimizer.apply_gradients(grads, model)
    b = again.apply_gradients(grads, model)
    for (path, x), (_, y) in zip(utils.tree_flatten(a), utils.tree_flatten(b)):
        assert bool(mx.array_equal(x, y)), path


def test_properties():
    def case(side):
        optimizer = side.optim.SGD(0.1)
        optimizer.learning_rate = 0.5
        both = side.optim.MultiOptimizer([side.optim.SGD(0.1), side.optim.Adam(0.2)], [lambda p, g: True])
        before = both.learning_rate
        both.learning_rate = 0.3
        scheduled = side.optim.SGD(side.optim.exponential_decay(0.1, 0.5))
        return [
            optimizer.learning_rate,
            optimizer.step,
            before,
            [o.learning_rate for o in both.optimizers],
            scheduled.learning_rate,
            sorted(both.state),
        ]

    assert_same(case)


def test_own_optimizer():
    def case(side):
        class SignDescent(side.optim.Optimizer):
            def __init__(self, rate):
                super().__init__()
                self._maybe_schedule("learning_rate", rate)

            def init_single(self, parameter, state):
                state["count"] = side.mx.zeros_like(parameter)

            def apply_single(self, gradient, parameter, state):
                state["count"] = state["count"] + 1
                return parameter - self.learning_rate * side.mx.sign(gradient)

        optimizer = SignDescent(side.optim.cosine_decay(0.1, 4))
        parameters = tree_of(side, 0, "float32")
        for step in range(3):
            parameters = optimizer.apply_gradients(tree_of(side, step, "float32"), parameters)
        return [parameters, optimizer.state]

    assert_same(case)


def test_schedule_that_returns_a_number():
    optimizer = optim.SGD(lambda step: 0.25)
    assert optimizer.apply_gradients({"w": mx.array(2.0)}, {"w": mx.array(1.0)})["w"].item() == 0.5


def test_parameter_named_like_a_hyperparameter_is_an_error():
    with pytest.raises(ValueError, match="'step'"):
        optim.SGD(0.1, momentum=0.9).init({"step": mx.ones((2,))})


def test_default_betas_are_not_shared():
    optim.Adam(0.1).betas[0] = 0.5
    assert optim.Adam(0.1).betas[0] == 0.9


FAULTS = {
    "nesterov": lambda o, mx: o.SGD(0.1, nesterov=True),
    "nesterov dampened": lambda o, mx: o.SGD(0.1, 0.9, dampening=0.1, nesterov=True),
    "RMSprop alpha": lambda o, mx: o.RMSprop(0.1, alpha=-1.0),
    "RMSprop eps": lambda o, mx: o.RMSprop(0.1, eps=0.0),
    "Adagrad eps": lambda o, mx: o.Adagrad(0.1, eps=0.0),
    "AdaDelta rho": lambda o, mx: o.AdaDelta(0.1, rho=-1.0),
    "AdaDelta eps": lambda o, mx: o.AdaDelta(0.1, eps=0.0),
    "Adam betas": lambda o, mx: o.Adam(0.1, betas=[1.0, 0.9]),
    "Adam eps": lambda o, mx: o.Adam(0.1, eps=-1.0),
    "Lion betas": lambda o, mx: o.Lion(0.1, betas=[0.9, -0.1]),
    "filters": lambda o, mx: o.MultiOptimizer([o.SGD(0.1)], [lambda p, g: True]),
    "states": lambda o, mx: setattr(o.MultiOptimizer([o.SGD(0.1)]), "state", {"states": []}),
    "no states": lambda o, mx: setattr(o.MultiOptimizer([o.SGD(0.1)]), "state", {}),
    "base": lambda o, mx: o.Optimizer().apply_gradients({"w": mx.ones((1,))}, {"w": mx.ones((1,))}),
    "no rate": lambda o, mx: o.Adafactor(relative_step=False).apply_gradients(
        {"w": mx.ones((1,))}, {"w": mx.ones((1,))}
    ),
    "unknown parameter": lambda o, mx: o.SGD(0.1).apply_gradients({"w": mx.ones((1,))}, {}),
    "max_norm": lambda o, mx: o.clip_grad_norm({"w": mx.ones((1,))}, -1.0),
    "step_size": lambda o, mx: o.step_decay(0.1, 0.5, 0),
    "decay_steps": lambda o, mx: o.cosine_decay(0.1, 0),
    "steps": lambda o, mx: o.linear_schedule(0.1, 0.2, 0),
    "no schedules": lambda o, mx: o.join_schedules([], []),
    "boundaries": lambda o, mx: o.join_schedules([o.cosine_decay(0.1, 2)], [3]),
    "missing rate": lambda o, mx: o.Adam(),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault(name):
    error = assert_same(lambda side: FAULTS[name](side.optim, side.mx))
    assert isinstance(error, Exception)


SCHEDULES = {
    "exponential": lambda o: o.exponential_decay(0.1, 0.9),
    "step": lambda o: o.step_decay(0.1, 0.5, 3),
    "cosine": lambda o: o.cosine_decay(0.1, 5),
    "cosine to an end": lambda o: o.cosine_decay(0.1, 5, 0.05),
    "linear": lambda o: o.linear_schedule(0.0, 0.1, 4),
    "linear down": lambda o: o.linear_schedule(0.1, -0.1, 4),
    "joined": lambda o: o.join_schedules(
        [o.linear_schedule(0.0, 0.1, 3), o.cosine_decay(0.1, 4), o.exponential_decay(0.01, 0.5)], [3, 6]
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    def case(side):
        schedule = SCHEDULES[name](side.optim)
        arrays = [schedule(side.mx.array(step, side.mx.uint64)) for step in range(10)]
        return arrays + [schedule(step) for step in range(10)]

    assert_same(case)


@pytest.mark.parametrize("scale", [0.01, 10.0])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_clip_grad_norm(dtype, scale):
    def case(side):
        return side.optim.clip_grad_norm(tree_of(side, 0, dtype, scale), 1.0)

    tolerance = 1e-5 if dtype == "float32" else 1e-3
    assert_same(case, rtol=tolerance, atol=tolerance)


def test_clip_grad_norm_of_bfloat16_has_float32_digits():
    x = mx.full((10_000,), 0.1, mx.bfloat16)
    clipped, norm = optim.clip_grad_norm({"w": x}, 100.0)
    assert norm.dtype == mx.float32 and clipped["w"].dtype == mx.bfloat16
    np.testing.assert_allclose(norm.item(), 100 * x[0].item(), rtol=1e-4)


def test_clip_grad_norm_of_nothing():
    clipped, norm = optim.clip_grad_norm({}, 1.0)
    assert clipped == {} and norm.item() == 0.0


def test_several_optimizers_for_a_list_with_frozen_layers():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).freeze(), nn.ReLU(), nn.Linear(2, 2))
    before = model.layers[1].weight
    both = optim.MultiOptimizer(
        [optim.SGD(0.1), optim.Adam(0.1)], [lambda path, g: path.startswith("layers.0")]
    )
    both.update(model, utils.tree_map(mx.ones_like, model.trainable_parameters()))
    assert model.layers[1].weight is before
    assert [optimizer.step.item() for optimizer in both.optimizers] == [1, 1]
