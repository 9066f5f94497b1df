"""Where the time of a step goes, rank by rank: its phases, its collectives, and the rank that the others wait for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Block, Series, Store
from ..rank_work import RankWork, rank_work

__all__ = [
    "BESIDE",
    "INSIDE",
    "PHASES",
    "Collective",
    "RankTime",
    "StepSplit",
    "collectives",
    "rank_times",
    "step_split",
]

#: What a step consists of, in its order, and what is part of these.
PHASES = ("data", "forward", "backward", "optimizer", "evaluation")
INSIDE = ("communication", "monitor")
#: What other threads take of the processor meanwhile.
BESIDE = ("writer",)
#: Points of one series that are read; our choice: more change no median.
_MOST = 20_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepSplit:
    """The typical step of one rank.

    Medians, since the first steps compile, fill caches and start workers.

    Args:
        steps: Number of timed steps.
        step_s: Median seconds of a step, from the end of the one before; NaN when nothing was timed.
        slow_s: 95th percentile of a step's seconds.
        slowest: The steps that took longest, at most five, longest first.
        phases: Median seconds of `data`, `forward`, `backward`, `optimizer`, `evaluation` as far as recorded, and
            `other`: what of the steps whose split was recorded is in none of them, all scaled so that they sum to the
            step; empty when the run has no split.
        inside: Seconds of `communication` and `monitor`, which are part of the phases.
        beside: Processor seconds of the monitor's `writer`, which diagnoses and writes on a thread of its own.
        passed: Steps that the training made meanwhile, those that were not recorded included; 0 if unknown.
        mean_s: Mean seconds of these by the clock; NaN if unknown.
    """

    rank: int
    steps: int
    step_s: float
    slow_s: float
    slowest: tuple[int, ...]
    phases: Mapping[str, float]
    inside: Mapping[str, float]
    beside: Mapping[str, float] = field(default_factory=dict)
    passed: int = 0
    mean_s: float = float("nan")

    @property
    def is_thinned(self) -> bool:
        """Whether steps were left out, so that those that were timed are the dear ones."""
        return self.passed > self.steps > 0 and self.mean_s > 0.0

    def share(self, name: str) -> float:
        """Return the share of the step that a phase or part takes; NaN if unknown. All phases sum to 1."""
        return self._part(self.phases.get(name, self.inside.get(name, self.beside.get(name, float("nan")))))

    @property
    def monitor_s(self) -> float:
        """Seconds of a step that the monitor takes around the optimizer and on its own thread; NaN if unknown.

        Its hooks work inside of forward and backward and are not among them; `mindscope doctor --cost` measures these.
        """
        return self.inside.get("monitor", float("nan")) + self.beside.get("writer", 0.0)

    @property
    def monitor_share(self) -> float:
        """The share of the training that the monitor took: `monitor_s` of a step, or of all where few were recorded."""
        if self.is_thinned:
            return self.monitor_s * self.steps / (self.mean_s * self.passed)
        return self._part(self.monitor_s)

    def _part(self, seconds: float) -> float:
        whole = sum(self.phases.values()) or self.step_s
        return seconds / whole if whole > 0.0 else float("nan")

    @property
    def own_s(self) -> float:
        """Seconds of a step that the rank spent on its own: all but collectives; NaN without a split."""
        if not self.phases:
            return float("nan")
        return sum(self.phases.values()) - self.inside.get("communication", 0.0)


def step_split(
    store: Store, run: str, *, rank: int = 0, first: int | None = None, last: int | None = None
) -> StepSplit:
    """Return the typical step of the rank between two steps; seconds that were not recorded are NaN."""
    known = frozenset(store.metrics(run, rank=rank))

    def read(name: str) -> Series:
        """Return the finite values of one scalar."""
        metric = f"scalar/{name}"
        if metric not in known:
            return Series(ROOT_SITE, metric, np.empty(0, np.int64), np.empty(0), np.empty(0), 0)
        found = store.series(run, ROOT_SITE, metric, rank=rank, first=first, last=last, limit=_MOST)
        finite = np.isfinite(found.values)
        return replace(
            found,
            steps=found.steps[finite],
            values=found.values[finite],
            times=found.times[finite],
            total=found.total - int((~finite).sum()),
        )

    timed = read("step_seconds")
    steps, seconds = timed.steps, timed.values
    times = {name: read(f"time/{name}_seconds") for name in PHASES + INSIDE + BESIDE}
    medians = {name: _median(series.values) for name, series in times.items()}
    phases = {name: medians[name] for name in PHASES if np.isfinite(medians[name])}
    total = _median(seconds)
    inside = {name: medians[name] for name in INSIDE if np.isfinite(medians[name])}
    split = np.unique(np.concatenate([times[name].steps for name in phases])) if phases else np.empty(0, np.int64)
    whole = _median(_window_means(steps, seconds, split))
    if phases and np.isfinite(whole):
        phases["other"] = max(0.0, whole - sum(phases.values()))
    if phases and np.isfinite(total):  # medians of different steps: the rows are to sum to the typical step
        scale = total / (sum(phases.values()) or total)
        phases = {name: scale * value for name, value in phases.items()}
        inside = {name: scale * value for name, value in inside.items()}
    order = np.argsort(-seconds, kind="stable")[:5]
    return StepSplit(
        rank=rank,
        steps=timed.total,
        step_s=total if np.isfinite(total) else sum(phases.values()) or float("nan"),
        slow_s=float(np.percentile(seconds, 95)) if len(seconds) else float("nan"),
        slowest=tuple(int(step) for step in steps[order]),
        phases=phases,
        inside=inside,
        beside={name: medians[name] for name in BESIDE if np.isfinite(medians[name])},
        passed=int(steps[-1] - steps[0]) + 1 if len(steps) else 0,
        mean_s=_pace(timed),
    )


def _pace(timed: Series) -> float:
    """Return the mean seconds of a step, from the first that was timed to the last, by the clock; NaN if unknown."""
    between = timed.steps[-1] - timed.steps[0] if len(timed.steps) else 0
    return float((timed.times[-1] - timed.times[0]) / between) if between else float("nan")


def _window_means(steps: NDArray[np.int64], seconds: Floats, ends: NDArray[np.int64]) -> Floats:
    """Return the mean step of each window that a split is averaged over; it ends at the split's step."""
    last = np.searchsorted(steps, ends, side="right")
    first = np.concatenate([np.maximum(last[:1] - 1, 0), last[:-1]])
    return np.array([seconds[begin:end].mean() for begin, end in zip(first, last, strict=True) if end > begin])


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else float("nan")


