"""Normalising flows whose likelihood is not that of their map."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_DETERMINANT, _TRANSFORMED = "log_determinant_is_that_of_the_map", "every_dimension_is_transformed"


def _tried(check: str, outcome: str, occasion: int = 2) -> Recording:
    return Recording(structure=_MODEL, events=(refuting_event(check, "words", outcome=outcome, occasion=occasion),))


@rule(
    "flow-error",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_fact=True,
    is_optional=True,
    fires_on=(_tried(_DETERMINANT, "broken"), _tried(_TRANSFORMED, "broken")),
    # layers that begin as the identity change nothing at first
    silent_on=(_tried(_DETERMINANT, "held"), _tried(_TRANSFORMED, "held"), _tried(_TRANSFORMED, "broken", 1)),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a normalising flow that is trained by a likelihood that its map does not have.

    Where the gradients of a loss show it to be the likelihood of a flow with a standard normal, the probe calls a copy
    of the model with the batches of steps 1 and 25. It compares the log-determinant that the model returns with that of
    the Jacobian of its map (Dinh et al. 2017, arXiv:1605.08803, equation 3), and looks for dimensions that come out as
    they went in. With a wrong log-determinant the training maximises something else; a dimension that is never changed
    keeps its distribution, and the others can only depend on it.
    """
    del memory
    for event in refuted(context, _DETERMINANT, occasion=2):
        yield refutation(
            context,
            event,
            consequence="the loss is not the negative log-likelihood of the data",
            advice="add up the log-determinants of all layers, with the sign of the direction that is computed, and "
            "over all dimensions of a sample",
            metric="scalar/loss",
        )
    for event in refuted(context, _TRANSFORMED, occasion=2):
        yield refutation(
            context,
            event,
            consequence="no layer transforms it, so it keeps its distribution",
            advice="exchange the halves, or the masks, between coupling layers",
            severity="warning",
        )
