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
from .rounding import CERTAIN, Rounding

__all__ = ["Comparison", "compare"]

Verdict = Literal["identical", "within_noise", "unclear", "diverged", "different_start", "incomparable"]

#: Steps from which the noise is learned when the runs are not equal to the bit. Our choice: three bear one odd step.
_LEARN = 3
_MOST = 20


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison found.

    Args:
        verdict: `identical`: equal to the bit; `within_noise`: never beyond the noise; `unclear`: the same, but
            rounding does not explain `first` in the first common step; `diverged`: from `first` on; `different_start`:
            the first common step differs by more than rounding can; `incomparable`: nothing in common.
        first: Where they part, None where they do not.
        also: What else parts in the same step, in the order in which the step brings it forth, at most 20.
        common: Steps that both have.
        missing: Steps between the first and last common one that only the first, only the second run has.
        exact_until: Last step up to which everything was equal to the bit; -1 when the first one was not.
        values: How many values were compared.
        is_start_clear: Whether rounding explains the first common step, or surely does not.
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
    is_start_clear: bool
    alignment: Alignment
    differences: tuple[Difference, ...]


def compare(stores: tuple[Store, Store], runs: tuple[Run, Run], ranks: tuple[int, int] = (0, 0)) -> Comparison:
    """The comparison of two runs, or of two ranks of one.

    Reads both recordings once, up to the step in which they part.
    """
    structures = tuple(store.structure(run.id, rank=rank) for store, run, rank in zip(stores, runs, ranks, strict=True))
    alignment = align(structures[0], structures[1])
    walk = _Walk(alignment, Rounding(structures))
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
        not walk.unclear,
        alignment,
        (*origins(stores, runs, ranks), *differences(runs, (structures[0], structures[1]), alignment)),
    )


class _Walk:
    """The way through both recordings."""

    def __init__(self, alignment: Alignment, rounding: Rounding) -> None:
        self.alignment = alignment
        self.noise = NoiseFloor()
        self.parted: list[Divergence] = []
        self.unclear: list[Divergence] = []
        self._rounding = rounding
        self.common, self.values, self.exact_until = 0, 0, -1
        self._moments, self._newest = 0, -1
        self.only = [0, 0]
        self.verdict: Verdict = "incomparable"
        self._waiting: list[set[int]] = [set(), set()]
        self._learned = 0

    def go(self, first: Iterator[StepRecord], second: Iterator[StepRecord]) -> None:
        """Nothing; both are read up to where they part."""
        for moment in in_step(first, second):
            if moment.first is None or moment.second is None:
                if (alone := moment.first or moment.second) is not None:
                    self._waiting[0 if moment.second is None else 1].add(alone.step)
                continue
            found = sorted(tensors(moment.first, moment.second, self.alignment), key=lambda one: one.order)
            if not found:
                continue
            if self.common:
                self.only = [known + len(new) for known, new in zip(self.only, self._waiting, strict=True)]
            self._waiting = [set(), set()]
            self._moments += 1
            if moment.first.step != self._newest:
                self.common, self._newest = self.common + 1, moment.first.step
            self._look(moment.first, found)
            if self.parted:
                return
        if self.common:
            self.verdict = "identical" if self.noise.is_exact else "unclear" if self.unclear else "within_noise"
            self.parted = self.unclear

    def _look(self, record: StepRecord, found: list[Tensor]) -> None:
        measured = [(one, _gaps(one)) for one in found]
        self.values += sum(one.first.size for one in found)
        largest = max(float(gaps.max(initial=0.0)) for _, gaps in measured)
        if largest == 0.0:
            if self.noise.is_exact:
                self.exact_until = record.step
            return
        is_start = self._moments == 1
        if self.noise.is_exact and not is_start:
            self._part(record, measured, "diverged")
        elif is_start:
            self._start(record, measured)
        elif self._learned >= _LEARN:
            self._part(record, measured, "diverged")
        self._learned += 1
        self.noise.is_exact = False
        for one, gaps in measured:
            self.noise.learn(one.key, gaps)

    def _start(self, record: StepRecord, measured: list[tuple[Tensor, NDArray[np.float64]]]) -> None:
        """Nothing; what rounding does not explain is where they part, if any of it is no rounding for certain."""
        is_certain = False
        limits = self._rounding.explains([one for one, _ in measured])
        for (one, gaps), explained in zip(measured, limits, strict=True):
            beyond = (gaps > explained) | np.isinf(gaps)
            is_certain |= bool((beyond & (gaps > CERTAIN)).any())
            if beyond.any():
                column = _first_of(beyond, gaps)
                self.unclear.append(_divergence(record, one, column, float(gaps[column]), float(explained[column])))
        if is_certain:
            self.verdict, self.parted, self.unclear = "different_start", self.unclear, []

    def _part(self, record: StepRecord, measured: list[tuple[Tensor, NDArray[np.float64]]], verdict: Verdict) -> None:
        for one, gaps in measured:
            beyond = self.noise.beyond(one.key, gaps)
            if beyond.any():
                column = _first_of(beyond, gaps)
                floor = self.noise.floor(one.key, column)
                self.parted.append(_divergence(record, one, column, float(gaps[column]), floor))
        if self.parted:
            self.verdict = verdict


def _gaps(one: Tensor) -> NDArray[np.float64]:
    if np.array_equal(one.first, one.second, equal_nan=True):
        return np.zeros(one.first.size)
    gaps: NDArray[np.float64] = distances(one.first[None], one.second[None], one.statistics)[0]
    return gaps


def _first_of(beyond: NDArray[np.bool_], gaps: NDArray[np.float64]) -> int:
    """The first column: a norm says more than an end, and what is finite on one side only says more than both."""
    torn = beyond & np.isinf(gaps)
    return int(np.argmax(torn if torn.any() else beyond))


def _divergence(record: StepRecord, one: Tensor, column: int, gap: float, floor: float) -> Divergence:
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
        floor,
    )
