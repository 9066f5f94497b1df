"""What waits between a training and the thread that writes, and what became of it: heard, written or lost."""

import threading
from collections import deque
from collections.abc import Callable

from ..errors import StoreError
from ..records import StepRecord
from ..run import Structure

Item = StepRecord | Structure

#: Records that may wait unless somebody says otherwise, and all that kill -9 can lose: half a second of steps of 5 ms.
#: Bursts of half as many share what a transaction costs (our choice).
CAPACITY = 128
#: How long a training waits at a full queue for a writer that makes no progress; then it loses observations instead.
_PATIENCE_S = 5.0


class Backlog:
    """A bounded queue of records and structures, of which a structure is never lost.

    The training thread pays for one append. Counts only ever grow; who waits for one is woken when it does.

    Args:
        capacity: Records that may wait.
        is_worth_waiting: Whether the training may wait for room now; without it the oldest record is lost at once.

    Attributes:
        wake: Set when somebody waits for the thread, or half of the capacity is used; it otherwise looks by itself.
        lost: Records that were dropped, or refused by the store.
    """

    def __init__(self, capacity: int, is_worth_waiting: Callable[[], bool]) -> None:
        if capacity < 1:
            raise StoreError(f"the queue expects a capacity of 1 or more, got {capacity}")
        self._capacity, self._burst = capacity, max(capacity // 2, 1)
        self._is_worth_waiting = is_worth_waiting
        self._waiting: deque[Item] = deque()
        self._rescued: list[Structure] = []
        self._changed = threading.Condition(threading.Lock())
        self._accepted = 0  # put so far
        self._heard = 0  # of these shown to the listeners or lost
        self._done = 0  # of these written or lost
        self._untold = 0  # lost, and not yet recorded as an event
        self._stalled = False  # the training has waited in vain since the thread last finished something
        self.wake = threading.Event()
        self.lost = 0

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, item: Item) -> None:
        """Adds the item; makes room for it where the queue is full."""
        if self._accepted - self._done >= self._capacity:
            self._make_room()
        self._accepted += 1
        self._waiting.append(item)
        if len(self._waiting) == self._burst:
            self.wake.set()

    def ends(self) -> tuple[Item, Item] | None:
        """The oldest and the newest of what waits, None where nothing does."""
        try:
            return self._waiting[0], self._waiting[-1]
        except IndexError:
            return None

    def take(self) -> list[Item]:
        """All that waits, which may be nothing."""
        items: list[Item] = []
        while self._waiting:
            try:
                items.append(self._waiting.popleft())
            except IndexError:  # the training took it back to make room
                break
        return items

    def take_rescued(self) -> list[Structure]:
        """The structures that had to make room, oldest first."""
        with self._changed:
            rescued, self._rescued = self._rescued, []
        return rescued

    def have_heard(self, count: int) -> None:
        """So many more were shown to the listeners or lost."""
        with self._changed:
            self._heard += count
            self._changed.notify_all()

    def have_done(self, count: int) -> None:
        """So many more were written or lost."""
        with self._changed:
            self._done += count
            self._stalled = False
            self._changed.notify_all()

    def lose(self, count: int, *, told: int = 0) -> None:
        """So many records were lost, and with them the word of earlier losses that they carried."""
        with self._changed:
            self.lost += count
            self._untold += count + told

    def take_untold(self) -> int:
        """How many were lost since the last time."""
        with self._changed:
            untold, self._untold = self._untold, 0
        return untold

    def wait_until_heard(self, is_alive: Callable[[], bool], timeout: float) -> bool:
        """True when all that was put before is heard, or nobody is left to hear it; False when time was too short."""
        return self._wait(lambda target: self._heard >= target or not is_alive(), timeout)

    def wait_until_done(self, is_alive: Callable[[], bool], timeout: float) -> bool:
        """True when all that was put before is written or lost, as above."""
        return self._wait(lambda target: self._done >= target or not is_alive(), timeout)

    def wake_all(self) -> None:
        """Lets everybody who waits look again: the thread has ended."""
        with self._changed:
            self._changed.notify_all()

    def _wait(self, is_reached: Callable[[int], bool], timeout: float) -> bool:
        self.wake.set()
        with self._changed:
            target = self._accepted
            return self._changed.wait_for(lambda: is_reached(target), timeout)

    def _make_room(self) -> None:
        """Waits for room, or loses the oldest record."""
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
                self.lost += 1
                self._untold += 1

    def _waits_for_room(self) -> bool:
        """True when waiting was right and there is room now."""
        if self._stalled or not self._is_worth_waiting():
            return False
        self.wake.set()
        with self._changed:
            self._stalled = not self._changed.wait_for(self._has_room, _PATIENCE_S)
        return not self._stalled and self._is_worth_waiting()

    def _has_room(self) -> bool:
        return self._accepted - self._done < self._capacity or not self._is_worth_waiting()
