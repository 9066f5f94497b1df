"""Outputs that depend on input that the model must not see yet."""

from collections.abc import Iterator

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("embed:Embedding", "head:Linear")


def _checked(*, is_causal: bool | None, is_declared: bool = True) -> Event:
    found = {"changed": 7, "first_output": 0, "difference": 0.8} if is_causal is False else {}
    return Event(
        "causality", 0, data={"is_causal": is_causal, "is_declared": is_declared, **found, "noise": 0.0, "positions": 8}
    )


@rule(
    "data-leak",
    needs=("record",),
    triggers=("event/causality",),
    phase=FORWARD,
    is_fact=True,
    fires_on=(Recording(structure=_MODEL, events=(_checked(is_causal=False),)),),
    silent_on=(
        Recording(structure=_MODEL, events=(_checked(is_causal=True),)),
        Recording(structure=_MODEL, events=(_checked(is_causal=None),)),
        # a model that may look ahead, which was only reported
        Recording(structure=_MODEL, events=(_checked(is_causal=False, is_declared=False),)),
        Recording(structure=_MODEL),
    ),
)
def check(context: StepContext, memory: None) -> Iterator[Finding]:
    """Report outputs that change when a later input changes.

    The check calls the model with its own batch, changed at single positions. It runs when the configuration declares
    the model causal (`causality: true`). The rule estimates nothing: before the changed position a causal model gives
    the same numbers, up to the noise between two equal calls. Look at the attention mask, at convolutions without left
    padding, and at operations along the positions.
    """
    del memory
    for event in context.events("causality"):
        if event.data.get("is_causal") is not False or event.data.get("is_declared") is False:
            continue
        names = ("changed", "first_output", "difference", "noise", "positions")
        numbers = {name: float(value) for name in names if isinstance(value := event.data.get(name), int | float)}
        yield context.finding(
            ROOT_SITE,
            "activation/mean",
            numbers,
            first_step=event.step,
            position=0,
            explanation=f"the output at position {numbers.get('first_output', 0):.0f} moves by "
            f"{numbers.get('difference', 0):.3g} when the input at position {numbers.get('changed', 0):.0f} changes; "
            "the model sees what it is to predict",
            advice="check the attention mask, convolutions without left padding, normalisation or pooling along the "
            "positions, and targets among the inputs",
        )
