"""Predictions that a step compares with several targets, as mixup does: one weak term alone says nothing of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .own_targets import TargetFit


@dataclass(frozen=True, slots=True)
class ComparedTerm:
    """One call of a loss function.

    Args:
        which: Name of the loss.
        prediction, target: What it compares; the prediction without its graph.
        fit: How well they fit.
    """

    which: str
    prediction: Tensor
    target: Tensor
    fit: TargetFit


def with_one_target_each(terms: Sequence[ComparedTerm]) -> list[ComparedTerm]:
    """Return the terms without those whose predictions another term of the step binds better to another target.

    Of mixed samples, one of two targets may weigh almost nothing; the predictions then belong to the other one.
    """
    return [term for term in terms if not any(_is_stronger(other, term) for other in terms)]


def _is_stronger(other: ComparedTerm, term: ComparedTerm) -> bool:
    return other.fit.effect > term.fit.effect and _is_same(other.prediction, term.prediction) and _differs(other, term)


def _is_same(first: Tensor, second: Tensor) -> bool:
    """Return whether both are the same numbers in memory, as they are or as views."""
    same_place = first.data_ptr() == second.data_ptr() and first.device == second.device
    return bool(same_place and first.shape == second.shape and first.stride() == second.stride())


def _differs(first: ComparedTerm, second: ComparedTerm) -> bool:
    return not (first.target.shape == second.target.shape and bool(torch.equal(first.target, second.target)))
