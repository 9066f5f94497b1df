"""Detectors of adversarial inputs: scores, and alarms calibrated on clean inputs."""

from typing import TYPE_CHECKING

from ...storage.renamed_names import renamed
from .detector import Alarm, Detector, DetectorEnsemble, Features, calibrate, fit_ensemble
from .feature_detectors import LocalIntrinsicDimension, Mahalanobis, QuerySimilarity, fit_mahalanobis
from .named_detectors import DETECTORS, fit_detector
from .prediction_detectors import (
    BitDepth,
    FeatureSqueezing,
    MedianSmoothing,
    PredictionDivergence,
    PrincipalComponents,
    ReconstructionError,
    RegionBased,
    fit_principal_components,
    spatial_smoothing,
)

__all__ = [
    "DETECTORS",
    "Alarm",
    "BitDepth",
    "Detector",
    "DetectorEnsemble",
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

if not TYPE_CHECKING:
    __getattr__ = renamed(__name__, {"Ensemble": "DetectorEnsemble"})
