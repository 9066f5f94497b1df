"""How far the parameters on a device have moved in a step: promised, as all numbers of a device are."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import NO_MORE, STATISTICS, More
from ..outbox.outbox import Outbox
from ..outbox.promises import Promise

_NORM = STATISTICS.index("l2_norm")
_RATIO = len(STATISTICS)


class DeviceUpdates:
    """Copies of the weights on their device, and the promised norms of what was copied."""

    def __init__(self) -> None:
        self._copies: Any = None  # of the framework's tensors
        self._norms: Mapping[int, Promise] = {}

    def fit(self, now: Mapping[int, Any]) -> bool:
        """Whether there is a copy of every one of these tensors."""
        if not now:
            return not self._norms
        return self._copies is not None and now.keys() == self._norms.keys() and self._copies.fit([*now.values()])

    def are_of(self, now: Mapping[int, Any]) -> bool:
        """Whether these tensors, of which there are copies, are those that were copied, and unchanged since."""
        return not now or bool(self._copies.are_of([*now.values()]))

    def take(self, now: Mapping[int, Any], outbox: Outbox) -> None:
        """Nothing; the copies are the tensors as they are now."""
        if not now:
            self._copies, self._norms = None, {}
            return
        assert outbox.device is not None, "tensors are remote only where there is a device"
        if self._copies is None:
            self._copies = outbox.device.copies()
        self._copies.take([*now.values()])
        self._norms = outbox.owe_rows(now, np.empty((max(now) + 1, _RATIO)))

    def fill(
        self,
        now: Mapping[int, Any],
        outbox: Outbox,
        weights: NDArray[np.float64],
        moved: NDArray[np.float64],
        more: More = NO_MORE,
    ) -> None:
        """Nothing; promises fill the tensors' rows of `weights` and of `moved`, and the copies are as they are now.

        Args:
            weights: `(n, 10 and more)`.
            moved: `(n, 11 and more)`, the eleventh column for the ratio of the change to the weight before it.
            more: Statistics on request, in the last columns of both.
        """
        if not now:
            return
        changes = self._copies.changes([*now.values()])
        outbox.owe_rows(dict(zip(now, changes, strict=True)), moved, more)
        before, self._norms = self._norms, outbox.owe_rows(now, weights, more)

        def divide() -> None:
            for number, promise in before.items():
                if promise.row is not None:
                    moved[number, _RATIO] = moved[number, _NORM] / (promise.row[_NORM] + 1e-30)

        outbox.when_there(divide)
