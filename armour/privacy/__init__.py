"""How much a model gives away of its training data, and training that bounds it."""

from .accountant import ACCOUNTANTS, Accountant, Ledger, Phase, epsilon, noise_for
from .inversion import Inversion, invert_classes, reconstruct
from .leakage import Leakage, measure_leakage
from .mechanism import AdaptiveClipping, AdaptiveGaussian, Clipping, FixedClipping, Gaussian, Noise
from .membership_inference import (
    Shadows,
    lira_attack,
    lira_scores,
    shadow_attack,
    threshold_attack,
    train_shadows,
)
from .training import PrivateStep, PrivateTraining

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "AdaptiveClipping",
    "AdaptiveGaussian",
    "Clipping",
    "FixedClipping",
    "Gaussian",
    "Inversion",
    "Leakage",
    "Ledger",
    "Noise",
    "Phase",
    "PrivateStep",
    "PrivateTraining",
    "Shadows",
    "epsilon",
    "invert_classes",
    "lira_attack",
    "lira_scores",
    "measure_leakage",
    "noise_for",
    "reconstruct",
    "shadow_attack",
    "threshold_attack",
    "train_shadows",
]
