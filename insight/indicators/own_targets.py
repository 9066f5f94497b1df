"""What single batches tell of each term of the loss: targets that do not fit the predictions, or fit them mirrored."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from ...storage import Event, Finding
from ..context.step_context import StepContext
from .executable_checks import refutation, refuted
from .loss_anchor import OF_CLASSES
from .lowered_findings import asked, withdrawn

__all__ = ["ALIGNED", "FIT", "TriedTargets", "may_still_bind", "tried_targets"]

#: The checks of the probe.
FIT: Final = "targets_fit_their_predictions"
ALIGNED: Final = "pictures_are_aligned"
#: What the text tells; it proves nothing alone, since an array may have been laid out the other way.
_FLATTENED: Final = "arrays_are_flattened_in_one_order"

#: Step before which an autoencoder may answer with the mean of its data: the weight of its prior keeps it there for a
#: while. Our choice.
_RECONSTRUCTS: Final = 300


def may_still_bind(context: StepContext) -> bool:
    """Return whether it is too early to expect that answers have to do with their own targets."""
    return context.kind.name == "autoencoder" and context.step < _RECONSTRUCTS


@dataclass(slots=True)
class TriedTargets:
    """What the looks at single batches have found.

    Args:
        waiting: Counterexamples that are not reported while the loss falls: it may still learn what binds them.
        found: Findings so far, by check and loss.
        unlike: The program's arrays that are flattened in two orders, and targets of a policy's critic that do not fit.
    """

    waiting: dict[str, Event] = field(default_factory=dict)
    found: dict[str, Finding] = field(default_factory=dict)
    unlike: dict[str, Event] = field(default_factory=dict)


def tried_targets(
    context: StepContext, tried: TriedTargets, reported: set[str], *, is_falling: bool, has_moved: bool
) -> Iterator[Finding]:
    """Yield findings of targets that do not fit the predictions, and withdraw those that do after all.

    Args:
        tried: What was found so far; updated.
        reported: What the rule has reported; `start` is added to it.
        is_falling: Whether the loss falls clearly.
        has_moved: Whether the weights have moved far enough to have learned something; else it is no fault of targets.
    """
    for event in refuted(context, _FLATTENED):
        tried.unlike[_FLATTENED] = event
    if context.has_a_surrogate_loss:
        yield from _of_a_critic(context, tried, reported)
        return
    if context.kind.name != "autoencoder":  # whose targets are what the model is given
        tried.waiting |= {_subject(event): event for event in refuted(context, FIT, ALIGNED)}
    for event in context.events("check"):
        subject = _subject(event)
        if event.data.get("outcome") != "held":
            continue
        tried.waiting.pop(subject, None)
        if subject in tried.found:
            found = tried.found.pop(subject)
            words = f"by step {context.step} the predictions fit their own targets, which they did not do before"
            yield withdrawn(found, context, words)
    for subject, event in list(tried.waiting.items()):
        is_of_samples = event.data.get("check") == FIT
        if is_of_samples and (is_falling or not has_moved or may_still_bind(context)):
            continue
        del tried.waiting[subject]
        if is_of_samples and "start" in reported:
            continue
        reported |= {"start"} if is_of_samples else set()
        tried.found[subject] = _found(context, event, is_of_samples=is_of_samples)
        yield tried.found[subject]


def _of_a_critic(context: StepContext, tried: TriedTargets, reported: set[str]) -> Iterator[Finding]:
    """Yield a finding if a critic's answers do not fit its returns, and the text flattens some arrays the other way.

    The values of a policy may mean nothing for long, and arrays may need a transpose: both together are a mistake.
    """
    for event in refuted(context, FIT):
        tried.unlike[FIT] = event
    if "start" not in reported and tried.unlike.keys() == {FIT, _FLATTENED}:
        reported.add("start")
        found = refutation(
            context,
            tried.unlike[_FLATTENED],
            consequence="and targets of other samples fit the predictions as well as their own: the rows of these "
            "arrays are of other samples",
            advice="flatten all arrays with their axes in the same order, time first or environments first",
            metric="scalar/loss",
            severity="warning",
            confidence=0.85,
        )
        yield replace(found, step=context.step)


def _subject(event: Event) -> str:
    return f"{event.data.get('check')} {event.data.get('subject')}"


def _found(context: StepContext, event: Event, *, is_of_samples: bool) -> Finding:
    found = refutation(
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
    if is_of_samples and context.kind.name == "classification" and event.data.get("subject") not in OF_CLASSES:
        return asked(found, f"{event.data.get('counterexample')}: is this term beside the classes' meant to learn it?")
    return found
