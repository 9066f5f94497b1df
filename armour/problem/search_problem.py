"""The input of a search: one batch, its budgets, a criterion, and counted access to the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ...storage.renamed_names import renamed_arguments
from ..array_api import Array, Rows, all_finite, copy, from_numpy, like_array, namespace, per_sample, take, to_numpy
from ..distances import Distance, Region
from ..model import WrappedModel
from .criterion import Criterion
from .objective import Objective

_ROUNDING = 1e-9  # by which a whole step or category may seem to leave its budget; it is cut off in the end


class Ascent(NamedTuple):
    """The model at `n` candidates: the objective's value and gradient, and which candidates are adversarial.

    Non-finite elements of the gradient are replaced by 0, non-finite values by minus infinity.
    """

    value: Array
    gradient: Array
    met: NDArray[np.bool_]


class InitialAscent(NamedTuple):
    """An objective's value and gradient at the inputs themselves, known before the search."""

    objective: Objective
    ascent: Ascent

    def take(self, rows: Rows) -> "InitialAscent":
        """Select these samples."""
        value, gradient, met = self.ascent
        return InitialAscent(self.objective, Ascent(take(value, rows), take(gradient, rows), met[rows]))


class Gallery(NamedTuple):
    """The clean inputs of the whole data set, and the `(n,)` classes that the model gives them."""

    x: Array
    predictions: Rows


