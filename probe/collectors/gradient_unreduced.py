"""Local gradients: what each backward pass of this process adds, before ranks or micro-batches are put together."""

from ..kernels import STATISTICS, measure
from .collector import array_collector

GRADIENT_UNREDUCED = array_collector(
    "gradient/unreduced",
    measure,
    at="backward",
    columns=STATISTICS,
    is_optional=True,
    doc="""Statistics of the gradient that one backward pass of this process found for every parameter.

    Read before it is added to what earlier micro-batches left and before ranks reduce it; one row a micro-step. Off
    unless the configuration names it.""",
)
