"""Schedules: functions from the number of a step to a learning rate (or another hyperparameter).

Steps are counted from zero. A schedule takes an integer or a scalar array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import olivine.core as mx

Schedule: TypeAlias = Callable[[Any], Any]


def _check_positive(schedule: str, name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"[{schedule}] {name} must be greater than 0, but got {value}.")


def exponential_decay(init: float, decay_rate: float) -> Schedule:
    """``init * decay_rate ** step``.

    >>> import olivine.optimizers as optim
    >>> optim.exponential_decay(1.0, 0.5)(3)
    0.125
    """

    def schedule(step: Any) -> Any:
        return init * decay_rate**step

    return schedule


def step_decay(init: float, decay_rate: float, step_size: int) -> Schedule:
    """``init``, multiplied by `decay_rate` after every `step_size` steps.

    Raises:
        ValueError: `step_size` is below 1.

    >>> import olivine.optimizers as optim
    >>> optim.step_decay(1.0, 0.5, 10)(25)
    0.25
    """
    _check_positive("step_decay", "step_size", step_size)

    def schedule(step: Any) -> Any:
        return init * decay_rate ** (step // step_size)

    return schedule


def cosine_decay(init: float, decay_steps: int, end: float = 0.0) -> Schedule:
    """Half a wave from `init` down to `end` in `decay_steps` steps, then `end`.

    Raises:
        ValueError: `decay_steps` is below 1.

    >>> import olivine.optimizers as optim
    >>> [round(optim.cosine_decay(1.0, 10)(step).item(), 4) for step in (0, 5, 20)]
    [1.0, 0.5, 0.0]
    """
    _check_positive("cosine_decay", "decay_steps", decay_steps)

    def schedule(step: Any) -> mx.array:
        angle = math.pi / decay_steps * mx.minimum(step, decay_steps)
        return end + 0.5 * (1.0 + mx.cos(angle)) * (init - end)

    return schedule


def linear_schedule(init: float, end: float, steps: int) -> Schedule:
    """A straight line from `init` to `end` in `steps` steps, then `end`.

    Raises:
        ValueError: `steps` is below 1.

    >>> import olivine.optimizers as optim
    >>> [optim.linear_schedule(0.0, 1.0, 4)(step).item() for step in (0, 1, 9)]
    [0.0, 0.25, 1.0]
    """
    _check_positive("linear_schedule", "steps", steps)

    def schedule(step: Any) -> mx.array:
        return mx.minimum(step, steps) * ((end - init) / steps) + init

    return schedule


def join_schedules(schedules: list[Schedule], boundaries: list[int]) -> Schedule:
    """Schedules one after the other. Each counts its steps from zero.

    Args:
        schedules: at least one.
        boundaries: the first step of each but the first.

    Raises:
        ValueError: no schedules, or another number of boundaries.

    >>> import olivine.optimizers as optim
    >>> warm_up = optim.linear_schedule(0.0, 1.0, 4)
    >>> schedule = optim.join_schedules([warm_up, optim.exponential_decay(1.0, 0.5)], [4])
    >>> [schedule(step).item() for step in (2, 4, 6)]
    [0.5, 1.0, 0.25]
    """
    if not schedules:
        raise ValueError("[join_schedules] Must provide at least 1 schedule to join.")
    if len(schedules) != len(boundaries) + 1:
        raise ValueError(
            f"[join_schedules] Received {len(boundaries)} boundaries but expected {len(schedules) - 1}."
        )

    def schedule(step: Any) -> Any:
        value = schedules[0](step)
        for boundary, later in zip(boundaries, schedules[1:]):
            # A later schedule never sees a step before its own first one, which unsigned steps would wrap.
            value = mx.where(step < boundary, value, later(mx.maximum(step, boundary) - boundary))
        return value

    return schedule
