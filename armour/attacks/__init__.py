"""The catalogue of attacks, one line a file, sorted."""

from .apgd import APGDCE, APGDDLR, APGDT
from .bim import BIM
from .boundary import Boundary
from .brendel_bethge import BrendelBethge
from .carlini_wagner import CarliniWagner
from .ddn import DDN
from .deepfool import DeepFool
from .diverse import DIFGSM
from .ead import EAD
from .fab import FABT
from .fgsm import FGSM
from .fmn import FMN
from .genetic import Genetic
from .hop_skip_jump import HopSkipJump
from .jsma import JSMA
from .lbfgs import LBFGS
from .least_likely import LeastLikelyBIM, LeastLikelyFGSM
from .momentum import MIFGSM
from .nes import NES
from .pgd import PGD
from .plain_noise import PlainNoise
from .pointwise import Pointwise
from .pso import PSO
from .random_fgsm import FastFGSM, RandomFGSM
from .salt_and_pepper import SaltAndPepper
from .spatial import Spatial
from .spsa import SPSA
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
