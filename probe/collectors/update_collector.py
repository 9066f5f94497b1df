"""The collector of updates: how far each step moves the weights, and what else has written to them meanwhile."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..device_results import DeviceResults, LateRows
from ..kernels import NO_MORE, STATISTICS, Arrays, More, are_same, measure_updates, readable, table_of, values_at
from .array_copies import CopiedArrays
from .collector import Rows, Step, WrittenWeight, collector

_NORM = STATISTICS.index("l2_norm")
_RATIO = len(STATISTICS)
_NOTHING: Final = LateRows([], None)


class DeviceUpdates:
    """Copies of the weights on their device, and the requested norms of what was copied."""

    def __init__(self) -> None:
        self._copies: Any = None  # of the framework's tensors
        self._norms = _NOTHING

    def fit(self, now: Mapping[int, Any]) -> bool:
        """Return whether there is a copy of every one of these tensors."""
        if not now:
            return not self._norms.numbers
        return self._copies is not None and [*now] == self._norms.numbers and self._copies.fit([*now.values()])

    def are_of(self, now: Mapping[int, Any]) -> bool:
        """Return whether these tensors, of which there are copies, were copied and are unchanged since."""
        return not now or bool(self._copies.are_of([*now.values()]))

    def take(self, now: Mapping[int, Any], device_results: DeviceResults) -> None:
        """Copy the tensors as they are now."""
        if not now:
            self._copies, self._norms = None, _NOTHING
            return
        assert device_results.device is not None, "tensors are remote only where there is a device"
        if self._copies is None:
            self._copies = device_results.device.copies()
        self._copies.take([*now.values()])
        self._norms = device_results.request_rows([*now], now.values())

    def fill(
        self,
        now: Mapping[int, Any],
        device_results: DeviceResults,
        weights: NDArray[np.float64],
        moved: NDArray[np.float64],
        more: More = NO_MORE,
    ) -> None:
        """Request the tensors' rows of `weights` and of `moved`, and copy the tensors as they are now.

        Args:
            weights: `(n, 10 and more)`.
            moved: `(n, 11 and more)`, the eleventh column for the ratio of the change to the weight before it.
            more: Statistics on request, in the last columns of both.
        """
        if not now:
            return
        numbers = [*now]
        device_results.request_rows(numbers, self._copies.changes([*now.values()]), moved, more)
        before = self._norms
        self._norms = device_results.request_rows(numbers, now.values(), weights, more)

        def divide() -> None:
            if before.rows is not None:
                moved[numbers, _RATIO] = moved[numbers, _NORM] / (before.rows[:, _NORM] + 1e-30)

        device_results.when_ready(divide)


_UPDATE_COLUMNS = len(STATISTICS) + 1
_MIN, _MAX = (STATISTICS.index(name) for name in ("min", "max"))
#: Bytes of a copy from which it is given back while none is needed (our choice: less is no burden, and to take the copy
#: in new memory takes half as long again).
_RELEASED: Final = 16 << 20
#: Times that a run tells of weights written between two steps.
_MOST_WRITTEN = 32
_ITEM_BYTES = np.array([4, 8, 2, 2], np.int64)


@collector("update", at="after_step", columns=(*STATISTICS, "ratio_to_weight"))
class Update:
    """Statistics of `w_after - w_before`, and `ratio_to_weight`, its norm over that of `w_before`.

    What changes weights between two steps, as clipping them or loading others does, is no part of it: the first 32
    times an event, `weights_written`, tells of it. On an accelerator it is where it is done through `.data`, which
    torch's version counters do not count.

    One copy of the weights is kept. The pass that reads the weights after a step reads the copy beside them and
    refreshes it; before the next step both are compared. The copy is taken anew where they differ, where the previous
    step was not recorded, and where weights have moved to other memory. On the host, a copy above 16 MB is given back
    to the system where the next step is not recorded. Of several optimizers that step one after the
    other, each has the copy of its own weights compared before its step; what changes them before the last one has
    stepped is part of the update.
    """

    def __init__(self) -> None:
        self._copies = CopiedArrays()
        self._sizes = self._codes = self._addresses = self._copied = np.empty(0, np.int64)
        self._held = np.empty(0, np.bool_)
        self._norms = np.empty(0)
        self._step = self._prepared = -1
        self._known: Arrays | None = None
        self._on_device = DeviceUpdates()
        self._writes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of the copies on the host."""
        return self._copies.nbytes

    def release(self) -> None:
        """Give a large copy back to the system: updates are not due at the next step, so it would be taken anew."""
        if self._copies.nbytes >= _RELEASED:
            self._copies = CopiedArrays()
            self._sizes = self._codes = self._addresses = self._copied = np.empty(0, np.int64)
            self._known = None

    def prepare(self, step: Step) -> None:
        """Copy the weights unless the copy is of the end of the previous step."""
        step.known_weights = now = step.known_weights or step.view.weights()
        if now.remote:
            now = _weights(step)
        if self._prepared == step.number and self._fits(now):
            self._prepare_more(now, step.view.rows_of(step.view.stepping) if step.view.stepping is not None else ())
            return
        self._prepared = step.number
        is_next = self._step == step.number - 1
        if is_next and ((now is self._known and not now.remote) or self._fits(now)):
            if self._are_as_they_were(now):
                return
            if not now.remote and np.array_equal(now.addresses, self._copied) and self._writes < _MOST_WRITTEN:
                self._writes += 1
                step.written = self._written(now, step.view.names)
                return
        self._known = None
        self._copied = now.addresses.copy()
        if step.device_results is not None:
            self._on_device.take(now.remote, step.device_results)
        if not (np.array_equal(now.sizes, self._sizes) and np.array_equal(now.codes, self._codes)):
            self._copies = CopiedArrays((now.sizes * _ITEM_BYTES[now.codes]).tolist())
            self._addresses = self._copies.addresses
            self._sizes, self._codes = now.sizes, now.codes
        self._copies.take(range(now.addresses.size), now.addresses)
        self._held = now.present
        self._norms = replace(now, remote={}).statistics()[:, 0].copy()

    def _written(self, now: Arrays, names: Sequence[str]) -> list[WrittenWeight]:
        """Return which weights have changed since the last step, the largest change first, and copy them anew."""
        before = self._norms.copy()
        weights = _empty((now.addresses.size, len(STATISTICS)))
        moved = _empty((now.addresses.size, _UPDATE_COLUMNS))
        measure_updates(now.addresses, now.sizes, now.codes, self._addresses, self._norms, weights, moved)
        largest = np.maximum(np.abs(moved[:, _MIN]), np.abs(moved[:, _MAX]))
        rows = np.flatnonzero(moved[:, _NORM] > 0.0)
        rows = rows[np.argsort(-moved[rows, _NORM] / (before[rows] + 1e-30))]
        return [
            WrittenWeight(
                names[row], int(now.sizes[row]), float(largest[row]), float(moved[row, _NORM]), float(before[row])
            )
            for row in rows.tolist()
        ]

    def _prepare_more(self, now: Arrays, rows: Collection[int]) -> None:
        """Copy these weights on the host anew where they have changed since another optimizer stepped."""
        places = np.array([row for row in rows if now.addresses[row]], np.int64)
        if not len(places):
            return
        mine = Arrays(now.addresses[places], now.sizes[places], now.codes[places])
        if are_same(mine.addresses, mine.sizes, mine.codes, self._addresses[places]):
            return
        self._copies.take(places.tolist(), now.addresses)
        self._norms[places] = mine.statistics()[:, 0]

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Return the rows of `update`; leave those of `weight` with the step."""
        step.known_weights = now = step.known_weights or step.view.weights()
        if now.remote:
            now = _weights(step)
        if (now is not self._known or now.remote) and not self._fits(now):
            raise RuntimeError(
                "the parameters changed their shapes or dtypes inside the step; updates cannot be computed"
            )
        more = step.more
        here = replace(now, remote={}) if now.remote else now
        changes = _changes(here, self._addresses) if more.flags else None
        make = np.empty if now.is_whole else _empty
        weights = make((now.addresses.size, len(STATISTICS) + len(more.columns)))
        moved = make((now.addresses.size, _UPDATE_COLUMNS + len(more.columns)))
        measure_updates(now.addresses, now.sizes, now.codes, self._addresses, self._norms, weights, moved)
        if changes is not None:
            changes.add(more, moved, _UPDATE_COLUMNS)
            here.add(more, weights, len(STATISTICS))
        if now.remote and step.device_results is not None:
            self._on_device.fill(now.remote, step.device_results, weights, moved, more)
        self._step = step.number
        step.weight_rows = weights
        return {"update": Rows(moved, now.present)}

    def _are_as_they_were(self, now: Arrays) -> bool:
        """Return whether the copies are of this memory, not of another layer's, and it has not changed."""
        is_here = np.array_equal(now.addresses, self._copied) and (not now.remote or self._on_device.are_of(now.remote))
        return is_here and are_same(now.addresses, now.sizes, now.codes, self._addresses)

    def _fits(self, now: Arrays) -> bool:
        pairs = ((now.sizes, self._sizes), (now.codes, self._codes), (now.present, self._held))
        fits = all(one is other or np.array_equal(one, other) for one, other in pairs)
        self._known = now if fits else None
        return fits and self._on_device.fit(now.remote)


def _empty(shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return an array of NaN for rows some of which no kernel fills."""
    return np.full(shape, np.nan)


def _weights(step: Step) -> Arrays:
    """Return where the weights lie; on the host if they must be known within the step."""
    now = step.weights()
    return now if step.may_be_late(now) else now.local()


def _changes(now: Arrays, before: NDArray[np.int64]) -> Arrays:
    """Return what moved since the copies at these addresses; only statistics on request need it."""
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
