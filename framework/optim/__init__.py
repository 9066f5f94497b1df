"""Optimizers, learning rates that change, averages of weights, clipping, and scaling of the loss for half precision."""

import warnings

from .elementwise_optimizers import SGD, Adagrad, Adam, AdamW, AdamWeightDecay, Lion, Momentum, RMSProp, RMSprop
from .gradient_clipping import clip_by_global_norm
from .loss_scaling import DynamicLossScaler, StaticLossScaler
from .optimizer import Optimizer
from .optimizer_memory import Arena, GradientArena
from .rate_schedules import (
    ConstantRate,
    CosineDecay,
    CosineRestarts,
    ExponentialDecay,
    InverseSquareRoot,
    Listed,
    OneCycle,
    Piecewise,
    PolynomialDecay,
    Schedule,
    StepDecay,
    WarmUp,
)
from .tensorwise_optimizers import LARS, AdaFactor, Adafactor, Lamb, Lars, Muon
from .weight_average import ExponentialMovingAverage

__all__ = [
    "LARS",
    "SGD",
    "AdaFactor",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdamWeightDecay",
    "Arena",
    "ConstantRate",
    "CosineDecay",
    "CosineRestarts",
    "DynamicLossScaler",
    "ExponentialDecay",
    "ExponentialMovingAverage",
    "GradientArena",
    "InverseSquareRoot",
    "Lamb",
    "Lars",
    "Lion",
    "Listed",
    "Momentum",
    "Muon",
    "OneCycle",
    "Optimizer",
    "Piecewise",
    "PolynomialDecay",
    "RMSProp",
    "RMSprop",
    "Schedule",
    "StaticLossScaler",
    "StepDecay",
    "WarmUp",
    "clip_by_global_norm",
]


def __getattr__(name: str) -> object:
    """Return a renamed export under its old name, for one release more."""
    if name == "Constant":
        warnings.warn("framework.optim.Constant is now ConstantRate; import that name", DeprecationWarning, 2)
        return ConstantRate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
