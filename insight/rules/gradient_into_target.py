"""Targets of a temporal difference that move with the prediction."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import LOSS, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK, _ADVANTAGE = "targets_have_no_gradient", "advantages_have_no_gradient"


def _tried(outcome: str, occasion: int = 1) -> Recording:
    words = "the loss compares two values with gradients, and one is a constant plus a share of a value"
    return Recording(structure=_MODEL, events=(refuting_event(_CHECK, words, outcome=outcome, occasion=occasion),))


@rule(
    "gradient-into-target",
    needs=("record",),
    triggers=("event/check",),
    phase=LOSS,
    is_fact=True,
    is_optional=True,
    fires_on=(
        _tried("broken"),
        Recording(structure=_MODEL, events=(refuting_event(_ADVANTAGE, "a constant minus a value with a gradient"),)),
    ),
    asks="intent",
    silent_on=(_tried("held"), _tried("open")),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report a bootstrapped target, reward plus discounted value, through which a gradient flows.

    The probe reads the graph of the loss: one of two compared values is a constant plus a share of a value, and
    both have gradients. Then the step also moves the target towards the prediction, which is another, usually worse
    algorithm (residual gradients, Baird 1995; Mnih et al. 2015 keep the target constant). The same is reported of an
    advantage, return minus value, that weighs log-probabilities of choices and has a gradient.
    """
    del memory
    is_learned = context.kind.name == "value"  # elsewhere a step in time, as of a solver, looks the same
    for event in refuted(context, _CHECK):
        yield refutation(
            context,
            event,
            consequence="the values can agree without being right" + ("" if is_learned else "; is that meant?"),
            advice="compute the target inside torch.no_grad() or detach it; use a target network that no optimizer "
            "steps",
            metric="scalar/loss",
            severity="warning" if is_learned else "info",
            confidence=1.0 if is_learned else 0.5,
        )
    for event in refuted(context, _ADVANTAGE):
        yield refutation(
            context,
            event,
            consequence="the values are no longer fitted to the returns alone",
            advice="detach the value, or the advantage, before it weighs the log-probabilities",
            metric="scalar/loss",
            severity="warning",
        )
