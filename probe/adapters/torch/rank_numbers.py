"""What one rank tells of its weights and gradients: checksums and projections, wherever the tensors lie."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from ...access.tensors import Tensor
from ...kernels import MORE, STATISTICS, Arrays, measure_more_many, values_at
from ...kernels.device.comparing import checksums_on_device, projections_on_device
from ...kernels.projection import PROJECTIONS, project
from ...outbox.outbox import Outbox
from .memory import place_of
from .parts import remote

_CHECKSUM: Final = 1 << list(MORE).index("checksum")
_Numbers = NDArray[np.float64]


class LocalGradients:
    """Projections of what this rank's backward passes find, one row a parameter.

    Attributes:
        rows: `(n, 2)`, NaN where nothing was found on the host.
        away: By row, `(2,)` on the device.
    """

    def __init__(self, count: int) -> None:
        self.rows: _Numbers = np.full((count, PROJECTIONS), np.nan)
        self.away: dict[int, Tensor] = {}

    def add(self, row: int, gradient: Tensor, *, may_be_late: bool) -> None:
        """Nothing; one more pass has found this.

        Raises:
            Unsupported: It cannot be read.
        """
        held = remote(gradient)
        if held is not None and may_be_late:
            found = projections_on_device([held])[0]
            self.away[row] = found if row not in self.away else self.away[row] + found
            return
        (address, size, code), owner = place_of(gradient)
        out = self.rows[row]
        if np.isnan(out[0]):
            out[:] = 0.0
        project(values_at(address, size, code), out)
        del owner


@dataclass(frozen=True, slots=True)
class RankNumbers:
    """One row a parameter, NaN where there is nothing.

    Args:
        parameters: `(n,)` checksums of the weights.
        gradients: `(n,)` checksums of the gradients.
        reduced: `(n, 2)` projections of the gradients.
        local: `(n, 2)` projections of what this rank's passes found.
    """

    parameters: _Numbers
    gradients: _Numbers
    reduced: _Numbers
    local: _Numbers


def numbers_here(weights: Arrays, gradients: Arrays, whole: Sequence[bool], local: LocalGradients) -> RankNumbers:
    """The numbers of what lies on the host.

    Args:
        whole: Which parameters this rank holds all of; of the others nothing is told.
    """
    rows = local.rows if len(local.rows) == len(whole) else np.full((len(whole), PROJECTIONS), np.nan)
    return RankNumbers(
        _checksums(weights, whole), _checksums(gradients, whole), _projections(gradients, whole), rows.copy()
    )


def numbers_away(
    outbox: Outbox, weights: Arrays, gradients: Arrays, whole: Sequence[bool], local: LocalGradients
) -> Callable[[], RankNumbers]:
    """Gives the numbers once those of a device have travelled; arguments as above."""
    found = numbers_here(replace(weights, remote={}), replace(gradients, remote={}), whole, local)
    of_weights, of_gradients = _whole(weights.remote, whole), _whole(gradients.remote, whole)
    of_local = local.away if len(local.rows) == len(whole) else {}
    asked: list[tuple[_Numbers, Sequence[int], Tensor]] = []
    if of_weights:
        asked.append((found.parameters, [*of_weights], checksums_on_device([*of_weights.values()])))
    if of_gradients:
        tensors = [*of_gradients.values()]
        asked.append((found.gradients, [*of_gradients], checksums_on_device(tensors)))
        asked.append((found.reduced, [*of_gradients], projections_on_device(tensors)))
    if of_local:
        asked.append((found.local, [*of_local], torch.stack([*of_local.values()])))
    fetched = [(table, rows, outbox.fetch(numbers)) for table, rows, numbers in asked]

    def arrived() -> RankNumbers:
        for table, rows, numbers in fetched:
            table[rows] = numbers.array
        return found

    return arrived


def _whole(tensors: Mapping[int, Any], whole: Sequence[bool]) -> dict[int, Any]:
    return {row: tensor for row, tensor in tensors.items() if whole[row]}


def _checksums(arrays: Arrays, whole: Sequence[bool]) -> _Numbers:
    rows = np.full((arrays.addresses.size, len(STATISTICS) + 1), np.nan)
    measure_more_many(arrays.addresses, arrays.sizes, arrays.codes, rows, len(STATISTICS), _CHECKSUM)
    return np.where(np.array(whole, np.bool_), rows[:, -1], np.nan)


def _projections(arrays: Arrays, whole: Sequence[bool]) -> _Numbers:
    found = np.full((arrays.addresses.size, PROJECTIONS), np.nan)
    places = zip(arrays.addresses.tolist(), arrays.sizes.tolist(), arrays.codes.tolist(), whole, strict=True)
    for row, (address, size, code, is_whole) in zip(found, places, strict=True):
        if address and is_whole:
            row[:] = 0.0
            project(values_at(address, size, code), row)
    return found
