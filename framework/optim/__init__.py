"""Optimizers, learning rates that change, averages of weights, clipping, and scaling of the loss for half precision."""

from .adafactor import AdaFactor, Adafactor
from .adam import Adam, AdamW, AdamWeightDecay
from .adaptive import Adagrad, RMSProp, RMSprop
from .arena import Arena, GradientArena
from .average import ExponentialMovingAverage
from .clip import clip_by_global_norm
from .cycle import CosineRestarts, InverseSquareRoot, Listed, OneCycle, WarmUp
from .layerwise import LARS, Lamb, Lars
from .lion import Lion
from .loss_scale import DynamicLossScaler, StaticLossScaler
from .muon import Muon
from .optimizer import Optimizer
from .schedule import Constant, CosineDecay, ExponentialDecay, Piecewise, PolynomialDecay, Schedule, StepDecay
from .sgd import SGD, Momentum

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
    "Constant",
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
