"""Optimizers, learning rates that change, clipping, and scaling of the loss for half precision."""

from .adam import Adam, AdamW, AdamWeightDecay
from .clip import clip_by_global_norm
from .loss_scale import DynamicLossScaler
from .optimizer import Optimizer
from .schedule import Constant, CosineDecay, ExponentialDecay, Piecewise, PolynomialDecay, Schedule, StepDecay
from .sgd import SGD, Momentum

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "AdamWeightDecay",
    "Constant",
    "CosineDecay",
    "DynamicLossScaler",
    "ExponentialDecay",
    "Momentum",
    "Optimizer",
    "Piecewise",
    "PolynomialDecay",
    "Schedule",
    "StepDecay",
    "clip_by_global_norm",
]
