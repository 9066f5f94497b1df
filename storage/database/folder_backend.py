"""A folder of run files, `<run>.rank<k>.db`, one SQLite file a rank, `<run>.ranks.db` for all; also one file alone."""

import logging
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, Engine, select

from ..control_channel import FolderChannel
from ..end_note import read_note
from ..errors import StoreDamaged, StoreError, StoreGone, StoreTooNew, StoreUnavailable, StoreUnfinished, combined_error
from ..history.compaction import Retention
from ..records import Finding, Json
from ..run_info import ALL_RANKS, Run
from ..schema.connect import file_reader, file_writer, store_errors
from ..schema.rare_rows import add_findings
from ..schema.table_definitions import check_version, recording, upgrade
from ..stored_tensors import blobs_of
from ..unknown_names import missing_folder
from .commits import FileCommits
from .disk_room import without_room
from .folder_catalogue import Catalogue, Signature, file_signature
from .rank_recording import Feeding, RankRecording, RecordingSummary, RunNote, StoredMessage, claim, summarise_recording
from .recording_writer import RecordingWriter
from .run_head import Newest, RunHead, head_path, read_head
from .store_backend import Listed

_log = logging.getLogger(__name__)
#: A checkpoint writes the log back into the file when the log has grown by this much; and also after so many seconds,
#: since a log that starts again keeps its size.
_CHECKPOINT_BYTES, _CHECKPOINT_S = 12 * 2**20, 10.0
#: Size of a file that is deleted to make room for the end of a run on a full disk.
_BALLAST_BYTES = 2 * 2**20
#: Free pages are returned to the disk during the run above this number; compaction frees and fills some all the time.
_FREE_PAGES = 16384


class FileHousekeeping:
    """The `Housekeeping` of a run file."""

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._log = Path(f"{path}-wal")
        self._ballast = Path(f"{path}-ballast")
        self._engine = engine
        self._inode = path.stat().st_ino
        self._ended = False
        self._head = RunHead(path)
        self._log_limit, self._checkpoint_at = _CHECKPOINT_BYTES, 0.0
        try:
            with self._ballast.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, _BALLAST_BYTES)
        except OSError as error:
            _log.warning("%s: no room can be reserved for a full disk: %s", path, error.strerror)

    def check(self, *, growing: bool) -> None:
        """Check that the file is the one that was opened and, if it is to grow, that the disk has room.

        Raises:
            StoreGone: The file was deleted or replaced, which SQLite itself does not notice.
            StoreUnavailable: The disk is nearly full.
        """
        try:
            inode = os.stat(self._path).st_ino
        except OSError as error:
            raise StoreGone(f"{self._path} was deleted while it was written: {error.strerror}") from error
        if inode != self._inode:
            raise StoreGone(f"{self._path} was replaced by another file while it was written")
        if growing and (shortage := without_room(self._path)):
            raise StoreUnavailable(f"{self._path}: {shortage}")

    def committed(self, revision: int, records: int, last_step: int) -> None:
        """Note outside of the file and its log how much was committed."""
        self._head.write(Newest(revision, records, last_step))

    def tidy(self) -> bool:
        """Do one bounded piece (checkpoint, vacuum); return True when more is waiting."""
        size, now = self._log_size(), time.monotonic()
        if size < _CHECKPOINT_BYTES or (size < self._log_limit and now < self._checkpoint_at):
            return False
        self._run("PRAGMA wal_checkpoint(PASSIVE)")
        has_more = self._vacuum(_FREE_PAGES)
        self._log_limit, self._checkpoint_at = size + _CHECKPOINT_BYTES, now + (0.0 if has_more else _CHECKPOINT_S)
        return has_more

    def make_room(self) -> None:
        """Delete the ballast file, so that a run can be ended on a full disk."""
        self._ended = True
        self._ballast.unlink(missing_ok=True)

    def release(self) -> None:
        """Return all free pages to the disk, write the log back and close the file."""
        try:
            while self._ended and self._vacuum(0):
                pass
            busy = self._run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
            if self._ended and not busy:
                self._head.remove()
        finally:
            self._head.close()
            self._engine.dispose()
            self._ballast.unlink(missing_ok=True)

    def _vacuum(self, spare: int) -> bool:
        """Return some free pages to the disk when more than `spare` are free; return whether there were."""
        if self._run("PRAGMA freelist_count")[0][0] <= spare:
            return False
        connection = self._engine.raw_connection()
        try:
            # Through executescript: execute frees a single page.
            connection.driver_connection.executescript("PRAGMA incremental_vacuum(2048)")  # type: ignore[union-attr]
        finally:
            connection.close()
        return True

    def _run(self, statement: str) -> list[tuple[int, ...]]:
        connection = self._engine.raw_connection()
        try:
            return list(connection.cursor().execute(statement).fetchall())
        finally:
            connection.close()

    def _log_size(self) -> int:
        try:
            return os.stat(self._log).st_size
        except OSError:
            return 0


