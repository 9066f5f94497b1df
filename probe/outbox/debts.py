"""What one record is owed by a device, and the record when it has all of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...storage.records import Block, Event, Histogram, StepRecord
from .promises import Arrival, LateScalar


class Debts:
    """What one record is owed.

    Attributes:
        arrivals: What is on its way.
        work: What is done when it is there, in this order.
        scalars, several, histograms, events: What is made then, for the record.
        finish: The last that is done to the record.
        fault: Why nothing will come.
    """

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.work: list[Callable[[], object]] = []
        self.scalars: dict[str, LateScalar] = {}
        self.several: list[Callable[[], Mapping[str, float]]] = []
        self.histograms: list[Callable[[], Histogram | None]] = []
        self.events: list[Callable[[], Sequence[Event]]] = []
        self.finish: Callable[[StepRecord], StepRecord] | None = None
        self.fault: Exception | None = None

    def is_there(self) -> bool:
        """Whether nobody has to be waited for."""
        return all(one.is_there() for one in self.arrivals)

    def take(self) -> None:
        """Nothing; what is on its way is there, and what was to be done with it is done."""
        arrivals, self.arrivals = self.arrivals, []
        for arrival in arrivals:
            arrival.take()
        work, self.work = self.work, []
        for one in work:
            one()

    def settle(self, record: StepRecord) -> StepRecord:
        """The record with everything in its place."""
        if self.fault is not None:
            raise self.fault
        self.take()
        late = {name: value for name, make in self.scalars.items() if (value := make()) is not None}
        for several in self.several:
            late |= several()
        made = (one for make in self.histograms if (one := make()) is not None)
        events = [event for make in self.events for event in make()]
        record = replace(
            record,
            blocks=tuple(_tidy(block) for block in record.blocks if block.present is None or block.present.any()),
            scalars={**late, **record.scalars},
            histograms=(*record.histograms, *made),
            events=(*events, *record.events),
        )
        return record if self.finish is None else self.finish(record)


def _tidy(block: Block) -> Block:
    """The block without a mask where everything is there."""
    return replace(block, present=None) if block.present is not None and block.present.all() else block
