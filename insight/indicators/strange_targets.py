"""Targets that checks of single batches have found to be other ones than the predictions need."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ...storage import Finding
from ..context.step_context import StepContext
from .executable_checks import refutation, refuted, refuted_twice

__all__ = ["JUDGE", "OWN_ROW", "STRANGE", "TWICE", "strange_targets"]

JUDGE: Final = "judge_gets_two_targets"
#: Where it holds, a full batch does not change, and what is trained slowly is not labelled wrongly.
OWN_ROW: Final = "labels_belong_to_their_rows"
#: What follows if a check is broken, and what to do.
STRANGE: Final = {
    "scores_keep_their_positions": (
        "nearly every prediction is scored against a target that is not its own",
        "move axes with transpose or permute, not with view or reshape, and flatten predictions and targets alike",
    ),
    "targets_are_the_next_position": (
        "the model learns to leave out the positions between",
        "shift the targets once only: in the data, or between the model and its loss",
    ),
    OWN_ROW: (
        "each input is trained with the label of another row, which can only be memorised",
        "index inputs and labels alike: look for a roll, a slice that begins one row later, and a header that was read "
        "as a row of one of them",
    ),
    "judge_sees_the_labels_of_what_is_made": (
        "it learns to tell nothing by the label, and the generator to make nothing of it",
        "give the discriminator the labels that the generator was given, and keep them beside what it has made",
    ),
    "arrays_keep_one_order": (
        "rows are paired with those of other samples",
        "index each of the arrays with the same order, and once only",
    ),
}
#: What follows if a check is broken at both of the first two occasions, and what to do.
TWICE: Final = {
    JUDGE: (
        "it learns nothing of the data, and the generator nothing from it",
        "give the discriminator another target for what the generator has made than for data",
    ),
    "rows_are_drawn_together": (
        "what the model is given of them tells nothing of what it is to answer",
        "index all tensors of a batch with the same rows",
    ),
    "columns_are_read_as_written": (
        "what the model is given of it tells nothing of what it is to answer",
        "read all columns of a store with the same rows; one step back in time is a row for each environment",
    ),
}

#: Those that are read from the program's text, which may mislead.
_READ: Final = frozenset({"arrays_keep_one_order"})


def strange_targets(context: StepContext, reported: set[str], judges: set[tuple[str, str, str]]) -> Iterator[Finding]:
    """Yield a finding for each check that is broken for the first time.

    Args:
        reported: Names of checks so far, and `start` where targets are known to be wrong from the start; extended.
        judges: What a first occasion has said of discriminators; extended.
    """
    if any(
        event.data.get("check") == OWN_ROW and event.data.get("outcome") == "held" for event in context.events("check")
    ):
        reported.add("start")
    for event in refuted(context, *STRANGE):
        check = str(event.data.get("check"))
        if check not in reported:
            reported |= {check, "start"}  # what is known is not suspected, and withdrawn, once more
            consequence, advice = STRANGE[check]
            found = refutation(context, event, consequence=consequence, advice=advice, metric="scalar/loss")
            yield replace(found, severity="warning", confidence=0.8) if check in _READ else found
    for event in refuted_twice(context, judges, *TWICE):
        consequence, advice = TWICE[str(event.data.get("check"))]
        yield refutation(
            context, event, consequence=consequence, advice=advice, metric="scalar/loss", severity="warning"
        )
