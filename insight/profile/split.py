"""Where the time of a step goes, as one rank has recorded it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Store

__all__ = ["INSIDE", "PHASES", "StepSplit", "step_split"]

#: What a step consists of, in its order, and what is part of these.
PHASES = ("data", "forward", "backward", "optimizer", "evaluation")
INSIDE = ("communication", "monitor")
#: Points of one series that are read; our choice: more change no median.
_MOST = 20_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepSplit:
    """The typical step of one rank.

    Medians, since the first steps compile, fill caches and start workers.

    Args:
        steps: How many steps have been timed.
        step_s: Median seconds of a step, from the end of the one before; NaN when nothing was timed.
        slow_s: 95th percentile of the same.
        slowest: The steps that took longest, at most five, longest first.
        phases: Median seconds of `data`, `forward`, `backward`, `optimizer`, `evaluation` as far as recorded, and
            `other`: what of the steps whose split was recorded is in none of them; empty when the run has no split.
        inside: Seconds of `communication` and `monitor`, which are part of the phases.
    """

    rank: int
    steps: int
    step_s: float
    slow_s: float
    slowest: tuple[int, ...]
    phases: Mapping[str, float]
    inside: Mapping[str, float]

    def share(self, name: str) -> float:
        """Share of the step that a phase, or a part of phases, takes; NaN where it is not known. All phases make 1."""
        seconds = self.phases.get(name, self.inside.get(name, float("nan")))
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
    """The typical step of the rank between two steps; seconds are NaN where the run has not recorded them."""
    known = frozenset(store.metrics(run, rank=rank))

    def read(name: str) -> tuple[NDArray[np.int64], Floats]:
        """Steps and finite values of one scalar."""
        metric = f"scalar/{name}"
        if metric not in known:
            return np.empty(0, np.int64), np.empty(0)
        found = store.series(run, ROOT_SITE, metric, rank=rank, first=first, last=last, limit=_MOST)
        finite = np.isfinite(found.values)
        return found.steps[finite], found.values[finite]

    steps, seconds = read("step_seconds")
    times = {name: read(f"time/{name}_seconds") for name in PHASES + INSIDE}
    medians = {name: _median(values) for name, (_, values) in times.items()}
    phases = {name: medians[name] for name in PHASES if np.isfinite(medians[name])}
    total = _median(seconds)
    split = np.concatenate([times[name][0] for name in phases]) if phases else np.empty(0, np.int64)
    whole = _median(seconds[np.isin(steps, split)])
    if phases and np.isfinite(whole):
        phases["other"] = max(0.0, whole - sum(phases.values()))
    order = np.argsort(-seconds, kind="stable")[:5]
    return StepSplit(
        rank,
        len(seconds),
        total if np.isfinite(total) else sum(phases.values()) or float("nan"),
        float(np.percentile(seconds, 95)) if len(seconds) else float("nan"),
        tuple(int(step) for step in steps[order]),
        phases,
        {name: medians[name] for name in INSIDE if np.isfinite(medians[name])},
    )


def _median(values: Floats) -> float:
    return float(np.median(values)) if len(values) else float("nan")
