"""Numbers that a device computes for a record: requested in a step, filled in when they arrive, one step later."""

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ..storage.records import Block, Event, Histogram, StepRecord
from .kernels import NO_MORE, STATISTICS, Bins, More
from .late_scalars import LateScalar


class Future(Protocol):
    """Numbers of one tensor that were requested from a device.

    Attributes:
        row: `(10 and those on request,)` statistics once they are there; None before, and of a tensor that was changed
            before it was read.
        counts: `(bins,)` of its histogram, if that was requested.
    """

    row: NDArray[np.float64] | None
    counts: NDArray[np.float64] | None


class Table(Protocol):
    """Numbers of many tensors that were requested from a device at once.

    Attributes:
        rows: `(n, 10 and those on request)` once they are there; None before.
    """

    rows: NDArray[np.float64] | None


class LateRows:
    """Rows that were requested.

    Args:
        numbers: Which they are.
        table: Their numbers, in the same order.
    """

    __slots__ = ("_table", "numbers")

    def __init__(self, numbers: Sequence[int], table: Table | None) -> None:
        self.numbers, self._table = numbers, table

    @property
    def rows(self) -> NDArray[np.float64] | None:
        """`(numbers, 10 and those on request)` once they are there; None before."""
        return None if self._table is None else self._table.rows


class HostFuture:
    """Numbers that are computed on the host from what a device brings.

    Attributes:
        row: The numbers once they are computed; None before, and if there are none.
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

    def is_ready(self) -> bool:
        """Return whether taking the numbers waits for nothing."""

    def take(self) -> None:
        """Fill in the futures."""


class Device(Protocol):
    """What measures tensors where they lie; the tensors are the framework's."""

    def add(self, tensor: Any, *, bins: Bins | None = None, more: More = NO_MORE, at_once: bool = False) -> Future:
        """Request the tensor's ten statistics, those of `more`, and its histogram if there are bins."""

    def add_all(self, tensors: Iterable[Any], size: int, more: More = NO_MORE) -> Table:
        """Request the statistics of so many tensors at once, as they are now."""

    def fetch(self, tensor: Any) -> Fetched:
        """Request the tensor itself, as it is now."""

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
        """Return an empty store for copies of tensors, which tells how far they moved: `DeviceCopies`."""

    def launch(self) -> Sequence[Arrival]:
        """Start all that was requested."""


class ResultRow(Protocol):
    """A row that a future will fill."""

    def wait_for(self, future: Future) -> None:
        """Mark the row as there; its numbers come with the future."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingRows:
    """The rows of a block that futures will fill.

    Args:
        values: `(sites, statistics)` of the block.
        present: `(sites,)` of the block; a future that is not kept leaves its row absent.
        futures: By the number of the row, who asked and what was futures.
    """

    values: NDArray[np.float64]
    present: NDArray[np.bool_]
    futures: Mapping[int, tuple[ResultRow, Future]]


class PendingResults:
    """What one record waits for.

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

    def is_ready(self) -> bool:
        """Return whether nothing has to be waited for."""
        return all(arrival.is_ready() for arrival in self.arrivals)

    def take(self) -> None:
        """Wait for what is on its way, and do the work that waits for it."""
        arrivals, self.arrivals = self.arrivals, []
        for arrival in arrivals:
            arrival.take()
        work, self.work = self.work, []
        for function in work:
            function()

    def settle(self, record: StepRecord) -> StepRecord:
        """Return the record with everything filled in."""
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
    """Return the block without a mask if every row is there."""
    return replace(block, present=None) if block.present is not None and block.present.all() else block


#: Records that wait at most; then the oldest is waited for.
_MOST: Final = 64
_TEN: Final = len(STATISTICS)


