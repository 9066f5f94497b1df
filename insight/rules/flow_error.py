"""Normalising flows whose likelihood is not that of their map."""

from collections.abc import Iterator
from typing import Final

from ...storage import Finding, Severity
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_DETERMINANT, _TRANSFORMED = "log_determinant_is_that_of_the_map", "every_dimension_is_transformed"
_WEIGHED, _INVERTED = "likelihood_adds_its_terms_alike", "inverse_undoes_the_map"

_LIKELIHOOD: Final = "the loss is not the negative log-likelihood of the data"
#: By check: what follows, what to do, how serious it is, and the metric that shows it.
_BROKEN: Final[dict[str, tuple[str, str, Severity, str]]] = {
    _DETERMINANT: (
        _LIKELIHOOD,
        "add up the log-determinants of all layers, with the sign of the direction that is computed, and over all "
        "dimensions of a sample",
        "error",
        "scalar/loss",
    ),
    _TRANSFORMED: (
        "no layer transforms it, so it keeps its distribution",
        "exchange the halves, or the masks, between coupling layers",
        "warning",
        "activation/mean",
    ),
    _WEIGHED: (
        _LIKELIHOOD,
        "sum the log-density of z over all dimensions of a sample, as the log-determinant is",
        "error",
        "scalar/loss",
    ),
    _INVERTED: (
        "what is sampled through it does not come from the distribution that is trained",
        "undo the operations of the forward map one by one, the last one first",
        "error",
        "activation/mean",
    ),
}


def _tried(check: str, outcome: str, occasion: int = 2) -> Recording:
    return Recording(structure=_MODEL, events=(refuting_event(check, "words", outcome=outcome, occasion=occasion),))


@rule(
    "flow-error",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_fact=True,
    is_optional=True,
    fires_on=tuple(_tried(one, "broken") for one in (_DETERMINANT, _TRANSFORMED, _WEIGHED, _INVERTED)),
    # layers that begin as the identity change nothing at first
    silent_on=(
        *(_tried(one, "held") for one in (_DETERMINANT, _TRANSFORMED, _WEIGHED, _INVERTED)),
        _tried(_TRANSFORMED, "broken", 1),
    ),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a normalising flow that is trained by a likelihood that its map does not have.

    Where the gradients of a loss show it to be the likelihood of a flow with a standard normal, the probe calls a copy
    of the model with the batches of steps 1 and 25. It compares the log-determinant that the model returns with that of
    the Jacobian of its map (Dinh et al. 2017, arXiv:1605.08803, equation 3), asks whether the log-density of z enters
    the loss with the weight of the log-determinant, and looks for dimensions that come out as they went in, or times
    one number. With a wrong log-determinant or weight the training maximises something else; a dimension that is never
    changed keeps its distribution, and the others can only depend on it. Where layers have an inverse, it is called
    with what they return: samples are drawn through it.
    """
    del memory
    for name, (consequence, advice, severity, metric) in _BROKEN.items():
        for event in refuted(context, name, occasion=2):
            yield refutation(context, event, consequence=consequence, advice=advice, metric=metric, severity=severity)
