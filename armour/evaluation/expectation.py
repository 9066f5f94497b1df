"""Models that answer at random: their expectation, which attacks climb, and fresh draws, which judge what they find.

Reference:
    Athalye, Engstrom, Ilyas and Kwok 2018, arXiv:1707.07397; Athalye, Carlini and Wagner 2018, arXiv:1802.00420.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...framework.random import get_state, set_seed, set_state
from ...probe.aside import same_random_numbers
from ..array_api import Array, Floats, from_numpy, to_numpy
from ..binomial_bounds import wilson_interval
from ..contract.checked_samples import Samples
from ..errors import InvalidInput
from ..model import WrappedModel
from ..problem.criterion import Misclassification
from ..problem.objective import lead
from .answer_signs import RANDOM, chance

#: Our choice: with 10 draws the quick suite is within .03 of the best attack known on the random models of
#: benchmarks/armour.py, but for random resizing, where it is .05 to .09 above.
DRAWS: Final = 10
_JUDGED: Final = 20  # fresh draws that choose the worst example of a sample, and as many that judge it
_TRIED: Final = 64  # samples whose answers are compared
_AT_ONCE: Final = 16  # samples in a call, which may share what is drawn: few, so that there are many calls
_CONFIDENT: Final = 2.0  # standard deviations of the noise by which a search wants to win, so that most draws agree
ALWAYS: Final = 0.9  # a sample that so many draws get wrong needs no further attack


class _Mean:
    """The mean of a model's logits over draws, as a network: gradients are means, too."""

    has_gradients = True
    dtype = None

    def __init__(self, model: WrappedModel, draws: int) -> None:
        self.framework = model.framework
        self._model = model
        self._draws = draws

    def native(self, x: Array) -> Array:
        return self._model.native(x)

    def logits(self, x: Array) -> Array:
        return sum(self._model.logits(x) for _ in range(self._draws)) / self._draws

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        logits, (gradient,) = self.pullbacks(x, lambda values: [cotangent(values)])
        return logits, gradient

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        logits = self.logits(x)
        weights = cotangents(logits)
        drawn = [self._model.pullbacks(x, lambda _: weights)[1] for _ in range(self._draws)]
        return logits, [sum(gradients) / self._draws for gradients in zip(*drawn, strict=True)]

    def training_modules(self) -> int:
        return self._model.training_modules()

    def evaluating(self) -> AbstractContextManager[None]:
        return self._model.evaluating()


def expected(model: WrappedModel, draws: int = DRAWS) -> WrappedModel:
    """Return the model whose logits and gradients are means over that many draws: what attacks on a random one climb.

    Args:
        draws: Forward passes of each answer, 1 or more.

    Raises:
        InvalidInput: There is no draw, or the model is no classifier with gradients.
    """
    check_draws(draws)
    if model.answers != "gradients" or model.features is not None or model.task is not None:
        raise InvalidInput(
            "draws above 1 expect a classifier with gradients and without rules for features; for another model write "
            "the mean over draws into the model itself"
        )
    return WrappedModel(_Mean(model, draws), model.bounds, None, model.name, returns="logits")


def check_draws(draws: int | None) -> None:
    """Raise `InvalidInput` unless the number is None, or an integer of 1 or more."""
    if draws is not None and (isinstance(draws, bool) or not isinstance(draws, int) or draws < 1):
        raise InvalidInput(f"draws expects 1 or more, or None to measure whether they are needed, got {draws!r}")


