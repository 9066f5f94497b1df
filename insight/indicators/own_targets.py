"""What single batches tell of each term of the loss: targets that do not fit the predictions, or fit them mirrored."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ...storage import Finding
from ..context.step_context import StepContext
from .executable_checks import refutation, refuted

__all__ = ["ALIGNED", "FIT", "tried_targets"]

#: The checks of the probe.
FIT: Final = "targets_fit_their_predictions"
ALIGNED: Final = "pictures_are_aligned"


def tried_targets(context: StepContext, tried: dict[str, Finding], reported: set[str]) -> Iterator[Finding]:
    """Yield findings of targets that do not fit the predictions, and withdraw those that do after all.

    Args:
        tried: The findings so far, by check and loss; updated.
        reported: What the rule has reported; `start` is added to it.
    """
    if context.has_a_surrogate_loss:
        return
    for event in refuted(context, FIT, ALIGNED):
        is_of_samples = event.data.get("check") == FIT
        if is_of_samples and "start" in reported:
            continue
        reported |= {"start"} if is_of_samples else set()
        subject = f"{event.data.get('check')} {event.data.get('subject')}"
        tried[subject] = refutation(
            context,
            event,
            consequence="the targets have nothing to do with what the model is given, or the model uses none of it"
            if is_of_samples
            else "inputs are mirrored, and their targets are not",
            advice="print a few inputs beside their targets; look for one shuffled, rolled or augmented without the "
            "other, for a noise that is not in the input, and for an output that is the same for every sample",
            metric="scalar/loss",
            severity="warning",
            confidence=0.8,
        )
        yield tried[subject]
    for event in context.events("check"):
        subject = f"{event.data.get('check')} {event.data.get('subject')}"
        if event.data.get("outcome") == "held" and subject in tried:
            found = tried.pop(subject)
            words = f"by step {context.step} the predictions fit their own targets, which they did not do before"
            yield replace(found, step=context.step, severity="info", explanation=words, confidence=0.1)
