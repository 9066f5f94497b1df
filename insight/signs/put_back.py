"""Whether the weights begin each step where they began the one before, although that one has moved them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..view.burst import Alike
from ..view.moment import Moment
from ..view.table import Floats, Mask

#: Of a weight's root mean square: how exactly its mean is known in float32, and how many times that the mean must have
#: moved for its return to be seen.
_EXACT: Final = 1e-6
_SEEN: Final = 20.0


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """With which means steps began, `(rows,)` of one step or `(records, rows)` of several, and by how much they moved.

    Args:
        least: How exactly a mean is known.
        usable: `(rows,)` or as the others.
    """

    start: Floats
    moved: Floats
    least: Floats
    usable: Mask

    @staticmethod
    def of(weight: Callable[[str], Floats], update: Callable[[str], Floats], usable: Mask) -> "_Begun":
        """From the columns of the weights after the step, and of the update."""
        moved = np.where(usable, update("mean"), 0.0)
        least = _EXACT * weight("l2_norm") / np.sqrt(weight("size"))
        return _Begun(weight("mean") - moved, moved, least, usable)

    def at(self, places: slice | int) -> "_Begun":
        """Some of several steps, whose usable rows are the same."""
        return _Begun(self.start[places], self.moved[places], self.least[places], self.usable)

    def returns(self, before: "_Begun") -> Mask:
        """`()` or `(records,)` whether all rows that the step before was seen to move are where it began."""
        seen = self.usable & (np.abs(before.moved) > _SEEN * self.least)
        is_there = np.abs(self.start - before.start) <= self.least
        return np.asarray(seen.any(axis=-1) & (is_there | ~seen).all(axis=-1), dtype=np.bool_)


@dataclass(slots=True)
class PutBack:
    """The means with which the weight matrices began the last step, and by how much it moved them.

    Attributes:
        records: For how many records in a row all matrices that were seen to move began where they had begun before.
        since: The step at which that began.
        last: The step before.
        seen: Of which burst it was, and which of it.
    """

    records: int = 0
    since: int = 0
    last: _Begun | None = None
    seen: tuple[Alike | None, int] = (None, -1)

    def learn(self, now: Moment) -> None:
        """Takes this record's weights, which are those after the step, and its update."""
        weight, update = now.table("weight"), now.table("update")
        if weight is None or update is None or now.record.skipped or not weight.rows.are(update.rows):
            return
        matrices = now.anatomy.matrices(weight.rows.sites)
        before, seen = self.last, self.seen
        if weight.is_finite_throughout and update.is_finite_throughout:
            ours, theirs, place = weight.alike, update.alike, weight.place
            assert ours is not None  # or it would not be known to be finite throughout
            assert theirs is not None  # as above
            begun, returns = ours.known("begun", matrices, lambda one: _of_burst(one, theirs, matrices))
            self.last, self.seen = begun.at(place), (ours, place)
            if seen == (ours, place - 1):
                self._take(returns[place - 1], now.step)
                return
        else:
            usable = matrices & weight.present & update.present & ~weight.non_finite & ~update.non_finite
            self.last, self.seen = _Begun.of(weight.column, update.column, usable), (None, -1)
        if before is not None and len(before.start) == len(self.last.start):
            self._take(bool(self.last.returns(before)), now.step)

    def _take(self, returns: bool, step: int) -> None:
        self.since = step - 1 if returns and not self.records else self.since
        self.records = self.records + 1 if returns else 0


def _of_burst(weight: Alike, update: Alike, matrices: Mask) -> tuple[_Begun, list[bool]]:
    """All steps of a burst, and of each from the second on whether it begins where the one before began."""
    begun = _Begun.of(weight.columns, update.columns, matrices)
    return begun, list(begun.at(slice(1, None)).returns(begun.at(slice(-1))).tolist())
