"""Which whole tensors are wanted in the step in progress, and the way of each to who takes it."""

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from ..collectors.collector import View
from ..device_results import DeviceResults
from ..dump import Dumper
from ..flight_recorder import FlightRecords
from .current_step import CurrentStep

#: Site and call.
Place = tuple[str, int]


class WholeTensors:
    """What the dumper is to store, and what the flight recorder is to hold.

    Args:
        device_results: Brings tensors of a device.
    """

    def __init__(self, current: CurrentStep, device_results: DeviceResults) -> None:
        self._current, self._device_results = current, device_results
        self.dumper: Dumper | None = None
        self.flight_records: FlightRecords | None = None
        self._now: frozenset[str] = frozenset()

    @property
    def may_be_wanted(self) -> bool:
        """Whether any is wanted at any step."""
        return self.dumper is not None or (self.flight_records is not None and self.flight_records.tensors is not None)

    def decide(self, step: int) -> frozenset[str]:
        """Return the subjects of which some tensors are wanted at this step."""
        self._now = self.dumper.subjects_due(step) if self.dumper is not None else frozenset()
        held = None if self.flight_records is None else self.flight_records.tensors
        return self._now if held is None else self._now | held.subjects

    def take(self, subject: str, place: Place, array: NDArray[Any]) -> None:
        """Send a copy of the array to whoever wants it."""
        take = self._taker(subject, place[0])
        if take is not None:
            take(subject, *place, self._moment(), array)

    def take_later(self, subject: str, place: Place, tensor: Any) -> None:
        """Send a tensor of a device, as it is now, to whoever wants it when it has come."""
        take = self._taker(subject, place[0])
        if take is not None:
            fetched, moment = self._device_results.fetch(tensor), self._moment()
            self._device_results.do("dump", lambda: take(subject, *place, moment, fetched.array))

    def take_parameters(self, view: View, subject: str) -> None:
        """Send every `weight` or `gradient` to whoever wants it."""
        arrays = view.weights() if subject == "weight" else view.gradients()
        if arrays.remote and self._device_results.accepts_requests:
            for number, tensor in arrays.remote.items():
                self.take_later(subject, (view.names[number], 0), tensor)
            return
        for site, array in view.arrays(subject):
            self.take(subject, (site, 0), array)

    def _taker(self, subject: str, site: str) -> Callable[..., None] | None:
        held = None if self.flight_records is None else self.flight_records.tensors
        if self.dumper is not None and subject in self._now and self.dumper.wants(site):
            return self.dumper.take
        return held.take if held is not None and held.wants(subject, site) else None

    def _moment(self) -> tuple[int, int]:
        return self._current.step, self._current.micro_step