class Problem:
    """A batch of samples, none adversarial yet, that a search makes adversarial within `epsilon`.

    Rows say which samples of the batch a call is about: ascending numbers from 0, `rows` are all of them.

    Args:
        epsilon: `(n,)` budget of each sample; infinite for the search of the nearest adversarial example.
        samples: `(n,)` numbers of the samples in the whole data set; random draws depend on them.
        key: Seed of the attack; random draws of different keys differ.
        gallery: Starts for searches that need an adversarial input first.
        initial_ascent: The result of `ascend` at `x` itself, if it is known already.
    """

    @renamed_arguments(opening="initial_ascent")
    def __init__(
        self,
        model: WrappedModel,
        x: Array,
        criterion: Criterion,
        distance: Distance,
        epsilon: NDArray[np.float64],
        samples: Rows,
        key: tuple[int, ...],
        gallery: Gallery | None = None,
        initial_ascent: InitialAscent | None = None,
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
        self._initial_ascent = initial_ascent
        self._region = distance.region(x, epsilon, model.bounds)
        self._free = None if model.features is None else model.features.free(x)
        self._seen = None if model.queries is None else _Seen(copy(x), np.full(len(x), np.inf))
        # The part of the batch of the last call: searches use the same rows many times.
        self._budget = per_sample(like_array(epsilon, x), x)
        self._part: tuple[Rows, Criterion, Region, Array] = (self.rows, criterion, self._region, self._budget)

    def within(self, epsilon: NDArray[np.float64]) -> Self:
        """Return the same problem with other budgets; its queries are counted here, too."""
        other = type(self)(
            self._model,
            self.x,
            self._criterion,
            self.distance,
            epsilon=epsilon,
            samples=self._samples,
            key=self._key,
            gallery=self._gallery,
            initial_ascent=self._initial_ascent,
        )
        other.queries, other.gradient_calls, other._seen = self.queries, self.gradient_calls, self._seen
        return other

    def criterion(self, rows: Rows) -> Criterion:
        """Return the criterion for `rows`."""
        return self._select(rows)[1].of_classes

    def budget(self, rows: Rows) -> Array:
        """Return epsilon of each of `rows`, shaped to broadcast against candidates, in their dtype."""
        return self._select(rows)[3]

    def ascend(self, candidates: Array, rows: Rows, objective: Objective) -> Ascent:
        """Return the objective and its gradient at one candidate for each of `rows`."""
        self._count(rows, 1, 1)
        initial = self._initial_ascent
        if initial is not None and candidates is self.x and objective is initial.objective:
            ascent = initial.ascent
        else:
            ascent = ascent_at(self._model, self.legal(candidates, rows), self._select(rows)[1], objective)[1]
        free = self._free_of(rows)
        return ascent if free is None else ascent._replace(gradient=ascent.gradient * free)

    def slopes(
        self, candidates: Array, rows: Rows, directions: Callable[[Array], Sequence[Array]]
    ) -> tuple[Array, list[Array]]:
        """Return logits at one candidate for each of `rows`, and the gradient of each of `directions(logits)`."""
        self._count(rows, 1, 0)
        criterion, seen = self._select(rows)[1], list[Array]()

        def of_outputs(outputs: Array) -> list[Array]:
            seen.append(criterion.class_logits(outputs))
            return [criterion.pull(outputs, direction) for direction in directions(seen[-1])]

        _, found = self._model.pullbacks(self.legal(candidates, rows), of_outputs)
        self.gradient_calls[rows] += len(found)
        slopes = [_finite(gradient, 0.0) for gradient in found]
        free = self._free_of(rows)
        return seen[-1], slopes if free is None else [slope * free for slope in slopes]

    def logits(self, candidates: Array, rows: Rows) -> Array:
        """Return `(len(rows), classes)` logits at one candidate for each of `rows`."""
        logits = self._select(rows)[1].class_logits(self._model.logits(self.legal(candidates, rows)))
        self._count(rows, 1, 0)
        if self._seen is not None:
            met = np.flatnonzero(self.judge(logits, rows))
            self._seen.offer(self.distance, self.x, take(candidates, met), rows[met])
        return logits

    def logits_of_many(self, candidates: Array, rows: Rows) -> list[Array]:
        """Return `(len(rows), classes)` logits for each of k candidates `(k, len(rows), ...)`, asked for together."""
        if self._seen is not None or self._model.features is not None:  # rules and budgets look at one after the other
            return [self.logits(candidate, rows) for candidate in candidates]
        criterion = self._select(rows)[1]
        outputs = self._model.logits(candidates.reshape((-1, *candidates.shape[2:])))
        self.queries[rows] += len(candidates)
        each = outputs.reshape((len(candidates), len(rows), *outputs.shape[1:]))
        return [criterion.class_logits(output) for output in each]

    def nearest_seen(self) -> Array:
        """Return the nearest adversarial candidate that the model was asked for, the input where there is none.

        Known only of models with a query budget, whose end ends a search.
        """
        return self.x if self._seen is None else self._seen.candidates

    def judge(self, logits: Array, rows: Rows) -> NDArray[np.bool_]:
        """Return `(len(rows),)` bool, True where the logits make the candidate for a row adversarial."""
        return _is_met(self.criterion(rows), logits)

    def is_adversarial(self, candidates: Array, rows: Rows) -> NDArray[np.bool_]:
        """Return `(len(rows),)` bool, for one candidate for each of `rows`."""
        return self.judge(self.logits(candidates, rows), rows)

    def project(self, candidates: Array, rows: Rows) -> Array:
        """Move the candidates for `rows` into the budget and the box, up to rounding."""
        projected = self._select(rows)[2].project(candidates)
        free = self._free_of(rows)
        if free is None:
            return projected
        return namespace(projected).where(free > 0, projected, take(self.x, rows))

    def clip(self, candidates: Array) -> Array:
        """Move one candidate for every row exactly into the budget and the box, and to a legal row."""
        features = self._model.features
        if features is None:
            return self._region.clip(candidates)
        inside = self._region.clip(self.legal(candidates, self.rows))
        legal = self.legal(inside, self.rows)
        if features.one_hot:
            beyond = self.distance.measure(self.x, legal) > self.epsilon * (1 + _ROUNDING)
            own = features.own_categories(legal, self.x)
            legal = namespace(legal).where(per_sample(from_numpy(beyond, legal), legal), own, legal)
        return self._region.clip(legal)

    def legal(self, candidates: Array, rows: Rows) -> Array:
        """Return the legal inputs that one candidate for each of `rows` stands for: what the model is asked about."""
        if self._model.features is None:
            return candidates
        return self._model.legal(candidates, take(self.x, rows))

    def random_start(self, restart: int, rows: Rows) -> Array:
        """Draw points uniformly from the budget around each of `rows`, moved into the box."""
        x = self.x[rows]
        noise = start_noise(self.distance.sample, self._samples[rows], tuple(x.shape[1:]), (*self._key, restart))
        scale = self.epsilon[rows].reshape((-1,) + (1,) * (noise.ndim - 1))
        return self.project(x + like_array(noise * scale, x), rows)

    def examples(self, rows: Rows, *key: int) -> tuple[Array, Rows]:
        """Draw for each row a clean input of the data set to which the model gives the class to reach.

        Returns:
            The inputs, and those of `rows` that they are for: the others have none.
        """
        if self._gallery is None:
            return self.x[:0], rows[:0]
        criterion = self.criterion(rows)
        anchors, draws = to_numpy(criterion.anchor), self.uniform(rows, (1,), *key)[:, 0]
        chosen = np.full(len(rows), -1)
        for anchor in np.unique(anchors):
            suitable = np.flatnonzero((self._gallery.predictions == anchor) == criterion.is_targeted)
            if len(suitable):
                matching = np.flatnonzero(anchors == anchor)
                chosen[matching] = suitable[(draws[matching] * len(suitable)).astype(np.int64)]
        with_example = np.flatnonzero(chosen >= 0)
        return self._gallery.x[chosen[with_example]], rows[with_example]

    def uniform(self, rows: Rows, shape: tuple[int, ...], *key: int) -> NDArray[np.float64]:
        """Draw `(len(rows), *shape)` numbers in [0, 1), the same for a sample whatever the batch."""
        return start_noise(
            lambda generator, size: generator.random(size), self._samples[rows], shape, (*self._key, 1, *key)
        )

    def normal(self, rows: Rows, shape: tuple[int, ...], *key: int) -> Array:
        """Draw `(len(rows), *shape)` standard normal numbers, native, the same for a sample whatever the batch."""
        noise = start_noise(
            lambda generator, size: generator.standard_normal(size), self._samples[rows], shape, (*self._key, 2, *key)
        )
        return like_array(noise, self.x)

    def native(self, values: NDArray[np.float64]) -> Array:
        """Convert numbers to an array of the library, device and dtype of `x`."""
        return like_array(values, self.x)

    def native_classes(self, classes: Rows) -> Array:
        """Convert class numbers to an array of the library and device of `x`."""
        return from_numpy(classes, self.x)

    def _free_of(self, rows: Rows) -> Array | None:
        """Return 1 where elements of these samples may change, else 0; one row where it is the same for all."""
        free = self._free
        return free if free is None or len(free) == 1 or len(rows) == len(self.rows) else take(free, rows)

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


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The nearest adversarial candidates so far, `(n, ...)`, written in place, and their `(n,)` distances."""

    candidates: Array
    distances: NDArray[np.float64]

    def offer(self, distance: Distance, x: Array, candidates: Array, rows: Rows) -> None:
        """Keep those that are nearer."""
        if not len(rows):
            return
        distances = distance.measure(take(x, rows), candidates)
        nearer = np.flatnonzero(distances < self.distances[rows])
        self.candidates[rows[nearer]] = take(candidates, nearer)
        self.distances[rows[nearer]] = distances[nearer]


def ascent_at(
    model: WrappedModel, candidates: Array, criterion: Criterion, objective: Objective
) -> tuple[Array, Ascent]:
    """Return the model's outputs, and the objective with its gradient, at `n` candidates."""
    values: list[Array] = []

    def direction(outputs: Array) -> Array:
        value, slope = objective(criterion.class_logits(outputs), criterion.of_classes)
        values.append(value)
        return criterion.pull(outputs, slope)

    logits, gradient = model.pullback(candidates, direction)
    return logits, Ascent(_finite(values[0], -np.inf), _finite(gradient, 0.0), _is_met(criterion, logits))


def _is_met(criterion: Criterion, logits: Array) -> NDArray[np.bool_]:
    return np.asarray(to_numpy(criterion.met(logits)), np.bool_)


def _finite(values: Array, instead: float) -> Array:
    if all_finite(values):
        return values
    xp = namespace(values)
    return xp.where(xp.isfinite(values), values, instead)


@dataclass(frozen=True, slots=True, eq=False)
class SampleStates:
    """The state of a search; every field of a subclass has one row for each sample."""

    def take(self, rows: Rows) -> Self:
        """Select these samples."""
        return replace(self, **{field.name: take(getattr(self, field.name), rows) for field in fields(self)})


_BLOCK = 64  # samples that share a generator: our choice, small enough to waste little, large enough to be cheap


def start_noise(
    draw: Callable[[np.random.Generator, tuple[int, ...]], NDArray[np.float64]],
    samples: Rows,
    shape: tuple[int, ...],
    key: tuple[int, ...],
) -> NDArray[np.float64]:
    """Draw `(n, *shape)` noise for the samples of these numbers: the same for a sample whatever the batch.

    Args:
        draw: Draws `(k, *shape)` values from a generator.
        samples: `(n,)` numbers of the samples in the whole data set.
        shape: Shape of one sample.
        key: Seed, and what else tells this draw from others.
    """
    blocks, block_index = np.unique(samples // _BLOCK, return_inverse=True)
    drawn = np.stack([draw(np.random.default_rng((*key, int(block))), (_BLOCK, *shape)) for block in blocks])
    return np.asarray(drawn[block_index, samples % _BLOCK], np.float64)
