"""Outputs that depend on input that the model must not see yet."""

from collections.abc import Iterator

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("embed:Embedding", "head:Linear")


def _checked(*, is_causal: bool | None, is_declared: bool = True) -> Event:
    found = {"changed": 7, "first_output": 0, "difference": 0.8} if is_causal is False else {}
    return Event(
        "causality", 0, data={"is_causal": is_causal, "is_declared": is_declared, **found, "noise": 0.0, "positions": 8}
    )


#: What to do about each claim that may be broken.
_TRIED = {
    "no_position_sees_later_ones": "pass a causal mask to every attention layer, pad convolutions on the left only, "
    "and take no mean or normalisation along the positions",
    "the_future_begins_at_the_next_position": "let the mask of the future begin one position earlier: triu(..., "
    "diagonal=1) is what must be hidden, tril(..., diagonal=0) what may be seen",
    "targets_are_not_the_input": "shift the targets by one: inputs tokens[:, :-1], targets tokens[:, 1:]",
    "targets_are_no_input_column": "remove the target, and what is computed from it, from the inputs",
}
#: The claim that a model contradicts which is meant to give back the end of what it is given.
_WINDOW = "targets_begin_behind_the_input"
#: The claim that the program's text contradicts, which nothing has measured.
_TEXT = "what_is_known_and_what_is_asked_are_apart"
#: The claim that makes a question only: a good predictor, such as the value before, may be as near.
_NEARLY = "targets_are_nearly_no_input_column"


def _tried(check: str, outcome: str = "broken") -> Event:
    return refuting_event(check, "the targets are the input x", occasion=1, outcome=outcome, positions=8)


@rule(
    "data-leak",
    needs=("record",),
    triggers=("event/causality", "event/check"),
    memory=set,
    phase=FORWARD,
    is_fact=True,
    asks="intent",
    fires_on=(
        Recording(structure=_MODEL, events=(_checked(is_causal=False),)),
        Recording(structure=_MODEL, events=(_tried("no_position_sees_later_ones"),)),
        Recording(structure=_MODEL, events=(_tried("targets_are_not_the_input"),)),
        Recording(structure=_MODEL, events=(_tried("targets_are_no_input_column"),)),
        Recording(structure=_MODEL, events=(_tried(_TEXT),)),
        Recording(structure=_MODEL, events=(_tried(_WINDOW),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_checked(is_causal=True),)),
        Recording(structure=_MODEL, events=(_checked(is_causal=None),)),
        # a model that may look ahead, which was only reported
        Recording(structure=_MODEL, events=(_checked(is_causal=False, is_declared=False),)),
        Recording(structure=_MODEL),
        Recording(structure=_MODEL, events=(_tried("no_position_sees_later_ones", "held"),)),
        Recording(structure=_MODEL, events=(_tried(_NEARLY, "held"),)),
    ),
)
def check(context: StepContext, memory: set[str]) -> Iterator[Finding]:
    """Report outputs that change when a later input changes, and targets among the inputs.

    Without any configuration: if the targets of a torch training are its input one position later, no output may depend
    on input at a later position; if they are the input at the same position, a causal model only copies it; and no
    column of the input may be the target, nor may a column for each class tell it. A copy of the model is called with
    changed inputs. A column that is the target up to a little noise, in its own units and at two steps, is a question.
    The target of a forecast begins behind the window that is given: where its first positions are the last of an input
    of numbers, the model copies them.

    From the program's text: rows that are doubled before they are split, so that both parts have copies, and targets
    that begin inside of what the model is given.

    The other check calls the model with its own batch, changed at single positions. It runs when the configuration
    declares the model causal (`causality: true`). The rule estimates nothing: before the changed position a causal
    model gives the same numbers, up to the noise between two equal calls. Look at the attention mask, at convolutions
    without left padding, and at operations along the positions.
    """
    for event in refuted(context, *_TRIED):
        kind = str(event.data.get("check"))
        if kind not in memory:
            memory.add(kind)
            yield refutation(context, event, consequence="the model sees what it is to predict", advice=_TRIED[kind])
    for event in refuted(context, _TEXT, _WINDOW):
        yield refutation(
            context,
            event,
            consequence="what the training is judged by, or is to predict, is known to it",
            advice="split the samples first, then add copies, mirror images or the other directions of edges to each "
            "part; let what is to be predicted begin where what is known ends",
            metric="",
            severity="warning",
            confidence=0.8,
        )
    for event in refuted(context, _NEARLY, occasion=2):
        if not memory:
            memory.add(_NEARLY)
            yield refutation(
                context,
                event,
                consequence="is that known when the model is to predict?",
                advice="remove what is measured together with the target, or computed from it, from the inputs",
                severity="info",
                confidence=0.5,
            )
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
