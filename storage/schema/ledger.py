"""The ledger of a recording: how much it should hold, so that a reader notices what is missing.

Checksums tell that a row is wrong; only a count tells that a row is gone. The ledger changes in the transaction that
changes what it counts, and is sealed itself. A recording of an older version has none, and is read unchecked.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple
from weakref import WeakSet

from sqlalchemy import BindParameter, Connection, Engine, bindparam, func, insert, inspect, select, update

from ..damage import Damage, note_damage
from ..encoding.checksums import ChecksumDiffers, Place, checksum, seal_text, unseal_text
from ..metric_series import SEVERITIES
from .compiled_statements import run_statement
from .table_definitions import account, attachment, event, finding, former, histogram, outcome, recording

#: The tables with a row per observation that is rare, which are counted.
RARE: Final = {
    "events": event,
    "attachments": attachment,
    "histograms": histogram,
    "findings": finding,
    "outcomes": outcome,
    "former": former,
}

#: The structure of the model, of which there is one or none, as the ledger counts it.
STRUCTURE: Final = "structure"


class Feed(NamedTuple):
    """How far a recording has come that is fed by messages of a training elsewhere.

    Args:
        writer: The token of the training's writer.
        number: The last message of it that is stored.
        records: How many records its messages have had, lost ones included.
        former: Tokens of the writers before it.
        holder: Random; who feeds it now. Another one has taken it over if it has changed.
    """

    writer: str = ""
    number: int = -1
    records: int = 0
    former: tuple[str, ...] = ()
    holder: str = ""

    def has(self, writer: str, number: int) -> bool:
        """Return whether this message is stored, or one of a later writer."""
        return writer in self.former or (writer == self.writer and number <= self.number)


@dataclass(slots=True)
class Ledger:
    """How much a recording holds.

    Args:
        records: How many records each stream has had, by its number.
        rows: How many rows each of the rare tables has.
        thinned: By stream: numbers of the records from which on full resolution, and buckets of 16, are complete.
        row: The checksum of the recording's own row.
        feed: What it has of the messages that it is made of, if it is.
    """

    records: dict[int, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    thinned: dict[int, tuple[int, int]] = field(default_factory=dict)
    row: int = 0
    feed: Feed = field(default_factory=Feed)

    def count(self, table: str, more: int) -> None:
        """Add to the number of rows of a rare table."""
        self.rows[table] = self.rows.get(table, 0) + more

    def grow(self, written: dict[int, int]) -> None:
        """Add to the number of records by stream."""
        for key, more in written.items():
            self.records[key] = self.records.get(key, 0) + more

    def thin(self, key: int, tier: int, before: int) -> None:
        """Note that a tier of a stream is complete only from record `before` on."""
        full, fine = self.thinned.get(key, (0, 0))
        self.thinned[key] = (max(full, before), fine) if tier == 1 else (full, max(fine, before))


_FIELDS: Final = tuple(one.name for one in fields(Ledger))
_OF: BindParameter[int] = bindparam("of")
_DATA = select(account.c.data).where(account.c.recording == _OF)
_DATA_TO_CHANGE = _DATA.with_for_update()
_OWN = [column for column in recording.c if column.name not in ("revision", "structure")]
#: The names of the columns whose values make the checksum of a recording's row.
ROW_COLUMNS: Final = tuple(column.name for column in _OWN)
_ROW = select(*_OWN).where(recording.c.id == _OF)
_ROW_AND_REVISION = _ROW.add_columns(recording.c.revision)
_CHANGED = update(account).where(account.c.recording == _OF).values(data=bindparam("new"))


def read_ledger(connection: Connection, number: int, *, is_changing: bool = False) -> Ledger | None:
    """Return the ledger of recording `number`; None for a recording of an older version, or one that is damaged.

    Args:
        is_changing: Whether this transaction will write it: others wait until then.
    """
    if not _has_ledgers(connection):
        return None
    text = run_statement(connection, _DATA_TO_CHANGE if is_changing else _DATA, {"of": number}).scalar()
    return None if text is None else _parsed(text, number)


def read_ledgers(connection: Connection, runs: Collection[str]) -> dict[int, Ledger | None]:
    """Return the ledgers of all recordings of some runs, by their numbers; those of an older version are left out."""
    if not _has_ledgers(connection):
        return {}
    of_runs = select(recording.c.id).where(recording.c.run.in_(runs))
    rows = connection.execute(select(account.c.recording, account.c.data).where(account.c.recording.in_(of_runs)))
    return {number: None if text is None else _parsed(text, number) for number, text in rows}


def _parsed(text: str, number: int) -> Ledger | None:
    """Return the ledger of recording `number`; None if it is damaged."""
    try:
        raw = json.loads(unseal_text(text, "ledger", number))
    except (ChecksumDiffers, ValueError) as error:
        note_damage(Damage("the counts of what was recorded", str(error)))
        return None
    return Ledger(
        records={int(key): count for key, count in raw["records"].items()},
        rows=raw["rows"],
        thinned={int(key): (full, fine) for key, (full, fine) in raw["thinned"].items()},
        row=raw["row"],
        feed=_feed(*raw.get("feed", ())),
    )


def read_feeds(connection: Connection, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, Feed]]:
    """Return the number of each of these recordings (run, rank), and how far it has come; of those that are there."""
    runs, ranks = {run for run, _ in places}, {rank for _, rank in places}
    query = select(recording.c.id, recording.c.run, recording.c.rank, account.c.data)
    query = query.join(account, account.c.recording == recording.c.id)
    found = {}
    for number, run, rank, text in connection.execute(
        query.where(recording.c.run.in_(runs), recording.c.rank.in_(ranks))
    ):
        if (run, rank) in places and (ledger := _parsed(text, number)) is not None:
            found[run, rank] = (number, ledger.feed)
    return found


def _feed(writer: str = "", number: int = -1, records: int = 0, former: Sequence[str] = (), holder: str = "") -> Feed:
    return Feed(writer, number, records, tuple(former), holder)


#: Engines of stores that are known to have ledgers; those of older versions do not.
_with_ledgers: WeakSet[Engine] = WeakSet()


def _has_ledgers(connection: Connection) -> bool:
    if connection.engine not in _with_ledgers:
        if not inspect(connection).has_table(account.name):
            return False
        _with_ledgers.add(connection.engine)
    return True


def write_ledger(connection: Connection, number: int, ledger: Ledger) -> int:
    """Write the ledger of recording `number`, with the checksum of its row as it is now; return its revision."""
    *row, revision = run_statement(connection, _ROW_AND_REVISION, {"of": number}).one()
    ledger.row = row_checksum(tuple(row))
    text = json.dumps({name: getattr(ledger, name) for name in _FIELDS}, separators=(",", ":"))
    sealed = seal_text(text, "ledger", number)
    if not run_statement(connection, _CHANGED, {"of": number, "new": sealed}).rowcount:
        connection.execute(insert(account).values(recording=number, data=sealed))
    return int(revision)


def row_checksum(values: tuple[Place, ...]) -> int:
    """Return the checksum of the values of a recording's row, without its revision and structure."""
    return checksum(b"", *values)


