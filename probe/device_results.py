"""Numbers that a device owes a record: asked for in a step, filled in when they have arrived, one step later."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..storage.records import Block, Event, Histogram, StepRecord
from .kernels import NO_MORE, STATISTICS, Bins, More

#: A scalar that is worth waiting for: None where there turns out to be none.
LateScalar: TypeAlias = Callable[[], float | None]


class Promise(Protocol):
    """Numbers of one tensor that a device was asked for.

    Attributes:
        row: `(10 and those on request,)` statistics once they are there; None before, and of a tensor that was changed
            before it was read.
        counts: `(bins,)` of its histogram, if that was asked for.
    """

    row: NDArray[np.float64] | None
    counts: NDArray[np.float64] | None


class Made:
    """Numbers that are made on the host of what a device brings.

    Attributes:
        row: The numbers once they are made; None before, and where there turns out to be nothing to tell.
    """

    __slots__ = ("counts", "row")

    def __init__(self) -> None:
        self.row: NDArray[np.float64] | None = None
        self.counts: NDArray[np.float64] | None = None


class Fetched(Protocol):
    """A tensor on its way to the host.

    Attributes:
        array: Its values in their own shape; there is none before it has come.
    """

    array: NDArray[Any]


class Arrival(Protocol):
    """Numbers on their way."""

    def is_there(self) -> bool:
        """Whether taking them waits for nothing."""

    def take(self) -> None:
        """Nothing; the promises are kept."""


class Device(Protocol):
    """What measures tensors where they lie; the tensors are the framework's."""

    def add(self, tensor: Any, *, bins: Bins | None = None, more: More = NO_MORE, at_once: bool = False) -> Promise:
        """The promise of the tensor's ten statistics, of `more`, and of its histogram where there are bins."""

    def fetch(self, tensor: Any) -> Fetched:
        """The promise of the tensor itself, as it is now."""

    def checksum(self, tensor: Any) -> Any:
        """`(2,)` int64 there: the 53 bits of the checksum of its words of eight bytes, and the bytes behind them."""

    def added(self, gradient: Any, held: Any, stride: int) -> Any:
        """`(2,)` float64 there: the squared norm of every such element, and what it adds to that of what was held."""

    def iterate(self, matrix: Any, vector: Any, times: int) -> tuple[Any, Any]:
        """Largest singular value and squared norm of a matrix, `(2,)`, and the vector to go on from, all of them there.

        Args:
            matrix: `(m, n)`.
            vector: `(n,)` NumPy's to begin with, or what was given back before.
        """

    def copies(self) -> Any:
        """Copies of tensors, to tell how far they moved: `DeviceCopies`."""

    def launch(self) -> Sequence[Arrival]:
        """All that was asked for is on its way."""


def divided(value: float | LateScalar | None, by: float | LateScalar | None) -> float | LateScalar | None:
    """The quotient, late if one of the two is; None where one of them is not known, or nothing can be divided by it."""
    if not callable(value) and not callable(by):
        return None if value is None or not by else value / by

    def quotient() -> float | None:
        known = [one() if callable(one) else one for one in (value, by)]
        return None if known[0] is None or not known[1] else known[0] / known[1]

    return None if value is None or by is None else quotient


class Debtor(Protocol):
    """A row that a promise will fill."""

    def owe(self, promise: Promise) -> None:
        """Nothing; the row is there, and its numbers will be."""


@dataclass(frozen=True, slots=True, eq=False)
class Owed:
    """The rows of a block that promises will fill.

    Args:
        values: `(sites, statistics)` of the block.
        present: `(sites,)` of the block; a promise that is not kept leaves its row absent.
        promises: By the number of the row, who asked and what was promised.
    """

    values: NDArray[np.float64]
    present: NDArray[np.bool_]
    promises: Mapping[int, tuple[Debtor, Promise]]


