"""Updates: how far the step moved each parameter, absolutely and against its size."""

import ctypes
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..kernels import STATISTICS, Arrays, are_same, measure_updates, readable, table_of, values_at
from .collector import Rows, Step, collector
from .device_updates import DeviceUpdates

_COLUMNS = len(STATISTICS) + 1
_ITEM_BYTES = np.array([4, 8, 2, 2], np.int64)


@collector("update", at="after_step", columns=(*STATISTICS, "ratio_to_weight"))
class Update:
    """Statistics of `w_after - w_before`, and `ratio_to_weight`, its norm over that of `w_before`.

    What changes weights between two steps, as clipping them or loading others does, is no part of it; on an accelerator
    it is where it is done through `.data`, which torch's version counters do not count.

    One copy of the weights is kept. The pass that reads the weights after a step reads the copy beside them and
    refreshes it; before the next step both are compared. The copy is taken anew where they differ, where the previous
    step was not recorded, and where weights have moved to other memory.
    """

    def __init__(self) -> None:
        self._copies: list[NDArray[np.uint8]] = []
        self._sizes = self._codes = self._addresses = self._copied = np.empty(0, np.int64)
        self._held = np.empty(0, np.bool_)
        self._norms = np.empty(0)
        self._step = -1
        self._known: Arrays | None = None
        self._on_device = DeviceUpdates()

    def prepare(self, step: Step) -> None:
        """Copies the weights where the copy is not the end of the previous step."""
        now = _weights(step)
        if self._step == step.number - 1 and self._fits(now) and self._are_as_they_were(now):
            return
        self._known = None
        self._copied = now.addresses.copy()
        if step.outbox is not None:
            self._on_device.take(now.remote, step.outbox)
        if not (np.array_equal(now.sizes, self._sizes) and np.array_equal(now.codes, self._codes)):
            self._copies = [np.empty(n, np.uint8) for n in now.sizes * _ITEM_BYTES[now.codes]]
            self._addresses = np.array([copy.ctypes.data for copy in self._copies], np.int64)
            self._sizes, self._codes = now.sizes, now.codes
        for place, address, copy in zip(self._addresses.tolist(), now.addresses.tolist(), self._copies, strict=True):
            if address:
                ctypes.memmove(place, address, copy.nbytes)
        self._held = now.present
        self._norms = replace(now, remote={}).statistics()[:, 0].copy()

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Rows of `update`; those of `weight` are left with the step."""
        now = _weights(step)
        if not self._fits(now):
            raise RuntimeError("the parameters changed their shapes or dtypes inside the step; updates cannot be told")
        more = step.more
        here = replace(now, remote={}) if now.remote else now
        changes = _changes(here, self._addresses) if more.flags else None
        weights = now.empty_rows(len(STATISTICS) + len(more.columns))
        moved = now.empty_rows(_COLUMNS + len(more.columns))
        measure_updates(now.addresses, now.sizes, now.codes, self._addresses, self._norms, weights, moved)
        if changes is not None:
            changes.add(more, moved, _COLUMNS)
            here.add(more, weights, len(STATISTICS))
        if step.outbox is not None:
            self._on_device.fill(now.remote, step.outbox, weights, moved, more)
        self._step = step.number
        step.weight_rows = weights
        return {"update": Rows(moved, now.present)}

    def _are_as_they_were(self, now: Arrays) -> bool:
        """Whether the copies are of this memory, since another layer has weights of its own, and it has not changed."""
        is_here = np.array_equal(now.addresses, self._copied) and self._on_device.are_of(now.remote)
        return is_here and are_same(now.addresses, now.sizes, now.codes, self._addresses)

    def _fits(self, now: Arrays) -> bool:
        if now is self._known and not now.remote:
            return True
        pairs = ((now.sizes, self._sizes), (now.codes, self._codes), (now.present, self._held))
        fits = all(one is other or np.array_equal(one, other) for one, other in pairs)
        self._known = now if fits else None
        return fits and self._on_device.fit(now.remote)


def _weights(step: Step) -> Arrays:
    """Where the weights lie; on the host where they must be known within the step."""
    now = step.weights()
    return now if step.may_be_late(now) else now.local()


def _changes(now: Arrays, before: NDArray[np.int64]) -> Arrays:
    """What moved since the copies at these addresses, as arrays of their own; only statistics on request need them."""
    places: list[tuple[int, int, int]] = []
    owners: list[object] = []
    for address, size, code, held in zip(now.addresses.tolist(), now.sizes, now.codes, before.tolist(), strict=True):
        if address:
            difference = values_at(address, size, code) - values_at(held, size, code)
            array, kind = readable(difference)
            places.append((array.ctypes.data or 1, array.size, kind))
            owners.append(array)
        else:
            places.append((0, 0, 0))
    return table_of(places, owners)
