"""One model under both suites, beside the best attack known."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from mindscope.armour import InvalidModel, evaluate, wrap
from torch import nn

from ..attacks.digits import images
from .adaptive import best_accuracy
from .cases import Case
from .networks import labels_of

_STANDARD_BASES = ("mlp", "two classes", "cosine", "tanh", "top units")  # the others would take minutes


@dataclass(frozen=True, slots=True)
class Trial:
    """What a suite says of a model.

    Args:
        accuracy: In the worst case; None where the model was refused with a reason.
        best: Accuracy under the best attack known.
        signs: Names of the signs of masking.
        low: The lower end of the interval of a random model.
    """

    suite: str
    is_honest: bool
    accuracy: float | None
    best: float
    signs: tuple[str, ...] = ()
    low: float | None = None

    @property
    def above(self) -> float | None:
        """By how much the suite overestimates the accuracy."""
        return None if self.accuracy is None else round(self.accuracy - self.best, 4)

    def passes(self, allowed: float) -> bool:
        """Return whether the number may be believed, or is said to be unbelievable; an honest model is not accused."""
        if self.accuracy is None:
            return not self.is_honest
        is_close = (self.accuracy if self.low is None else self.low) <= self.best + allowed
        return is_close and not self.signs if self.is_honest else is_close or bool(self.signs)


def trials(case: Case, *, samples: int, is_short: bool) -> Iterator[Trial]:
    """Yield the trial of the quick suite, and of the standard one where it is short enough.

    Args:
        is_short: Leave the standard suite out.
    """
    x, digits = images()
    x, y = x[:samples], labels_of(case.base, digits[:samples])
    _seed()
    best = best_accuracy(
        lambda: _evaluating(case.make()), case.open(), x, y, case.epsilon, is_random=case.kind == "stochastic"
    )
    has_standard = case.base in _STANDARD_BASES and case.kind != "stochastic" and not is_short
    for suite in ("quick", "standard") if has_standard else ("quick",):
        _seed()
        yield trial_of(case, suite, x, y, best)


def trial_of(case: Case, suite: Any, x: np.ndarray, y: np.ndarray, best: float) -> Trial:
    """Evaluate the model with a suite."""
    is_honest = case.kind == "honest"
    try:
        found = evaluate(wrap(case.make()), x, y, [case.epsilon], suite=suite)
    except InvalidModel:
        return Trial(suite, is_honest, None, best)
    signs = tuple(symptom.name for symptom in found.masking)
    low = found.intervals.get(case.epsilon, (None, None))[0]
    return Trial(suite, is_honest, found.accuracy()[case.epsilon], best, signs, low)


def _evaluating(model: Any) -> Any:
    return model.eval() if isinstance(model, nn.Module) else model


def _seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  what some of the models draw from
    random.seed(0)
