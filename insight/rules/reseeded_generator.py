"""Random numbers that are the same in every step."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK = "random_numbers_differ"


def _tried(outcome: str) -> Recording:
    words = "before the first forward of two steps the random generator is in the very same state"
    return Recording(structure=_MODEL, events=(refuting_event(_CHECK, words, outcome=outcome),))


@rule(
    "reseeded-generator",
    needs=("record",),
    triggers=("event/check",),
    phase=FORWARD,
    is_fact=True,
    is_optional=True,
    fires_on=(_tried("broken"),),
    silent_on=(_tried("held"), _tried("open")),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a random generator that is in the same state at the beginning of two steps, and is used.

    The probe compares checksums of the state of PyTorch's generator on the host before the first forward of steps 1 and
    25. They are equal only if something seeds it in every step, or puts a state back. Then dropout, noise and
    augmentation are the same each time.
    """
    del memory
    for event in refuted(context, _CHECK):
        yield refutation(
            context,
            event,
            consequence="dropout, sampling and noise repeat themselves in every step",
            advice="seed once, before the training; look for manual_seed, seed_everything or set_rng_state inside the "
            "loop, the dataset or the model",
        )
