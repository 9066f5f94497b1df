"""The catalogue of a folder: names, tags and remarks of runs, and a cache of the summaries of run files.

`catalogue.db` may be deleted at any time: summaries are read again from the run files; only tags and remarks are lost.
"""

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, select

from ..encoding.checksums import seal_text, unseal_text
from ..encoding.record_codec import from_json, to_json
from ..errors import StoreError
from ..records import Json
from ..schema.connect import file_reader, file_writer, store_errors
from ..schema.table_definitions import annotation, listed, muted, people
from ..schema.table_definitions import folder as folder_tables
from .rank_recording import RecordingSummary, RunNote, read_summary, summary_text

_log = logging.getLogger(__name__)
Signature = tuple[int, ...]


@dataclass(slots=True)
class _Content:
    """The content of the catalogue when its file had that signature."""

    signature: Signature
    notes: dict[str, RunNote] = field(default_factory=dict)
    listed: dict[str, tuple[str, str]] = field(default_factory=dict)


class Catalogue:
    """The notes of people on the runs of a folder, and the summaries of run files when they were last read."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "catalogue.db"
        self._engine: Engine | None = None
        self._content = _Content(())

    def note(self, run: str) -> RunNote:
        """Return the note of a run; an empty one when the catalogue cannot be read."""
        return self._read().notes.get(run, RunNote())

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Change the values that are not None."""
        with store_errors(self._path), self._writer().begin() as connection:
            write_note(connection, run, name, tags, remark)

    def mute(self, run: str, rule: str, site: str, hide: bool) -> None:
        """Hide the findings of a rule at a site, or show them again."""
        with store_errors(self._path), self._writer().begin() as connection:
            write_mute(connection, run, rule, site, hide)

    def forget(self, run: str) -> None:
        """Remove the note of a run."""
        if self._path.exists():
            with store_errors(self._path), self._writer().begin() as connection:
                forget_notes(connection, run)

    def recall(self, file: str, signature: Signature) -> RecordingSummary | None:
        """Return the cached summary of a run file, if the file has not changed since."""
        known = self._read().listed.get(file)
        if known is None or known[0] != to_json(signature):
            return None
        try:
            return read_summary(unseal_text(known[1], file, known[0]))
        except (StoreError, ValueError, KeyError, TypeError):  # damaged, or of an older version
            return None

    def remember(self, file: str, signature: Signature, summary: RecordingSummary) -> None:
        """Cache the summary of a run file; do nothing when the catalogue cannot be written."""
        if not os.access(self._path.parent, os.W_OK):
            return
        signed = to_json(signature)
        row = {"file": file, "signature": signed, "summary": seal_text(summary_text(summary), file, signed)}
        try:
            with store_errors(self._path), self._writer().begin() as connection:
                connection.execute(listed.delete().where(listed.c.file == file))
                connection.execute(listed.insert().values(**row))
        except StoreError as error:
            _log.debug("the catalogue cannot cache %s: %s", file, error)

    def close(self) -> None:
        """Close the file."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _read(self) -> _Content:
        """Return the whole catalogue, read again only when its file has changed."""
        now = file_signature(self._path)
        if now != self._content.signature:
            self._content = _Content(now)
            if self._path.exists():
                try:
                    self._content = self._load(now)
                except StoreError as error:
                    _log.warning("the catalogue cannot be read, tags and remarks are not shown: %s", error)
        return self._content

    def _load(self, signature: Signature) -> _Content:
        engine = file_reader(self._path)
        try:
            with store_errors(self._path), engine.connect() as connection, connection.begin():
                notes = read_notes(connection)
                rows = connection.execute(select(listed)).all()
        finally:
            engine.dispose()
        return _Content(signature, notes, {file: (known, text) for file, known, text in rows})

    def _writer(self) -> Engine:
        if self._engine is None:
            self._engine = file_writer(self._path)
            with self._engine.begin() as connection:
                people.create_all(connection)
                folder_tables.create_all(connection)
        return self._engine


def file_signature(path: Path) -> Signature:
    """Return numbers that change when a database file or its log does."""
    parts: list[int] = []
    for name in (path, Path(f"{path}-wal")):
        try:
            stat = name.stat()
            parts += [stat.st_ino, stat.st_size, stat.st_mtime_ns]
        except OSError:
            parts.append(0)
    return tuple(parts)


def read_notes(connection: Connection, runs: Collection[str] | None = None) -> dict[str, RunNote]:
    """Return the note on each of these runs; of all that have one where none is named."""
    of_people, of_rules = select(annotation), select(muted)
    if runs is not None:
        of_people, of_rules = of_people.where(annotation.c.run.in_(runs)), of_rules.where(muted.c.run.in_(runs))
    hidden: dict[str, set[tuple[str, str]]] = {}
    for run, rule, site in connection.execute(of_rules):
        hidden.setdefault(run, set()).add((rule, site))
    given = {row.run: row for row in connection.execute(of_people)}
    asked = {*given, *hidden} if runs is None else runs
    return {run: _note(given.get(run), frozenset(hidden.get(run, ()))) for run in asked}


def _note(row: Any, hidden: frozenset[tuple[str, str]]) -> RunNote:
    if row is None:
        return RunNote(muted=hidden)
    return RunNote(row.name, None if row.tags is None else from_json(row.tags), row.remark, row.revision, hidden)


def write_note(
    connection: Connection, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None
) -> None:
    """Change the values that are not None."""
    new = {"name": name, "tags": None if tags is None else to_json(dict(tags)), "remark": remark}
    changed = {key: value for key, value in new.items() if value is not None}
    done = connection.execute(
        annotation.update().where(annotation.c.run == run).values(revision=annotation.c.revision + 1, **changed)
    )
    if not done.rowcount:
        connection.execute(annotation.insert().values(run=run, revision=1, **changed))


def write_mute(connection: Connection, run: str, rule: str, site: str, hide: bool) -> None:
    """Hide the findings of a rule at a site, or show them again."""
    same = (muted.c.run == run) & (muted.c.rule == rule) & (muted.c.site == site)
    connection.execute(muted.delete().where(same))
    if hide:
        connection.execute(muted.insert().values(run=run, rule=rule, site=site))
    write_note(connection, run, None, None, None)


def forget_notes(connection: Connection, run: str) -> None:
    """Remove the note of a run."""
    connection.execute(annotation.delete().where(annotation.c.run == run))
    connection.execute(muted.delete().where(muted.c.run == run))