_FILE = re.compile(r"(?P<run>.+)\.rank(?P<rank>\d+|s)\.db")
#: Files whose connections are kept open for reading.
_KEPT = 128
#: Seconds after its last change during which a file without tables counts as being created (our choice).
_YOUNG_S = 60.0


class FolderBackend:
    """The `StoreBackend` of a folder; with `only`, of one run file in it."""

    def __init__(self, folder: Path, url: str, only: Path | None = None, *, retention: Retention) -> None:
        self.url = url
        self._folder = folder
        self._only = only
        self._retention = retention
        self._catalogue = Catalogue(folder)
        self._engines: dict[tuple[Path, int], RankRecording] = {}
        self._seen: dict[Path, tuple[Signature, RecordingSummary]] = {}
        self._lock = threading.RLock()

    def listed(self) -> Iterator[Listed]:
        """Yield the runs, newest first by their ids."""
        for run in sorted({run for run, _, _ in self._files()}, reverse=True):
            try:
                yield self.summaries(run), self.note(run)
            except (StoreDamaged, StoreTooNew) as error:
                yield error

    def recordings(self, run: str) -> tuple[RankRecording, ...]:
        """Return the ranks of a run, ascending; none for an unknown run."""
        return tuple(self._open(path) for _, path in self._ranks(run))

    def summaries(self, run: str) -> tuple[RecordingSummary, ...]:
        """Return a summary per rank of a run.

        A file that cannot be read is left out with a warning, one that is being created without.

        Raises:
            StoreDamaged, StoreTooNew: No other rank of the run can be read either.
        """
        found: list[RecordingSummary] = []
        unreadable: list[StoreDamaged | StoreTooNew] = []
        for _, path in self._ranks(run):
            try:
                found.append(_with_note(self._summary(path), path))
            except (StoreDamaged, StoreTooNew) as error:
                if not (isinstance(error, StoreUnfinished) and _is_young(path)):
                    unreadable.append(error)
        if unreadable and not found:
            raise combined_error(f"run {run!r}", unreadable)
        for failure in unreadable:
            _log.warning("%s", failure)
        return tuple(found)

    def revisions(self, run: str) -> tuple[int, Sequence[tuple[int, int]]]:
        """Return the revision of the note, and (rank, revision) of each recording, ascending."""
        found = []
        for target in self.recordings(run):
            with target.read() as connection:
                query = select(recording.c.revision).where(recording.c.id == target.id)
                revision = connection.execute(query).scalar()
                found.append((target.rank, revision if isinstance(revision, int) else 0))  # else: damaged
        return self.note(run).revision, found

    def note(self, run: str) -> RunNote:
        """Return the name, tags, remark and muted rules that people gave a run."""
        return self._catalogue.note(run)

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Change the values that are not None."""
        self._catalogue.annotate(run, name, tags, remark)

    def mute(self, run: str, rule: str, site: str, muted: bool) -> None:
        """Hide the findings of a rule at a site, or show them again."""
        self._catalogue.mute(run, rule, site, muted)

    def begin(self, run: Run, rank: int, feeding: Feeding | None = None) -> RecordingWriter:
        """Make or join the recording of a rank.

        Raises:
            StoreUnavailable: The folder cannot be written, or another writer has the rank.
        """
        if self._only is not None:
            raise StoreUnavailable(f"{self._only} is one run's file; open its folder {self._folder} to begin a run")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be created: {error.strerror}; name another") from error
        path = self._folder / f"{run.id}.rank{'s' if rank == ALL_RANKS else rank}.db"
        engine = file_writer(path)
        try:
            with store_errors(path), engine.begin() as connection:
                upgrade(connection)
                number, begun = claim(connection, run, rank, str(path), feeding)
            target = RankRecording(run.id, rank, number, engine, str(path))
            parts = FileCommits(engine, target.location), FileHousekeeping(path, engine), self._retention
            return RecordingWriter(target, begun, *parts, is_fed=feeding is not None)
        except BaseException:
            engine.dispose()
            raise

    def flush(self, stored: Sequence[StoredMessage]) -> None:
        """Wait until the logs of these recordings are on the disk: a commit alone is with the kernel."""
        try:
            for name in [*(f"{one.run}.rank{one.rank}.db-wal" for one in stored), "."]:
                with suppress(FileNotFoundError):  # of a run that has ended, all is in the file
                    sync_file(str(self._folder / name))
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be written to the disk: {error.strerror}") from error

    def add_findings(self, target: RankRecording, findings: Sequence[Finding]) -> None:
        """Add findings to a recording, beside its writer if there is one."""
        engine = file_writer(Path(target.location))
        try:
            with store_errors(target.location), engine.begin() as connection:
                upgrade(connection)
                add_findings(connection, target.id, findings)
        finally:
            engine.dispose()

    def control_channel(self, run: str) -> FolderChannel:
        """Return documents as files beside the run's own."""
        return FolderChannel(self._folder, run)

    def delete(self, run: str) -> None:
        """Remove the files of a run."""
        for _, path in self._ranks(run):
            with self._lock:
                for key in [key for key in self._engines if key[0] == path]:
                    self._engines.pop(key).engine.dispose()
                self._seen.pop(path, None)
            try:
                for ending in ("", "-wal", "-shm", "-ballast"):
                    Path(f"{path}{ending}").unlink(missing_ok=True)
                head_path(path).unlink(missing_ok=True)
                for ending in (".end", ".word"):
                    path.with_suffix(ending).unlink(missing_ok=True)
            except OSError as error:
                raise StoreUnavailable(f"{path} cannot be deleted: {error.strerror}") from error
        blobs_of(str(self._folder), run).remove()
        self.control_channel(run).clear()
        self._catalogue.forget(run)

    def missing(self) -> tuple[str, bool]:
        """Return that the folder is not there yet, and whether a store beside it has nearly its name; else empty."""
        return missing_folder(self._folder)

    def close(self) -> None:
        """Close every connection."""
        with self._lock:
            for target in self._engines.values():
                target.engine.dispose()
            self._engines.clear()
        self._catalogue.close()

    def _files(self, run: str = "") -> list[tuple[str, int, Path]]:
        """Return (run, rank, path) of every run file, or of those of one run."""
        try:
            names = [self._only.name] if self._only is not None else os.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be read: {error.strerror}") from error
        matches = (match for name in names if name.startswith(run) and (match := _FILE.fullmatch(name)))
        return sorted((match["run"], _rank_of(match["rank"]), self._folder / match[0]) for match in matches)

    def _ranks(self, run: str) -> list[tuple[int, Path]]:
        return [(rank, path) for name, rank, path in self._files(run) if name == run]

    def _open(self, path: Path) -> RankRecording:
        """Return the recording in a file; its engine stays open, and the oldest of many is closed."""
        try:
            key = (path, path.stat().st_ino)
        except OSError as error:
            raise StoreUnavailable(f"{path} cannot be read: {error.strerror}") from error
        with self._lock:
            if (known := self._engines.pop(key, None)) is None:
                known = _open_recording(path)
                if len(self._engines) >= _KEPT:
                    self._engines.pop(next(iter(self._engines))).engine.dispose()
            self._engines[key] = known
            return known

    def _summary(self, path: Path) -> RecordingSummary:
        signature = file_signature(path)
        with self._lock:
            cached = self._seen.get(path)
        if cached is not None and cached[0] == signature:
            return cached[1]
        summary = self._catalogue.recall(path.name, signature)
        if summary is None:
            target = self._open(path)
            newest = target.newest()
            with target.read() as connection:
                summary = summarise_recording(connection, target.id, newest)
            if summary.run.state != "running":
                self._catalogue.remember(path.name, signature, summary)
        with self._lock:
            self._seen[path] = (signature, summary)
        return summary


