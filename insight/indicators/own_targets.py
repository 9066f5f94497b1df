"""What single batches tell of each term of the loss: targets that do not fit the predictions, or fit them mirrored."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ...storage import Event, Finding
from ..context.step_context import StepContext
from .executable_checks import refutation, refuted

__all__ = ["ALIGNED", "FIT", "TriedTargets", "tried_targets"]

#: The checks of the probe.
FIT: Final = "targets_fit_their_predictions"
ALIGNED: Final = "pictures_are_aligned"


@dataclass(slots=True)
class TriedTargets:
    """What the looks at single batches have found.

    Args:
        waiting: Counterexamples that are not reported while the loss falls: it may still learn what binds them.
        found: Findings so far, by check and loss.
    """

    waiting: dict[str, Event] = field(default_factory=dict)
    found: dict[str, Finding] = field(default_factory=dict)


def tried_targets(
    context: StepContext, tried: TriedTargets, reported: set[str], *, is_falling: bool
) -> Iterator[Finding]:
    """Yield findings of targets that do not fit the predictions, and withdraw those that do after all.

    Args:
        tried: What was found so far; updated.
        reported: What the rule has reported; `start` is added to it.
        is_falling: Whether the loss falls clearly.
    """
    if context.has_a_surrogate_loss:
        return
    tried.waiting |= {_subject(event): event for event in refuted(context, FIT, ALIGNED)}
    for event in context.events("check"):
        subject = _subject(event)
        if event.data.get("outcome") != "held":
            continue
        tried.waiting.pop(subject, None)
        if subject in tried.found:
            found = tried.found.pop(subject)
            words = f"by step {context.step} the predictions fit their own targets, which they did not do before"
            yield replace(found, step=context.step, severity="info", explanation=words, confidence=0.1)
    for subject, event in list(tried.waiting.items()):
        is_of_samples = event.data.get("check") == FIT
        if is_of_samples and is_falling:
            continue
        del tried.waiting[subject]
        if is_of_samples and "start" in reported:
            continue
        reported |= {"start"} if is_of_samples else set()
        tried.found[subject] = _found(context, event, is_of_samples=is_of_samples)
        yield tried.found[subject]


def _subject(event: Event) -> str:
    return f"{event.data.get('check')} {event.data.get('subject')}"


def _found(context: StepContext, event: Event, *, is_of_samples: bool) -> Finding:
    return refutation(
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
