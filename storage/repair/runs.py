"""Mends a damaged folder of runs: a run file is written anew from what can be read, and from a backup.

    x.rank0.db ---- every row that SQLite can read ----> x.rank0.db (new)      x.rank0.db.damaged (as it was)
    backup  ------- rows that are damaged or gone -----^

What neither has stays told: its row keeps the checksum that differs, or the ledger goes on counting what is missing.
"""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Table, select

from ..damage import Damage, gathering
from ..database.folder_backend import run_files, run_of_file
from ..database.rank_recording import RankRecording
from ..database.run_head import read_head
from ..errors import StoreDamaged, StoreError, StoreUnavailable
from ..history.hot_records import count_hot
from ..history.timeline import count_archived
from ..process import describe, is_alive, silence_since
from ..schema.connect import file_reader, file_writer, store_errors
from ..schema.ledger import read_ledger, recount, write_ledger
from ..schema.table_definitions import meta, recorded, recording, stream, upgrade
from ..stored_tensors import Blobs, blobs_of
from ..upkeep import folder_of
from .backup_rows import BackupRows
from .readable_rows import copy_readable, open_to_read

_DAMAGED: Final = ".damaged"


@dataclass(frozen=True, slots=True)
class Repair:
    """What became of a damaged file.

    Args:
        file: Its name.
        done: A line for each thing that was done.
        left: A line for each thing that is still damaged or missing.
    """

    file: str
    done: tuple[str, ...]
    left: tuple[str, ...]


def repair_runs(
    folder: str | Path, *, runs: Sequence[str] | None = None, backup: str | Path | None = None
) -> list[Repair]:
    """Mend the damaged files of runs; return what became of each. An intact file is not touched.

    The former file stays beside the new one, under a name that ends in `.damaged`.

    Args:
        runs: Ids of the runs; None for all.
        backup: A folder that `mindscope backup` has written, from which damaged and missing rows are taken.

    Raises:
        StoreUnavailable: One of the two is no folder, a damaged run is being written, or the disk is full.
        StoreDamaged: A file has no readable row of its run, and neither has the backup; it stays as it is.
    """
    place, other = folder_of(folder), None if backup is None else folder_of(backup)
    paths = [path for path in run_files(place) if runs is None or run_of_file(path) in runs]
    damaged = {path: damage for path in paths if (damage := damage_of(path))}
    found = [_repair(path, None if other is None else other / path.name, damage) for path, damage in damaged.items()]
    for run in sorted({run_of_file(path) for path in paths}):
        found += _repair_tensors(blobs_of(str(place), run), None if other is None else blobs_of(str(other), run))
    return found


def damage_of(path: Path) -> tuple[str, ...]:
    """Return a line for each thing that is damaged or missing in a run file."""
    engine = file_reader(path)
    try:
        with store_errors(path), engine.connect() as connection, connection.begin():
            number = connection.execute(select(recording.c.id)).scalar_one()
        target = RankRecording(run_of_file(path), 0, number, engine, str(path), partial(read_head, path))
        return tuple(map(str, target.damage()))
    except StoreError as error:
        return (str(Damage("the file", str(error))),)
    finally:
        engine.dispose()


def _repair(path: Path, backup: Path | None, damaged: tuple[str, ...]) -> Repair:
    """Write a run file anew and put it in the place of the damaged one, if that gains something."""
    _refuse_live(path)
    copy = None if backup is None or not backup.exists() or damage_of(backup) else backup
    new = path.with_name(f"{path.name}.repair")
    _remove(new)
    try:
        done = _replaced(new, copy) if copy is not None and not _is_database(path) else _rebuild(path, new, copy)
        left = damage_of(new)
        if _is_whole(damaged) >= _is_whole(left) and len(left) >= len(damaged):
            return Repair(path.name, (), damaged)
        done.append(f"the file as it was is {_put_aside(path)}")
        new.replace(path)
    finally:
        _remove(new)
    return Repair(path.name, tuple(done), damage_of(path))


