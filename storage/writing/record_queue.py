"""The queue of records between a training and the writer thread, and the policies of when that thread takes them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from ..errors import StoreError
from ..records import StepRecord
from ..run_info import Structure

Item = StepRecord | Structure

#: Records that may wait by default, which is also what kill -9 can lose: half a second of steps of 5 ms.
#: Half as many wake the writer thread, so that they share a transaction (our choice).
CAPACITY = 128
#: Seconds that a training waits at a full queue for a writer that makes no progress; then records are dropped.
_ROOM_WAIT_S = 5.0


class RecordQueue:
    """A bounded queue of records and structures; a structure is never lost.

    `put` costs the training thread one append. The counts only grow, and threads that wait for one are woken.

    Args:
        capacity: Records that may wait.
        is_worth_waiting: Whether the training may wait for room now; otherwise the oldest record is dropped at once.

    Attributes:
        wake: Wakes the writer thread, when a thread waits for it or half of the capacity is used.
        lost: Number of records that were dropped, or refused by the store.
    """

    def __init__(self, capacity: int, is_worth_waiting: Callable[[], bool]) -> None:
        if capacity < 1:
            raise StoreError(f"the queue expects a capacity of 1 or more, got {capacity}")
        self._capacity, self._burst = capacity, max(capacity // 2, 1)
        self._is_worth_waiting = is_worth_waiting
        self._waiting: deque[Item] = deque()
        self._rescued: list[Structure] = []
        self._changed = threading.Condition(threading.Lock())
        self._accepted = 0  # items put so far
        self._heard = 0  # of these, shown to the listeners or lost
        self._done = 0  # of these, written or lost
        self._unreported = 0  # lost records that no event has reported yet
        self._stalled = False  # a wait for room has timed out since the writer last finished something
        self.wake = threading.Event()
        self.lost = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, item: Item) -> None:
        """Add the item; make room first if the queue is full."""
        if self._accepted - self._done >= self._capacity:
            self._make_room()
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

    def take(self) -> list[Item]:
        """Return all waiting items, possibly none."""
        items: list[Item] = []
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
        """Count items as written, or lost."""
        with self._changed:
            self._done += count
            self._stalled = False
            self._changed.notify_all()

    def lose(self, count: int, *, unreported: int = 0) -> None:
        """Count records as lost; their events would have reported `unreported` earlier losses."""
        with self._changed:
            self._count_lost(count)
            self._unreported += unreported

    def take_unreported(self) -> int:
        """Return how many records were lost since the last call, and reset that count."""
        with self._changed:
            unreported, self._unreported = self._unreported, 0
        return unreported

    def wait_until_heard(self, is_alive: Callable[[], bool], timeout: float) -> bool:
        """Wait until the listeners have seen all items put so far; return False after `timeout` seconds."""
        return self._wait(lambda target: self._heard >= target or not is_alive(), timeout)

    def wait_until_done(self, is_alive: Callable[[], bool], timeout: float) -> bool:
        """Wait until all items put so far are written or lost; return False after `timeout` seconds."""
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

    def _make_room(self) -> None:
        """Wait for room, or drop the oldest record and count it as lost."""
        if self._waits_for_room():
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
            else:
                self._count_lost(1)

    def _count_lost(self, count: int) -> None:
        """Count lost records, all of which still have to be reported; the caller holds the lock."""
        self.lost += count
        self._unreported += count

    def _waits_for_room(self) -> bool:
        """Wait for room; return True when there is some now."""
        if self._stalled or not self._is_worth_waiting():
            return False
        self.wake.set()
        with self._changed:
            self._stalled = not self._changed.wait_for(self._has_room, _ROOM_WAIT_S)
        return not self._stalled and self._is_worth_waiting()

    def _has_room(self) -> bool:
        return self._accepted - self._done < self._capacity or not self._is_worth_waiting()


#: Seconds that a record may wait for others to share its transaction; our choice, less than a page's polling interval.
BATCH_WAIT_S = 0.6
#: The same for records without content, which only say that the training goes on; our choice.
_QUIET_S = 0.8


class BatchingPolicy:
    """Decides when waiting items are taken: together after a short wait, at once after a pause.

    Args:
        clock: A monotonic clock in seconds.
    """

    def __init__(self, queue: RecordQueue, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._queue, self._clock = queue, clock
        self._taken = clock()

    def is_over(self) -> bool:
        """Return whether to take the waiting items now; False when nothing waits."""
        ends = self._queue.ends()
        if ends is None:
            return False
        wait_s = _QUIET_S if all(is_quiet(item) for item in ends) else BATCH_WAIT_S
        return self._clock() - self._taken >= wait_s

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
