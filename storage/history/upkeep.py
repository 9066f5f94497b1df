"""What a recording asks for while it grows: streams made into chunks, and what is old thinned out."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection

from ..records import Layout
from ..schema.streams import Stream
from .chunks import LENGTH
from .compact import compact
from .retention import Retention, thin_once

#: Numbers of a record that are compacted in one transaction, which costs as much as to compact a small stream: as many
#: as the largest stream has.
_AT_ONCE = 1024 * 10


class Upkeep:
    """The hot records of a recording's streams, and what is to be done about them.

    Args:
        number: Of the recording.
        hot: How many each stream has, by its number.
        retention: What may be thinned.
    """

    def __init__(self, number: int, hot: Mapping[int, int], retention: Retention) -> None:
        self._number = number
        self._hot = Counter(hot)
        self._retention = retention
        self._may_thin = True

    def grow(self, written: Mapping[int, int]) -> None:
        """Takes how many hot records streams have got."""
        self._hot.update(written)

    def is_due(self, least: int = LENGTH) -> bool:
        """Whether a stream has that many hot records, or something may be old."""
        return self._may_thin or any(count >= least for count in self._hot.values())

    def run(self, connection: Connection, streams: Mapping[Layout, int], least: int = LENGTH) -> None:
        """Compacts the streams that have that many hot records, the first few of them; or thins what is old.

        Args:
            streams: All of the recording, with their numbers.
        """
        due = self._due(streams, least)
        left = {
            one.id: self._hot[one.id] - moved if (moved := compact(connection, one, count)) >= least else 0
            for one, count in due
        }
        may_thin = bool(due) or thin_once(connection, self._number, self._retention)
        for key, count in left.items():
            self._hot[key] = count
        self._may_thin = may_thin

    def _due(self, streams: Mapping[Layout, int], least: int) -> list[tuple[Stream, int]]:
        """Streams that are to be compacted together, and how many records of each."""
        found: list[tuple[Stream, int]] = []
        room = _AT_ONCE
        for layout, key in streams.items():
            width = len(layout.sites) * len(layout.statistics)
            if self._hot[key] >= least and (width <= room or not found):
                found.append((Stream(key, layout), min(self._hot[key], LENGTH)))
                room -= width
        return found
