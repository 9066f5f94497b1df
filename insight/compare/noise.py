"""Finds where two recordings diverge: the first value that differs by more than the noise before it.

A difference is measured against the size of the tensor that it belongs to, so that a mean near zero is no noise source:

    l2_norm, std             |a - b| / max(|a|, |b|)
    mean, min, max           |a - b| / max(largest absolute value of both tensors)
    zeros, nans, infinities  |a - b| / size
    any other, scalars       |a - b| / max(|a|, |b|)

Equal bits differ by 0, NaN from NaN too; what is finite on one side only differs by infinity.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from ...storage import Structure
from .pairing import TensorPair

__all__ = ["CERTAIN", "Divergence", "NoiseFloor", "Rounding", "distances"]

_COUNTS = frozenset({"zeros", "nans", "pos_infs", "neg_infs"})
_PLACES = frozenset({"mean", "min", "max"})


@dataclass(frozen=True, slots=True)
class Divergence:
    """One value that differs.

    Args:
        site: As the first run names it.
        difference: Relative, as the module describes; infinity if only one side is finite.
        floor: The largest difference that this value had shown before, 0 when all were equal to the bit; in the first
            common step what rounding explains.
    """

    step: int
    micro_step: int
    site: str
    call: int
    metric: str
    first: float
    second: float
    difference: float
    floor: float


def distances(
    first: NDArray[np.float64], second: NDArray[np.float64], statistics: tuple[str, ...]
) -> NDArray[np.float64]:
    """Return the relative distances between the statistics of the same tensors.

    Args:
        first: `(tensors, statistics)`, as `second`.

    Returns:
        `(tensors, statistics)`, from 0 to infinity.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.abs(first - second)
        scale = np.maximum(np.abs(first), np.abs(second))
        columns = {name: column for column, name in enumerate(statistics)}
        ends = [columns[name] for name in ("min", "max") if name in columns]
        if ends:
            reach = np.nanmax(np.where(np.isfinite(scale[:, ends]), scale[:, ends], 0.0), axis=1)
            for name in _PLACES & columns.keys():
                column = columns[name]
                scale[:, column] = np.maximum(scale[:, column], reach)
        if "size" in columns:
            for name in _COUNTS & columns.keys():
                scale[:, columns[name]] = np.maximum(scale[:, columns["size"]], 1.0)
        result = np.where(scale > 0.0, gap / scale, 0.0)
    is_equal = (first == second) | (np.isnan(first) & np.isnan(second))
    is_torn = np.isfinite(first) != np.isfinite(second)
    both_odd = ~np.isfinite(first) & ~np.isfinite(second) & ~is_equal
    result[is_torn | both_odd] = np.inf
    result[is_equal] = 0.0
    return result


