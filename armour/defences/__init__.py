"""Defences: recipes of training that make a model robust, and transforms of its input."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from ..detectors.prediction_detectors import BitDepth, MedianSmoothing
from .defence_recipes import (
    Adversarial,
    Distillation,
    EnsembleAdversarial,
    Inner,
    Lesson,
    Recipe,
    Trades,
    fast,
    single_step,
)
from .defended_training import DefendedStep, DefendedTraining, FreeTraining, robust_accuracy
from .input_transforms import Jpeg, Transform, transformed

__all__ = [
    "Adversarial",
    "BitDepth",
    "DefendedStep",
    "DefendedTraining",
    "Distillation",
    "EnsembleAdversarial",
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

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Ensemble": "EnsembleAdversarial"})
