"""Attacks on trained models, and what they leave of the accuracy."""

from .attack import Attack
from .attacks import FGSM, PGD
from .criterion import Criterion, Misclassification, Targeted
from .distances import DISTANCES, Norm
from .errors import ArmourError, InvalidInput, InvalidModel, InvalidSearch, UnknownAttack
from .evaluate import evaluate
from .evaluation import WORST_CASE, Evaluation
from .model import Model, Normalization, wrap
from .problem import Problem
from .registry import ATTACKS, make_attack
from .result import AttackResult

__all__ = [
    "ATTACKS",
    "DISTANCES",
    "FGSM",
    "PGD",
    "WORST_CASE",
    "ArmourError",
    "Attack",
    "AttackResult",
    "Criterion",
    "Evaluation",
    "InvalidInput",
    "InvalidModel",
    "InvalidSearch",
    "Misclassification",
    "Model",
    "Norm",
    "Normalization",
    "Problem",
    "Targeted",
    "UnknownAttack",
    "evaluate",
    "make_attack",
    "wrap",
]
