"""Can a contrastive loss fall at all: are the scores of pairs far enough apart for a softmax over the batch?"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, log1p
from typing import Final

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held

SCALE = "scores_can_be_sure"
_CLAIM = "the loss falls where each sample's partner has the highest score"
#: Looks, share of partners with the highest score, and share of the loss of guessing, from which the scores are too
#: close together. Our choice: a softmax that is as sure as these ranks allow costs less than half of that.
_LOOKS, _RIGHT, _GUESSING = 5, 0.25, 0.9
#: How many times what chance gives the partners must have the highest score, and the share of the loss of guessing that
#: even a perfect order costs with scores as large as they are: where they have a bound, they never are larger.
_CHANCE, _BOUND = 4.0, 0.85
#: Least size of a batch: of few samples a quarter is right by chance.
_FEWEST: Final = 16


@dataclass(frozen=True, slots=True)
class PairScores:
    """The scores of one batch of pairs.

    Args:
        samples: Of the batch.
        right: Share of samples whose partner has the highest score.
        cost: The cross entropy.
        largest, deviation: Of all scores.
    """

    samples: int
    right: float
    cost: float
    largest: float
    deviation: float


def pair_scores_of(name: str, scores: torch.Tensor, target: torch.Tensor) -> PairScores | None:
    """Return what a call of a loss of classes tells, where the classes are the samples; None of any other call."""
    if name != "cross_entropy" or scores.dim() != 2 or target.is_floating_point() or target.dim() != 1:
        return None
    rows, columns = scores.shape
    if rows != columns or rows < _FEWEST or sorted(target.tolist()) != list(range(rows)):
        return None
    values = scores.detach().double()
    cost = float(torch.nn.functional.cross_entropy(values, target))
    right = float((values.argmax(1) == target).double().mean())
    return PairScores(rows, right, cost, float(values.abs().max()), float(values.std()))


def _least_cost(look: PairScores) -> float:
    """Return what a perfect order would cost with scores of this size."""
    return log1p((look.samples - 1) * exp(-2 * look.largest))


def scores_can_be_sure(which: str, looks: Sequence[PairScores]) -> CheckResult | None:
    """Return what several looks say; nothing while the ranks are not learned."""
    if len(looks) < _LOOKS:
        return None
    newest = looks[-1]
    right = sum(look.right for look in looks) / len(looks)
    numbers = {"right": right, "cost": newest.cost, "guessing": log(newest.samples), "largest": newest.largest}
    is_bound = all(_least_cost(look) > _BOUND * log(look.samples) for look in looks)
    if right < (_CHANCE / newest.samples if is_bound else _RIGHT):
        return None
    if all(look.cost > _GUESSING * log(look.samples) for look in looks):
        words = (
            f"{percent(right)} of {newest.samples} partners have the highest score, and the loss is {newest.cost:.4g}, "
            f"where guessing costs {log(newest.samples):.4g}: no score is beyond {newest.largest:.3g}"
        )
        return broken(SCALE, _CLAIM, words, subject=which, **numbers)
    return held(SCALE, _CLAIM, subject=which, **numbers)
