"""Takes rows that are damaged or gone in a run file from a backup of it.

A backup is a copy by SQLite, so its rows have the same numbers. It may be older than the file: what was compacted,
thinned or changed since is left alone, and a row is replaced only where its own checksum differs.
"""

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from sqlalchemy import Table, UniqueConstraint

from ..encoding.checksums import unseal_frame, unseal_text
from ..encoding.record_codec import read_layout
from ..errors import StoreDamaged
from ..history.archive_chunks import LAST_TIER, chunk_content
from ..history.hot_records import check_hot_row, first_of_row
from ..history.timeline import read_span
from ..schema.ledger import RARE, ROW_COLUMNS, row_checksum
from ..schema.rare_rows import check_rare_row
from ..schema.table_definitions import (
    account,
    attachment,
    chunk,
    event,
    finding,
    former,
    histogram,
    hot,
    outcome,
    recording,
    span,
    stream,
)
from .readable_rows import column_names, insert_statement, readable_rows

_Values = Sequence[Any]  # Any: of any column


class BackupRows:
    """The rows of a backup that a run file lacks.

    Args:
        backup: A connection that reads the backup, which is intact.
        target: A connection that writes the file.
    """

    def __init__(self, backup: sqlite3.Connection, target: sqlite3.Connection) -> None:
        self._backup, self._target = backup, target
        self._ledger = _ledger_of(target)
        spans = target.execute("SELECT stream, max(first + count) FROM span GROUP BY stream")
        self._archived: dict[int, int] = dict(spans.fetchall())

    def take(self, table: Table) -> int:
        """Take the rows of a table that the file has not, or not intact; return how many."""
        if table is account:
            return 0  # a ledger is of its own file
        key = _key(table)
        ours = f"SELECT {column_names(table)} FROM {table.name} WHERE " + " AND ".join(f'"{name}" IS ?' for name in key)
        names = [column.name for column in table.columns]
        at = [names.index(name) for name in key]
        lacking, taken = self._lacking(table), 0
        for piece in readable_rows(self._backup, table):
            for _, *row in piece or ():
                found = self._target.execute(ours, [row[index] for index in at]).fetchone()
                if found is None and lacking > 0 and self._is_missed(table, _named(table, row)):
                    lacking -= 1
                elif found is None or self._is_intact(table, found) or not self._is_intact(table, row):
                    continue
                self._target.execute(insert_statement(table, "REPLACE"), row)
                taken += 1
        return taken

    def _lacking(self, table: Table) -> float:
        """Return how many rows of a table the file lacks by its ledger; infinity where that does not count them."""
        name = next((name for name, rare in RARE.items() if rare is table), None)
        if name is None or self._ledger is None:
            return float("inf")
        there: int = self._target.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0]
        return float(self._ledger["rows"].get(name, 0) - there)

    def _is_missed(self, table: Table, row: SimpleNamespace) -> bool:
        """Return whether a row that only the backup has should be in the file: it is neither thinned nor compacted."""
        if table is chunk and row.tier < LAST_TIER:
            thinned = {} if self._ledger is None else self._ledger["thinned"]
            return bool(row.first >= thinned.get(str(row.stream), (0, 0))[0 if row.tier == 1 else 1])
        return table is not hot or first_of_row(row) >= self._archived.get(row.stream, 0)

    def _is_intact(self, table: Table, values: _Values) -> bool:
        """Return whether a row is what was written, by its checksum."""
        row = _named(table, values)
        try:
            _CHECKS[table.name](row)
        except (StoreDamaged, ValueError, KeyError, TypeError, AttributeError):
            return False
        return table is not recording or self._ledger is None or _own_checksum(row) == self._ledger["row"]


def _ledger_of(target: sqlite3.Connection) -> dict[str, Any] | None:  # Any: of JSON
    """Return the ledger of the recording of a file; None where it is not intact."""
    with suppress(StoreDamaged, ValueError, TypeError):
        number, text = target.execute("SELECT recording, data FROM ledger").fetchone()
        found: dict[str, Any] = json.loads(unseal_text(text, "ledger", number))
        return found
    return None


def _own_checksum(row: SimpleNamespace) -> int:
    """Return the checksum of a recording's row as its ledger has it."""
    return row_checksum(tuple(getattr(row, name) for name in ROW_COLUMNS))


def _key(table: Table) -> list[str]:
    """Return the columns by which a row is the same in a file and in its backup."""
    unique = (constraint for constraint in table.constraints if isinstance(constraint, UniqueConstraint))
    return [column.name for column in next(unique, table.primary_key).columns]


def _named(table: Table, values: _Values) -> SimpleNamespace:
    """Return a row whose columns are attributes; `size` is its count, which is a method of the database's rows."""
    row = SimpleNamespace(**dict(zip((column.name for column in table.columns), values, strict=True)))
    row.size = getattr(row, "count", None)
    return row


#: What raises for a damaged row, by the name of its table.
_CHECKS: Final[dict[str, Callable[[Any], object]]] = {  # Any: a row, its columns as attributes
    recording.name: lambda row: row.structure is None or unseal_frame(row.structure, "structure", row.id),
    stream.name: lambda row: read_layout(unseal_frame(row.layout, row.recording, row.subject, row.part)),
    former.name: lambda row: unseal_frame(row.data, row.recording, row.step, row.micro_step),
    span.name: lambda row: read_span(row.stream, row),
    chunk.name: lambda row: chunk_content(row.stream, row.tier, row),
    hot.name: check_hot_row,
    **{table.name: partial(check_rare_row, table) for table in (event, attachment, finding, histogram, outcome)},
}
