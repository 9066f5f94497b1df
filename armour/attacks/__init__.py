"""The catalogue of attacks, one line a file, sorted."""

from .decision_based import Boundary, HopSkipJump, PlainNoise, Spatial
from .gradient_sign import BIM, DIFGSM, FGSM, MIFGSM, FastFGSM, LeastLikelyBIM, LeastLikelyFGSM, RandomFGSM
from .linearized_boundary import FABT, BrendelBethge, DeepFool
from .minimum_norm import DDN, FMN
from .penalty import EAD, LBFGS, CarliniWagner
from .projected_gradient import APGDCE, APGDDLR, APGDT, PGD
from .score_based import NES, PSO, SPSA, Genetic
from .sparse_attacks import JSMA, Pointwise, SaltAndPepper
from .square import Square

__all__ = [
    "APGDCE",
    "APGDDLR",
    "APGDT",
    "BIM",
    "DDN",
    "DIFGSM",
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
    "Boundary",
    "BrendelBethge",
    "CarliniWagner",
    "DeepFool",
    "FastFGSM",
    "Genetic",
    "HopSkipJump",
    "LeastLikelyBIM",
    "LeastLikelyFGSM",
    "PlainNoise",
    "Pointwise",
    "RandomFGSM",
    "SaltAndPepper",
    "Spatial",
    "Square",
]