def check_row(connection: Connection, number: int, ledger: Ledger | None) -> None:
    """Note damage if the row of recording `number` is not what its writer wrote."""
    if ledger is not None:
        check_values(tuple(run_statement(connection, _ROW, {"of": number}).one()), ledger)


def check_values(values: tuple[Place, ...], ledger: Ledger | None) -> None:
    """Note damage if these are not the values of the row that its writer wrote.

    Args:
        values: In the order of `ROW_COLUMNS`.
    """
    if ledger is not None and row_checksum(values) != ledger.row:
        note_damage(Damage("name, state, times or configuration", "its checksum differs"))


def check_count(connection: Connection, number: int, table: str) -> None:
    """Note damage if a rare table has another number of rows of recording `number` than its ledger says."""
    ledger = read_ledger(connection, number)
    if ledger is None:
        return
    expected, found = ledger.rows.get(table, 0), count_rows(connection, number, table)
    if found != expected:
        note_damage(Damage(table, f"{found} of {expected} are there"))


def recount(connection: Connection, number: int) -> Ledger:
    """Return the ledger of a recording whose rare tables are counted anew; of its streams nothing is known."""
    ledger = read_ledger(connection, number, is_changing=True) or Ledger()
    ledger.rows = {table: count_rows(connection, number, table) for table in RARE}
    known = select(func.count(recording.c.structure)).where(recording.c.id == number)
    ledger.rows[STRUCTURE] = connection.execute(known).scalar_one()
    return ledger


def count_rows(connection: Connection, number: int, table: str) -> int:
    """Return how many rows of recording `number` a rare table has."""
    rows = RARE[table]
    query = select(func.count()).select_from(rows).where(rows.c.recording == number)
    # a damaged row that no reader asks for does not count
    if "step" in rows.c:
        query = query.where(rows.c.step.between(-(2**63), 2**63 - 1))
    if "severity" in rows.c:
        query = query.where(rows.c.severity.in_(SEVERITIES))
    return connection.execute(query).scalar_one()
