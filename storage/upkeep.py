"""Copies runs from store to store and removes old ones, beside whoever writes and reads them."""

import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from .database.folder_backend import run_files, run_of_file
from .errors import RunNotFound, StoreDamaged, StoreError, StoreUnavailable
from .run_info import Run
from .store import Store
from .stored_tensors import blobs_of
from .url import open_store

_log = logging.getLogger(__name__)

#: A run with this tag is never pruned.
KEEP_TAG: Final = "keep"
#: What became of a run that was to be copied.
Copied = Literal["copied", "newer", "there", "older", "begun"]


class CopyIncomplete(StoreDamaged):
    """Some runs could not be copied; all others were.

    Attributes:
        copied: What became of the others.
        failed: Why each of these could not be copied, by its file's name.
    """

    def __init__(self, copied: Mapping[str, Copied], failed: Mapping[str, str]) -> None:
        self.copied, self.failed = dict(copied), dict(failed)
        super().__init__(
            f"{len(failed)} of the files could not be copied, all others were: {'; '.join(failed.values())}; "
            "`mindscope verify --repair` mends what can be mended"
        )


def copy_runs(source: str | Path, target: str | Path, *, runs: Iterable[str] | None = None) -> dict[str, Copied]:
    """Copy runs from one folder of runs to another, also while they are written; return what became of each.

    A run file is copied by SQLite in one consistent state, under another name that is changed when it is whole. A run
    that the target has too is replaced if the source has more of it, and left alone otherwise. Names, tags, remarks and
    muted findings are added where the target has none of the run.

    Args:
        runs: Ids of the runs; None for all.

    Raises:
        StoreUnavailable: One of them is no folder, the target is being written, or its disk is full.
        CopyIncomplete: Files cannot be read; everything else was copied.
    """
    origin, place = folder_of(source), folder_of(target)
    place.mkdir(parents=True, exist_ok=True)
    wanted = None if runs is None else set(runs)
    found: dict[str, Copied] = {}
    failed: dict[str, str] = {}
    for path in run_files(origin):
        run = run_of_file(path)
        if wanted is not None and run not in wanted:
            continue
        try:
            became = _copy_file(path, place / path.name)
            found[run] = "copied" if "copied" in (became, found.get(run)) else became
            _copy_tensors(origin, place, run)
        except StoreDamaged as error:
            failed[path.name] = str(error)
    failed |= _copy_notes(origin, place, found)
    if failed:
        raise CopyIncomplete(found, failed)
    return found


def folder_of(url: str | Path) -> Path:
    """Return the folder of a store.

    Raises:
        StoreUnavailable: It is no folder.
    """
    if "://" in str(url):
        raise StoreUnavailable(
            "a database is copied by its own tools, while it is in use: pg_dump --format=custom, and pg_restore"
        )
    path = Path(url).expanduser()
    if path.suffix == ".db" or (path.exists() and not path.is_dir()):
        raise StoreUnavailable(f"{path} is no folder of runs; name the folder that the runs are in")
    return path


def _copy_file(path: Path, target: Path) -> Copied:
    """Copy a run file by SQLite unless the target has as much of it."""
    ours, theirs = _revision(path), _revision(target) if target.exists() else None
    if ours is None:
        return "begun"
    if theirs is not None and theirs >= ours:
        return "there" if theirs == ours else "older"
    waiting = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with (
            closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as origin,
            closing(sqlite3.connect(waiting)) as copy,
        ):
            origin.backup(copy)
        for ending in ("-wal", "-shm"):
            target.with_name(f"{target.name}{ending}").unlink(missing_ok=True)
        waiting.replace(target)
    except sqlite3.DatabaseError as error:
        kind = StoreUnavailable if "full" in str(error) or "locked" in str(error) else StoreDamaged
        raise kind(f"{path} cannot be copied to {target.parent}: {error}") from error
    finally:
        waiting.unlink(missing_ok=True)
    return "copied" if theirs is None else "newer"


def _revision(path: Path) -> int | None:
    """Return a number that grows with every change of a run file; None before its first transaction."""
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5.0)) as connection:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'recording'").fetchone():
                return None
            row = connection.execute("SELECT max(revision) FROM recording").fetchone()
    except sqlite3.DatabaseError as error:
        raise StoreDamaged(f"{path} cannot be read as a run: {error}") from error
    return int(row[0] or 0)


