"""The head of a run file: a small file beside it that says how much was committed last.

SQLite drops what is damaged or missing at the end of its log without a word, and with it the newest transactions. The
head is written after each commit, outside of the log, and removed when the run is closed; a reader that finds less in
the file than the head says knows that something was lost.
"""

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from ..damage import Damage, note_damage
from ..encoding.checksums import checksum
from ..schema.ledger import read_ledger
from ..schema.row_statements import STEP, read_streams
from ..schema.table_definitions import recording

#: The three numbers of `Newest`, then their checksum.
_FORM: Final = struct.Struct("<qqqI")


class Newest(NamedTuple):
    """What was committed last: the revision of the recording, how many records it has, and the step before."""

    revision: int
    records: int
    last_step: int


class RunHead:
    """The head of one run file, written by its writer.

    Args:
        path: The run file.
    """

    def __init__(self, path: Path) -> None:
        self._path = head_path(path)
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def write(self, newest: Newest) -> None:
        """Write what was committed; a failure leaves the former head."""
        with suppress(OSError):
            os.pwrite(self._file, _FORM.pack(*newest, checksum(b"head", *newest)), 0)

    def remove(self) -> None:
        """Remove the head: the file holds everything now."""
        self.close()
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def head_path(path: Path) -> Path:
    """Return the path of the head of a run file."""
    return path.with_suffix(".head")


def read_head(path: Path) -> Newest | None:
    """Return what the head of a run file says; None without one, or if it was not written whole."""
    try:
        data = head_path(path).read_bytes()
    except OSError:
        return None
    if len(data) != _FORM.size:
        return None
    *numbers, known = _FORM.unpack(data)
    return Newest(*numbers) if known == checksum(b"head", *numbers) else None


def check_newest(connection: Connection, number: int, newest: Newest) -> None:
    """Note damage if recording `number` holds less than was committed when its head was read."""
    revision = connection.execute(select(recording.c.revision).where(recording.c.id == number)).scalar_one()
    if isinstance(revision, int) and revision >= newest.revision:
        return
    ledger = read_ledger(connection, number)
    steps = read_streams(connection, number, STEP)
    there = 0 if ledger is None or not steps else ledger.records.get(steps[0].id, 0)
    lost = newest.records - there
    what = f"the newest {lost} records" if lost else "the newest events, findings or outcomes"
    reason = "its log (the file that ends in -wal) is missing or damaged"
    note_damage(Damage(what, reason, last=newest.last_step))
