"""Where the time of steps goes over a run, in intervals for a figure, and the profile of a part of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight.profile import Profile
from ...insight.profile.run_profile import profile
from ...insight.profile.step_split import INSIDE, PHASES
from ...storage import ROOT_SITE, Run, Series
from ..address import Span
from .reader import Reader

#: Intervals of steps that the figure shows, and points read of each series; our choice.
_COLUMNS: Final = 240
_POINTS: Final = 20_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StepTimeline:
    """The split of steps over a run.

    Args:
        steps: `(n,)` where each interval begins; where few steps were split, each of these is one.
        ends: `(n,)` where it ends: the next one's beginning.
        parts: Mean seconds by phase, `(n,)` each, and `other`: what of the step is in none of them. Only `step` where
            the run has no split.
        inside: Mean seconds of `communication` and `monitor`, which are part of the phases.
        longest: `(n,)` the longest step of each interval; NaN where none was timed.
    """

    steps: NDArray[np.int64]
    ends: NDArray[np.int64]
    parts: Mapping[str, Floats]
    inside: Mapping[str, Floats]
    longest: Floats


def profile_of(reader: Reader, run: Run, span: Span | None = None) -> Profile:
    """Return the profile of all ranks over the range of steps."""
    first, last = span or (None, None)
    return reader.cached(run.id, ("profile", span), lambda store: profile(store, run, first=first, last=last))


def step_timeline(reader: Reader, run: Run, *, rank: int | None = None, span: Span | None = None) -> StepTimeline:
    """Return the split of one rank's steps over the range; empty where no step was timed."""
    whole = _series(reader, run, rank, "step_seconds", span)
    parts = {name: _series(reader, run, rank, f"time/{name}_seconds", span) for name in PHASES + INSIDE}
    split = [parts[name].steps for name in PHASES if parts[name].total]
    marks = np.unique(np.concatenate(split)) if split else whole.steps
    edges = marks[:: max(1, -(-len(marks) // _COLUMNS))]
    if not len(edges):
        return StepTimeline(edges, edges, {}, {}, np.empty(0))
    means = {name: _fold(series, edges) for name, series in parts.items() if series.total}
    return StepTimeline(
        edges,
        np.append(edges[1:], max(int(marks[-1]), int(edges[-1])) + 1),
        _stacked(_of_steps(whole, marks), means, edges),
        {name: means[name] for name in INSIDE if name in means},
        _longest(whole, edges),
    )


def _stacked(whole: Series, means: Mapping[str, Floats], edges: NDArray[np.int64]) -> dict[str, Floats]:
    """Return the phases from the bottom of the stack up, and the rest of the step above them."""
    step = _fold(whole, edges)
    phases = {name: np.nan_to_num(means[name]) for name in PHASES if name in means}
    if not phases:
        return {"step": step}
    if whole.total:
        phases["other"] = np.maximum(0.0, np.nan_to_num(step) - np.sum(list(phases.values()), axis=0))
    return phases


def _series(reader: Reader, run: Run, rank: int | None, name: str, span: Span | None) -> Series:
    first, last = span or (None, None)
    return reader.series(run.id, ROOT_SITE, f"scalar/{name}", first=first, last=last, rank=rank, limit=_POINTS)


def _of_steps(series: Series, steps: NDArray[np.int64]) -> Series:
    """Keep the points at these steps alone: a mean of all steps is not the sum of the parts of some of them."""
    keep = np.isin(series.steps, steps)
    kept = (series.steps[keep], series.values[keep], series.times[keep])
    return Series(series.site, series.metric, *kept, int(keep.sum()), series.rank, series.call)


def _fold(series: Series, edges: NDArray[np.int64]) -> Floats:
    """Return the mean of the finite values of each interval; NaN where there are none."""
    column, values = _placed(series, edges)
    counts = np.bincount(column, minlength=len(edges))
    with np.errstate(invalid="ignore"):
        found: Floats = np.bincount(column, weights=values, minlength=len(edges)) / counts
    return found


def _longest(series: Series, edges: NDArray[np.int64]) -> Floats:
    column, values = _placed(series, edges)
    found = np.full(len(edges), -np.inf)
    np.maximum.at(found, column, values)
    return np.where(np.isinf(found), np.nan, found)


def _placed(series: Series, edges: NDArray[np.int64]) -> tuple[NDArray[np.intp], Floats]:
    """Return the interval of each finite value from the first interval on."""
    column = np.searchsorted(edges, series.steps, side="right") - 1
    keep = np.isfinite(series.values) & (column >= 0)
    return column[keep], series.values[keep]
