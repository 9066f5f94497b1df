"""The model of a run: its modules, and what one metric said about each of them at one step."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight import deviation
from ...storage import Matrix, ModuleInfo
from .reader import Reader

#: Steps read up to the one that is looked at, each a column of its own: what `deviation` needs for a history, twice.
_BEFORE: Final = 59


def modules(reader: Reader, run: str) -> tuple[ModuleInfo, ...]:
    """The modules in the order in which they were recorded; none before the structure is known."""
    return reader.structure(run).modules


def values_at(reader: Reader, run: str, metric: str, step: int, *, deviations: bool = False) -> dict[str, float]:
    """What each site's metric was at a step, or how far it was from its history; sites without a value are left out.

    Where nothing was recorded near the step, the stretch of the whole run's map that holds it answers.
    """
    if not reader.sites(run, metric):
        return {}
    near = reader.matrix(run, metric, first=max(0, step - _BEFORE), last=step)
    matrix = near if near.steps.size and near.present[:, -1].any() else reader.matrix(run, metric)
    if not matrix.steps.size:
        return {}
    column = max(0, int(np.searchsorted(matrix.steps, step, side="right")) - 1)
    values = deviation(matrix)[:, column] if deviations else _extremes(matrix, column)
    found = np.isfinite(values) | (matrix.non_finite[:, column] > 0)
    values = np.where(matrix.non_finite[:, column] > 0, np.nan, values)
    return {site: float(value) for site, value, is_there in zip(matrix.sites, values, found, strict=True) if is_there}


def _extremes(matrix: Matrix, column: int) -> NDArray[np.float64]:
    low, high = matrix.low[:, column], matrix.high[:, column]
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(low) > np.abs(high), low, high)


def by_module(infos: Sequence[ModuleInfo], values: Mapping[str, float]) -> dict[str, float]:
    """The values of modules; one without a value of its own has the most extreme of its parameters and parts."""
    sites = {info.site for info in infos}
    found = {site: value for site, value in values.items() if site in sites}
    for site, value in values.items():
        outer: str | None = site
        while outer:
            outer = outer.rpartition(".")[0]
            if outer in sites and outer not in values:
                found[outer] = _farther(found.get(outer), value)
    return found


def _farther(known: float | None, value: float) -> float:
    if known is None or value != value:  # NaN is the most extreme of all
        return value
    return known if known != known or abs(known) >= abs(value) else value