class ErrorRates(NamedTuple):
    """How often draws get the label wrong: those that choose among examples, and fresh ones that judge.

    Args:
        chosen: `(n,)` shares.
        judged: `(n, draws)` of 0 and 1, independent of `chosen`; one draw where nothing is random.
    """

    chosen: Floats
    judged: Floats

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the accuracy over draws: Wilson's, with as many trials as the draws are worth.

        A model may draw once for all samples of a call. Then calls are compared instead of samples, and where they
        differ by more than single draws would, they are worth fewer trials.
        """
        count, draws = self.judged.shape
        share = float(np.mean(self.judged))
        deviation = self.judged - self.judged.mean(axis=1, keepdims=True)
        calls = np.stack([deviation[start : start + _AT_ONCE].sum(axis=0) for start in range(0, count, _AT_ONCE)])
        variance = float(np.sum(calls**2)) * draws / max(draws - 1, 1) / (count * draws) ** 2
        alone = share * (1.0 - share) / (count * draws)
        trials = count * draws * min(1.0, alone / variance if variance > 0 else 1.0)
        low, high = wilson_interval(share * trials, trials)
        return 1.0 - high, 1.0 - low


def certain(wrong: NDArray[np.bool_]) -> ErrorRates:
    """Return the error rates of a model without chance."""
    rates = wrong.astype(np.float64)
    return ErrorRates(rates, rates[:, None])


def worse(first: ErrorRates, second: ErrorRates) -> ErrorRates:
    """Return the rates of each sample's example that the choosing draws get wrong more often, the first where equal."""
    is_second = second.chosen > first.chosen
    chosen = np.where(is_second, second.chosen, first.chosen)
    return ErrorRates(chosen, np.where(is_second[:, None], second.judged, first.judged))


class Jury(NamedTuple):
    """A model that answers at random, and what it gets wrong without an attack."""

    model: WrappedModel
    clean: ErrorRates

    def rates(self, candidates: Array, labels: NDArray[np.int64]) -> ErrorRates:
        """Return the error rates of `(n, ...)` native candidates, by fresh draws."""
        return _error_rates(self.model, candidates, labels)


class Averaging(NamedTuple):
    """What attacks work on.

    Args:
        jury: Judges the examples of a random model, whose expectation `model` is; None for a model of one draw.
        chance: How far answers to the same inputs differ; None where it was not measured.
    """

    model: WrappedModel
    samples: Samples
    jury: Jury | None = None
    chance: float | None = None


def averaged(model: WrappedModel, samples: Samples, draws: int | None) -> Averaging:
    """Return what attacks work on: the expectation of a random model, with a criterion that most draws would meet.

    Args:
        draws: Of the expectation; None takes 10 where the same inputs get different answers, else 1.

    Returns:
        Of one draw, what was given.
    """
    few, differing = samples.x[:_TRIED], None
    if draws is None:
        may_average = model.answers == "gradients" and model.features is None and model.task is None
        differing = chance(model, few) if may_average else None
        draws = DRAWS if differing is not None and differing > RANDOM else 1
    if draws == 1:
        return Averaging(model, samples, chance=differing)
    mean = expected(model, draws)
    jury = Jury(model, _error_rates(model, samples.x, samples.labels))
    criterion = samples.criterion.take(np.arange(len(few)))
    leads = np.stack([np.asarray(to_numpy(lead(model.logits(few), criterion)), np.float64) for _ in range(DRAWS)])
    noise = float(np.median(leads.std(axis=0)))
    confident = Misclassification(from_numpy(samples.labels, samples.x), _CONFIDENT * noise)
    attacked = replace(samples, criterion=confident, solved=jury.clean.chosen >= ALWAYS, initial_ascent=None)
    return Averaging(mean, attacked, jury, differing)


def _error_rates(model: WrappedModel, candidates: Array, labels: NDArray[np.int64]) -> ErrorRates:
    wrong = np.zeros((len(labels), 2 * _JUDGED))
    for draw in range(2 * _JUDGED):
        for start in range(0, len(labels), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            predicted = to_numpy(model.logits(candidates[rows])).argmax(axis=1)
            wrong[rows, draw] = predicted != labels[rows]
    return ErrorRates(wrong[:, :_JUDGED].mean(axis=1), wrong[:, _JUDGED:])


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the generators of Python, NumPy, torch and our engine in the block, and restore their states afterwards."""
    torch = sys.modules.get("torch")
    engine = get_state()
    with ExitStack() as stack:
        stack.enter_context(same_random_numbers())
        if torch is not None:
            devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
            stack.enter_context(torch.random.fork_rng(devices))
            torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002  what models draw from that do not bring a generator
        set_seed(seed)
        try:
            yield
        finally:
            set_state(engine)
