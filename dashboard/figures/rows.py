"""Which rows of a layer x step map are shown, and in which order."""

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

import numpy as np
from numpy.typing import NDArray

from ...storage import display_site
from .heatmap import Heat


def matching_rows(heat: Heat, globs: str) -> list[int]:
    """Rows whose site matches one of the globs, in model order.

    Args:
        globs: Separated by commas or blanks; empty matches every site.
    """
    return [row for row, site in enumerate(heat.sites) if _matches(display_site(site), globs)]


def most_unusual_first(rows: Sequence[int], heat: Heat, deviations: NDArray[np.float64]) -> list[int]:
    """The rows by how unusual they ever were.

    Args:
        deviations: `(sites, columns)`, how far each cell of the map is from its row's own history.
    """
    worth = scores(heat, deviations)
    return sorted(rows, key=lambda row: -worth[row])


def scores(heat: Heat, deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """`(sites,)`, how unusual each row ever was: its largest deviation, infinite where something was not finite."""
    largest = np.nanmax(np.abs(deviations), axis=1, initial=0.0, where=np.isfinite(deviations))
    return np.where(heat.non_finite.any(axis=1), np.inf, largest)


def _matches(site: str, globs: str) -> bool:
    wanted = globs.replace(",", " ").split()
    return not wanted or any(fnmatchcase(site, glob) for glob in wanted)


def with_rows(heat: Heat, rows: Sequence[int]) -> Heat:
    """The map of these rows alone, in this order."""
    keep = list(rows)
    return replace(
        heat,
        sites=tuple(heat.sites[row] for row in keep),
        z=heat.z[keep],
        low=heat.low[keep],
        high=heat.high[keep],
        non_finite=heat.non_finite[keep],
    )