def _rank_of(text: str) -> int:
    """Return the rank that a file's name tells; `s`, as in `ranks`, is the roll-up of all."""
    return ALL_RANKS if text == "s" else int(text)


def _rank_of_file(path: Path) -> int:
    match = _FILE.fullmatch(path.name)
    return _rank_of(match["rank"]) if match else 0


def sync_file(path: str) -> None:
    """Wait until a file, or the entries of a folder, are on the disk."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def run_of_file(path: Path) -> str:
    """Return the id of the run that a run file belongs to."""
    match = _FILE.fullmatch(path.name)
    return match["run"] if match else path.stem


def run_files(folder: Path) -> list[Path]:
    """Return the run files in a folder, by name."""
    return sorted(path for path in folder.glob("*.db") if _FILE.fullmatch(path.name))


def _with_note(summary: RecordingSummary, path: Path) -> RecordingSummary:
    """Return the summary with the signal that ended the process, if it left a note."""
    if summary.run.state != "running" or not (words := read_note(path.with_suffix(".end"))):
        return summary
    return replace(summary, run=replace(summary.run, error=words))


def _is_young(path: Path) -> bool:
    """Return whether the file changed so recently that its writer may still fill it; True for a deleted file."""
    try:
        return time.time() - path.stat().st_mtime < _YOUNG_S
    except OSError:
        return True


def _check_version(connection: Connection, path: Path) -> None:
    """Check that the file can be read; one that is empty although something was committed to it is damaged."""
    try:
        check_version(connection)
    except StoreUnfinished as error:
        if (newest := read_head(path)) is not None:
            raise StoreDamaged(
                f"{path} is damaged: its log (the file that ends in -wal) is missing or damaged, and with it the "
                f"newest {newest.records} records, up to step {newest.last_step}; restore it from a copy"
            ) from error
        raise


def _open_recording(path: Path) -> RankRecording:
    engine: Engine = file_reader(path)
    try:
        with store_errors(path), engine.connect() as connection, connection.begin():
            _check_version(connection, path)
            row = connection.execute(select(recording.c.id, recording.c.run, recording.c.rank)).first()
    except StoreError:
        engine.dispose()
        raise
    if row is None:
        engine.dispose()
        raise StoreDamaged(f"{path} holds no recording; delete it")
    rank = row.rank if isinstance(row.rank, int) else _rank_of_file(path)
    return RankRecording(row.run, rank, row.id, engine, str(path), partial(read_head, path))
