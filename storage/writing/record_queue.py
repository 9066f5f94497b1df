"""The queue of records between a training and the writer thread, and the policies of when that thread takes them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..errors import StoreError
from ..records import StepRecord
from ..run_info import Structure
from .backlog import MEMORY_BYTES, item_bytes
from .losses import Losses

Item = StepRecord | Structure

#: Records that may wait or be written just now by default, which is also what kill -9 can lose: 0.3 s of steps of 5 ms.
#: Half as many wake the writer thread, so that they share a transaction (our choice).
CAPACITY = 64
#: Seconds that a training waits at a full queue for a writer that makes no progress; then records are dropped. A
#: transaction of a database that many ranks write can take longer: pieces of work count, and its thread's own time.
_ROOM_WAIT_S = 5.0
#: Processor time within it that is progress; a thread that waits for a store that hangs spends none.
_LEAST_BUSY_S = 0.001
#: Seconds between two looks, while it waits, whether it is still worth it.
_LOOK_S = 0.1


class RecordQueue:
    """A bounded queue of records and structures; a structure is never lost.

    `put` costs the training thread one append. The counts only grow, and threads that wait for one are woken.

    Args:
        capacity: Records that may wait.
        is_worth_waiting: Whether the training may wait for room now; otherwise the oldest record is dropped at once.
        is_at_fault: Whether the store is at fault now; then the queue takes more than its capacity.
        more_bytes: How much more, by the size of the records.
        busy_s: Returns the processor time in seconds that the writer has spent; 0 where it is unknown.

    Attributes:
        wake: Wakes the writer thread, when a thread waits for it or half of the capacity is used.
        losses: The records that were dropped, or refused by the store.
    """

    def __init__(
        self,
        capacity: int,
        is_worth_waiting: Callable[[], bool],
        is_at_fault: Callable[[], bool] = lambda: False,
        more_bytes: int = MEMORY_BYTES,
        busy_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        if capacity < 1:
            raise StoreError(f"the queue expects a capacity of 1 or more, got {capacity}")
        self._capacity, self._burst = capacity, max(capacity // 2, 1)
        self._is_worth_waiting, self._is_at_fault = is_worth_waiting, is_at_fault
        self._more_bytes, self._more = more_bytes, 0
        self._busy_s = busy_s
        self._waiting: deque[Item] = deque()
        self._rescued: list[Structure] = []
        self._changed = threading.Condition(threading.Lock())
        self._accepted = 0  # items put so far
        self._heard = 0  # of these, shown to the listeners or lost
        self._done = 0  # of these, written, kept for a store that refuses them, or lost
        self._pieces = 0  # of work that the writer has finished
        self._stalled = False  # a wait for room has timed out since the writer last finished something
        self.wake = threading.Event()
        self.losses = Losses()
        self._most_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, item: Item) -> None:
        """Add the item; make room first if the queue is full."""
        if self._accepted - self._done >= self._capacity:
            self._make_room(item)
        self._accepted += 1
        self._waiting.append(item)
        if len(self._waiting) == self._burst:
            self.wake.set()

    def ends(self) -> tuple[Item, Item] | None:
        """Return the oldest and the newest waiting item; None when the queue is empty."""
        try:
            return self._waiting[0], self._waiting[-1]
        except IndexError:
            return None

    @property
    def held_bytes(self) -> int:
        """The most bytes of arrays that waited when it was asked: allocators keep the memory for the next ones."""
        records = [item for item in self._waiting.copy() if isinstance(item, StepRecord)]
        waiting = sum(block.values.nbytes for record in records for block in record.blocks)
        self._most_bytes = max(self._most_bytes, waiting)
        return self._most_bytes

    def take(self) -> list[Item]:
        """Return all waiting items, possibly none."""
        items: list[Item] = []
        self._more = 0
        while self._waiting:
            try:
                items.append(self._waiting.popleft())
            except IndexError:  # the training thread dropped it to make room
                break
        return items

    def take_rescued(self) -> list[Structure]:
        """Return the structures that were moved out of a full queue, oldest first."""
        with self._changed:
            rescued, self._rescued = self._rescued, []
        return rescued

    def have_heard(self, count: int) -> None:
        """Count items as shown to the listeners, or lost."""
        with self._changed:
            self._heard += count
            self._changed.notify_all()

    def have_done(self, count: int) -> None:
        """Count items as written, kept for a store that refuses them, or lost."""
        with self._changed:
            self._done += count
            self._pieces += 1
            self._stalled = False
            self._changed.notify_all()

    def have_worked(self) -> None:
        """Count a piece of work that finished no item: the writer makes progress."""
        with self._changed:
            self._pieces += 1
            self._stalled = False

    def wait_until_heard(self, is_alive: Callable[[], bool], timeout: float) -> bool:
        """Wait until the listeners have seen all items put so far; return False after `timeout` seconds."""
        return self._wait(lambda target: self._heard >= target or not is_alive(), timeout)

    def wait_until_done(self, is_alive: Callable[[], bool], timeout: float) -> bool:
        """Wait until all items put so far are written, kept or lost; return False after `timeout` seconds."""
        return self._wait(lambda target: self._done >= target or not is_alive(), timeout)

    def wake_all(self) -> None:
        """Wake every waiting thread: the writer thread has ended."""
        with self._changed:
            self._changed.notify_all()

    def _wait(self, is_reached: Callable[[int], bool], timeout: float) -> bool:
        self.wake.set()
        with self._changed:
            target = self._accepted
            return self._changed.wait_for(lambda: is_reached(target), timeout)

    def _make_room(self, item: Item) -> None:
        """Take more while the store is at fault, else wait for room; drop the oldest record if neither is possible."""
        if self._takes_more(item) or self._waits_for_room() or self._takes_more(item):
            return
        try:
            oldest = self._waiting.popleft()
        except IndexError:
            return
        with self._changed:
            self._done += 1
            self._heard += 1
            if isinstance(oldest, Structure):
                self._rescued.append(oldest)
        if not isinstance(oldest, Structure):
            self.losses.add((oldest,))

    def _takes_more(self, item: Item) -> bool:
        """Return whether the store is at fault and there is memory for the item."""
        if not self._is_at_fault():
            return False
        size = item_bytes(item)
        if self._more + size > self._more_bytes:
            return False
        self._more += size
        return True

    def _waits_for_room(self) -> bool:
        """Wait for room; return True when there is some now."""
        if self._stalled or not self._is_worth_waiting():
            return False
        self.wake.set()
        end = time.monotonic() + _ROOM_WAIT_S
        with self._changed:
            pieces, busy_s = self._pieces, self._busy_s()
            while not self._stalled and not self._changed.wait_for(self._has_room, min(_LOOK_S, _ROOM_WAIT_S)):
                if time.monotonic() >= end:
                    self._stalled = self._pieces == pieces and self._busy_s() <= busy_s + _LEAST_BUSY_S
                    pieces, busy_s, end = self._pieces, self._busy_s(), time.monotonic() + _ROOM_WAIT_S
        return not self._stalled and self._is_worth_waiting()

    def _has_room(self) -> bool:
        return self._accepted - self._done < self._capacity or not self._is_worth_waiting()


#: Seconds that a record may wait for others to share its transaction; our choice, less than a page's polling interval.
BATCH_WAIT_S = 0.6
#: The same for records without content, which only say that the training goes on; our choice.
_QUIET_S = 0.8
#: Seconds that a writer rests at most after a long transaction; our choice.
_MOST_REST_S = 3.0


class BatchingPolicy:
    """Decides when waiting items are taken: together after a short wait, at once after a pause.

    Args:
        clock: A monotonic clock in seconds.
    """

    def __init__(self, queue: RecordQueue, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue, self._clock = queue, clock
        self._taken = self._rested = clock()

    def have_handled(self) -> None:
        """Rest for as long as the items took: a database that many ranks write is faster with fewer transactions."""
        now = self._clock()
        self._rested = now + min(now - self._taken, _MOST_REST_S)

    def is_over(self) -> bool:
        """Return whether to take the waiting items now; False when nothing waits."""
        ends = self._queue.ends()
        if ends is None:
            return False
        wait_s = _QUIET_S if all(is_quiet(item) for item in ends) else BATCH_WAIT_S
        now = self._clock()
        return now - self._taken >= wait_s and now >= self._rested

    def take(self) -> tuple[list[Item], int]:
        """Return the waiting items and how many were left out: records without content, unless it is the newest."""
        items = self._queue.take()
        if items:
            self._taken = self._clock()
        kept = without_quiet(items)
        return kept, len(items) - len(kept)


def without_quiet(items: Sequence[Item]) -> list[Item]:
    """Return the items without records that have no content; the newest record stays."""
    kept: list[Item] = []
    is_newest = True
    for item in reversed(items):
        if is_newest or not is_quiet(item):
            kept.append(item)
        is_newest = is_newest and isinstance(item, Structure)
    return kept[::-1]


def is_quiet(item: Item) -> bool:
    """Return whether the item is a record without content, which only says that there was a step."""
    if not isinstance(item, StepRecord):
        return False
    content = item.blocks or item.scalars or item.events or item.histograms
    return not (content or item.skipped or item.micro_step or item.beside)


#: Seconds that a record is pending before readers see it; our choice, below the wait for a batch: the next forward of a
#: running training puts the record sooner.
PREVIEW_AFTER_S = 0.25


class PreviewPolicy:
    """Decides, on the writer thread, when readers see the record that the training has not put yet.

    Args:
        pending: Returns what is known of that record, or None.
        clock: A monotonic clock in seconds.
    """

    def __init__(
        self, pending: Callable[[], StepRecord | None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pending, self._clock = pending, clock
        self._seen: StepRecord | None = None
        self._since = 0.0
        self._is_shown = False

    def poll(self) -> StepRecord | None:
        """Return the record to show now; None if none is pending, not for long enough, or it was shown already."""
        record = self._pending()
        if record is None or not _is_still(self._seen, record):
            self._seen, self._since, self._is_shown = record, self._clock(), False
        if record is None or self._is_shown or self._clock() - self._since < PREVIEW_AFTER_S:
            return None
        self._is_shown = True
        return record


def _is_still(seen: StepRecord | None, record: StepRecord) -> bool:
    """Return whether it is the same step with nothing added."""
    return (
        seen is not None
        and (seen.step, seen.micro_step) == (record.step, record.micro_step)
        and (seen.scalars, seen.events) == (record.scalars, record.events)
    )
