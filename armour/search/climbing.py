"""What both climbs of Auto-PGD keep of each sample: where it is, and the best it has seen."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, from_numpy, namespace, to_numpy
from ..arrays.rows import PerSample, per_sample, take
from ..problem.batch import Ascent


@dataclass(frozen=True, slots=True, eq=False)
class Climber(PerSample):
    """What belongs to each sample that still resists."""

    rows: Rows
    at: Array
    gradient: Array
    best: Array
    best_gradient: Array
    best_value: NDArray[np.float64]

    def moved(self, ahead: Array, ascent: Ascent, **more: Any) -> Self:
        """The state at the next iterates, whose `ascent` it is; `more` replaces fields of a subclass."""
        value = numbers(ascent.value)
        better = value > self.best_value
        choose, chosen = namespace(ahead).where, per_sample(from_numpy(better, ahead), ahead)
        return replace(
            self,
            at=ahead,
            gradient=ascent.gradient,
            best=choose(chosen, ahead, self.best),
            best_gradient=choose(chosen, ascent.gradient, self.best_gradient),
            best_value=np.where(better, value, self.best_value),
            **more,
        )

    def fallen(self, found: Array, met: NDArray[np.bool_]) -> Self:
        """The state of those that still resist; the others' iterates go into `found`."""
        if not met.any():
            return self
        gone = np.flatnonzero(met)
        found[self.rows[gone]] = take(self.at, gone)
        return self.take(np.flatnonzero(~met))


def numbers(value: Array) -> NDArray[np.float64]:
    """`(n,)` the values of an objective, on the host."""
    return np.asarray(to_numpy(value), np.float64)
