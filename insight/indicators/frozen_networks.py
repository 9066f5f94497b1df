"""Networks and values that checks have found frozen, and that were not meant to be."""

from collections.abc import Iterator
from typing import Final

from ...storage import Finding
from ..context.step_context import StepContext
from .executable_checks import refutation, refuted

__all__ = ["MEANT", "NO_GRAPH", "RANDOM", "TWO_NAMES", "told_frozen"]

TWO_NAMES: Final = "a_frozen_network_has_one_name"
MEANT, RANDOM = "a_part_is_frozen", "pretrained_values_are_trained"
NO_GRAPH: Final = "the_loss_has_a_graph"
#: What follows if a check is broken, and what to do.
_SAID: Final = {
    TWO_NAMES: (
        "only what stands on it is trained",
        "make the network that follows a copy of the one that is trained, copy.deepcopy(online), and freeze that copy",
    ),
    NO_GRAPH: (
        "no parameter gets a gradient, and no step changes one",
        "leave out requires_grad_(), which only hides that the graph was cut: by argmax, item(), detach(), no_grad, a "
        "conversion to NumPy, or torch.tensor() of what was computed",
    ),
    RANDOM: (
        "no step changes them",
        "pass freeze=False, or make an ordinary Embedding and initialise its weight",
    ),
    MEANT: (
        "is a part of it meant to be frozen?",
        "if so, set requires_grad to False before the optimizer is made, and pass it the rest only",
    ),
}


def told_frozen(context: StepContext) -> Iterator[Finding]:
    """Yield a finding for each of these checks that is broken; of a script that may mean it, a question."""
    for event in refuted(context, *_SAID):
        check = str(event.data.get("check"))
        consequence, advice = _SAID[check]
        yield refutation(
            context,
            event,
            consequence=consequence,
            advice=advice,
            metric="",
            severity="info" if check == MEANT else "warning",
            confidence={TWO_NAMES: 0.95, NO_GRAPH: 0.95, RANDOM: 0.9}.get(check, 0.5),
        )
