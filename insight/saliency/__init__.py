"""Explains which parts of an input a model's answer depends on, and how far to trust that."""

from .attribution import (
    Gradient,
    Score,
    grad_cam,
    integrated_gradients,
    occlusion,
    plain_gradient,
    rise,
    smooth_gradient,
)
from .attribution_quality import (
    Curve,
    Localisation,
    Stability,
    deletion,
    faithfulness,
    insertion,
    localisation,
    stability,
)
from .explanation import METHODS, WITHOUT_GRADIENT, Explanation, explain, explanations_in, write_explanations

__all__ = [
    "METHODS",
    "WITHOUT_GRADIENT",
    "Curve",
    "Explanation",
    "Gradient",
    "Localisation",
    "Score",
    "Stability",
    "deletion",
    "explain",
    "explanations_in",
    "faithfulness",
    "grad_cam",
    "insertion",
    "integrated_gradients",
    "localisation",
    "occlusion",
    "plain_gradient",
    "rise",
    "smooth_gradient",
    "stability",
    "write_explanations",
]
