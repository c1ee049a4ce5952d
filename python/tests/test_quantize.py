"""`quantize` beside MLX's."""

import pytest
from support import OLIVINE, array, assert_same, noise

mx, nn = OLIVINE.mx, OLIVINE.nn


def model_of(side):
    nn = side.nn
    return nn.Sequential(nn.Embedding(6, 64), nn.Linear(64, 64), nn.ReLU(), [nn.Linear(64, 32, bias=False)])


def run(side, model):
    y = model.layers[2](model.layers[1](model.layers[0](side.mx.array([1, 2]))))
    return model.layers[3][0](y)


OPTIONS = {
    "default": lambda nn: {},
    "bits": lambda nn: {"group_size": 32, "bits": 8},
    "mxfp4": lambda nn: {"mode": "mxfp4"},
    "nvfp4": lambda nn: {"mode": "nvfp4"},
    "mxfp8": lambda nn: {"mode": "mxfp8"},
    "by class": lambda nn: {"class_predicate": lambda path, m: isinstance(m, nn.Linear)},
    "by path": lambda nn: {
        "class_predicate": lambda path, m: path.endswith(".0") and hasattr(m, "to_quantized")
    },
    "by dictionary": lambda nn: {
        "class_predicate": lambda path, m: (
            {"group_size": 32, "bits": 2} if isinstance(m, nn.Linear) else False
        )
    },
    "not quantizing inputs": lambda nn: {
        "class_predicate": lambda path, m: {"quantize_input": False} if isinstance(m, nn.Linear) else False
    },
    "none": lambda nn: {"class_predicate": lambda path, m: False},
    "everything": lambda nn: {"class_predicate": lambda path, m: True},
    "number": lambda nn: {"class_predicate": lambda path, m: 3 if isinstance(m, nn.Linear) else False},
    "mode": lambda nn: {"mode": "int5"},
    "group size": lambda nn: {"group_size": 128},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_quantize(name):
    def case(side):
        model = model_of(side)
        result = side.nn.quantize(model, **OPTIONS[name](side.nn))
        return [result, repr(model), model.parameters(), model.trainable_parameters(), run(side, model)]

    # Embeddings of these modes are bfloat16, in which products round.
    halves = name in ("mxfp4", "mxfp8", "nvfp4")
    result = assert_same(case, rtol=1e-4, atol=2e-3 if halves else 1e-5)
    assert isinstance(result, Exception) == (name in ("everything", "number", "mode", "group size"))


def test_quantized_inputs():
    def case(side):
        model = side.nn.Sequential(side.nn.Linear(64, 32, bias=False)).eval()
        side.nn.quantize(model, mode="mxfp8", quantize_input=True)
        evaluating = model.parameters()
        return [repr(model), evaluating, model.train().parameters(), repr(model), model.eval().parameters()]

    assert_same(case)


def test_random_numbers_after_quantization_are_the_same():
    def case(side):
        side.nn.quantize(model_of(side))
        return side.nn.Linear(3, 3).parameters()

    assert_same(case)


def test_the_layer_at_fault_is_named_and_nothing_changes():
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(60, 4))
    with pytest.raises(ValueError, match=r"layers\.1"):
        nn.quantize(model)
    assert type(model.layers[0]) is nn.Linear


def test_the_dictionary_of_a_predicate_is_left_alone():
    options = {"bits": 8, "quantize_input": False}
    nn.quantize(nn.Sequential(nn.Linear(64, 4)), class_predicate=lambda path, m: options)
    assert options == {"bits": 8, "quantize_input": False}


def test_quantized_linear_gives_a_gradient():
    def case(side):
        layer = side.nn.QuantizedLinear(64, 4)
        return side.mx.grad(lambda x: (layer(x) ** 2).sum())(array(side, noise(3, 64)))

    assert_same(case, rtol=1e-4, atol=1e-5)
