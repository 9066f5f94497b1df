"""Activation gradients: what arrives at each module's output on the way back."""

from ..kernels import STATISTICS, measure
from .collector import array_collector

ACTIVATION_GRAD = array_collector(
    "activation_grad",
    measure,
    at="backward",
    columns=STATISTICS,
    doc="""Statistics of the gradient that arrives at every module's output, summed over all uses of the output.""",
)
