"""What a search is given: one batch, its budgets, a criterion, and counted access to the model."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, drawn, from_numpy, namespace, to_numpy
from ..arrays.noise import start_noise
from ..arrays.rows import all_finite, per_sample, take
from ..distances import Distance, Region
from ..model import Model
from .criterion import Criterion
from .objective import Objective


class Ascent(NamedTuple):
    """What the model says at `n` candidates: value of the objective, its gradient, and which are adversarial.

    Non-finite elements of the gradient are replaced by 0, non-finite values by minus infinity.
    """

    value: Array
    gradient: Array
    met: NDArray[np.bool_]


class Opening(NamedTuple):
    """What is known of an objective at the inputs themselves, before any search: the first step of many."""

    objective: Objective
    ascent: Ascent

    def take(self, rows: Rows) -> "Opening":
        """The same for these samples."""
        value, gradient, met = self.ascent
        return Opening(self.objective, Ascent(take(value, rows), take(gradient, rows), met[rows]))


class Gallery(NamedTuple):
    """The clean inputs of the whole data set, and the `(n,)` classes that the model gives them."""

    x: Array
    predictions: Rows


class Problem:
    """A batch of samples none of which is adversarial yet, to be made so within `epsilon`.

    Rows say which samples of the batch a call is about: ascending numbers from 0, `rows` are all of them.

    Args:
        epsilon: `(n,)` budget of each sample; infinite for the search of the nearest adversarial example.
        samples: `(n,)` numbers of the samples in the whole data set; random draws depend on them.
        key: Seed of the attack; random draws of different keys differ.
        gallery: Where searches may begin that need an adversarial input first.
        opening: What `ascend` then need not ask the model again, at `x` itself.
    """

    def __init__(
        self,
        model: Model,
        x: Array,
        criterion: Criterion,
        distance: Distance,
        epsilon: NDArray[np.float64],
        samples: Rows,
        key: tuple[int, ...],
        gallery: Gallery | None = None,
        opening: Opening | None = None,
    ) -> None:
        self.x = x
        self.distance = distance
        self.epsilon = epsilon
        self.bounds = model.bounds
        self.rows: Rows = np.arange(len(x))
        self.queries = np.zeros(len(x), np.int64)
        self.gradient_calls = np.zeros(len(x), np.int64)
        self._model = model
        self._samples = samples
        self._key = key
        self._criterion = criterion
        self._gallery = gallery
        self._opening = opening
        self._region = distance.region(x, epsilon, model.bounds)
        # The part of the batch that the last call was about: searches ask for the same rows many times.
        self._budget = per_sample(drawn(epsilon, x), x)
        self._part: tuple[Rows, Criterion, Region, Array] = (self.rows, criterion, self._region, self._budget)

    def within(self, epsilon: NDArray[np.float64]) -> Self:
        """The same problem with other budgets; queries are counted here, too."""
        other = type(self)(
            self._model, self.x, self._criterion, self.distance, epsilon, self._samples, self._key, self._gallery,
            self._opening,
        )  # fmt: skip
        other.queries, other.gradient_calls = self.queries, self.gradient_calls
        return other

    def criterion(self, rows: Rows) -> Criterion:
        """When a candidate for `rows` counts as adversarial."""
        return self._select(rows)[1]

    def budget(self, rows: Rows) -> Array:
        """Epsilon of each of `rows`, shaped to broadcast against candidates, in their dtype."""
        return self._select(rows)[3]

    def ascend(self, candidates: Array, rows: Rows, objective: Objective) -> Ascent:
        """The objective at one candidate for each of `rows`, and the way up."""
        self._count(rows, 1, 1)
        known = self._opening
        if known is not None and candidates is self.x and objective is known.objective:
            return known.ascent
        return ascent_at(self._model, candidates, self._select(rows)[1], objective)[1]

    def slopes(
        self, candidates: Array, rows: Rows, directions: Callable[[Array], Sequence[Array]]
    ) -> tuple[Array, list[Array]]:
        """Logits at one candidate for each of `rows`, and the gradient of each of `directions(logits)`."""
        self._count(rows, 1, 0)
        logits, found = self._model.pullbacks(candidates, directions)
        self.gradient_calls[rows] += len(found)
        return logits, [_finite(gradient, 0.0) for gradient in found]

    def logits(self, candidates: Array, rows: Rows) -> Array:
        """`(len(rows), classes)` logits at one candidate for each of `rows`."""
        self._count(rows, 1, 0)
        return self._model.logits(candidates)

    def judge(self, logits: Array, rows: Rows) -> NDArray[np.bool_]:
        """Which of these logits make the candidates for `rows` adversarial."""
        return _judged(self._select(rows)[1], logits)

    def is_adversarial(self, candidates: Array, rows: Rows) -> NDArray[np.bool_]:
        """`(len(rows),)` bool, for one candidate for each of `rows`."""
        return self.judge(self.logits(candidates, rows), rows)

    def project(self, candidates: Array, rows: Rows) -> Array:
        """The candidates for `rows`, moved into the budget and the box."""
        return self._select(rows)[2].project(candidates)

    def clip(self, candidates: Array) -> Array:
        """One candidate for every row, moved exactly into the budget and the box: what the caller is given."""
        return self._region.clip(candidates)

    def random_start(self, restart: int, rows: Rows) -> Array:
        """Points drawn uniformly from the budget around each of `rows`, moved into the box."""
        x = self.x[rows]
        noise = start_noise(self.distance.sample, self._samples[rows], tuple(x.shape[1:]), (*self._key, restart))
        scale = self.epsilon[rows].reshape((-1,) + (1,) * (noise.ndim - 1))
        return self.project(x + drawn(noise * scale, x), rows)

    def examples(self, rows: Rows, *key: int) -> tuple[Array, Rows]:
        """A clean input of the data set, drawn for each row, that the model gives the class which the row is to reach.

        Returns:
            The inputs, and those of `rows` that they are for: the others have none.
        """
        if self._gallery is None:
            return self.x[:0], rows[:0]
        criterion = self.criterion(rows)
        anchors, lots = to_numpy(criterion.anchor), self.uniform(rows, (1,), *key)[:, 0]
        chosen = np.full(len(rows), -1)
        for anchor in np.unique(anchors):
            suits = np.flatnonzero((self._gallery.predictions == anchor) == criterion.is_targeted)
            if len(suits):
                at = np.flatnonzero(anchors == anchor)
                chosen[at] = suits[(lots[at] * len(suits)).astype(np.int64)]
        has_one = np.flatnonzero(chosen >= 0)
        return self._gallery.x[chosen[has_one]], rows[has_one]

    def uniform(self, rows: Rows, shape: tuple[int, ...], *key: int) -> NDArray[np.float64]:
        """`(len(rows), *shape)` numbers in [0, 1), the same for a sample in whatever company it comes."""
        return start_noise(
            lambda generator, size: generator.random(size), self._samples[rows], shape, (*self._key, 1, *key)
        )

    def normal(self, rows: Rows, shape: tuple[int, ...], *key: int) -> Array:
        """`(len(rows), *shape)` standard normal numbers, native, the same for a sample in whatever company it comes."""
        noise = start_noise(
            lambda generator, size: generator.standard_normal(size), self._samples[rows], shape, (*self._key, 2, *key)
        )
        return drawn(noise, self.x)

    def native(self, values: NDArray[np.float64]) -> Array:
        """Numbers as an array of the library, device and dtype of `x`."""
        return drawn(values, self.x)

    def native_classes(self, classes: Rows) -> Array:
        """Class numbers as an array of the library and device of `x`."""
        return from_numpy(classes, self.x)

    def _count(self, rows: Rows, forward: int, backward: int) -> None:
        self.queries[rows] += forward
        self.gradient_calls[rows] += backward

    def _select(self, rows: Rows) -> tuple[Rows, Criterion, Region, Array]:
        if rows is not self._part[0] and not np.array_equal(rows, self._part[0]):
            whole = len(rows) == len(self.rows)
            self._part = (
                rows,
                self._criterion if whole else self._criterion.take(rows),
                self._region if whole else self._region.take(rows),
                self._budget if whole else take(self._budget, rows),
            )
        return self._part


def ascent_at(model: Model, candidates: Array, criterion: Criterion, objective: Objective) -> tuple[Array, Ascent]:
    """The logits at `n` candidates, and the objective's way up."""
    values: list[Array] = []

    def direction(logits: Array) -> Array:
        value, slope = objective(logits, criterion)
        values.append(value)
        return slope

    logits, gradient = model.pullback(candidates, direction)
    return logits, Ascent(_finite(values[0], -np.inf), _finite(gradient, 0.0), _judged(criterion, logits))


def _judged(criterion: Criterion, logits: Array) -> NDArray[np.bool_]:
    return np.asarray(to_numpy(criterion.met(logits)), np.bool_)


def _finite(values: Array, instead: float) -> Array:
    if all_finite(values):
        return values
    xp = namespace(values)
    return xp.where(xp.isfinite(values), values, instead)
