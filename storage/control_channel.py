"""Small documents between a running training and its observers: settings, commands and the training's state.

    set       settings that a person has requested with `mindscope set`
    command   what `mindscope attach` requests: pause, step, continue, show a tensor
    state     the step of a training that can be attached to, and the tensors that it shows

Each topic holds one document; a new one replaces the one before. In a folder the documents are files beside the run
(`<run>.<topic>.yaml`), in PostgreSQL rows, in memory a dictionary. There are no notifications: a reader compares the
`stamp` of a topic, which costs a stat call or a query.

`command` holds a number, the action `do` (`pause`, `step`, `continue`, `stop`, `show`) and its arguments. `state` holds
the number of the last command that was obeyed, the step of the training, why it waits, and the tensors that it shows.
A training reads commands at the end of its steps. `set` holds a list of changes, in the order of the requests:

    changes:
    - modules: [encoder.*]
    - every: 7

Each is applied alone, so that the training can refuse one and apply those after it. The value `{}` removes what was
set for that key and below it. A document without `changes` is one change.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import yaml
from sqlalchemy import Engine, inspect, select

from .bounded_yaml import MOST_BYTES, BoundedLoader
from .encoding.record_codec import from_json, to_json
from .errors import StoreUnavailable
from .schema.connect import store_errors
from .schema.table_definitions import control_document, server

#: The content of a topic: plain values, as JSON and YAML know them. Any: the reader checks it.
Document = Mapping[str, Any]


class ControlChannel(Protocol):
    """The documents of one run."""

    def post(self, topic: str, content: Document) -> None:
        """Replace the document of a topic.

        Raises:
            StoreUnavailable: The document cannot be written.
        """

    def read(self, topic: str) -> Document | None:
        """Return the document of a topic; None when there is none.

        Raises:
            StoreUnavailable: The document cannot be read, or is damaged.
        """

    def stamp(self, topic: str) -> object:
        """Return a value that changes with every post; None while there is no document."""


class MemoryChannel:
    """Documents of a run in memory."""

    def __init__(self) -> None:
        self._documents: dict[str, tuple[int, Document]] = {}

    def post(self, topic: str, content: Document) -> None:
        """Replace the document of a topic."""
        number, _ = self._documents.get(topic, (0, {}))
        self._documents[topic] = (number + 1, dict(content))

    def read(self, topic: str) -> Document | None:
        """Return the document of a topic."""
        return self._documents[topic][1] if topic in self._documents else None

    def stamp(self, topic: str) -> object:
        """Return the number of posts."""
        return self._documents[topic][0] if topic in self._documents else None


class FolderChannel:
    """Documents as files beside the run's own.

    Args:
        folder: The folder of the run.
        run: The run's id.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self._folder, self._run = folder, run

    def post(self, topic: str, content: Document) -> None:
        """Replace the file atomically."""
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
        """Return the content of the file."""
        path = self._path(topic)
        try:
            with path.open("rb") as file:
                content = yaml.load(file.read(MOST_BYTES).decode(), BoundedLoader)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise StoreUnavailable(f"{path} cannot be read: {error}") from error
        if not isinstance(content, dict):
            raise StoreUnavailable(f"{path} must hold keys and values, got {type(content).__name__}")
        return content

    def stamp(self, topic: str) -> object:
        """Return identity, time and size of the file."""
        try:
            known = self._path(topic).stat()
        except OSError:
            return None
        return known.st_ino, known.st_mtime_ns, known.st_size

    def clear(self) -> None:
        """Remove every document."""
        for path in self._folder.glob(f"{self._run}.*.yaml"):
            path.unlink(missing_ok=True)

    def _path(self, topic: str) -> Path:
        return self._folder / f"{self._run}.{topic}.yaml"


#: Polls in a row that a busy connection may answer with the stamps before: those of two topics, two times.
_MOST_SKIPPED = 4


