"""The table of optimizers, a line for each: how to make it, a slow version in plain NumPy, and its twin in PyTorch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from mindscope.framework import Parameter, optim

from tests.contracts.optimizer_formulas import (
    slow_adafactor,
    slow_adagrad,
    slow_adam,
    slow_lamb,
    slow_lars,
    slow_lion,
    slow_muon,
    slow_rmsprop,
    slow_sgd,
)


@dataclass(frozen=True, slots=True)
class Case:
    make: Any
    slow: Any
    twin: Any
    options: dict[str, Any]
    #: Whether an element's step depends on no other element: then one bad gradient spoils nothing else.
    is_elementwise: bool = True
    #: The options of the twin, where it calls them otherwise.
    twin_options: dict[str, Any] | None = None
    #: Which of the parameters the twin can take, and how near it comes in float32.
    twin_takes: tuple[int, ...] = (0, 1, 2, 3)
    twin_tolerance: tuple[float, float] = (2e-5, 2e-6)


OPTIMIZERS = {
    "SGD": Case(lambda p, r=0.1: optim.SGD(p, r), slow_sgd, "SGD", {}),
    "SGD-decay": Case(lambda p, r=0.1: optim.SGD(p, r, weight_decay=0.05), slow_sgd, "SGD", {"weight_decay": 0.05}),
    "SGD-dampened": Case(
        lambda p, r=0.1: optim.SGD(p, r, momentum=0.9, dampening=0.3),
        slow_sgd,
        "SGD",
        {"momentum": 0.9, "dampening": 0.3},
    ),
    "Momentum": Case(
        lambda p, r=0.1: optim.Momentum(p, r, 0.9, weight_decay=0.01),
        slow_sgd,
        "SGD",
        {"momentum": 0.9, "weight_decay": 0.01},
    ),
    "Momentum-nesterov": Case(
        lambda p, r=0.1: optim.Momentum(p, r, 0.8, use_nesterov=True),
        slow_sgd,
        "SGD",
        {"momentum": 0.8, "nesterov": True},
    ),
    "Adam": Case(lambda p, r=0.1: optim.Adam(p, r), slow_adam, "Adam", {}),
    "Adam-decay": Case(
        lambda p, r=0.1: optim.Adam(p, r, 0.8, 0.99, 1e-6, 0.05),
        slow_adam,
        "Adam",
        {"betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.05},
    ),
    "AdamW": Case(
        lambda p, r=0.1: optim.AdamW(p, r, weight_decay=0.05),
        lambda *a, **k: slow_adam(*a, decoupled=True, **k),
        "AdamW",
        {"weight_decay": 0.05},
    ),
    "Adagrad": Case(lambda p, r=0.1: optim.Adagrad(p, r), slow_adagrad, "Adagrad", {}),
    "Adagrad-decay": Case(
        lambda p, r=0.1: optim.Adagrad(p, r, 0.2, 0.05, 0.1, 1e-6),
        slow_adagrad,
        "Adagrad",
        {"lr_decay": 0.2, "weight_decay": 0.05, "initial_accumulator_value": 0.1, "eps": 1e-6},
    ),
    "RMSprop": Case(lambda p, r=0.1: optim.RMSprop(p, r), slow_rmsprop, "RMSprop", {}),
    "RMSprop-centred": Case(
        lambda p, r=0.1: optim.RMSprop(p, r, 0.9, 1e-6, 0.05, 0.8, True),
        slow_rmsprop,
        "RMSprop",
        {"alpha": 0.9, "eps": 1e-6, "weight_decay": 0.05, "momentum": 0.8, "centered": True},
        twin_tolerance=(2e-4, 2e-5),
    ),
    "Lion": Case(
        lambda p, r=0.1: optim.Lion(p, r, 0.8, 0.95, 0.05),
        slow_lion,
        None,
        {"beta1": 0.8, "beta2": 0.95, "weight_decay": 0.05},
    ),
    "Lamb": Case(
        lambda p, r=0.1: optim.Lamb(p, r, weight_decay=0.05),
        slow_lamb,
        None,
        {"weight_decay": 0.05},
        is_elementwise=False,
    ),
    "Lars": Case(
        lambda p, r=0.1: optim.Lars(p, r, 0.8, 0.05, 0.1),
        slow_lars,
        None,
        {"momentum": 0.8, "weight_decay": 0.05, "coefficient": 0.1},
        is_elementwise=False,
    ),
    "Lars-unscaled": Case(
        lambda p, r=0.1: optim.Lars(p, r, coefficient=0.0),
        lambda *a, **k: slow_lars(*a, coefficient=0.0, **k),
        None,
        {},
    ),
    "Adafactor": Case(
        lambda p, r=0.1: optim.Adafactor(p, r, weight_decay=0.05),
        slow_adafactor,
        "Adafactor",
        {"weight_decay": 0.05},
        is_elementwise=False,
    ),
    "Muon": Case(
        lambda p, r=0.1: optim.Muon(p, r),
        slow_muon,
        "Muon",
        {},
        is_elementwise=False,
        twin_options={"adjust_lr_fn": "match_rms_adamw"},
        twin_takes=(0,),
        twin_tolerance=(0.05, 0.1),  # the twin's iteration runs in bfloat16
    ),
    "Muon-original": Case(
        lambda p, r=0.1: optim.Muon(p, r, 0.9, False, 0.05, adjust="original"),
        lambda *a, **k: slow_muon(*a, ratio=lambda m, n: np.sqrt(max(1.0, m / n)), **k),
        "Muon",
        {"momentum": 0.9, "nesterov": False, "weight_decay": 0.05},
        is_elementwise=False,
        twin_takes=(0,),
        twin_tolerance=(0.05, 0.1),
    ),
}


every_optimizer = pytest.mark.parametrize("case", OPTIMIZERS.values(), ids=OPTIMIZERS)
SHAPES = ((3, 5), (7,), (), (2, 1, 3))


def parameters(dtype=np.float64, seed=0) -> list[Parameter]:
    generator = np.random.default_rng(seed)
    return [Parameter(generator.standard_normal(s).astype(dtype), f"p{n}") for n, s in enumerate(SHAPES)]


def gradients(dtype=np.float64, seed=1):
    generator = np.random.default_rng(seed)
    return tuple(generator.standard_normal(shape).astype(dtype) for shape in SHAPES)