def _copy_tensors(origin: Path, target: Path, run: str) -> None:
    """Copy the whole tensors of a run that the target has not; their names are their digests."""
    folder = blobs_of(str(origin), run).folder
    for path in folder.glob("*/*.safetensors"):
        copy = blobs_of(str(target), run).folder / path.parent.name / path.name
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            waiting = copy.with_suffix(f".{os.getpid()}.part")
            shutil.copyfile(path, waiting)
            waiting.replace(copy)


def _copy_notes(origin: Path, target: Path, runs: Mapping[str, Copied]) -> dict[str, str]:
    """Add what people gave the runs where the target has nothing of theirs; return of which runs it cannot be read."""
    failed: dict[str, str] = {}
    with open_store(origin, on_damage="log") as theirs, open_store(target, on_damage="log") as ours:
        for name in (name for name, became in runs.items() if became != "begun"):
            try:
                _copy_notes_of(theirs, ours, name)
            except (StoreDamaged, RunNotFound) as error:
                failed[name] = f"tags, remark and muted findings of {name} are not copied: {error}"
    return failed


def _copy_notes_of(theirs: Store, ours: Store, name: str) -> None:
    here, there = ours.find_run(name), theirs.find_run(name)
    if (there.name, there.tags, there.remark) != (here.name, here.tags, here.remark) and not here.remark:
        ours.annotate(name, name=there.name, tags=there.tags, remark=there.remark or None)
    for rule, site in set(theirs.muted(name)) - set(ours.muted(name)):
        ours.mute(name, rule, site)


@dataclass(frozen=True, slots=True)
class Pruned:
    """A run that pruning removes, its size and why."""

    run: Run
    size_bytes: int
    reason: str


def plan_pruning(store: Store, *, now: float, keep_s: float | None, most_bytes: int | None) -> list[Pruned]:
    """Return the runs to remove, oldest first: all that ended longer ago, then the oldest until the rest fits.

    Runs that are being written, and those with the tag `keep`, stay.

    Args:
        now: The current time, in seconds since 1970.
        keep_s: Seconds for which a run is kept after its last change.
        most_bytes: Bytes that the runs may take together; only of a folder.
    """
    runs = sorted(store.runs(limit=1_000_000), key=lambda run: run.updated_at)
    sizes = dict.fromkeys((run.id for run in runs), 0)
    if most_bytes is not None or "://" not in store.url:
        sizes = {run.id: size_of(store.url, run.id) for run in runs}
    total, planned = sum(sizes.values()), []
    for run in runs:
        if run.state == "running" or KEEP_TAG in run.tags:
            continue
        reason = ""
        if keep_s is not None and now - run.updated_at > keep_s:
            reason = f"its last change was {(now - run.updated_at) / 86400:.1f} days ago"
        elif most_bytes is not None and total > most_bytes:
            reason = f"the runs take {total / 1e9:.3g} GB of {most_bytes / 1e9:.3g} GB"
        if reason:
            total -= sizes[run.id]
            planned.append(Pruned(run, sizes[run.id], reason))
    return planned


def prune_beside(url: str, *, keep_s: float | None, most_bytes: int | None) -> threading.Thread:
    """Remove old runs as `plan_pruning` says, from a thread of its own; what fails is logged.

    Args:
        url: The store, which others may write and read.
    """
    thread = threading.Thread(target=_prune, args=(url, keep_s, most_bytes), name="mindscope-prune", daemon=True)
    thread.start()
    return thread


def _prune(url: str, keep_s: float | None, most_bytes: int | None) -> None:
    try:
        with open_store(url, on_damage="log") as store:
            for one in plan_pruning(store, now=time.time(), keep_s=keep_s, most_bytes=most_bytes):
                store.delete_run(one.run.id)
                _log.info("run %s (%s) was removed: %s", one.run.id, one.run.name, one.reason)
    except StoreError as error:
        _log.warning("old runs cannot be removed: %s", error)


def size_of(url: str, run: str) -> int:
    """Return how many bytes the files of a run take in a folder, whole tensors and checkpoints included."""
    folder = folder_of(url)
    named = (path for path in folder.glob("*") if path.name.startswith(f"{run}."))
    files = (file for path in named for file in (path.rglob("*") if path.is_dir() else (path,)))
    return sum(file.stat().st_size for file in files if file.is_file() and not file.name.endswith("-shm"))
