"""The catalogue of attacks, one line a file, sorted."""

from .apgd import APGDCE, APGDDLR, APGDT
from .bim import BIM
from .ddn import DDN
from .deepfool import DeepFool
from .fab import FABT
from .fgsm import FGSM
from .momentum import MIFGSM
from .pgd import PGD
from .square import Square

__all__ = ["APGDCE", "APGDDLR", "APGDT", "BIM", "DDN", "FABT", "FGSM", "MIFGSM", "PGD", "DeepFool", "Square"]
