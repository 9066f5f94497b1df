"""Lower bounds of robustness, proven by bounds of the network or by noise: no attack can beat them."""

from .certify import Certificate, certified_radius, certify
from .smoothing import ABSTAIN, Smoothed, certified_smoothing_radius, smooth

__all__ = [
    "ABSTAIN",
    "Certificate",
    "Smoothed",
    "certified_radius",
    "certified_smoothing_radius",
    "certify",
    "smooth",
]
