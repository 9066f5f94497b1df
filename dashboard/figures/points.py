"""A curve as lists that Plotly can extend: the line with gaps, and marks for what no axis can hold."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

#: Kind of mark -> (Plotly symbol, words).
MARKS: dict[str, tuple[str, str]] = {
    "nan": ("x", "NaN"),
    "positive": ("triangle-up", "+Inf"),
    "negative": ("triangle-down", "-Inf"),
    "elements": ("x", "some elements are NaN or infinite"),
    "below": ("triangle-down-open", "zero or less, not on a log axis"),
}


@dataclass(frozen=True, slots=True)
class Points:
    """One curve, ready to draw or to append to what is drawn.

    Args:
        x: Steps of every point, the gaps included.
        y: Values; None where the line breaks because the value is not on the axis.
        mark_x: Steps of the values that are not on the axis.
        mark_kind: For each of them a key of `MARKS`.
    """

    x: tuple[int, ...]
    y: tuple[float | None, ...]
    mark_x: tuple[int, ...]
    mark_kind: tuple[str, ...]

    @property
    def mark_symbol(self) -> tuple[str, ...]:
        """The Plotly symbol of each mark."""
        return tuple(MARKS[kind][0] for kind in self.mark_kind)

    @property
    def mark_text(self) -> tuple[str, ...]:
        """What each mark stands for."""
        return tuple(MARKS[kind][1] for kind in self.mark_kind)


def points_of(
    steps: NDArray[np.int64], values: NDArray[np.float64], *, log: bool = False, broken: Sequence[int] = ()
) -> Points:
    """The curve of a series; on a log axis what is not positive becomes a mark, as NaN and infinities always do.

    Args:
        broken: Steps to mark although the value itself is on the axis: a statistic of the finite elements looks
            well while others are NaN.
    """
    on_axis = np.isfinite(values)
    if log:
        on_axis &= values > 0
    y = tuple(value if ok else None for value, ok in zip(values.tolist(), on_axis.tolist(), strict=True))
    off = ~on_axis
    marks = list(zip(steps[off].tolist(), map(_kind, values[off].tolist()), strict=True))
    marks += [(step, "elements") for step in broken]
    return Points(tuple(steps.tolist()), y, tuple(step for step, _ in marks), tuple(kind for _, kind in marks))


def _kind(value: float) -> str:
    if value != value:  # NaN alone differs from itself
        return "nan"
    if value == float("inf"):
        return "positive"
    return "negative" if value == float("-inf") else "below"
