"""Tensors that are reshaped where their axes ought to be permuted."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_RESHAPED = "reshapes_keep_the_order_of_axes"


def _tried(outcome: str) -> Recording:
    words = "a tensor (32, 24, 8, 8) is reshaped to (32, 64, 24)"
    return Recording(structure=_MODEL, events=(refuting_event(_RESHAPED, words, outcome=outcome, axes=4),))


@rule(
    "reshape-error",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_optional=True,
    memory=set,
    fires_on=(_tried("broken"),),
    silent_on=(_tried("held"),),
)
def check(context: StepContext, memory: set[str]) -> Iterator[Finding]:
    """Report a tensor that a model reshapes to what its axes have in another order.

    A reshape leaves the elements where they are. Where it neither joins neighbouring axes nor splits one, but would do
    just that with the axes in another order, as from `(N, C, H, W)` to `(N, H W, C)`, a permutation was meant: what
    follows takes mixtures of places and channels for places. The probe notes the reshapes of a copy of the model in
    steps 1 and 25.

    Permute first: `x.permute(0, 2, 3, 1).reshape(n, h * w, c)`.
    """
    for event in refuted(context, _RESHAPED):
        if event.site in memory:
            continue
        memory.add(event.site)
        yield refutation(
            context,
            event,
            consequence="what follows takes mixtures of several places for one",
            advice="permute or transpose the axes into the order that follows, then reshape",
            severity="warning",
            confidence=0.9,
        )
