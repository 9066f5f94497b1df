"""Detectors by their names, each fitted on clean inputs with what its paper leaves to the user chosen here."""

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import nearest
from ..array_api import Images
from ..errors import InvalidInput
from ..model import WrappedModel
from ..model.classifier import model_logits
from .detector import Detector, Features, flat_features
from .feature_detectors import LocalIntrinsicDimension, fit_mahalanobis
from .prediction_detectors import (
    BitDepth,
    FeatureSqueezing,
    MedianSmoothing,
    PredictionDivergence,
    PrincipalComponents,
    ReconstructionError,
    RegionBased,
    Squeezer,
    fit_principal_components,
    spatial_smoothing,
)

#: Share of the variance of clean inputs that MagNet's linear autoencoder keeps: Jolliffe 2002, section 6.1.1.
_KEPT: Final = 0.95
_NEIGHBOURS: Final = 20  # Ma et al. 2018, section 5.1

Classes = NDArray[np.int64]


def fit_detector(name: str, model: WrappedModel, clean: Images, y: Classes) -> Detector:
    """Fit the detector of that name.

    Args:
        name: One of `DETECTORS`.
        model: Wrapped; detectors of features use its logits.
        clean: `(n, ...)` clean inputs.
        y: `(n,)` their classes.

    Raises:
        InvalidInput: There is no such detector, or it cannot look at such inputs.
    """
    if name not in DETECTORS:
        raise InvalidInput(f"no detector {name!r}{nearest(name, DETECTORS) or '; there are ' + ', '.join(DETECTORS)}")
    return DETECTORS[name](model, clean, y)


def _squeezing(model: WrappedModel, clean: Images, _: Classes) -> Detector:
    if model.bounds != (0.0, 1.0):
        raise InvalidInput(f"feature-squeezing expects inputs of the unit box, got bounds {model.bounds}")
    smoothing: tuple[Squeezer, ...] = (MedianSmoothing(2),) if clean.ndim > 2 else ()
    return FeatureSqueezing(model, (BitDepth(4), *smoothing))


def _region(model: WrappedModel, _: Images, __: Classes) -> Detector:
    low, high = model.bounds
    return RegionBased(model, radius=0.3 * (high - low))


def _neighbourhood(model: WrappedModel, clean: Images, _: Classes) -> Detector:
    features = _logits_of(model)
    reference = flat_features(features, clean)
    return LocalIntrinsicDimension(features, reference, min(_NEIGHBOURS, len(reference) - 1))


def _logits_of(model: WrappedModel) -> Features:
    def logits(x: Images) -> NDArray[np.generic]:
        return model_logits(model, x)

    return logits


def _autoencoder(clean: Images) -> PrincipalComponents:
    """Project on as few directions as keep most of the variance."""
    flat = np.asarray(clean, np.float64).reshape(len(clean), -1)
    variances = np.linalg.svd(flat - flat.mean(axis=0), compute_uv=False) ** 2
    enough = 1 + int(np.searchsorted(np.cumsum(variances), _KEPT * variances.sum()))
    return fit_principal_components(clean, min(enough, len(variances)))


DETECTORS: Final[dict[str, Callable[[WrappedModel, Images, Classes], Detector]]] = {
    "feature-squeezing": _squeezing,
    "local-intrinsic-dimension": _neighbourhood,
    "magnet-divergence": lambda model, clean, _: PredictionDivergence(model, _autoencoder(clean)),
    "magnet-error": lambda _, clean, __: ReconstructionError(_autoencoder(clean)),
    "mahalanobis": lambda model, clean, y: fit_mahalanobis(_logits_of(model), clean, y),
    "region-based": _region,
    "spatial-smoothing": lambda model, _, __: spatial_smoothing(model),
}
