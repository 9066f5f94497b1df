"""A loss that scores padding like words, or leaves out words like padding."""

from collections.abc import Iterator

from ...storage import Finding
from ..context.step_context import StepContext
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import LOSS, rule

_MODEL = chain("one:Dense", "two:Dense")
_CHECK, _IGNORED = "padding_is_not_scored", "ignored_targets_are_padding"
_TRAINED = "what_is_no_padding_is_trained"
_PLACES = "unselected_places_are_not_scored"
#: Share of padded positions from which the score of padding outweighs much of the rest. Our choice.
_MUCH = 0.15


def _tried(outcome: str, share: float) -> Recording:
    words = "40% of the positions of x are padding, and their target 0 is scored like any other"
    return Recording(structure=_MODEL, events=(refuting_event(_CHECK, words, outcome=outcome, padded_share=share),))


@rule(
    "padding-counted",
    needs=("record",),
    triggers=("event/check",),
    phase=LOSS,
    is_fact=True,
    is_optional=True,
    memory=set,
    fires_on=(
        _tried("broken", 0.4),
        Recording(structure=_MODEL, events=(refuting_event(_IGNORED, "40 of the 512 targets are 1", tokens=40),)),
        Recording(structure=_MODEL, events=(refuting_event(_TRAINED, "all of them padding", positions=90),)),
        Recording(structure=_MODEL, events=(refuting_event(_PLACES, "1100 of 1152 places are left out", share=0.3),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(refuting_event(_TRAINED, "", outcome="held"),)),
        Recording(structure=_MODEL, events=(refuting_event(_PLACES, "", outcome="held"),)),
        _tried("held", 0.4),
        _tried("open", 0.4),
        _tried("broken", 0.05),
    ),
)
def check(context: StepContext, memory: set[str]) -> Iterator[Finding]:
    """Report a mean loss over positions of which many are padding, or that leaves out tokens as if they were padding.

    The probe finds padding as a token that ends many rows, at different lengths, and occurs nowhere else. If the
    targets there are one class that the loss does not ignore, and at least 15 % of all positions are padding, the loss
    is mostly about predicting padding: it looks better than it is, and words get a smaller gradient.

    The reverse is a token of the text that the loss ignores because it is the padding, too, such as the end of a
    sentence: where it stands between others the model never learns to write it.

    Whatever computes the loss, it is a fact if its gradient is zero at all positions that are no padding, as where the
    mask of a loss is upside down.

    Cells of a picture in which there is nothing are padding, too. Where one term of a loss leaves places out by a mask,
    and a loss of classes scores them all, with one class as target that real places have as well, that is reported.
    """
    for event in refuted(context, _TRAINED):
        if _TRAINED not in memory:
            memory.add(_TRAINED)
            yield refutation(
                context,
                event,
                consequence="the model learns what stands behind the end, and nothing else",
                advice="turn the mask of the loss around: it is one where a sequence holds something",
                metric="scalar/loss",
                confidence=0.95,
            )
    for event in refuted(context, _PLACES):
        if _PLACES not in memory:
            memory.add(_PLACES)
            yield refutation(
                context,
                event,
                consequence="the model learns that class for places where there is nothing",
                advice="select the same places for this term, or set the target of the others to -100",
                metric="scalar/loss",
                severity="warning",
                confidence=0.95,
            )
    for event in refuted(context, _IGNORED):
        if _IGNORED not in memory:
            memory.add(_IGNORED)
            yield refutation(
                context,
                event,
                consequence="the model never learns to write it",
                advice="pad with a token of its own, or set the targets of padding alone to -100",
                metric="scalar/loss",
                severity="warning",
                confidence=0.9,
            )
    for event in refuted(context, _CHECK):
        found = event.data.get("numbers")
        share = found.get("padded_share") if isinstance(found, dict) else None
        if _CHECK in memory or not isinstance(share, int | float) or share < _MUCH:
            continue
        memory.add(_CHECK)
        yield refutation(
            context,
            event,
            consequence="the model learns to predict padding, and the mean loss hides how it does on the rest",
            advice="pass ignore_index=, or set the targets of padded positions to -100",
            metric="scalar/loss",
            severity="warning",
        )