def _is_database(path: Path) -> bool:
    """Return whether SQLite takes the file for one of its own."""
    try:
        with closing(open_to_read(path)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        return "not a database" not in str(error)
    return True


def _replaced(new: Path, copy: Path) -> list[str]:
    """Copy the backup; return what was done."""
    with closing(open_to_read(copy)) as source, closing(sqlite3.connect(new)) as target:
        source.backup(target)
    return [f"nothing of it can be read; it was replaced by {copy}"]


def _is_whole(damage: Sequence[str]) -> bool:
    """Return whether SQLite can walk through a file with this damage."""
    return not any(line.startswith("the file") for line in damage)


def _refuse_live(path: Path) -> None:
    """Refuse a file whose writer still runs, as far as its row can be read."""
    with suppress(sqlite3.DatabaseError), closing(open_to_read(path)) as connection:
        row = connection.execute("SELECT state, writer, updated_at FROM recording").fetchone()
        if row is not None and row[0] == "running" and is_alive(row[1], silence_since(row[2])):
            raise StoreUnavailable(f"{path} is being written by {describe(row[1])}; repair it when that has ended")


def _rebuild(path: Path, new: Path, backup: Path | None) -> list[str]:
    """Fill a new file with the rows of a damaged one and those that only the backup has; return what was done."""
    engine = file_writer(new)
    try:
        with store_errors(new), engine.begin() as connection:
            upgrade(connection)
        engine.dispose()  # one writer at a time
        with store_errors(new), closing(sqlite3.connect(new)) as target:
            done = _fill(target, path, backup)
        with store_errors(new), engine.begin() as connection:
            number = connection.execute(select(recording.c.id)).scalar_one()
            with gathering():
                ledger = read_ledger(connection, number)
            if ledger is None:
                with gathering():
                    ledger = recount(connection, number)
                ledger.records = _count_records(connection, number)
                write_ledger(connection, number, ledger)
                done.append("what should be there was counted anew, from what is there")
    finally:
        engine.dispose()
    return done


def _fill(target: sqlite3.Connection, path: Path, backup: Path | None) -> list[str]:
    """Copy the rows to the new file; return what was done.

    Raises:
        StoreDamaged: Neither the damaged file nor the backup has the row of the run.
    """
    with closing(open_to_read(path)) as source:
        lost = [table.name for table in _tables() if copy_readable(source, target, table)]
    done = ["it was written anew from its rows" + (f"; some of {', '.join(lost)} could not be read" if lost else "")]
    if backup is not None:
        with closing(open_to_read(backup)) as source:
            rows = BackupRows(source, target)
            taken = {table.name: rows.take(table) for table in _tables()}
        done += [f"{count} rows of {name} were taken from {backup}" for name, count in taken.items() if count]
    if not target.execute("SELECT 1 FROM recording").fetchone():
        raise StoreDamaged(f"{path} has no readable row of its run; restore it from a copy or delete it")
    target.commit()
    target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return done


def _count_records(connection: Connection, number: int) -> dict[int, int]:
    """Return how many records each stream of a recording has, as far as they are there."""
    newest = count_hot(connection, number)
    keys = connection.execute(select(stream.c.id).where(stream.c.recording == number)).scalars().all()
    return {key: count_archived(connection, key) + newest.get(key, 0) for key in keys}


def _tables() -> list[Table]:
    """Return the tables to copy, those that others refer to first."""
    return [table for table in recorded.sorted_tables if table is not meta]


def _put_aside(path: Path) -> Path:
    """Rename a damaged file, and its log, so that it is no run file any more; return its new path."""
    aside, number = path.with_name(f"{path.name}{_DAMAGED}"), 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}{_DAMAGED}{number}")
    for ending in ("-wal", "-shm", ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{ending}").rename(f"{aside}{ending}")
    return aside


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)


def _has(blobs: Blobs, digest: str) -> bool:
    """Return whether a tensor is there, and intact."""
    with suppress(StoreDamaged, StoreUnavailable):
        blobs.get(digest)
        return True
    return False


def _repair_tensors(blobs: Blobs, backup: Blobs | None) -> list[Repair]:
    """Replace damaged tensor files from the backup; put the others aside, so that they read as missing."""
    found = []
    for path, words in blobs.damaged_files():
        aside = path.with_name(f"{path.name}{_DAMAGED}")
        path.rename(aside)
        if backup is not None and _has(backup, path.stem):
            copy = backup.folder / path.parent.name / path.name
            shutil.copyfile(copy, path)
            found.append(Repair(path.name, (f"it was taken from {copy}",), ()))
        else:
            found.append(Repair(path.name, (f"it was put aside as {aside}",), (words,)))
    return found
