"""Inputs of the model that have no effect on its output."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ...storage import Event, Finding
from ..context.step_context import StepContext
from ..event_fields import number
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..indicators.lowered_findings import asked
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK, _COLUMNS, _SECOND = "input_is_used", "columns_are_used", 2
_VARIES = "inputs_vary"
_ORDER = "order_of_tokens_matters"
_POSITIONS = "positions_are_used"
#: Shares of columns and of positions without an effect from which on that is hardly meant. Our choice: a model may be
#: given the number of a sample beside its values, or a window that is longer than what it looks at.
_UNREAD: Final = {_COLUMNS: 0.25, _POSITIONS: 0.75}


_HALF = refuting_event(_COLUMNS, "with those of other samples in 12 of the 24 columns of x, every element is the same")


def _unread(check: str, share: float) -> Recording:
    event = replace(_HALF, data={**_HALF.data, "check": check, "numbers": {"share": share}})
    return Recording(structure=_MODEL, events=(event,))


def _tried(*outcomes: str) -> Recording:
    words = "with other values of t (8,), every element of the output is the same"
    events = (
        replace(refuting_event(_CHECK, words, outcome=outcome, occasion=step + 1, elements=8), step=step)
        for step, outcome in enumerate(outcomes)
    )
    return Recording(structure=_MODEL, events=tuple(events), steps=len(outcomes))


def _several() -> Recording:
    tried = [(step, name) for step in range(2) for name in ("marks", "decoder", "decoder_marks")]
    events = (
        replace(event := refuting_event(_CHECK, "", occasion=step + 1), step=step, data={**event.data, "subject": name})
        for step, name in tried
    )
    return Recording(structure=_MODEL, events=tuple(events), steps=2)


def _constant(noise: float) -> Recording:
    words = "t (64,) is 0 for every sample, in the batches of two steps"
    return Recording(structure=_MODEL, events=(refuting_event(_VARIES, words, noise=noise, value=0.0),))


#: Share of its first value below which a loss has been learned without the order of tokens. Our choice.
_LEARNED = 0.5


@dataclass(slots=True)
class _IgnoredInputState:
    """What the first occasion has said of inputs, the first loss, and a model that takes tokens without their order."""

    tried: set[tuple[str, str]] = field(default_factory=set)
    first_loss: float = float("nan")
    bag: Finding | None = None


@rule(
    "ignored-input",
    needs=("record",),
    triggers=("event/check", "scalar/loss"),
    phase=FORWARD,
    is_fact=True,
    is_optional=True,
    memory=_IgnoredInputState,
    fires_on=(
        Recording(structure=_MODEL, events=(refuting_event(_ORDER, "with the positions of ids in reverse order"),)),
        _tried("broken", "broken"),
        _several(),
        _unread(_COLUMNS, 0.5),
        _unread(_COLUMNS, 0.1),
        _unread(_POSITIONS, 0.9),
        _unread(_POSITIONS, 0.5),
        _constant(1.0),
    ),
    # a layer that begins at zero hides the input at the first occasion; a network that has died, at the second
    silent_on=(_tried("broken", "held"), _tried("held", "broken"), _tried("broken"), _tried("open", "open")),
)
def check(context: StepContext, memory: _IgnoredInputState) -> Iterator[Finding]:
    """Report an input that the model gets and does not use.

    The probe calls a copy of the model with the batches of steps 1 and 25, the values of one input exchanged or
    replaced. If not one element of the output moves at either, the model does not use the input: a noise level, a
    condition or a mask that is lost on the way. Constant inputs and masks are not tried. With the batch of step 25,
    columns of rows, channels of images and positions of sequences that have no gradient are exchanged among the
    samples: a quarter of the columns or three quarters of the positions without an effect are a warning, fewer are
    asked, and so are those of one tensor in a list of several, whose others may tell the same. Such a tensor that is
    not used at all is asked about as well.

    A model with attention over tokens is tried with the positions in reverse order as well. If each output is the same
    at its token, the order is lost: no position is encoded, and no later token hidden. Where the outputs are for whole
    sequences, a loss that falls below half of its first value takes the finding back: counting needs no order.

    An input that has one value for all samples of two batches tells the model nothing. Where the target is noise, a
    number beside the noisy input is the noise level or the time step, and a constant is a warning. A number of another
    kind, a channel of images and a column of zeros may be meant: there the rule asks, and where several inputs are not
    used: a library's models may share one interface.
    """
    for event in refuted(context, _VARIES):
        yield _of_a_constant(context, event)
    for event in refuted(context, _ORDER, occasion=2):
        found = refutation(
            context,
            event,
            consequence="the model sees a bag of tokens, and not a sequence",
            advice="add a positional encoding to the embeddings, or relative positions to the attention; check that "
            "its result is kept, and that it is not zero",
            severity="warning",
            confidence=0.8,
        )
        memory.bag = found if found.evidence.get("is_pooled") == 1.0 else None
        yield found
    yield from _learned_as_a_bag(context, memory)
    for event in refuted(context, *_UNREAD):
        yield _of_places(context, event)
    yield from _unused(context, memory)


def _of_places(context: StepContext, event: Event) -> Finding:
    """Return a finding for columns or positions of an input; a few of them are a question."""
    found = refutation(
        context,
        event,
        consequence="the model does not use them",
        advice="look for a slice or split with wrong bounds, for an index that picks one position where all are meant, "
        "and for one variable in place of another",
        severity="warning",
    )
    is_much = found.evidence.get("share", 1.0) >= _UNREAD[str(event.data.get("check"))]
    if is_much and not _is_one_of_several(event):
        return found
    return asked(found, f"{event.data.get('counterexample')}: is the model not meant to use them?")


def _unused(context: StepContext, memory: _IgnoredInputState) -> Iterator[Finding]:
    """Yield a finding for the input that no output depends on; several of them are a question."""
    ignored: dict[str, list[Event]] = {}
    for event in refuted(context, _CHECK):
        tried = (event.site, str(event.data.get("subject")))
        if number(event, "occasion") < _SECOND:
            memory.tried.add(tried)
        elif tried in memory.tried:
            ignored.setdefault(event.site, []).append(event)
    for events in ignored.values():
        names = [str(event.data.get("subject")) for event in events]
        found = refutation(
            context,
            events[0],
            consequence=f"the model does not use {names[0]}",
            advice="follow the input through the model's forward: look for a variable that is overwritten or never "
            "read, a projection whose weight stays zero, and an argument passed under another name; if the input is "
            "not meant to be used, do not pass it",
            severity="warning",
        )
        if len(names) == 1 and _is_one_of_several(events[0]):
            found = asked(found, f"{events[0].data.get('counterexample')}: is the model not meant to use it?")
        elif len(names) > 1:
            words = (
                f"with other values of {', '.join(names[:-1])} or {names[-1]} every element of the output is the same; "
                "does the model take them for the sake of an interface that it shares with others?"
            )
            found = asked(found, words)
        yield found


def _is_one_of_several(event: Event) -> bool:
    """Return whether the input lies in a collection of tensors, which a library's models may share."""
    return str(event.data.get("subject")).endswith("]")


def _of_a_constant(context: StepContext, event: Event) -> Finding:
    measured = event.data.get("numbers")
    is_level = isinstance(measured, dict) and measured.get("noise") == 1.0
    found = refutation(
        context,
        event,
        consequence="the target is noise, and the model is told the same noise level or time step for all of it",
        advice="give the model the noise level or time step that its input was made with; look for a variable that is "
        "overwritten, zeroed, or drawn once before the loop",
        severity="warning",
    )
    if is_level:
        return found
    words = f"{event.data.get('counterexample')}; it tells the model nothing"
    return asked(found, f"{words}: is that meant?")


def _learned_as_a_bag(context: StepContext, memory: _IgnoredInputState) -> Iterator[Finding]:
    loss = context.scalar("loss")
    if loss is None or loss != loss:
        return
    memory.first_loss = loss if memory.first_loss != memory.first_loss else memory.first_loss
    if memory.bag is not None and loss < _LEARNED * memory.first_loss:
        words = f"{memory.bag.explanation.partition(';')[0]}; the loss fell all the same, by step {context.step}"
        yield replace(memory.bag, step=context.step, severity="info", confidence=0.1, explanation=words)
        memory.bag = None
