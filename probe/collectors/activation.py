"""Activations: what each module hands on."""

from ..kernels import STATISTICS, measure
from .collector import array_collector

ACTIVATION = array_collector(
    "activation",
    measure,
    at="forward",
    columns=STATISTICS,
    doc="""Statistics of every module's output, read as the module returns, before anything can change it in place.

    The first tensor of a nested output has the module's own site; others have their path behind it: `lstm[1][0]`.""",
)
