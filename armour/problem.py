"""What a search is given: one batch, one budget, a criterion, and counted access to the model."""

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, Rows, cast, from_numpy, namespace, to_numpy
from .criterion import Criterion
from .distance import Distance, Region
from .model import Model
from .noise import start_noise
from .objective import Objective


class Problem:
    """A batch of samples none of which is adversarial yet, to be made so within `epsilon`.

    Rows say which samples of the batch a call is about: ascending numbers from 0, `rows` are all of them.

    Args:
        samples: `(n,)` numbers of the samples in the whole data set; random starts depend on them.
        key: Seed of the attack; random starts of different keys differ.
    """

    def __init__(
        self,
        model: Model,
        x: Array,
        criterion: Criterion,
        distance: Distance,
        epsilon: float,
        samples: Rows,
        key: tuple[int, ...],
    ) -> None:
        self.x = x
        self.distance = distance
        self.epsilon = epsilon
        self.rows: Rows = np.arange(len(x))
        self.queries = np.zeros(len(x), np.int64)
        self.gradient_calls = np.zeros(len(x), np.int64)
        self._model = model
        self._samples = samples
        self._key = key
        self._criterion = criterion
        self._region = distance.region(x, epsilon, model.bounds)
        # The part of the batch that the last call was about: searches ask for the same rows many times.
        self._part: tuple[Rows, Criterion, Region] = (self.rows, criterion, self._region)

    def gradient(self, candidates: Array, rows: Rows, objective: Objective) -> tuple[Array, NDArray[np.bool_]]:
        """Ascent direction of the objective at the candidates, and which of them are adversarial already.

        Args:
            candidates: One candidate for each of `rows`.

        Returns:
            The gradient, shaped as the candidates, non-finite elements replaced by 0; and `(len(rows),)` bool.
        """
        criterion = self._select(rows)[1]
        self.queries[rows] += 1
        self.gradient_calls[rows] += 1
        logits, gradient = self._model.pullback(candidates, lambda values: objective(values, criterion))
        return _finite(gradient), np.asarray(to_numpy(criterion.met(logits)), np.bool_)

    def is_adversarial(self, candidates: Array, rows: Rows) -> NDArray[np.bool_]:
        """`(len(rows),)` bool, for one candidate for each of `rows`."""
        self.queries[rows] += 1
        return np.asarray(to_numpy(self._select(rows)[1].met(self._model.logits(candidates))), np.bool_)

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
        return self.project(x + cast(from_numpy(noise * self.epsilon, x), x), rows)

    def _select(self, rows: Rows) -> tuple[Rows, Criterion, Region]:
        if len(rows) != len(self._part[0]) or not np.array_equal(rows, self._part[0]):
            whole = len(rows) == len(self.rows)
            self._part = (
                rows,
                self._criterion if whole else self._criterion.take(rows),
                self._region if whole else self._region.take(rows),
            )
        return self._part


def _finite(gradient: Array) -> Array:
    xp = namespace(gradient)
    finite = xp.isfinite(gradient)
    return gradient if finite.all() else xp.where(finite, gradient, 0.0)
