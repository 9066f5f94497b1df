"""Small documents between a running training and those who look at it: one a topic, the newest replaces the one before.

    set       what `mindscope set` wants recorded from now on
    command   what `mindscope attach` wants done: pause, step, continue, show a tensor
    state     where a training that can be attached to is, and what it was asked to show

In a folder they are files beside the run (`<run>.<topic>.yaml`), in PostgreSQL rows, in memory a dictionary. Nobody is
woken: who waits for a topic compares its `stamp`, which costs a stat call or a query.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml
from sqlalchemy import Engine, inspect, select
from sqlalchemy.dialects.postgresql import insert

from ..encoding.text import from_json, to_json
from ..errors import StoreUnavailable
from ..schema.connect import in_our_words
from ..schema.tables import letter, server

__all__ = ["DatabaseMailbox", "FolderMailbox", "Mailbox", "MemoryMailbox"]

#: What stands in a topic: plain values, as JSON and YAML know them. Any: the reader checks it.
Document = Mapping[str, Any]


class Mailbox(Protocol):
    """The documents of one run."""

    def post(self, topic: str, content: Document) -> None:
        """Replaces what stands there.

        Raises:
            StoreUnavailable: It cannot be written.
        """

    def read(self, topic: str) -> Document | None:
        """What stands there; None when nothing does.

        Raises:
            StoreUnavailable: It cannot be read, or is no document.
        """

    def stamp(self, topic: str) -> object:
        """Something that differs after every post; None while nothing stands there."""


class MemoryMailbox:
    """Documents of a run that lives in memory."""

    def __init__(self) -> None:
        self._documents: dict[str, tuple[int, Document]] = {}

    def post(self, topic: str, content: Document) -> None:
        """Replaces what stands there."""
        number, _ = self._documents.get(topic, (0, {}))
        self._documents[topic] = (number + 1, dict(content))

    def read(self, topic: str) -> Document | None:
        """What stands there."""
        return self._documents[topic][1] if topic in self._documents else None

    def stamp(self, topic: str) -> object:
        """How often something was posted."""
        return self._documents[topic][0] if topic in self._documents else None


class FolderMailbox:
    """Documents as files beside a run's own.

    Args:
        folder: Where the run is.
        run: Its id.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self._folder, self._run = folder, run

    def post(self, topic: str, content: Document) -> None:
        """Writes the file whole or not at all."""
        path = self._path(topic)
        waiting = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            waiting.write_text(yaml.safe_dump(dict(content), sort_keys=False), encoding="utf-8")
            waiting.replace(path)
        except OSError as error:
            waiting.unlink(missing_ok=True)
            raise StoreUnavailable(f"{path} cannot be written: {error.strerror}") from error

    def read(self, topic: str) -> Document | None:
        """What stands in the file."""
        path = self._path(topic)
        try:
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise StoreUnavailable(f"{path} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise StoreUnavailable(f"{path} must hold keys and values, got {type(content).__name__}")
        return content

    def stamp(self, topic: str) -> object:
        """Identity, time and size of the file."""
        try:
            known = self._path(topic).stat()
        except OSError:
            return None
        return known.st_ino, known.st_mtime_ns, known.st_size

    def clear(self) -> None:
        """Removes every document."""
        for path in self._folder.glob(f"{self._run}.*.yaml"):
            path.unlink(missing_ok=True)

    def _path(self, topic: str) -> Path:
        return self._folder / f"{self._run}.{topic}.yaml"


class DatabaseMailbox:
    """Documents as rows; their table is made with the first of them.

    Args:
        engine: Reaches the database; not closed here.
        run: The run's id.
        place: What errors call the database.
    """

    def __init__(self, engine: Engine, run: str, place: str) -> None:
        self._engine, self._run, self._place = engine, run, place
        self._is_there = False

    def post(self, topic: str, content: Document) -> None:
        """Replaces the row."""
        with in_our_words(self._place), self._engine.begin() as connection:
            server.create_all(connection)
            text = to_json(dict(content))
            first = insert(letter).values(run=self._run, topic=topic, number=1, content=text)
            again = {"number": letter.c.number + 1, "content": text}
            connection.execute(first.on_conflict_do_update(index_elements=["run", "topic"], set_=again))

    def read(self, topic: str) -> Document | None:
        """What stands in the row."""
        if not self._has_table():
            return None
        with in_our_words(self._place), self._engine.begin() as connection:
            text = connection.execute(select(letter.c.content).where(self._row(topic))).scalar()
        return None if text is None else from_json(text)

    def stamp(self, topic: str) -> object:
        """How often something was posted."""
        if not self._has_table():
            return None
        with in_our_words(self._place), self._engine.begin() as connection:
            return connection.execute(select(letter.c.number).where(self._row(topic))).scalar()

    def clear(self) -> None:
        """Removes every document."""
        if self._has_table():
            with in_our_words(self._place), self._engine.begin() as connection:
                connection.execute(letter.delete().where(letter.c.run == self._run))

    def _row(self, topic: str) -> Any:  # Any: a clause of SQLAlchemy, whose type depends on the columns'
        return (letter.c.run == self._run) & (letter.c.topic == topic)

    def _has_table(self) -> bool:
        if not self._is_there:
            with in_our_words(self._place), self._engine.begin() as connection:
                self._is_there = inspect(connection).has_table(letter.name)
        return self._is_there
