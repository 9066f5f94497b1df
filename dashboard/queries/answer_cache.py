"""Keeps what was read of a store, the latest used, in a bounded number of bytes."""

import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from typing import Final

import numpy as np

#: Bytes that are kept for all visitors together; our choice: ten maps of the largest kind.
MOST_BYTES: Final = 48 * 2**20
_MOST_ENTRIES: Final = 2048


class AnswerCache:
    """A mapping that forgets what was not used for longest; may be used from any thread.

    Args:
        most_bytes: What all values may take together; a single one that takes more than a quarter is not kept.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """What the values take, about."""
        return self._bytes

    def find(self, key: Hashable) -> tuple[object] | None:
        """Return the value under the key in a tuple; None when there is none."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return (self._kept[key][0],)

    def keep(self, key: Hashable, value: object) -> None:
        """Keep the value under the key, and forget others until there is room."""
        size = bytes_of(value)
        with self._lock:
            self._bytes -= self._kept.pop(key, (None, 0))[1]
            if 4 * size > self._most_bytes:
                return
            self._kept[key] = (value, size)
            self._bytes += size
            while self._bytes > self._most_bytes or len(self._kept) > _MOST_ENTRIES:
                self._bytes -= self._kept.popitem(last=False)[1][1]


def bytes_of(value: object) -> int:
    """Return about how many bytes a value takes with all that it holds; what it shares with others counts as well."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    size = sys.getsizeof(value, 64)
    if isinstance(value, str | bytes):
        return size
    if is_dataclass(value) and not isinstance(value, type):
        return size + sum(bytes_of(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Mapping):
        return size + sum(bytes_of(key) + bytes_of(item) for key, item in value.items())
    if isinstance(value, Sequence | Set):
        return size + sum(bytes_of(item) for item in value)
    return size
