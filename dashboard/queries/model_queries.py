"""The model of a run: its modules, one metric of each at one step, and the neighbours of a site."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight import deviation
from ...storage import Matrix, ModuleInfo, Structure
from .reader import Reader
from .tensor_sizes import at_equal_size

#: Steps read up to the one that is looked at, each a column of its own: what `deviation` needs for a history, twice.
_BEFORE: Final = 59


def modules(reader: Reader, run: str) -> tuple[ModuleInfo, ...]:
    """Return the modules in recorded order; empty before the structure is known."""
    return reader.structure(run).modules


def values_at(reader: Reader, run: str, metric: str, step: int, *, deviations: bool = False) -> dict[str, float]:
    """Return each site's value at a step, or its deviation from history; leave out sites without a value.

    Where nothing was recorded near the step, the interval of the whole run's map that holds it answers.
    """
    if not reader.sites(run, metric):
        return {}
    first = max(0, step - _BEFORE)
    near = reader.matrix(run, metric, first=first, last=step)
    is_near = bool(near.steps.size) and bool(near.present[:, -1].any())
    matrix = near if is_near else reader.matrix(run, metric)
    if not matrix.steps.size:
        return {}
    column = max(0, int(np.searchsorted(matrix.steps, step, side="right")) - 1)
    if deviations:
        span = {"first": first, "last": step} if is_near else {}
        values = deviation(at_equal_size(reader, run, matrix, **span))[:, column]
    else:
        values = _extremes(matrix, column)
    found = np.isfinite(values) | (matrix.non_finite[:, column] > 0)
    values = np.where(matrix.non_finite[:, column] > 0, np.nan, values)
    return {site: float(value) for site, value, is_there in zip(matrix.sites, values, found, strict=True) if is_there}


def _extremes(matrix: Matrix, column: int) -> NDArray[np.float64]:
    low, high = matrix.low[:, column], matrix.high[:, column]
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(low) > np.abs(high), low, high)


def by_module(infos: Sequence[ModuleInfo], values: Mapping[str, float]) -> dict[str, float]:
    """Return the values of modules; one without its own gets the most extreme of its parameters and parts."""
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


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Sites around one site.

    Args:
        before: Modules whose output it consumed.
        after: Modules that consumed its output.
        within: Its child modules and parameters, one level down.
        around: The module that holds it, None for the model itself.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    around: str | None = None


def neighbours(reader: Reader, run: str, site: str) -> Neighbours:
    """Return the neighbours of a module or parameter; empty for an unknown site."""
    structure = reader.structure(run)
    modules = {module.site: module for module in structure.modules}
    known = {*modules, *(parameter.site for parameter in structure.parameters)}
    if site not in known:
        return Neighbours()
    before = modules[site].inputs if site in modules else ()
    after = tuple(module.site for module in structure.modules if site in module.inputs)
    return Neighbours(before, after, _within(structure, site), _holder(site) if site else None)


def _within(structure: Structure, site: str) -> tuple[str, ...]:
    prefix = f"{site}." if site else ""
    names = [*(module.site for module in structure.modules), *(parameter.site for parameter in structure.parameters)]
    inside = (name for name in names if name.startswith(prefix) and name and "." not in name[len(prefix) :])
    return tuple(dict.fromkeys(inside))


def _holder(site: str) -> str:
    return site.rpartition(".")[0]
