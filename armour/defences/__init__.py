"""Defences: recipes of training that make a model robust, and transforms of its input."""

from ..detectors.squeezing import BitDepth, MedianSmoothing
from .adversarial import Adversarial
from .distillation import Distillation
from .ensemble import Ensemble
from .free import FreeTraining
from .inner import Inner, fast, single_step
from .input_transforms import Jpeg, Transform, transformed
from .recipe import Lesson, Recipe
from .trades import Trades
from .training import DefendedStep, DefendedTraining, robust_accuracy

__all__ = [
    "Adversarial",
    "BitDepth",
    "DefendedStep",
    "DefendedTraining",
    "Distillation",
    "Ensemble",
    "FreeTraining",
    "Inner",
    "Jpeg",
    "Lesson",
    "MedianSmoothing",
    "Recipe",
    "Trades",
    "Transform",
    "fast",
    "robust_accuracy",
    "single_step",
    "transformed",
]
