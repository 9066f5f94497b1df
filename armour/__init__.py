"""Attacks on trained models, and the accuracy that they leave."""

import typing

from ..storage import renamed_names
from ..storage.evaluation_verdict import WORST_CASE, Symptom
from .attacks import (
    APGDCE,
    APGDDLR,
    APGDT,
    BIM,
    DDN,
    DIFGSM,
    EAD,
    FABT,
    FGSM,
    FMN,
    JSMA,
    LBFGS,
    MIFGSM,
    NES,
    PGD,
    PSO,
    SPSA,
    Boundary,
    BrendelBethge,
    CarliniWagner,
    DeepFool,
    FastFGSM,
    Genetic,
    HopSkipJump,
    LeastLikelyBIM,
    LeastLikelyFGSM,
    PlainNoise,
    Pointwise,
    RandomFGSM,
    SaltAndPepper,
    Spatial,
    Square,
)
from .contract.attack import ATTACKS, Attack, make_attack
from .contract.attack_result import AttackResult
from .distances import DISTANCES, Norm
from .errors import ArmourError, InvalidInput, InvalidModel, InvalidSearch, QueriesExhausted, UnknownAttack
from .evaluation.evaluate import evaluate
from .evaluation.evaluation_report import Evaluation
from .evaluation.expectation import expected
from .model import Features, MultiLabel, Normalization, Regression, Segmentation, WrappedModel, wrap
from .problem import Problem
from .problem.criterion import Criterion, Misclassification, Targeted

__all__ = [
    "APGDCE",
    "APGDDLR",
    "APGDT",
    "ATTACKS",
    "BIM",
    "DDN",
    "DIFGSM",
    "DISTANCES",
    "EAD",
    "FABT",
    "FGSM",
    "FMN",
    "JSMA",
    "LBFGS",
    "MIFGSM",
    "NES",
    "PGD",
    "PSO",
    "SPSA",
    "WORST_CASE",
    "ArmourError",
    "Attack",
    "AttackResult",
    "Boundary",
    "BrendelBethge",
    "CarliniWagner",
    "Criterion",
    "DeepFool",
    "Evaluation",
    "FastFGSM",
    "Features",
    "Genetic",
    "HopSkipJump",
    "InvalidInput",
    "InvalidModel",
    "InvalidSearch",
    "LeastLikelyBIM",
    "LeastLikelyFGSM",
    "Misclassification",
    "MultiLabel",
    "Norm",
    "Normalization",
    "PlainNoise",
    "Pointwise",
    "Problem",
    "QueriesExhausted",
    "RandomFGSM",
    "Regression",
    "SaltAndPepper",
    "Segmentation",
    "Spatial",
    "Square",
    "Symptom",
    "Targeted",
    "UnknownAttack",
    "WrappedModel",
    "evaluate",
    "expected",
    "make_attack",
    "wrap",
]

if not typing.TYPE_CHECKING:
    __getattr__ = renamed_names.renamed(__name__, {"Model": "WrappedModel"})
