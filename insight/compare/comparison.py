"""The comparison of two recordings, from the first step to where they part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ...storage import Run, StepRecord, Store
from .align import Alignment, align
from .differences import Difference, differences
from .divergence import Divergence, NoiseFloor, distances
from .origins import origins
from .pairing import Tensor, in_step, tensors

__all__ = ["Comparison", "compare"]

Verdict = Literal["identical", "within_noise", "diverged", "different_start", "incomparable"]

#: Steps from which the noise is learned when the runs are not equal to the bit. Our choice: three bear one odd step.
_LEARN = 3
#: In the first common step more than this is no rounding: the runs start from different weights or data.
_START = 1e-3
_MOST = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Args:
        verdict: `identical`: equal to the bit; `within_noise`: never beyond the noise; `diverged`: from `first` on;
            `different_start`: the first common step differs by more than rounding; `incomparable`: nothing in common.
        first: Where they part, None where they do not.
        also: What else parts in the same step, in the order in which the step brings it forth, at most 20.
        common: Steps (with micro-steps) that both have.
        missing: Steps between the first and last common one that only the first, only the second run has.
        exact_until: Last step up to which everything was equal to the bit; -1 when the first one was not.
        values: How many values were compared.
    """

    runs: tuple[str, str]
    ranks: tuple[int, int]
    verdict: Verdict
    first: Divergence | None
    also: tuple[Divergence, ...]
    common: int
    missing: tuple[int, int]
    exact_until: int
    values: int
    alignment: Alignment
    differences: tuple[Difference, ...]


def compare(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int] = (0, 0)) -> Comparison:
    """The comparison of two runs, or of two ranks of one.

    Reads both recordings once, up to the step in which they part.
    """
    structures = tuple(store.structure(run.id, rank=rank) for store, run, rank in zip(stores, runs, ranks, strict=True))
    alignment = align(structures[0], structures[1])
    walk = _Walk(alignment)
    walk.go(stores[0].replay(runs[0].id, rank=ranks[0]), stores[1].replay(runs[1].id, rank=ranks[1]))
    return Comparison(
        (runs[0].id, runs[1].id),
        ranks,
        walk.verdict,
        walk.parted[0] if walk.parted else None,
        tuple(walk.parted[1 : _MOST + 1]),
        walk.common,
        (walk.only[0], walk.only[1]),
        walk.exact_until,
        walk.values,
        alignment,
        (*origins(stores, runs, ranks), *differences(runs, (structures[0], structures[1]), alignment)),
    )


class _Walk:
    """The way through both recordings."""

    def __init__(self, alignment: Alignment) -> None:
        self.alignment = alignment
        self.noise = NoiseFloor()
        self.parted: list[Divergence] = []
        self.common, self.values, self.exact_until = 0, 0, -1
        self.only = [0, 0]
        self.verdict: Verdict = "incomparable"
        self._waiting = [0, 0]
        self._learned = 0

    def go(self, first: Iterator[StepRecord], second: Iterator[StepRecord]) -> None:
        """Nothing; both are read up to where they part."""
        for moment in in_step(first, second):
            if moment.first is None or moment.second is None:
                self._waiting[0 if moment.second is None else 1] += 1
                continue
            found = sorted(tensors(moment.first, moment.second, self.alignment), key=lambda one: one.order)
            if not found:
                continue
            if self.common:
                self.only = [known + new for known, new in zip(self.only, self._waiting, strict=True)]
            self._waiting = [0, 0]
            self.common += 1
            self._look(moment.first, found)
            if self.parted:
                return
        if self.common:
            self.verdict = "identical" if self.noise.is_exact else "within_noise"

    def _look(self, record: StepRecord, found: list[Tensor]) -> None:
        measured = [(one, _gaps(one)) for one in found]
        self.values += sum(one.first.size for one in found)
        largest = max(float(gaps.max(initial=0.0)) for _, gaps in measured)
        if largest == 0.0:
            if self.noise.is_exact:
                self.exact_until = record.step
            return
        is_start = self.common == 1
        if self.noise.is_exact and not is_start:
            self._part(record, measured, "diverged")
        elif is_start and largest > _START:
            self.noise = NoiseFloor(least=_START, is_exact=False)
            self._part(record, measured, "different_start")
        elif self._learned >= _LEARN:
            self._part(record, measured, "diverged")
        self._learned += 1
        self.noise.is_exact = False
        for one, gaps in measured:
            self.noise.learn(one.key, gaps)

    def _part(self, record: StepRecord, measured: list[tuple[Tensor, NDArray[np.float64]]], verdict: Verdict) -> None:
        for one, gaps in measured:
            beyond = self.noise.beyond(one.key, gaps)
            if beyond.any():
                torn = beyond & np.isinf(gaps)
                column = int(np.argmax(torn if torn.any() else beyond))  # the first: a norm says more than an end
                self.parted.append(_divergence(record, one, column, float(gaps[column]), self.noise))
        if self.parted:
            self.verdict = verdict


def _gaps(one: Tensor) -> NDArray[np.float64]:
    if np.array_equal(one.first, one.second, equal_nan=True):
        return np.zeros(one.first.size)
    gaps: NDArray[np.float64] = distances(one.first[None], one.second[None], one.statistics)[0]
    return gaps


def _divergence(record: StepRecord, one: Tensor, column: int, gap: float, noise: NoiseFloor) -> Divergence:
    subject, site, call = one.key
    return Divergence(
        record.step,
        record.micro_step,
        site,
        call,
        f"{subject}/{one.statistics[column]}",
        float(one.first[column]),
        float(one.second[column]),
        gap,
        noise.floor(one.key, column),
    )
