"""Leakage of training data through a model, and training that bounds it."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from .inversion import Inversion, invert_classes, reconstruct
from .membership_inference import (
    Leakage,
    Shadows,
    lira_attack,
    lira_scores,
    measure_leakage,
    shadow_attack,
    threshold_attack,
    train_shadows,
)
from .privacy_accountant import ACCOUNTANTS, Accountant, Phase, PrivacyLedger, epsilon, noise_for
from .private_training import (
    AdaptiveClipping,
    AdaptiveGaussian,
    Clipping,
    FixedClipping,
    Gaussian,
    Noise,
    PrivateStep,
    PrivateTraining,
)

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
    "Noise",
    "Phase",
    "PrivacyLedger",
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

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Ledger": "PrivacyLedger"})