_SUBJECT = "communication"
#: The newest records that are read: collectives are recorded one row a call. Our choice.
_RECORDS = 256


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of one rank, in a mean step.

    Args:
        site: `operation/group`.
        seconds: From the call to the result.
        wait_s: Seconds of these spent waiting for the result.
    """

    rank: int
    site: str
    calls: float
    size_bytes: float
    seconds: float
    wait_s: float


@dataclass(frozen=True, slots=True)
class RankTime:
    """How one rank spends a step beside the others.

    Args:
        own_s: Seconds on its own work; NaN where no split was recorded.
        wait_s: Seconds waiting in collectives, including those inside the backward pass.
        slowness: Own work over the median own work of the other ranks; NaN with one rank.
        steps: Number of timed steps; a rank that stopped early has fewer.
    """

    rank: int
    step_s: float
    own_s: float
    wait_s: float
    slowness: float
    steps: int


def collectives(
    store: Store, run: str, *, rank: int = 0, first: int | None = None, last: int | None = None
) -> tuple[Collective, ...]:
    """Return the collectives of the newest steps between two, the most expensive first; empty if none were recorded."""
    if not any(layout.subject == _SUBJECT for layout in store.layouts(run, rank=rank)):
        return ()
    sums: dict[str, list[float]] = {}
    steps: set[int] = set()
    for record in store.replay(run, rank=rank, first=first, last=last, limit=_RECORDS):
        for block in record.blocks:
            if block.layout.subject == _SUBJECT:
                steps.add(record.step)
                _add(sums, block)
    made = (
        Collective(rank, site, *(total / len(steps) for total in totals)) for site, totals in sums.items() if totals[0]
    )
    return tuple(sorted(made, key=lambda collective: -collective.seconds))


def _add(sums: dict[str, list[float]], block: Block) -> None:
    columns = [block.layout.statistics.index(name) for name in ("bytes", "seconds", "wait_seconds")]
    present = np.ones(len(block.values), np.bool_) if block.present is None else block.present
    for site, is_present, row in zip(
        block.layout.sites, present.tolist(), block.values[:, columns].tolist(), strict=True
    ):
        if is_present and not site.endswith("]"):  # further tensors of one call have its cost on the first
            totals = sums.setdefault(site, [0.0] * 4)
            for column, value in enumerate((1.0, *row)):
                totals[column] += value


def rank_times(splits: Sequence[StepSplit], costs: Sequence[Collective]) -> tuple[RankTime, ...]:
    """Return the ranks side by side, the slowest first.

    Ranks that step together take the same time for a step; the one that the others wait for is the one that does more
    work of its own, or the same work more slowly, and waits least.
    """
    work = _work(splits)
    alone = [split.own_s for split in splits]
    own = dict(zip((split.rank for split in splits), alone if work is None else work.own_s.tolist(), strict=True))
    hidden = dict.fromkeys(own, 0.0) if work is None else dict(zip(own, work.waits_s.tolist(), strict=True))
    made = []
    for split in splits:
        others = [value for rank, value in own.items() if rank != split.rank and np.isfinite(value)]
        usual = float(np.median(others)) if others else float("nan")
        slowness = own[split.rank] / usual if usual > 0.0 else float("nan")
        wait_s = sum(cost.wait_s for cost in costs if cost.rank == split.rank) + hidden[split.rank]
        made.append(RankTime(split.rank, split.step_s, own[split.rank], wait_s, slowness, split.steps))
    return tuple(
        sorted(
            made,
            key=lambda rank_time: (-rank_time.slowness if np.isfinite(rank_time.slowness) else 0.0, rank_time.rank),
        )
    )


def _work(splits: Sequence[StepSplit]) -> RankWork | None:
    """Return work and waiting of the ranks; None where a split is missing."""
    if len(splits) < 2 or any("backward" not in split.phases for split in splits):
        return None
    return rank_work(
        {name: np.array([split.phases.get(name, 0.0) for split in splits]) for name in (*PHASES, "other")},
        np.array([split.inside.get("communication", 0.0) for split in splits]),
    )
