"""The catalogue of attacks, one line a file, sorted."""

from .fgsm import FGSM
from .pgd import PGD

__all__ = ["FGSM", "PGD"]
