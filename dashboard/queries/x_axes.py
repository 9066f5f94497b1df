"""The x axes of a series besides steps: time, and tokens and epochs where they were logged."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Run, Series, metric_name
from .reader import Reader

AxisName = Literal["step", "time", "tokens", "epoch"]
AXES: Final[tuple[AxisName, ...]] = get_args(AxisName)

#: `tokens` counts since the start, as a training may log it; the other are those of one step, as the monitor records.
_COUNTED: Final = "tokens"
_OF_A_STEP: Final = "batch/tokens"
_ALL: Final = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """The position of each step on an axis.

    Args:
        steps: `(n,)` int64, ascending; steps between them are interpolated.
        values: `(n,)` Unix seconds, tokens or epochs.
    """

    name: AxisName
    steps: NDArray[np.int64]
    values: NDArray[np.float64]

    def positions(self, steps: Sequence[int]) -> tuple[int | float | str, ...]:
        """Return the positions of the steps; on the axis of time as dates for Plotly."""
        if self.name == "step":
            return tuple(steps)
        found = np.interp(steps, self.steps, self.values).tolist()
        if self.name == "time":
            return tuple(datetime.fromtimestamp(value, UTC).isoformat(timespec="milliseconds") for value in found)
        return tuple(found)


STEPS: Final = Axis("step", np.empty(0, np.int64), np.empty(0))


def axis_of(reader: Reader, run: str, name: AxisName, series: Series) -> Axis | None:
    """Return the axis for a series of the run, None when the run has not recorded it."""
    if name == "step":
        return STEPS
    if name == "time":
        return Axis(name, series.steps, series.times) if series.total else None
    known = reader.scalars(run)
    if name == "tokens" and _COUNTED not in known and _OF_A_STEP in known:
        return Axis(name, *_summed(_scalar(reader, run, _OF_A_STEP)))
    if name not in known:
        return None
    logged = _scalar(reader, run, name)
    return Axis(name, logged.steps, logged.values)


def axes_of(reader: Reader, run: Run) -> tuple[AxisName, ...]:
    """Return the axes that the run can be drawn over."""
    known = set(reader.scalars(run.id))
    has = {"step": True, "time": True, "tokens": bool(known & {_COUNTED, _OF_A_STEP}), "epoch": "epoch" in known}
    return tuple(axis for axis in AXES if has[axis])


def along(reader: Reader, run: Run, series: Series, name: str) -> NDArray[np.float64]:
    """Return the position of each point on an axis that begins with the run, so that two runs can be overlaid.

    Returns:
        `(n,)` steps, seconds since the run was created, tokens or epochs; steps where the run lacks the axis.
    """
    if name == "time":
        return series.times - run.created_at
    axis = axis_of(reader, run.id, name, series) if name in AXES else None
    return np.array((axis or STEPS).positions(series.steps.tolist()), np.float64)


def _scalar(reader: Reader, run: str, name: str) -> Series:
    return reader.series(run, ROOT_SITE, metric_name("scalar", name), limit=_ALL)


def _summed(tokens: Series) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Sum the tokens up to each step; a step that was not recorded counts as many as the next recorded one."""
    steps, first = np.unique(tokens.steps, return_index=True)
    of_step = np.add.reduceat(tokens.values, first)  # the micro-steps of a step stand side by side
    return steps, np.cumsum(of_step * np.diff(steps, prepend=-1))
