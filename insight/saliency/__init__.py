"""What in an input a model's answer depends on, and how far such an explanation can be trusted."""

from .contract import Gradient, Score
from .explanation import METHODS, WITHOUT_GRADIENT, Explanation, explain
from .faithfulness import Curve, deletion, faithfulness, insertion
from .grad_cam import grad_cam
from .gradients import integrated_gradients, plain_gradient, smooth_gradient
from .localisation import Localisation, localisation
from .perturbations import occlusion, rise
from .stability import Stability, stability
from .stored import explanations_in, write_explanations

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
