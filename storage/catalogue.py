"""The catalogue of a folder: what people add to runs, kept; what the run files say, cached.

`catalogue.db` may be deleted at any time: the cache is read again from the run files, tags and remarks are lost.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, Engine, select

from .connect import file_writer, in_our_words
from .errors import StoreError
from .recording import Note
from .records import Json
from .rows import from_json, to_json
from .tables import annotation, muted, people

_log = logging.getLogger(__name__)


class Catalogue:
    """Notes of people on the runs of a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "catalogue.db"
        self._engine: Engine | None = None

    def note(self, run: str) -> Note:
        """What people have added to a run; nothing where the catalogue cannot be read."""
        if self._engine is None and not self._path.exists():
            return Note()
        try:
            with in_our_words(self._path), self._writer().begin() as connection:
                return read_note(connection, run)
        except StoreError as error:
            _log.warning("the catalogue cannot be read, tags and remarks are not shown: %s", error)
            return Note()

    def annotate(self, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None) -> None:
        """Changes what is not None."""
        with in_our_words(self._path), self._writer().begin() as connection:
            write_note(connection, run, name, tags, remark)

    def mute(self, run: str, rule: str, site: str, hide: bool) -> None:
        """Hides the findings of a rule at a site, or shows them again."""
        with in_our_words(self._path), self._writer().begin() as connection:
            write_mute(connection, run, rule, site, hide)

    def forget(self, run: str) -> None:
        """Removes what was added to a run."""
        if self._engine is None and not self._path.exists():
            return
        with in_our_words(self._path), self._writer().begin() as connection:
            forget_notes(connection, run)

    def close(self) -> None:
        """Lets go of the file."""
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    def _writer(self) -> Engine:
        if self._engine is None:
            self._engine = file_writer(self._path)
            with self._engine.begin() as connection:
                people.create_all(connection)
        return self._engine


def read_note(connection: Connection, run: str) -> Note:
    """The note on a run."""
    hidden = connection.execute(select(muted.c.rule, muted.c.site).where(muted.c.run == run)).all()
    pairs = frozenset((rule, site) for rule, site in hidden)
    row = connection.execute(select(annotation).where(annotation.c.run == run)).one_or_none()
    if row is None:
        return Note(muted=pairs)
    return Note(row.name, None if row.tags is None else from_json(row.tags), row.remark, row.revision, pairs)


def write_note(
    connection: Connection, run: str, name: str | None, tags: Mapping[str, Json] | None, remark: str | None
) -> None:
    """Changes what is not None."""
    new = {"name": name, "tags": None if tags is None else to_json(dict(tags)), "remark": remark}
    changed = {key: value for key, value in new.items() if value is not None}
    done = connection.execute(
        annotation.update().where(annotation.c.run == run).values(revision=annotation.c.revision + 1, **changed)
    )
    if not done.rowcount:
        connection.execute(annotation.insert().values(run=run, revision=1, **changed))


def write_mute(connection: Connection, run: str, rule: str, site: str, hide: bool) -> None:
    """Hides the findings of a rule at a site, or shows them again."""
    same = (muted.c.run == run) & (muted.c.rule == rule) & (muted.c.site == site)
    connection.execute(muted.delete().where(same))
    if hide:
        connection.execute(muted.insert().values(run=run, rule=rule, site=site))
    write_note(connection, run, None, None, None)


def forget_notes(connection: Connection, run: str) -> None:
    """Removes what was added to a run."""
    connection.execute(annotation.delete().where(annotation.c.run == run))
    connection.execute(muted.delete().where(muted.c.run == run))
