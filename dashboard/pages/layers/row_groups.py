"""Groups the rows of a layer by step map by their module, so that a deep model can be read; a group can be opened."""

import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ....storage import display_site
from ...figures.heatmap_figure import HeatmapData

#: Of one of two widths.
Floats = NDArray[Any]  # float32 and float64 go through the same functions
_Join = Callable[[Floats], Floats]
#: Rows that a map shows with a label for each.
MOST_ROWS: Final = 60
#: Begins the label of a row that stands for several.
CLOSED: Final = "▸ "


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Rows that one module holds.

    Args:
        name: The site of the module.
        rows: Places of its rows in the map, in model order.
    """

    name: str
    rows: tuple[int, ...]

    @property
    def label(self) -> str:
        """What the closed group is called in the map."""
        return f"{CLOSED}{self.name} · {len(self.rows)}"


def groups_of(sites: Sequence[str], most: int = MOST_ROWS) -> list[RowGroup]:
    """Group the rows by the longest beginnings of their sites that leave at most `most` groups.

    Returns:
        Groups in the order of their first rows; each row alone when there are few, or no beginning is shared.
    """
    alone = [RowGroup(display_site(site), (row,)) for row, site in enumerate(sites)]
    if len(sites) <= most:
        return alone
    deepest = max((site.count(".") for site in sites), default=0)
    for depth in range(deepest, 0, -1):
        rows: dict[str, list[int]] = {}
        for row, site in enumerate(sites):
            rows.setdefault(".".join(site.split(".")[:depth]), []).append(row)
        if len(rows) <= most:
            return [RowGroup(display_site(name), tuple(found)) for name, found in rows.items()]
    return alone


def folded(
    heat: HeatmapData, groups: Sequence[RowGroup], opened: Collection[str]
) -> tuple[HeatmapData, dict[str, str]]:
    """Return the map with one row for each closed group, and the names of these groups by their labels.

    A closed group has the colour of its most unusual row, and the range of all.
    """
    parts: list[tuple[str, tuple[int, ...]]] = []
    labels: dict[str, str] = {}
    for group in groups:
        if len(group.rows) == 1 or group.name in opened:
            parts += [(heat.sites[row], (row,)) for row in group.rows]
        else:
            parts.append((group.label, group.rows))
            labels[group.label] = group.name
    rows = [list(found) for _, found in parts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a group without a value stays NaN
        return (
            replace(
                heat,
                sites=tuple(name for name, _ in parts),
                z=_stacked(heat.z, rows, _extreme if heat.diverging else _largest),
                low=_stacked(heat.low, rows, _smallest),
                high=_stacked(heat.high, rows, _largest),
                non_finite=np.stack([heat.non_finite[found].sum(axis=0) for found in rows]),
            ),
            labels,
        )


def _stacked(values: Floats, rows: Sequence[list[int]], join: _Join) -> Floats:
    return np.stack([join(values[found]) for found in rows])


def _largest(values: Floats) -> Floats:
    return np.asarray(np.nanmax(values, axis=0))


def _smallest(values: Floats) -> Floats:
    return np.asarray(np.nanmin(values, axis=0))


def _extreme(values: Floats) -> Floats:
    """Return the value farthest from zero in each column, with its sign."""
    low, high = _smallest(values), _largest(values)
    return np.where(np.abs(low) > np.abs(high), low, high)
