"""Detectors of adversarial inputs: scores, and alarms calibrated on clean inputs."""

from .detector import Alarm, Detector, Features, calibrate
from .ensemble import Ensemble, fit_ensemble
from .local_intrinsic_dimension import LocalIntrinsicDimension
from .magnet import PredictionDivergence, PrincipalComponents, ReconstructionError, fit_principal_components
from .mahalanobis import Mahalanobis, fit_mahalanobis
from .named import DETECTORS, fit_detector
from .region_based import RegionBased
from .similarity import QuerySimilarity
from .squeezing import BitDepth, FeatureSqueezing, MedianSmoothing, spatial_smoothing

__all__ = [
    "DETECTORS",
    "Alarm",
    "BitDepth",
    "Detector",
    "Ensemble",
    "FeatureSqueezing",
    "Features",
    "LocalIntrinsicDimension",
    "Mahalanobis",
    "MedianSmoothing",
    "PredictionDivergence",
    "PrincipalComponents",
    "QuerySimilarity",
    "ReconstructionError",
    "RegionBased",
    "calibrate",
    "fit_detector",
    "fit_ensemble",
    "fit_mahalanobis",
    "fit_principal_components",
    "spatial_smoothing",
]
