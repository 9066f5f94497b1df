"""A folder of run files, `<run>.rank<k>.db`, one SQLite file a rank; also one such file alone."""

import logging
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy import Engine, select

from ..errors import StoreDamaged, StoreError, StoreTooNew, StoreUnavailable, StoreUnfinished, in_one_line
from ..history.retention import Retention
from ..mail.mailbox import FolderMailbox
from ..records import Finding, Json
from ..run import Run
from ..schema.changes import mark_changed
from ..schema.connect import file_reader, file_writer, in_our_words
from ..schema.migrations import check_version, upgrade
from ..schema.tables import recording
from ..store import RunWriter
from ..tensors.blobs import blobs_of
from .catalogue import Catalogue, Signature, file_signature
from .claim import claim
from .rare import write_findings
from .recorder import Recorder
from .recording import Note, Recording, Summary, summarise_recording
from .runfile import RunFile

_log = logging.getLogger(__name__)
_FILE = re.compile(r"(?P<run>.+)\.rank(?P<rank>\d+)\.db")
#: Files whose connections are kept open for reading.
_KEPT = 32
#: A file without tables is being made when it changed so lately (our choice; making one takes under a second).
_YOUNG_S = 60.0


class Folder:
    """The `Library` of a folder; with `only`, of one run file in it."""

    def __init__(self, folder: Path, url: str, only: Path | None = None, *, retention: Retention) -> None:
        self.url = url
        self._folder = folder
        self._only = only
        self._retention = retention
        self._catalogue = Catalogue(folder)
        self._engines: dict[tuple[Path, int], Recording] = {}
        self._seen: dict[Path, tuple[Signature, Summary]] = {}
        self._lock = threading.RLock()

    def run_ids(self) -> Sequence[str]:
        """The runs, newest first by their ids."""
        return sorted({run for run, _, _ in self._files()}, reverse=True)

    def recordings(self, run: str) -> tuple[Recording, ...]:
        """The ranks of a run, ascending; none for an unknown run."""
        return tuple(self._open(path) for _, path in self._ranks(run))

    def summaries(self, run: str) -> tuple[Summary, ...]:
        """What the ranks of a run say about themselves.

        A file that cannot be read is left out with a warning, one that is just being made without.

        Raises:
            StoreDamaged, StoreTooNew: No other rank of the run can be read either.
        """
        found: list[Summary] = []
        unreadable: list[StoreDamaged | StoreTooNew] = []
        for _, path in self._ranks(run):
            try:
                found.append(self._summary(path))
            except (StoreDamaged, StoreTooNew) as error:
                if not (isinstance(error, StoreUnfinished) and _is_young(path)):
                    unreadable.append(error)
        if unreadable and not found:
            raise in_one_line(f"run {run!r}", unreadable)
        for one in unreadable:
            _log.warning("%s", one)
        return tuple(found)

    def note(self, run: str) -> Note:
        """What people have added to a run."""
        return self._catalogue.note(run)

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Changes what is not None."""
        self._catalogue.annotate(run, name, tags, remark)

    def mute(self, run: str, rule: str, site: str, muted: bool) -> None:
        """Hides the findings of a rule at a site, or shows them again."""
        self._catalogue.mute(run, rule, site, muted)

    def begin(self, run: Run, rank: int) -> RunWriter:
        """Makes or joins the recording of a rank.

        Raises:
            StoreUnavailable: The folder cannot be written, or another writer has the rank.
        """
        if self._only is not None:
            raise StoreUnavailable(f"{self._only} is one run's file; open its folder {self._folder} to begin a run")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be made: {error.strerror}; give another folder") from error
        path = self._folder / f"{run.id}.rank{rank}.db"
        engine = file_writer(path)
        try:
            with in_our_words(path), engine.begin() as connection:
                upgrade(connection)
                number, begun = claim(connection, run, rank, str(path))
            target = Recording(run.id, rank, number, engine, str(path))
            return Recorder(target, begun, RunFile(path, engine), self._retention)
        except BaseException:
            engine.dispose()
            raise

    def add_findings(self, target: Recording, findings: Sequence[Finding]) -> None:
        """Adds findings to a recording, beside its writer if there is one."""
        engine = file_writer(Path(target.place))
        try:
            with in_our_words(target.place), engine.begin() as connection:
                write_findings(connection, target.id, findings)
                mark_changed(connection, target.id)
        finally:
            engine.dispose()

    def mailbox(self, run: str) -> FolderMailbox:
        """Documents as files beside the run's own."""
        return FolderMailbox(self._folder, run)

    def delete(self, run: str) -> None:
        """Removes the files of a run."""
        for _, path in self._ranks(run):
            with self._lock:
                for key in [key for key in self._engines if key[0] == path]:
                    self._engines.pop(key).engine.dispose()
                self._seen.pop(path, None)
            try:
                for ending in ("", "-wal", "-shm", "-ballast"):
                    Path(f"{path}{ending}").unlink(missing_ok=True)
            except OSError as error:
                raise StoreUnavailable(f"{path} cannot be deleted: {error.strerror}") from error
        blobs_of(str(self._folder), run).remove()
        self.mailbox(run).clear()
        self._catalogue.forget(run)

    def close(self) -> None:
        """Lets go of every connection."""
        with self._lock:
            for one in self._engines.values():
                one.engine.dispose()
            self._engines.clear()
        self._catalogue.close()

    def _files(self, run: str = "") -> list[tuple[str, int, Path]]:
        """(run, rank, path) of every run file, or of those of one run."""
        try:
            names = [self._only.name] if self._only is not None else os.listdir(self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailable(f"{self._folder} cannot be read: {error.strerror}") from error
        matches = (match for name in names if name.startswith(run) and (match := _FILE.fullmatch(name)))
        return sorted((match["run"], int(match["rank"]), self._folder / match[0]) for match in matches)

    def _ranks(self, run: str) -> list[tuple[int, Path]]:
        return [(rank, path) for name, rank, path in self._files(run) if name == run]

    def _open(self, path: Path) -> Recording:
        """The recording in a file; its engine is kept, the oldest of many is let go."""
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

    def _summary(self, path: Path) -> Summary:
        signature = file_signature(path)
        with self._lock:
            cached = self._seen.get(path)
        if cached is not None and cached[0] == signature:
            return cached[1]
        summary = self._catalogue.recall(path.name, signature)
        if summary is None:
            one = self._open(path)
            with one.read() as connection:
                summary = summarise_recording(connection, one.id)
            if summary.run.state != "running":
                self._catalogue.remember(path.name, signature, summary)
        with self._lock:
            self._seen[path] = (signature, summary)
        return summary


def run_files(folder: Path) -> list[Path]:
    """The run files in a folder, by name."""
    return sorted(path for path in folder.glob("*.db") if _FILE.fullmatch(path.name))


def _is_young(path: Path) -> bool:
    """True when the file changed so lately that its writer may be about to fill it; also when it is gone again."""
    try:
        return time.time() - path.stat().st_mtime < _YOUNG_S
    except OSError:
        return True


def _open_recording(path: Path) -> Recording:
    engine: Engine = file_reader(path)
    try:
        with in_our_words(path), engine.connect() as connection, connection.begin():
            check_version(connection)
            row = connection.execute(select(recording.c.id, recording.c.run, recording.c.rank)).first()
    except StoreError:
        engine.dispose()
        raise
    if row is None:
        engine.dispose()
        raise StoreDamaged(f"{path} holds no recording; delete it")
    return Recording(row.run, row.rank, row.id, engine, str(path))
