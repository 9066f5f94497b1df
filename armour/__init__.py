"""Attacks on trained models, and what they leave of the accuracy."""

from .attack import Attack
from .attacks import APGDCE, APGDDLR, APGDT, BIM, DDN, FABT, FGSM, MIFGSM, PGD, DeepFool, Square
from .criterion import Criterion, Misclassification, Targeted
from .distances import DISTANCES, Norm
from .errors import ArmourError, InvalidInput, InvalidModel, InvalidSearch, UnknownAttack
from .evaluate import evaluate
from .evaluation import WORST_CASE, Evaluation
from .masking import Symptom
from .model import Model, Normalization, wrap
from .problem import Problem
from .registry import ATTACKS, make_attack
from .result import AttackResult

__all__ = [
    "APGDCE",
    "APGDDLR",
    "APGDT",
    "ATTACKS",
    "BIM",
    "DDN",
    "DISTANCES",
    "FABT",
    "FGSM",
    "MIFGSM",
    "PGD",
    "WORST_CASE",
    "ArmourError",
    "Attack",
    "AttackResult",
    "Criterion",
    "DeepFool",
    "Evaluation",
    "InvalidInput",
    "InvalidModel",
    "InvalidSearch",
    "Misclassification",
    "Model",
    "Norm",
    "Normalization",
    "Problem",
    "Square",
    "Symptom",
    "Targeted",
    "UnknownAttack",
    "evaluate",
    "make_attack",
    "wrap",
]