def sum_of(one: "float | LateScalar | None", other: "float | LateScalar") -> "float | LateScalar":
    """The sum of two values, late if one of them is."""
    if one is None:
        return other
    if not callable(one) and not callable(other):
        return one + other

    def total() -> float | None:
        first, second = _now(one), _now(other)
        return None if first is None or second is None else first + second

    return total


def _now(value: "float | LateScalar") -> float | None:
    return value() if callable(value) else value


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


#: Records that wait at most; then the oldest is waited for.
_MOST: Final = 64
_TEN: Final = len(STATISTICS)


class Outbox:
    """Where a recorder puts its records.

    Args:
        emit: Takes each record, in order, when nothing of it is missing.
        report: Told once that the device failed; what it owed is left out, with the blocks beside it, and later tensors
            are copied to the host.

    Attributes:
        device: What measures tensors that lie elsewhere; None where there is no such thing.
        owed: What the record in progress was promised; None for nothing.
        waiting: Records that have yet to leave.
    """

    def __init__(self, emit: Callable[[StepRecord], None], report: Callable[[str, Exception], None]) -> None:
        self._emit, self._report = emit, report
        self.device: Device | None = None
        self.owed: Debts | None = None
        self.waiting: deque[tuple[StepRecord, Debts]] = deque()
        self._hasty: set[Debtor] = set()

    # What hooks and collectors ask for --------------------------------------------------------------------------

    @property
    def takes_promises(self) -> bool:
        """Whether there is a device to ask."""
        return self.device is not None

    def owe_row(self, tensor: Any, row: Debtor, *, more: More = NO_MORE, at_once: bool = False) -> None:
        """Nothing; a promise fills the row. Where a tensor was once changed too early, it is read at once from then on.

        Args:
            more: Statistics on request, behind the ten.
            at_once: Read it at once in any case.
        """
        row.owe(self._ask(tensor, more=more, at_once=at_once or row in self._hasty))

    def owe_rows(
        self, tensors: Mapping[int, Any], rows: NDArray[np.float64], more: More = NO_MORE
    ) -> Mapping[int, Promise]:
        """The promises that fill the rows of these numbers: their first ten columns, and with `more` their last."""
        promises = {number: self._ask(tensor, more=more) for number, tensor in tensors.items()}  # one by one, in place
        behind = rows.shape[1] - len(more.columns)

        def fill() -> None:
            for number, promise in promises.items():
                if promise.row is not None:
                    rows[number, :_TEN] = promise.row[:_TEN]
                    rows[number, behind:] = promise.row[_TEN:]

        self._debts().work.append(fill)
        return promises

    def owe_value(self, tensor: Any) -> LateScalar:
        """The value of a tensor of one element."""
        promise = self._ask(tensor)
        return lambda: None if promise.row is None else _only(promise.row)

    def owe_histogram(self, tensor: Any, site: str, subject: str, bins: Bins, call: int = 0) -> None:
        """Nothing; the histogram of the tensor belongs to the record in progress."""
        promise = self._ask(tensor, bins=bins)

        def make() -> Histogram | None:
            if promise.row is None or promise.counts is None:
                return None
            edges = bins.edges(*promise.row[3:5].tolist())
            return Histogram(site, subject, edges, promise.counts.astype(np.int64), call)

        self._debts().histograms.append(make)

    def fetch(self, tensor: Any) -> Fetched:
        """The tensor itself, as it is now; it is there when work that is asked for later `when_there` is done."""
        assert self.device is not None, "tensors are taken for remote only where there is a device"
        self._debts()
        return self.device.fetch(tensor)

    def make(self, name: str, compute: Callable[[], Sequence[float] | NDArray[np.float64] | None]) -> Made:
        """The promise of numbers that are made when everything that was asked for so far is there.

        Args:
            name: The collector that is switched off if this raises.
            compute: Makes them; None for nothing to tell.
        """
        made = Made()

        def work() -> None:
            found = compute()
            made.row = None if found is None else np.array(found, np.float64)

        self.do(name, work)
        return made

    def do(self, name: str, work: Callable[[], object]) -> None:
        """Nothing; the work is done when everything that was asked for so far is there.

        Args:
            name: The collector that is switched off if this raises.
        """

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                self._report(name, error)

        self._debts().work.append(guarded)

    def late_scalar(self, name: str, make: LateScalar) -> None:
        """Nothing; the scalar is added to the record in progress, if the user has not logged one of that name."""
        self._debts().scalars[name] = make

    def late_scalars(self, make: Callable[[], Mapping[str, float]]) -> None:
        """Nothing; the same of several, whose names are known when they come."""
        self._debts().several.append(make)

    def late_events(self, make: Callable[[], Sequence[Event]]) -> None:
        """Nothing; these events are added to the record in progress."""
        self._debts().events.append(make)

    def when_there(self, work: Callable[[], object]) -> None:
        """Nothing; the work is done when what was promised so far is there, in the order of these calls.

        It is not done where the record in progress was promised nothing.
        """
        if self.owed is not None:
            self.owed.work.append(work)

    def owe_block(self, owed: Owed) -> None:
        """Nothing; rows of a block are filled, and those that nobody could read are absent."""

        def fill() -> None:
            for number, (row, promise) in owed.promises.items():
                if promise.row is not None:
                    owed.values[number, : promise.row.size] = promise.row
                else:
                    owed.values[number], owed.present[number] = np.nan, False
                    self._hasty.add(row)

        self._debts().work.append(fill)

    def launch(self) -> None:
        """Nothing; what was asked for is read before anything that happens from now on."""
        if self.owed is not None and self.device is not None:
            self.owed.arrivals += self.device.launch()

    def wait(self) -> None:
        """Nothing; everything that was asked for so far is there: the device is waited for."""
        self.launch()
        if self.owed is None:
            return
        try:
            self.owed.take()
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self.owed.fault = error
            self._lose(error)

    # What the recorder does -------------------------------------------------------------------------------------

    def close(self, finish: Callable[[StepRecord], StepRecord] | None) -> Debts | None:
        """Return what the record that is being made was promised, None for nothing, and begin the next record's.

        Args:
            finish: The last that is done to the record when the numbers have come.
        """
        if self.owed is None:
            return None
        self.launch()
        debts, self.owed = self.owed, None
        debts.finish = finish
        return debts

    def send(self, record: StepRecord, debts: Debts | None) -> None:
        """Emit the record when it, and those before it, have their numbers."""
        if debts is None and not self.waiting:
            self._emit(record)
            return
        self.waiting.append((record, Debts() if debts is None else debts))
        self.drain()

    def drain(self, *, wait: bool = False) -> None:
        """Nothing; records that have all they need are out, all of them if one may wait."""
        while self.waiting:
            record, debts = self.waiting[0]
            if not (wait or len(self.waiting) > _MOST or debts.is_there()):
                return
            self.waiting.popleft()
            self._emit(self._settled(record, debts))

    # Inside -----------------------------------------------------------------------------------------------------

    def _ask(self, tensor: Any, *, bins: Bins | None = None, more: More = NO_MORE, at_once: bool = False) -> Promise:
        assert self.device is not None, "tensors are taken for remote only where there is a device"
        self._debts()
        return self.device.add(tensor, bins=bins, more=more, at_once=at_once)

    def _debts(self) -> Debts:
        if self.owed is None:
            self.owed = Debts()
        return self.owed

    def _settled(self, record: StepRecord, debts: Debts) -> StepRecord:
        try:
            return debts.settle(record)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._lose(error)
            return replace(record, blocks=())

    def _lose(self, error: Exception) -> None:
        self.device = None
        self._report("device", error)


def _only(row: NDArray[np.float64]) -> float:
    """The one element that a row of statistics tells of."""
    _, mean, _, _, _, _, nans, positive, negative, _ = row.tolist()
    return math.nan if nans else math.inf if positive else -math.inf if negative else mean
