"""Masks, weights, settings and layers that the program has and does not use."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_READ = "values_are_read"


def _tried(outcome: str) -> Recording:
    words = "mask, a value of masked_loss (train.py:41), is read by nothing"
    return Recording(structure=_MODEL, events=(refuting_event(_READ, words, outcome=outcome, values=1),))


@rule(
    "unused-value",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_optional=True,
    fires_on=(_tried("broken"),),
    silent_on=(_tried("held"),),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a mask, a weight, the end of an episode, a setting, a layer or an update that the program never uses.

    Most of what is lost from a training leaves a trace in its text: the mask is still computed, the end of the episode
    still unpacked, the temperature still an argument, the function that moves the target still defined, but nothing
    reads it any more. The probe reads the script and the modules beside it as the first step begins, and looks for
    names that are given a value and read nowhere. Only names whose words say what the value is for count: masks,
    lengths, weights, ends of episodes, orders of samples, terms of a loss, settings such as `gamma` or `temperature`,
    layers that a module keeps, and functions that update, mask, clip, normalise or initialise.

    To tell the rule that a value is left unused on purpose, let its name begin with an underscore.
    """
    del memory
    for event in refuted(context, _READ):
        yield refutation(
            context,
            event,
            consequence="what it is for does not happen",
            advice="use it where it belongs; if it is left over, delete it, or let its name begin with an underscore",
            metric="",
            severity="warning",
            confidence=0.8,
        )
