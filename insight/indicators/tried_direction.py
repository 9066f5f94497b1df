"""What the gradients of this very run say about the direction of the training: uphill or not."""

from typing import Final

from ...storage import Event, Finding
from ..context.step_context import StepContext
from .executable_checks import refutation, refuted

#: The check of a generator and its judge.
APART: Final = "generator_and_judge_pull_apart"
#: Loss functions that fit values to targets also as one of several terms; others may weigh likelihoods.
_FITS: Final = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss"})
#: Kinds of training whose losses hold exponentials of log-probabilities.
_OF_RATIOS: Final = frozenset({"policy", "preference"})


def maximises(context: StepContext) -> bool:
    """Return whether every group of every optimizer goes up."""
    groups = [group for optimizer in context.model.structure.optimizers for group in optimizer.groups]
    return bool(groups) and all(group.get("maximize") is True for group in groups)


def tried_direction(context: StepContext) -> Finding | None:
    """Return a finding if the gradient itself shows that a step raises a distance, or unlearns good actions."""
    if maximises(context):
        return None
    has_one_learner = len(context.model.structure.optimizers) <= 1 and not context.model.has_players
    for event in refuted(context, "loss_is_minimised"):
        measured = event.data.get("numbers")
        is_fit = event.data.get("subject") in _FITS  # of several terms, a distance from targets is never meant to grow
        if has_one_learner and isinstance(measured, dict) and (measured.get("terms") == 1 or is_fit):
            return _refuted(context, event)
    if has_one_learner and context.kind.name not in _OF_RATIOS:
        for event in refuted(context, "divergence_is_lowered"):
            return _refuted(context, event)
    of_policies = ("good_actions_become_likelier", *(("entropy_is_raised",) if context.kind.name == "policy" else ()))
    found = next((_refuted(context, event) for event in refuted(context, *of_policies)), None)
    found = found or next((_of_players(context, event) for event in refuted(context, APART)), None)
    return found or next((_read(context, event) for event in refuted(context, "losses_fit_their_names")), None)


def _of_players(context: StepContext, event: Event) -> Finding:
    """Return what the losses of a generator and of its judge say together."""
    return refutation(
        context,
        event,
        consequence="the generator helps its judge, and runs away from the data",
        advice="exchange the sign of the generator's loss, or its target: it wants to be taken for data",
        metric="scalar/loss",
    )


def _read(context: StepContext, event: Event) -> Finding:
    """Return what the program's text says, which names may have wrong."""
    return refutation(
        context,
        event,
        consequence="the training makes worse what it should make better",
        advice="exchange the two operands, or the sign; if the names are wrong and the formula right, rename them",
        metric="scalar/loss",
        severity="warning",
        confidence=0.8,
    )


def _refuted(context: StepContext, event: Event) -> Finding:
    return refutation(
        context,
        event,
        consequence="the training goes uphill",
        advice="look for a minus that is missing or too many, as before a bonus for entropy, and for an advantage "
        "computed as value minus return",
        metric="scalar/loss",
    )
