"""Inputs: what every module was called with, and the gradients of that."""

from ..kernels import STATISTICS, measure
from .collector import array_collector

INPUT = array_collector(
    "input",
    measure,
    at="forward",
    columns=STATISTICS,
    is_optional=True,
    doc="""Statistics of every module's inputs, positional and by keyword, read before the module can change them.

    The first tensor has the module's own site; others have their path behind it: `attn[1]`, `attn[mask]`. Off unless
    the configuration names it: most inputs are the outputs of other modules.""",
)

INPUT_GRAD = array_collector(
    "input_grad",
    measure,
    at="backward",
    columns=STATISTICS,
    is_optional=True,
    doc="""Statistics of the gradient of every module's inputs, summed over all uses of the tensor.

    Off unless the configuration names it.""",
)
