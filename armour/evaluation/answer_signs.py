"""Signs in a model's answers: their scale, chance, the company of other samples, and memory of earlier calls."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ...storage.evaluation_verdict import Symptom
from ..array_api import Array, Floats, to_numpy
from ..model import WrappedModel

# All thresholds are our choice; benchmarks/armour.py has the models that exceed them and those that do not.
_LARGE: Final = 50.0  # between the two largest logits, in the median: float32 loses 1 - p from a gap of 17 on
_SMALL: Final = 0.01  # there: the cross-entropy weighs all other classes alike, to a hundredth
RANDOM: Final = 1e-4  # of the spread of the logits
_ALONE: Final = 1e-3  # of the spread: sums in another order differ by less than a thousandth of it
_TRIED_ALONE: Final = 4  # samples
_ASKED_AGAIN: Final = 3  # times
_DRIFT: Final = 0.1  # of the clean error rate, from before the attacks to after them
_KEEPS_STATE: Final = "keeps a state from call to call; attack a copy without it, and try the examples on a fresh model"


def logits_of(model: WrappedModel, x: Array) -> Floats:
    """Return `(n, classes)` float64 logits of native inputs."""
    return np.asarray(to_numpy(model.logits(x)), np.float64)


def chance(model: WrappedModel, x: Array) -> float:
    """Return how far answers to the same `(n, ...)` native inputs differ, as a share of the spread of logits.

    Above `RANDOM` the model answers at random; few values of chance need a few calls.
    """
    return _chance(model, x, logits_of(model, x))


def _chance(model: WrappedModel, x: Array, first: Floats) -> float:
    return max(_difference(first, logits_of(model, x)) for _ in range(_ASKED_AGAIN))


def answer_signs(
    model: WrappedModel, x: Array, *, is_averaged: bool, differing: float | None = None
) -> Iterator[Symptom]:
    """Yield the signs that the answers to `(n, ...)` native inputs show, before any attack.

    Args:
        is_averaged: The model is the expectation of a random one, whose chance is known.
        differing: What `chance` has measured already; None measures it here.
    """
    first = logits_of(model, x)
    if differing is None and not is_averaged:
        differing = _chance(model, x, first)
    if not is_averaged and differing is not None and differing > RANDOM:
        yield Symptom(
            "randomness",
            differing,
            f"the same input gets different outputs each time and no attack averaged them; {_averaging(model)}",
        )
    elif not is_averaged:
        yield from _company_sign(model, x, first)
    if model.task is None:
        yield from _scale_sign(first)


def _averaging(model: WrappedModel) -> str:
    can_average = model.task is None and model.features is None
    return "run evaluate(draws=10)" if can_average else "write the mean over draws into the model"


def state_sign(before: Floats, after: Floats) -> Iterator[Symptom]:
    """Yield a sign if the same inputs get other logits after the attacks than before them."""
    differing = _difference(before, after)
    if differing > RANDOM:
        yield Symptom(
            "state",
            differing,
            f"the same inputs get other logits after the attacks than before, so the model {_KEEPS_STATE}",
        )


def drift_sign(before: Floats, after: Floats) -> Iterator[Symptom]:
    """Yield a sign if a random model errs on the same inputs at another rate after the attacks than before them."""
    drift = abs(float(after.mean()) - float(before.mean()))
    if drift > _DRIFT:
        yield Symptom(
            "state",
            drift,
            f"the model errs on the same inputs at another rate after the attacks than before, so it {_KEEPS_STATE}",
        )


def _scale_sign(logits: Floats) -> Iterator[Symptom]:
    top = np.sort(logits, axis=1)
    gap = float(np.median(top[:, -1] - top[:, -2]))
    if _SMALL <= gap <= _LARGE:
        return
    trouble = (
        "far apart that softmax saturates and its gradients vanish"
        if gap > _LARGE
        else "close together that the cross-entropy cannot tell the nearest class"
    )
    yield Symptom(
        "logit-scale",
        gap,
        f"logits are so {trouble}; leave the factor out of the model, or run suite standard, whose apgd-t does not "
        "depend on the scale",
    )


def _company_sign(model: WrappedModel, x: Array, logits: Floats) -> Iterator[Symptom]:
    if len(x) < 2:
        return
    alone = np.concatenate([logits_of(model, x[row : row + 1]) for row in range(min(_TRIED_ALONE, len(x)))])
    differing = _difference(logits[: len(alone)], alone)
    if not differing <= _ALONE:  # NaN, too: of a single sample there may be no variance
        yield Symptom(
            "batch-dependence",
            differing,
            "a sample gets other logits alone than in a batch, as from batch statistics in evaluation mode; let batch "
            "norm track running statistics, or run with batch_size=1, as one input is served",
        )


def _difference(first: Floats, second: Floats) -> float:
    """Return the largest difference between two answers, as a share of the spread of the first."""
    return float(np.abs(first - second).max() / max(float(first.std()), 1e-30))
