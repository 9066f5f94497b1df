"""Where the time of steps goes over a run, in stretches for a picture, and the profile of a part of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight.profile import Profile, profile
from ...insight.profile.split import INSIDE, PHASES
from ...storage import ROOT_SITE, Run, Series
from ..spans import Span
from .reader import Reader

#: Stretches of steps that the picture shows, and points read of each series; our choice.
_COLUMNS: Final = 240
_POINTS: Final = 20_000

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class StepCourse:
    """The split of steps over a run.

    Args:
        steps: `(n,)` where each stretch begins; where few steps were split, each of these is one.
        ends: `(n,)` where it ends: the next one's beginning.
        parts: Mean seconds by phase, `(n,)` each, and `other`: what of the step is in none of them. Only `step` where
            the run has no split.
        inside: Mean seconds of `communication` and `monitor`, which are part of the phases.
        longest: `(n,)` the longest step of each stretch; NaN where none was timed.
    """

    steps: NDArray[np.int64]
    ends: NDArray[np.int64]
    parts: Mapping[str, Floats]
    inside: Mapping[str, Floats]
    longest: Floats


def profile_of(reader: Reader, run: Run, span: Span | None = None) -> Profile:
    """The profile of all ranks over the stretch of steps."""
    first, last = span or (None, None)
    return reader.cached(run.id, ("profile", span), lambda store: profile(store, run, first=first, last=last))


def step_course(reader: Reader, run: Run, *, rank: int = 0, span: Span | None = None) -> StepCourse:
    """The split of one rank's steps over the stretch; without stretches where nothing was timed."""
    whole = _series(reader, run, rank, "step_seconds", span)
    parts = {name: _series(reader, run, rank, f"time/{name}_seconds", span) for name in PHASES + INSIDE}
    split = [parts[name].steps for name in PHASES if parts[name].total]
    marks = np.unique(np.concatenate(split)) if split else whole.steps
    edges = marks[:: max(1, -(-len(marks) // _COLUMNS))]
    if not len(edges):
        return StepCourse(edges, edges, {}, {}, np.empty(0))
    means = {name: _fold(one, edges) for name, one in parts.items() if one.total}
    return StepCourse(
        edges,
        np.append(edges[1:], max(int(marks[-1]), int(edges[-1])) + 1),
        _stacked(_of_steps(whole, marks), means, edges),
        {name: means[name] for name in INSIDE if name in means},
        _longest(whole, edges),
    )


def _stacked(whole: Series, means: Mapping[str, Floats], edges: NDArray[np.int64]) -> dict[str, Floats]:
    """The phases from the bottom of the stack up, and what is left of the step above them."""
    step = _fold(whole, edges)
    phases = {name: np.nan_to_num(means[name]) for name in PHASES if name in means}
    if not phases:
        return {"step": step}
    if whole.total:
        phases["other"] = np.maximum(0.0, np.nan_to_num(step) - np.sum(list(phases.values()), axis=0))
    return phases


def _series(reader: Reader, run: Run, rank: int, name: str, span: Span | None) -> Series:
    first, last = span or (None, None)
    return reader.series(run.id, ROOT_SITE, f"scalar/{name}", first=first, last=last, rank=rank, limit=_POINTS)


def _of_steps(series: Series, steps: NDArray[np.int64]) -> Series:
    """The points at these steps alone: a mean of all steps is not what the parts of some of them add up to."""
    keep = np.isin(series.steps, steps)
    kept = (series.steps[keep], series.values[keep], series.times[keep])
    return Series(series.site, series.metric, *kept, int(keep.sum()), series.rank, series.call)


def _fold(series: Series, edges: NDArray[np.int64]) -> Floats:
    """The mean of the finite values of each stretch; NaN where there are none."""
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
    """The stretch of each finite value from the first stretch on."""
    column = np.searchsorted(edges, series.steps, side="right") - 1
    keep = np.isfinite(series.values) & (column >= 0)
    return column[keep], series.values[keep]
