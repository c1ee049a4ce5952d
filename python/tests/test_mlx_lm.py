"""The package ``mlx-lm``, as it comes from PyPI: tiny random models say and learn what they do on MLX."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mlx_lm") is None, reason="mlx-lm is not installed")
HERE = Path(__file__).resolve().parent

SIZES = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rms_norm_eps": 1e-5,
    "vocab_size": 200,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}
CONFIGS = {
    "llama": SIZES,
    "qwen3": SIZES,
    "gemma3_text": {**SIZES, "num_hidden_layers": 4, "sliding_window": 8, "sliding_window_pattern": 2},
    "mixtral": {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2},
}

MODEL = """
import importlib, json, sys
import mlx.core as mx, mlx.nn as nn, mlx.optimizers as optim

def make(config):
    module = importlib.import_module("mlx_lm.models." + config["model_type"])
    mx.random.seed(5)
    return module.Model(module.ModelArgs.from_dict(config))

config = json.loads(sys.argv[1])
"""

GENERATE = (
    MODEL
    + """
from mlx_lm.generate import generate_step

def say(model):
    return [int(token) for token, _ in generate_step(mx.array([3, 1, 4, 1, 5]), model, max_tokens=16)]

model = make(config)
plain = say(model)
nn.quantize(model, group_size=32, bits=8)
print(json.dumps([plain, say(model)]))
"""
)

TUNE = (
    MODEL
    + """
import contextlib, io, os, tempfile
import numpy as np
from mlx_lm.tuner.trainer import TrainingArgs, train
from mlx_lm.tuner.utils import linear_to_lora_layers

class Losses:
    values = []
    def on_train_loss_report(self, info):
        self.values.append(float(info["train_loss"]))
    def on_val_loss_report(self, info):
        self.values.append(float(info["val_loss"]))

model = make(config)
model.freeze()
linear_to_lora_layers(model, 2, {"rank": 4, "scale": 10.0, "dropout": 0.1})
generator = np.random.default_rng(0)
data = [(generator.integers(0, 200, 20).tolist(), 0) for _ in range(16)]
np.random.seed(0)
with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
    arguments = TrainingArgs(
        batch_size=4, iters=20, val_batches=1, steps_per_report=2, steps_per_eval=10, steps_per_save=20,
        max_seq_length=64, adapter_file=os.path.join(folder, "adapters.safetensors"),
    )
    train(model, getattr(optim, sys.argv[2])(1e-3), data, data, args=arguments, training_callback=Losses())
print(json.dumps(Losses.values))
"""
)


def on_both(tmp_path, text, *arguments):
    path = tmp_path / "program.py"
    path.write_text(text)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    results = []
    for runner in ([str(HERE / "stand_in.py")], []):
        command = [sys.executable, *runner, str(path), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout.splitlines()[-1]))
    return results


@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_tokens(name, tmp_path):
    ours, theirs = on_both(tmp_path, GENERATE, json.dumps({"model_type": name, **CONFIGS[name]}))
    assert ours == theirs
    assert len(ours[0]) == 16


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW", "Muon"])
def test_the_same_losses(optimizer, tmp_path):
    config = json.dumps({"model_type": "llama", **SIZES})
    ours, theirs = on_both(tmp_path, TUNE, config, optimizer)
    assert ours == pytest.approx(theirs, abs=1e-3)
    assert len(ours) >= 10 and ours[-1] < ours[0]
