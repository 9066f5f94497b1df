"""Which ranks hold copies of the same tensor: by declaration, or because they were equal or are reduced together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..kernels.fingerprints import PROJECTIONS
from .rank_facts import BUFFER, COARSE, CONSTANT, OF_DATA, RankMessage

_Numbers = NDArray[np.float64]
_Labels = NDArray[np.int64]
_Mask = NDArray[np.bool_]
_ALONE: Final = -1


@dataclass(frozen=True, slots=True, eq=False)
class RankTables:
    """The messages of one step as tables: a row a rank, a column for everything that several ranks may hold.

    Args:
        keys: `(k,)` sorted.
        parameters, gradients, declared: `(r, k)`, NaN for what a rank does not hold.
        flags: `(r, k)`, 0 for what a rank does not hold.
        reduced, local: `(r, k, 2)`.
    """

    keys: _Numbers
    parameters: _Numbers
    gradients: _Numbers
    declared: _Numbers
    flags: _Labels
    reduced: _Numbers
    local: _Numbers

    def is_flagged(self, flag: int) -> _Mask:
        """Return which columns have the flag on any rank, `(k,)`."""
        found: _Mask = ((self.flags & flag) != 0).any(axis=0)
        return found


def tables_of(messages: Sequence[RankMessage | None]) -> RankTables:
    """Lay the messages side by side, one a rank, None of a rank that was silent."""
    known = [message.keys for message in messages if message is not None]
    keys = np.unique(np.concatenate(known)) if known else np.empty(0)
    shape = (len(messages), keys.size)
    tables = RankTables(
        keys=keys,
        parameters=np.full(shape, np.nan),
        gradients=np.full(shape, np.nan),
        declared=np.full(shape, np.nan),
        flags=np.zeros(shape, np.int64),
        reduced=np.full((*shape, PROJECTIONS), np.nan),
        local=np.full((*shape, PROJECTIONS), np.nan),
    )
    for rank, message in enumerate(messages):
        if message is not None:
            columns = np.searchsorted(keys, message.keys)
            for name in ("parameters", "gradients", "declared", "flags", "reduced", "local"):
                getattr(tables, name)[rank, columns] = getattr(message, name)
    return tables


class Agreement:
    """Learns, exchange by exchange, which ranks must hold the same of every tensor, and never forgets it.

    The ranks of a set must agree from the exchange on in which one of these was seen:

    - a wrapper or placements say so (`declared`);
    - they apply the same gradient, which is not zero: it was reduced over them, or they compute the same;
    - their weights were equal and more than a constant. Of what starts as a constant, such as a bias of zeros, being
      equal says nothing before it has moved, unless these ranks have all other weights in common. A buffer counts once
      it has moved and is equal.

    So shards that a script cuts by hand, experts, and stages of a pipeline are not compared with each other, and their
    replicas are, whatever group the training reduces them over.

    Attributes:
        keys: Of the columns.
    """

    def __init__(self) -> None:
        self.keys: _Numbers = np.empty(0)
        self._labels: _Labels = np.empty((0, 0), np.int64)
        self._first: _Numbers = np.empty((0, 0))
        self._sets: dict[tuple[int, ...], _Labels] | None = None

    def learn(self, tables: RankTables) -> None:
        """Take in what one step shows."""
        self._make_room(tables)
        buffers, constants = tables.is_flagged(BUFFER), tables.is_flagged(CONSTANT)
        self._join(_classes(tables.declared))
        is_zero = ~(np.abs(np.nan_to_num(tables.reduced)).sum(axis=2) > 0.0)
        self._join(_classes(np.where(is_zero, np.nan, tables.gradients)))
        equal = _classes(tables.parameters)
        has_moved = tables.parameters != self._first
        counts = np.where(buffers | constants, has_moved & ~np.isnan(tables.parameters), True)
        self._join(np.where(counts, equal, _ALONE))
        self._join(_like_all_others(equal, constants & ~buffers, ~constants & ~buffers))

    def sets(self) -> dict[tuple[int, ...], _Labels]:
        """Return the columns over which each set of two or more ranks must agree."""
        if self._sets is None:
            found: dict[tuple[int, ...], list[int]] = {}
            for column, members in _members_by_column(self._labels):
                found.setdefault(members, []).append(column)
            self._sets = {members: np.array(columns) for members, columns in found.items()}
        return self._sets

    def parts(self, tables: RankTables, said: Sequence[float]) -> list[int]:
        """Return, by rank, the first rank that holds copies of the same: only such ranks read different data.

        Args:
            said: By rank, the part of the model that it holds by its placements.
        """
        is_held = ~np.isnan(tables.parameters)
        counts = ~(tables.is_flagged(BUFFER) | tables.is_flagged(OF_DATA) | tables.is_flagged(CONSTANT))
        own_number = -2 - np.arange(len(said))[:, None]
        held = np.where(self._labels == _ALONE, own_number, self._labels)
        signs = np.where(is_held & counts, held, np.where(counts, -2 - len(said), 0))
        seen: dict[tuple[float, bytes], int] = {}
        return [seen.setdefault((number, signs[rank].tobytes()), rank) for rank, number in enumerate(said)]

    def _make_room(self, tables: RankTables) -> None:
        """Give columns to what was not there before; forget nothing."""
        if np.array_equal(self.keys, tables.keys) and self._labels.shape == tables.parameters.shape:
            return
        labels = np.full(tables.parameters.shape, _ALONE)
        first = tables.parameters.copy()
        if len(self._labels) == len(labels):
            _, now, before = np.intersect1d(tables.keys, self.keys, return_indices=True)
            labels[:, now], first[:, now] = self._labels[:, before], self._first[:, before]
        self.keys, self._labels, self._first, self._sets = tables.keys, labels, first, None

    def _join(self, classes: _Labels) -> None:
        """Join the ranks of every class of two or more."""
        shared = np.zeros(classes.shape, np.bool_)
        for rank, own in enumerate(classes):
            shared[rank] = (own != _ALONE) & ((classes == own).sum(axis=0) > 1)
        classes = np.where(shared, classes, _ALONE)
        is_new = (classes != _ALONE) & (classes != self._labels)
        for column in np.flatnonzero(is_new.any(axis=0)).tolist():
            joined = _joined(self._labels[:, column], classes[:, column])
            if not np.array_equal(joined, self._labels[:, column]):
                self._labels[:, column], self._sets = joined, None


def movement(now: RankTables, before: RankTables) -> tuple[_Mask, _Mask]:
    """Return what has moved since the exchange before, and what has not in spite of a gradient; `(r, k)` each."""
    if not np.array_equal(now.keys, before.keys) or now.parameters.shape != before.parameters.shape:
        nothing = np.zeros(now.parameters.shape, np.bool_)
        return nothing, nothing
    is_known = ~np.isnan(now.parameters) & ~np.isnan(before.parameters) & ((now.flags & (BUFFER | COARSE)) == 0)
    has_gradient = np.abs(np.nan_to_num(before.reduced)).sum(axis=2) > 0.0
    is_same = now.parameters == before.parameters
    return is_known & ~is_same, is_known & is_same & has_gradient


def _classes(values: _Numbers) -> _Labels:
    """Return, for every value, the first rank that has the same; -1 for NaN."""
    found = np.full(values.shape, _ALONE)
    for rank in range(len(values) - 1, -1, -1):
        found[values == values[rank]] = rank
    return found


def _like_all_others(equal: _Labels, wanted: _Mask, others: _Mask) -> _Labels:
    """Return the classes in the wanted columns of those ranks that are equal in every other column."""
    found = np.full(equal.shape, _ALONE)
    seen: dict[bytes, int] = {}
    for rank, own in enumerate(equal):
        if others.any() and (own[others] != _ALONE).any():
            first = seen.setdefault(own[others].tobytes(), rank)
            found[rank, wanted & (own != _ALONE)] = first
    return np.where(equal == _ALONE, _ALONE, found)


def _joined(labels: _Labels, classes: _Labels) -> _Labels:
    joined = labels.copy()
    for number in np.unique(classes[classes != _ALONE]).tolist():
        members = classes == number
        touched = np.unique(joined[members & (joined != _ALONE)])
        members |= np.isin(joined, touched) & (joined != _ALONE)
        joined[members] = np.flatnonzero(members)[0]
    return joined


def _members_by_column(labels: _Labels) -> Iterator[tuple[int, tuple[int, ...]]]:
    patterns, which = np.unique(labels, axis=1, return_inverse=True)
    members = [
        [tuple(np.flatnonzero(pattern == label).tolist()) for label in np.unique(pattern[pattern != _ALONE])]
        for pattern in patterns.T
    ]
    for column, pattern in enumerate(which.reshape(-1).tolist()):
        yield from ((column, found) for found in members[pattern])
