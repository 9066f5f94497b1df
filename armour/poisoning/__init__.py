"""Poison in the training data and triggers in the inputs."""

from .spectral import Suspicion, activation_clustering, spectral_signatures
from .strip import Strip

__all__ = ["Strip", "Suspicion", "activation_clustering", "spectral_signatures"]