class DatabaseChannel:
    """Documents as rows; the first post creates their table.

    Args:
        engine: An engine of the database; the caller closes it.
        run: The run's id.
        location: The name of the database in errors.
        is_busy: Whether the engine's only connection is in use: then `stamp` returns what it returned before, so that
            a training that polls does not wait for the writer. It does so a few times only.
    """

    def __init__(self, engine: Engine, run: str, location: str, is_busy: Callable[[], bool] = lambda: False) -> None:
        self._engine, self._run, self._location = engine, run, location
        self._is_there = False
        self._is_busy = is_busy
        self._stamps: dict[str, object] = {}
        self._skipped = 0

    def post(self, topic: str, content: Document) -> None:
        """Replace the row."""
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415  a tenth of the start, and only servers need it

        with store_errors(self._location), self._engine.begin() as connection:
            server.create_all(connection)
            text = to_json(dict(content))
            first = insert(control_document).values(run=self._run, topic=topic, number=1, content=text)
            again = {"number": control_document.c.number + 1, "content": text}
            connection.execute(first.on_conflict_do_update(index_elements=["run", "topic"], set_=again))

    def read(self, topic: str) -> Document | None:
        """Return the content of the row."""
        if not self._has_table():
            return None
        with store_errors(self._location), self._engine.begin() as connection:
            text = connection.execute(select(control_document.c.content).where(self._row(topic))).scalar()
        return None if text is None else from_json(text)

    def stamp(self, topic: str) -> object:
        """Return the number of posts."""
        if topic in self._stamps and self._skipped < _MOST_SKIPPED and self._is_busy():
            self._skipped += 1
            return self._stamps[topic]
        self._skipped = 0
        self._stamps[topic] = self._stored_stamp(topic)
        return self._stamps[topic]

    def _stored_stamp(self, topic: str) -> object:
        if not self._has_table():
            return None
        with store_errors(self._location), self._engine.begin() as connection:
            return connection.execute(select(control_document.c.number).where(self._row(topic))).scalar()

    def clear(self) -> None:
        """Remove every document."""
        if self._has_table():
            with store_errors(self._location), self._engine.begin() as connection:
                connection.execute(control_document.delete().where(control_document.c.run == self._run))

    def _row(self, topic: str) -> Any:  # Any: a clause of SQLAlchemy, whose type depends on the columns'
        return (control_document.c.run == self._run) & (control_document.c.topic == topic)

    def _has_table(self) -> bool:
        if not self._is_there:
            with store_errors(self._location), self._engine.begin() as connection:
                self._is_there = inspect(connection).has_table(control_document.name)
        return self._is_there


COMMAND: Final = "command"
STATE: Final = "state"

Action = Literal["pause", "step", "continue", "stop", "show"]
#: Seconds between two polls for an answer.
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The state that a training has posted.

    Args:
        state: `running`, `paused` or `stopped`; `running` also if the training never posted a state.
        step: The last finished step; -1 if the training never posted a state.
        why: Why the training waits.
        obeyed: Number of the last command that the training obeyed.
        tensors: The tensors to show, by site: shape, dtype, extremes and the first values, or an `error`.
    """

    state: str = "running"
    step: int = -1
    why: str = ""
    obeyed: int = 0
    tensors: Mapping[str, Any] = field(default_factory=dict)  # Any: numbers, words and lists, as JSON knows them


def state_of(channel: ControlChannel) -> TrainingState:
    """Return the state that the training has posted.

    Raises:
        StoreUnavailable: The channel cannot be read.
    """
    found = channel.read(STATE)
    return TrainingState() if found is None else TrainingState(**found)


def send(channel: ControlChannel, do: Action, *, steps: int = 1, subject: str = "weight", sites: str = "*") -> int:
    """Send a command and return its number; the training finds it at the end of its step.

    Args:
        steps: For `step`: how many steps the training makes before it waits again.
        subject: For `show`: `weight` or `gradient`.
        sites: For `show`: a glob.

    Raises:
        StoreUnavailable: The channel cannot be written.
    """
    before = channel.read(COMMAND)
    number = 1 + (0 if before is None else int(before["number"]))
    channel.post(COMMAND, {"number": number, "do": do, "steps": steps, "subject": subject, "sites": sites})
    return number


def wait_for(
    channel: ControlChannel,
    number: int,
    timeout_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> TrainingState | None:
    """Wait until the command with this number is obeyed and return the state; return None after the timeout."""
    end = clock() + timeout_s
    while (state := state_of(channel)).obeyed < number:
        if clock() >= end:
            return None
        sleep(_POLL_S)
    return state


#: The topic of the settings.
SETTINGS: Final = "set"
_CHANGES: Final = "changes"

Fields = Mapping[str, Any]  # Any: plain values, as JSON and YAML know them; the reader checks them


def requested_settings(channel: ControlChannel) -> tuple[Fields, ...]:
    """Return all settings that were requested of the run, oldest first.

    Raises:
        StoreUnavailable: The channel cannot be read, or holds something else.
    """
    document = channel.read(SETTINGS)
    if document is None:
        return ()
    changes = document.get(_CHANGES, [document])
    if not isinstance(changes, list) or not all(isinstance(change, Mapping) for change in changes):
        raise StoreUnavailable(f"the settings of the run must be a list of keys with their values, got {changes!r}")
    return tuple(changes)


def request_settings(channel: ControlChannel, fields: Fields) -> None:
    """Append one change to the requested settings.

    Raises:
        StoreUnavailable: The channel cannot be read or written.
    """
    channel.post(SETTINGS, {_CHANGES: [*map(dict, requested_settings(channel)), dict(fields)]})


def combined_settings(changes: Iterable[Fields]) -> dict[str, Any]:
    """Return the settings after all changes."""
    fields: dict[str, Any] = {}
    for change in changes:
        fields = overlay_settings(fields, change)
    return fields


def overlay_settings(below: Fields, above: Fields) -> dict[str, Any]:
    """Return the fields of both; keys below the same key are merged too, and `{}` removes a setting."""
    merged = dict(below)
    for name, value in above.items():
        inner = merged.get(name)
        if value == {}:
            merged.pop(name, None)
        elif not isinstance(value, Mapping):
            merged[name] = value
        elif both := overlay_settings(inner if isinstance(inner, Mapping) else {}, value):
            merged[name] = both
        elif isinstance(inner, Mapping):
            merged.pop(name)
    return merged
