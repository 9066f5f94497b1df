"""The rows of all subjects that hooks fill call by call, and the columns that every subject has."""

from collections.abc import Callable

from ...storage.records import Block
from ..collectors.collector import COLLECTORS
from ..kernels import STATISTICS, More
from ..outbox.promises import Owed
from .call_rows import CallRows


class HookRows:
    """The rows of one monitor.

    Args:
        more: Statistics on request, whose columns stand behind those of a collector.
    """

    def __init__(self, more: More) -> None:
        self._more = more
        self._columns: dict[str, tuple[str, ...]] = {}
        self._rows = {name: CallRows(name, self.columns(name)) for name, one in COLLECTORS.items() if one.measure}

    def of(self, subject: str) -> CallRows:
        """The rows of a subject that hooks fill call by call."""
        return self._rows[subject]

    def open(self, subject: str, columns: tuple[str, ...]) -> CallRows:
        """The rows of a subject of its own, kept as float64; made when they are first asked for.

        Raises:
            ValueError: The subject has other columns already.
        """
        rows = self._rows.get(subject)
        if rows is None:
            rows = self._rows[subject] = CallRows(subject, columns)
        if rows.statistics != columns:
            raise ValueError(
                f"{subject} has the statistics {', '.join(rows.statistics)}, got {', '.join(columns)}; "
                f"return the same ones every time"
            )
        rows.is_wide = True
        return rows

    def columns(self, subject: str) -> tuple[str, ...]:
        """The statistics of a subject's rows, those on request behind the collector's own."""
        known = self._columns.get(subject)
        if known is None:
            entry = COLLECTORS.get(subject) or COLLECTORS[subject.partition("/")[0]]
            has_more = entry.columns[: len(STATISTICS)] == STATISTICS and not subject.startswith("communication")
            known = self._columns[subject] = (*entry.columns, *self._more.columns) if has_more else entry.columns
        return known

    def take(self, owe: Callable[[Owed], None]) -> list[Block]:
        """The rows that have been filled since the last time; `owe` as `CallRows.take` takes it."""
        blocks: list[Block] = []
        for rows in self._rows.values():
            if rows.is_used:
                rows.take(blocks, owe)
        return blocks
