"""Optimizers, schedules of their hyperparameters, and clipping of gradients.

>>> import olivine.core as mx, olivine.nn as nn, olivine.optimizers as optim
>>> model = nn.Linear(2, 1)
>>> optimizer = optim.AdamW(learning_rate=optim.cosine_decay(1e-2, 100))
>>> x, y = mx.ones((4, 2)), mx.zeros((4, 1))
>>> step = nn.value_and_grad(model, lambda: nn.losses.mse_loss(model(x), y))
>>> losses = []
>>> for _ in range(20):
...     loss, grads = step()
...     optimizer.update(model, grads)
...     losses.append(loss.item())
>>> losses[-1] < losses[0]
True
"""

from olivine.optimizers import optimizers as optimizers, schedulers as schedulers
from olivine.optimizers.optimizers import (
    SGD as SGD,
    AdaDelta as AdaDelta,
    Adafactor as Adafactor,
    Adagrad as Adagrad,
    Adam as Adam,
    Adamax as Adamax,
    AdamW as AdamW,
    Lion as Lion,
    MultiOptimizer as MultiOptimizer,
    Muon as Muon,
    Optimizer as Optimizer,
    RMSprop as RMSprop,
    clip_grad_norm as clip_grad_norm,
)
from olivine.optimizers.schedulers import (
    cosine_decay as cosine_decay,
    exponential_decay as exponential_decay,
    join_schedules as join_schedules,
    linear_schedule as linear_schedule,
    step_decay as step_decay,
)