class DeviceResults:
    """Requests numbers of a device, and holds records back until theirs have come.

    Args:
        emit: Takes each record, in order, when nothing of it is missing.
        report: Called once when the device fails; what was requested is left out, with the blocks beside it, and later
            tensors are copied to the host.

    Attributes:
        device: Measures tensors that lie elsewhere; None where there is no such thing.
        pending: What the record in progress waits for; None for nothing.
        waiting: Records that wait for their numbers.
    """

    def __init__(self, emit: Callable[[StepRecord], None], report: Callable[[str, Exception], None]) -> None:
        self._emit, self._report = emit, report
        self.device: Device | None = None
        self.pending: PendingResults | None = None
        self.waiting: deque[tuple[StepRecord, PendingResults]] = deque()
        self._read_at_once: set[ResultRow] = set()

    # What hooks and collectors ask for --------------------------------------------------------------------------

    @property
    def accepts_requests(self) -> bool:
        """Whether there is a device to ask."""
        return self.device is not None

    def request_row(self, tensor: Any, row: ResultRow, *, more: More = NO_MORE, at_once: bool = False) -> None:
        """Request the numbers of a row. A row whose tensor was once changed too early is read at once from then on.

        Args:
            more: Statistics on request, behind the ten.
            at_once: Read it at once in any case.
        """
        row.wait_for(self._ask(tensor, more=more, at_once=at_once or row in self._read_at_once))

    def request_rows(
        self,
        numbers: Sequence[int],
        tensors: Iterable[Any],
        rows: NDArray[np.float64] | None = None,
        more: More = NO_MORE,
    ) -> LateRows:
        """Request the statistics of many tensors as they are now.

        Args:
            numbers: Which of the rows they are.
            tensors: As many.
            rows: What they are written into when they come: their first ten columns, and with `more` their last.
            more: Statistics on request.
        """
        assert self.device is not None, "tensors are taken for remote only where there is a device"
        pending = self._pending_results()
        late = LateRows(numbers, self.device.add_all(tensors, len(numbers), more))
        if rows is None:
            return late
        behind, places = rows.shape[1] - len(more.columns), np.array(numbers, np.intp)

        def fill() -> None:
            if late.rows is not None:
                rows[places, :_TEN] = late.rows[:, :_TEN]
                rows[places, behind:] = late.rows[:, _TEN:]

        pending.work.append(fill)
        return late

    def request_value(self, tensor: Any) -> LateScalar:
        """Request the value of a tensor of one element."""
        future = self._ask(tensor)
        return lambda: None if future.row is None else _only(future.row)

    def request_histogram(self, tensor: Any, site: str, subject: str, bins: Bins, call: int = 0) -> None:
        """Request the histogram of the tensor for the record in progress."""
        future = self._ask(tensor, bins=bins)

        def make() -> Histogram | None:
            if future.row is None or future.counts is None:
                return None
            edges = bins.edges(*future.row[3:5].tolist())
            return Histogram(site, subject, edges, future.counts.astype(np.int64), call)

        self._pending_results().histograms.append(make)

    def fetch(self, tensor: Any) -> Fetched:
        """Request the tensor itself, as it is now; work that is requested later, by `when_ready`, finds it there."""
        assert self.device is not None, "tensors are taken for remote only where there is a device"
        self._pending_results()
        return self.device.fetch(tensor)

    def make(self, name: str, compute: Callable[[], Sequence[float] | NDArray[np.float64] | None]) -> HostFuture:
        """Return a future for numbers that are computed when everything requested so far is there.

        Args:
            name: The collector that is switched off if this raises.
            compute: Makes them; None for nothing to tell.
        """
        made = HostFuture()

        def work() -> None:
            found = compute()
            made.row = None if found is None else np.array(found, np.float64)

        self.do(name, work)
        return made

    def do(self, name: str, work: Callable[[], object]) -> None:
        """Do the work when everything requested so far is there.

        Args:
            name: The collector that is switched off if this raises.
        """

        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                self._report(name, error)

        self._pending_results().work.append(guarded)

    def late_scalar(self, name: str, make: LateScalar) -> None:
        """Add the scalar to the record in progress, unless the user has logged one of that name."""
        self._pending_results().scalars[name] = make

    def late_scalars(self, make: Callable[[], Mapping[str, float]]) -> None:
        """Add several scalars, whose names are known when they come, to the record in progress."""
        self._pending_results().several.append(make)

    def late_events(self, make: Callable[[], Sequence[Event]]) -> None:
        """Add these events to the record in progress."""
        self._pending_results().events.append(make)

    def when_ready(self, work: Callable[[], object]) -> None:
        """Do the work when what was requested so far is there, in the order of these calls.

        It is not done where the record in progress was futures nothing.
        """
        if self.pending is not None:
            self.pending.work.append(work)

    def fill_later(self, rows: PendingRows) -> None:
        """Fill rows of a block when their numbers come; rows that could not be read are absent."""

        def fill() -> None:
            for number, (row, future) in rows.futures.items():
                if future.row is not None:
                    rows.values[number, : future.row.size] = future.row
                else:
                    rows.values[number], rows.present[number] = np.nan, False
                    self._read_at_once.add(row)

        self._pending_results().work.append(fill)

    def launch(self) -> None:
        """Start what was requested: it is read before anything that happens from now on."""
        if self.pending is not None and self.device is not None:
            self.pending.arrivals += self.device.launch()

    def wait(self) -> None:
        """Wait for the device until everything requested so far is there."""
        self.launch()
        if self.pending is None:
            return
        try:
            self.pending.take()
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self.pending.fault = error
            self._lose(error)

    # What the recorder does -------------------------------------------------------------------------------------

    def close(self, finish: Callable[[StepRecord], StepRecord] | None) -> PendingResults | None:
        """Return what the record that is being made waits for, None for nothing, and begin the next record's.

        Args:
            finish: The last that is done to the record when the numbers have come.
        """
        if self.pending is None:
            return None
        self.launch()
        pending, self.pending = self.pending, None
        pending.finish = finish
        return pending

    def send(self, record: StepRecord, pending: PendingResults | None) -> None:
        """Emit the record when it, and those before it, have their numbers."""
        if pending is None and not self.waiting:
            self._emit(record)
            return
        self.waiting.append((record, PendingResults() if pending is None else pending))
        self.drain()

    def drain(self, *, wait: bool = False) -> None:
        """Emit the records that have all they need; all of them if one may wait."""
        while self.waiting:
            record, pending = self.waiting[0]
            if not (wait or len(self.waiting) > _MOST or pending.is_ready()):
                return
            self.waiting.popleft()
            self._emit(self._settled(record, pending))

    # Inside -----------------------------------------------------------------------------------------------------

    def _ask(self, tensor: Any, *, bins: Bins | None = None, more: More = NO_MORE, at_once: bool = False) -> Future:
        assert self.device is not None, "tensors are taken for remote only where there is a device"
        self._pending_results()
        return self.device.add(tensor, bins=bins, more=more, at_once=at_once)

    def _pending_results(self) -> PendingResults:
        if self.pending is None:
            self.pending = PendingResults()
        return self.pending

    def _settled(self, record: StepRecord, pending: PendingResults) -> StepRecord:
        try:
            return pending.settle(record)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            self._lose(error)
            return replace(record, blocks=())

    def _lose(self, error: Exception) -> None:
        self.device = None
        self._report("device", error)


def _only(row: NDArray[np.float64]) -> float:
    """Return the one element that a row of statistics describes."""
    _, mean, _, _, _, _, nans, positive, negative, _ = row.tolist()
    return math.nan if nans else math.inf if positive else -math.inf if negative else mean
