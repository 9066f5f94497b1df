"""Whether the data still are what the model was trained on."""

from .online import PageHinkley
from .out_of_distribution import Energy
from .two_sample import Drift, ks_drift, mmd_drift

__all__ = ["Drift", "Energy", "PageHinkley", "ks_drift", "mmd_drift"]