@dataclass(slots=True)
class NoiseFloor:
    """The largest difference of each value so far.

    Args:
        factor: Times the floor that make a divergence. Our choice: rounding noise of a training at most doubles
            from one step to the next for a long time, so ten times the largest so far is no noise.
        least: Smaller differences are noise even if the floor is lower, unless everything was equal so far.
    """

    factor: float = 10.0
    least: float = 1e-6
    floors: dict[tuple[str, str, int], NDArray[np.float64]] = field(default_factory=dict)
    is_exact: bool = True

    def beyond(self, key: tuple[str, str, int], differences: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which of these differences of a tensor exceed its floor."""
        if self.is_exact:
            return differences > 0.0
        floor = self.floors.get(key)
        limit = self.least if floor is None else np.maximum(self.factor * floor, self.least)
        return differences > limit

    def floor(self, key: tuple[str, str, int], column: int) -> float:
        """Return the floor of one value."""
        known = self.floors.get(key)
        return 0.0 if known is None else float(known[column])

    def learn(self, key: tuple[str, str, int], differences: NDArray[np.float64]) -> None:
        """Raise the floor to these differences."""
        finite = np.where(np.isfinite(differences), differences, 0.0)
        known = self.floors.get(key)
        self.floors[key] = finite if known is None else np.maximum(known, finite)


_UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
#: Terms of a sum in a run that did not record its parameters; our choice, above most networks.
_LONG = 2**14
#: Room for other machines and networks than those measured; our choice.
_MARGIN = 4.0
#: Beyond this, and beyond what rounding explains, the computations differ for certain; our choice: the largest bound
#: of the networks above is a tenth of it.
CERTAIN = 1e-3
#: Subjects of a parameter that depend on its gradient.
_OF_PARAMETERS = frozenset({"gradient", "optimizer", "update", "weight"})
#: Statistics whose distance is relative to the size of the tensor already, or that have none.
_RELATIVE = frozenset({"l2_norm", "mean", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size", "abs_max"})


class Rounding:
    """Computes which differences rounding explains in the first step that two runs share.

    Args:
        structures: Those of both runs, for the dtypes and shapes of parameters. The coarsest dtype counts.
    """

    def __init__(self, structures: Sequence[Structure]) -> None:
        parameters = [parameter for structure in structures for parameter in structure.parameters]
        units = [_UNITS[parameter.dtype] for parameter in parameters if parameter.dtype in _UNITS]
        self._unit = max(units, default=_UNITS["float32"])
        self._terms = max((prod(parameter.shape[1:]) for parameter in parameters), default=_LONG)

    def explains(self, tensors: Sequence[TensorPair]) -> Iterator[NDArray[np.float64]]:
        """Yield the largest difference that rounding explains, by tensor: `(statistics,)`, relative as in `distances`.

        Args:
            tensors: The tensors of the step in its order.
        """
        noise = frozenset(self._noise(tensors))
        for position, tensor in enumerate(tensors, 1):
            if tensor.key[1] in noise and tensor.key[0].partition("/")[0] in _OF_PARAMETERS:
                yield np.full(len(tensor.statistics), np.inf)
                continue
            bound = np.full(len(tensor.statistics), self._bound(position))
            bound[[name == "zeros" for name in tensor.statistics]] = max(self._bound(position), CERTAIN)
            yield bound * _stretched(tensor)

    def _bound(self, position: int) -> float:
        return _MARGIN * self._unit * sqrt(self._terms * position)

    def _noise(self, tensors: Sequence[TensorPair]) -> Iterator[str]:
        """Return the parameters whose gradients are rounding only: below the rounding error of the step's largest."""
        norms = {tensor.key[1]: _largest(tensor, "l2_norm") for tensor in tensors if tensor.key[0] == "gradient"}
        least = self._bound(len(tensors)) * max(norms.values(), default=0.0)
        return (site for site, norm in norms.items() if norm < least)


def _stretched(tensor: TensorPair) -> NDArray[np.float64]:
    """Return by how much each statistic magnifies the relative error of the tensor's elements.

    A spread, a sum, a quantile may be far smaller than the elements; an update than the weights that it is read from.
    """
    reach = max(_largest(tensor, "min"), _largest(tensor, "max"), _largest(tensor, "abs_max"))
    share = _largest(tensor, "ratio_to_weight")
    factors = np.full(len(tensor.statistics), max(1.0, 1.0 / share) if share > 0.0 else 1.0)
    for column, name in enumerate(tensor.statistics):
        size = max(abs(tensor.first[column]), abs(tensor.second[column]))
        if name not in _RELATIVE and 0.0 < size < np.inf:
            terms = _largest(tensor, "size") if name == "sum" else 1.0
            factors[column] *= max(1.0, terms * reach / size)
    return factors


def _largest(tensor: TensorPair, statistic: str) -> float:
    """Return the larger absolute value of the two; 0 if it is missing or not finite."""
    if statistic not in tensor.statistics:
        return 0.0
    column = tensor.statistics.index(statistic)
    value = max(abs(float(tensor.first[column])), abs(float(tensor.second[column])))
    return value if isfinite(value) else 0.0
