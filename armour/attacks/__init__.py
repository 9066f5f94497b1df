"""The catalogue of attacks, one line a file, sorted."""

from .apgd import APGDCE, APGDDLR, APGDT
from .deepfool import DeepFool
from .fab import FABT
from .fgsm import FGSM
from .pgd import PGD
from .square import Square

__all__ = ["APGDCE", "APGDDLR", "APGDT", "FABT", "FGSM", "PGD", "DeepFool", "Square"]
