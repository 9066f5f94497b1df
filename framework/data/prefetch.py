"""A thread that prepares the next items while the current one is in use, and the dataset made with it."""

import sys
import threading
from collections.abc import Iterator
from queue import Full, Queue
from typing import Generic, TypeVar

from .dataset import Dataset, Item, stage

T = TypeVar("T")

#: How often a thread with nowhere to put its item looks whether it is still wanted, in seconds.
_PATIENCE_S = 0.05


def ahead(items: Iterator[T], count: int) -> Iterator[T]:
    """Return the same items, up to `count` of them taken ahead by a thread.

    The thread starts with the first item asked for. It ends with the items, with an exception (which the consumer
    gets), or when this iterator is closed or collected; `items` is closed then too.
    """
    worker = _PrefetchThread(items, count)
    worker.thread.start()
    try:
        while True:
            item = worker.ready.get()
            if isinstance(item, _End):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        worker.stop.set()
        if not sys.is_finalizing():  # the interpreter has stopped the thread then, and it would never be joined
            worker.thread.join()


class _End:
    """After the last item; with what ended them early, if anything did."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _PrefetchThread(Generic[T]):
    __slots__ = ("_items", "ready", "stop", "thread")

    def __init__(self, items: Iterator[T], count: int) -> None:
        self._items = items
        self.ready: Queue[T | _End] = Queue(count)
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self._run, name="mindscope-prefetch", daemon=True)

    def _run(self) -> None:
        end = _End()
        try:
            for item in self._items:
                if not self._hand_over(item):
                    break
        except BaseException as error:  # noqa: BLE001  (it belongs to the consumer, whatever it is)
            end = _End(error)
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
        self._hand_over(end)

    def _hand_over(self, item: T | _End) -> bool:
        while not self.stop.is_set():
            try:
                self.ready.put(item, timeout=_PATIENCE_S)
            except Full:
                continue
            return True
        return False


@stage("prefetch")
class Prefetched(Dataset):
    """The same items, prepared ahead; what is read ahead does not count as consumed."""

    __slots__ = ("_count", "_source")

    def __init__(self, source: Dataset, count: int) -> None:
        if count < 1:
            raise ValueError(f"prefetch expects a count of 1 item or more, got {count}")
        self._source, self._count = source, count

    def __len__(self) -> int:
        return len(self._source)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
        return ahead(self._source.epoch(number, start=start), self._count)
