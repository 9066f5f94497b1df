"""The last word of every rank: what it communicates and does, written beside the run so that it outlives the rank.

A rank's heartbeat writes one document again and again. In a folder it lies in `<run>.rank<rank>.word`: two slots that
take turns, each with a checksum, so that a process that is killed while it writes leaves the word before. No lock, no
SQL and no `fsync` is needed: what a process has written survives its death in the cache of the kernel. Elsewhere the
word is the document `word-<rank>` of the control channel.
"""

import json
import os
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import xxhash

from .control_channel import ControlChannel
from .errors import StoreUnavailable
from .records import Json

__all__ = [
    "ChannelWords",
    "CollectiveCall",
    "CollectiveState",
    "FolderWords",
    "LastWord",
    "LastWords",
    "PassUse",
    "SiteUse",
    "ThreadStack",
    "is_of_backend",
    "longest_wait_s",
    "words_of",
]

#: `called`: the call has not returned; `enqueued`: nobody waits for it yet; `waiting`: inside `Work.wait`.
CollectiveState = Literal["called", "enqueued", "waiting", "completed", "failed"]


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """One collective of a rank.

    Args:
        number: Among the calls of the group, from 0; of `send` and `recv`, among those from one rank to another.
        operation: `all_reduce`, `barrier`.
        group: Name of the process group; of `send` and `recv`, of both ends (`storage/transfers.py`).
        sizes: Shapes of the inputs, or of the outputs where there is no input.
        dtype: Of the first tensor.
        detail: What else all ranks must agree on: `sum`, `src=0`.
        file, line: The user's line.
        step: In which it was called.
        began_at, ended_at: Seconds since 1970; `ended_at` is 0 while it lasts.
    """

    number: int
    operation: str
    group: str
    state: CollectiveState
    sizes: tuple[tuple[int, ...], ...] = ()
    dtype: str = ""
    detail: str = ""
    file: str = ""
    line: int = 0
    step: int = 0
    began_at: float = 0.0
    ended_at: float = 0.0

    @property
    def is_open(self) -> bool:
        """Whether a thread waits inside it."""
        return self.state in ("called", "waiting")


@dataclass(frozen=True, slots=True)
class SiteUse:
    """How often a rank has called a collective from one line.

    Args:
        calls: How often in all.
        first_step, last_step: Steps of the first and the last call.
    """

    operation: str
    group: str
    file: str
    line: int
    calls: int
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class PassUse:
    """How many batches a rank takes in a step from one line, or how many forward passes it runs there.

    Args:
        kind: `batch` or `forward`.
        file, line: The user's line.
        usual: The number in nearly all steps; 0 where there is none.
        more: The newest steps that took more, and how many.
    """

    kind: str
    file: str
    line: int
    usual: int
    more: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """What a thread does.

    Args:
        name: The thread's name.
        is_main: Whether it is the main thread.
        frames: (file, line, function), innermost first.
        system_call: The system call in which it waits, e.g. `futex`; empty if it runs or that is unknown.
        code: Text of the innermost line.
    """

    name: str
    is_main: bool
    frames: tuple[tuple[str, int, str], ...]
    system_call: str = ""
    code: str = ""


#: How errors of torch's communication read.
_OF_BACKEND: Final = re.compile(
    r"gloo|NCCL|ProcessGroup|DistBackend|monitoredBarrier|Connection (?:closed|reset) by peer", re.IGNORECASE
)


def is_of_backend(error: str) -> bool:
    """Return whether an error is one of torch's communication: another rank has left this one alone."""
    return bool(_OF_BACKEND.search(error))


@dataclass(frozen=True, slots=True)
class LastWord:
    """What a rank said last.

    Args:
        size: Ranks in all.
        writer: The process, as `storage.process.identity` gives it.
        at: When it was said, in seconds since 1970.
        phase: `training`, `finished` or `failed`.
        error: What ended the training.
        step: The step in progress.
        step_s: The median duration of a step; 0 while unknown.
        stalled_s: Since when neither a step nor a collective has begun or ended.
        groups: The ranks of every group that was used.
        calls: The newest collectives, oldest first, as our wrappers saw them.
        native: The same as PyTorch's Flight Recorder saw them, from a rank that stalls.
        sites: The lines that call collectives.
        passes: Lines that take batches or run forward passes.
        threads: Stacks, main thread first, of a rank that stalls or has ended.
        processor: Processor seconds per second of the process and its children, without the heartbeat's own.
        read_write: Bytes per second that it reads and writes.
        major_faults: Page faults per second that read from a disk.
        oom_kills: Processes that the kernel's out-of-memory killer had ended in this container by then.
        children: Descriptions of child processes of a rank that stalls, e.g. workers of a data loader.
        report: What this rank has reported of a hang.
    """

    rank: int
    size: int
    writer: str = ""
    at: float = 0.0
    phase: Literal["training", "finished", "failed"] = "training"
    error: str = ""
    step: int = 0
    step_s: float = 0.0
    stalled_s: float = 0.0
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    calls: tuple[CollectiveCall, ...] = ()
    native: tuple[CollectiveCall, ...] = ()
    sites: tuple[SiteUse, ...] = ()
    passes: tuple[PassUse, ...] = ()
    threads: tuple[ThreadStack, ...] = ()
    processor: float = 0.0
    read_write: float = 0.0
    major_faults: float = 0.0
    oom_kills: int = 0
    children: tuple[str, ...] = ()
    report: Mapping[str, Json] | None = None

    @property
    def open_call(self) -> CollectiveCall | None:
        """The oldest collective that a thread waits in."""
        return next((call for call in self.calls if call.is_open), None)

    @property
    def failed_call(self) -> CollectiveCall | None:
        """The collective whose error has ended the training; None if it ended in another way."""
        if self.phase != "failed":
            return None
        last = next((call for call in reversed(self.calls) if call.state != "enqueued"), None)
        if last is not None and last.state == "failed":
            return last
        if self.native and is_of_backend(self.error):  # as of DDP's reducer, which no wrapper sees
            return replace(self.native[-1], state="failed", ended_at=self.at)
        return None

    @property
    def main_thread(self) -> ThreadStack | None:
        """What the main thread does; None of a rank that does not stall."""
        return next((stack for stack in self.threads if stack.is_main), None)

    def encode(self) -> str:
        """Return the word as JSON, its records as rows without the names of their fields."""
        document = {name: getattr(self, name) for name in self.__slots__}
        document["calls"] = list(map(_CALL, self.calls))
        document["native"] = list(map(_CALL, self.native))
        document["sites"] = list(map(_SITE, self.sites))
        document["passes"] = list(map(_PASS, self.passes))
        document["threads"] = list(map(_THREAD, self.threads))
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | bytes) -> "LastWord":
        """Return the word of this JSON.

        Raises:
            ValueError: It is none.
        """
        try:
            fields: dict[str, Any] = json.loads(text)  # Any: JSON
            return cls(
                **{
                    **{name: value for name, value in fields.items() if name in cls.__slots__},
                    "groups": {name: tuple(ranks) for name, ranks in fields["groups"].items()},
                    "calls": tuple(map(_call, fields["calls"])),
                    "native": tuple(map(_call, fields["native"])),
                    "sites": tuple(SiteUse(*row) for row in fields["sites"]),
                    "passes": tuple(map(_pass, fields.get("passes", ()))),
                    "threads": tuple(map(_thread, fields["threads"])),
                    "children": tuple(fields["children"]),
                }
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"expected the last word of a rank, got {text[:80]!r}") from error


#: A wait for a collective is too long after ten median steps, but not before so many seconds; before the pace is known,
#: not before the second number: other ranks may compile, load data or warm up (our choice; NCCL itself waits 600 s).
_TIMES, _FLOOR_S, _FIRST_S = 10.0, 5.0, 30.0


def longest_wait_s(step_s: float) -> float:
    """Return from when on a wait for a collective is too long, in seconds.

    Args:
        step_s: The median duration of a step; 0 while unknown.
    """
    return max(_TIMES * step_s, _FLOOR_S) if step_s else _FIRST_S


_CALL: Final = attrgetter(*CollectiveCall.__slots__)
_SITE: Final = attrgetter(*SiteUse.__slots__)
_PASS: Final = attrgetter(*PassUse.__slots__)
_THREAD: Final = attrgetter(*ThreadStack.__slots__)


def _call(row: Sequence[Any]) -> CollectiveCall:
    number, operation, group, state, sizes, *rest = row
    return CollectiveCall(number, operation, group, state, tuple(map(tuple, sizes)), *rest)


def _pass(row: Sequence[Any]) -> PassUse:
    kind, file, line, usual, more = row
    return PassUse(kind, file, line, usual, tuple((step, count) for step, count in more))


def _thread(row: Sequence[Any]) -> ThreadStack:
    name, is_main, frames, *rest = row
    return ThreadStack(name, is_main, tuple((file, line, function) for file, line, function in frames), *rest)


class LastWords(Protocol):
    """The last words of the ranks of one run.

    Attributes:
        interval_s: How often a rank that goes on should say a word, in seconds.
    """

    interval_s: float

    def write(self, rank: int, text: str) -> None:
        """Replace the word of a rank.

        Raises:
            StoreUnavailable: It cannot be written.
        """

    def read(self, ranks: Iterable[int] | None = None) -> dict[int, LastWord]:
        """Return the words of these ranks, as far as there are any; None: of all that have one."""

    def close(self) -> None:
        """Release what is open."""


_HEADER: Final = struct.Struct("<4sIQQ")  # magic, length, count of writes, checksum
_MAGIC: Final = b"word"
#: Bytes of a slot (our choice: ten times what a rank with 8 threads says).
SLOT_BYTES: Final = 1 << 18


class FolderWords:
    """Words in files beside the run's own."""

    interval_s = 0.5

    def __init__(self, folder: Path, run: str) -> None:
        self._folder, self._run = folder, run
        self._files: dict[int, int] = {}
        self._writes = 0

    def write(self, rank: int, text: str) -> None:
        """Write into the slot that holds the older word; a longer text than fits is an error."""
        data = text.encode()
        if len(data) > SLOT_BYTES - _HEADER.size:
            raise StoreUnavailable(f"the last word of rank {rank} has {len(data)} bytes, at most {SLOT_BYTES} fit")
        try:
            if rank not in self._files:
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                self._files[rank] = os.open(self._path(rank), flags, 0o644)
                self._writes += self._written(self._files[rank])
            self._writes += 1
            header = _HEADER.pack(_MAGIC, len(data), self._writes, xxhash.xxh3_64_intdigest(data))
            os.pwrite(self._files[rank], header + data, (self._writes % 2) * SLOT_BYTES)
        except OSError as error:
            raise StoreUnavailable(f"{self._path(rank)} cannot be written: {error.strerror}") from error

    def read(self, ranks: Iterable[int] | None = None) -> dict[int, LastWord]:
        """Return the newer whole word of each file."""
        found = {}
        for rank in self._ranks() if ranks is None else ranks:
            try:
                content = self._path(rank).read_bytes()
            except OSError:
                continue
            if (text := _newest(content)) is not None:
                found[rank] = LastWord.decode(text)
        return found

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file)
        self._files = {}

    def _written(self, file: int) -> int:
        """Return how often the word was written by a process that had it before."""
        slots = [os.pread(file, _HEADER.size, start) for start in (0, SLOT_BYTES)]
        counts = [_HEADER.unpack(slot)[2] for slot in slots if len(slot) == _HEADER.size and slot.startswith(_MAGIC)]
        return max(counts, default=0)

    def _ranks(self) -> list[int]:
        names = [path.name.removesuffix(".word") for path in self._folder.glob(f"{self._run}.rank*.word")]
        ranks = [name.rpartition(".rank")[2] for name in names]
        return sorted(int(rank) for rank in ranks if rank.isdigit())

    def _path(self, rank: int) -> Path:
        return self._folder / f"{self._run}.rank{rank}.word"


def _newest(content: bytes) -> bytes | None:
    """Return the newest word that is whole; None if there is none."""
    found = []
    for start in (0, SLOT_BYTES):
        if len(content) >= start + _HEADER.size:
            magic, length, count, checksum = _HEADER.unpack_from(content, start)
            data = content[start + _HEADER.size : start + _HEADER.size + length]
            if magic == _MAGIC and len(data) == length and xxhash.xxh3_64_intdigest(data) == checksum:
                found.append((count, data))
    return max(found)[1] if found else None


class ChannelWords:
    """Words as documents of the control channel: rows of a database, or entries in memory.

    Args:
        ranks: Whose words are read.
    """

    interval_s = 2.0

    def __init__(self, channel: ControlChannel, ranks: Iterable[int]) -> None:
        self._channel, self._ranks = channel, tuple(ranks)

    def write(self, rank: int, text: str) -> None:
        """Post the word."""
        self._channel.post(f"word-{rank}", {"text": text})

    def read(self, ranks: Iterable[int] | None = None) -> dict[int, LastWord]:
        """Return the words that are posted."""
        found = {}
        for rank in self._ranks if ranks is None else ranks:
            if (document := self._channel.read(f"word-{rank}")) is not None:
                found[rank] = LastWord.decode(str(document["text"]))
        return found

    def close(self) -> None:
        """Do nothing: the channel belongs to the store."""


def words_of(url: str, channel: ControlChannel, run: str, ranks: Iterable[int]) -> FolderWords | ChannelWords:
    """Return the words of a run of the store at this URL."""
    if "://" in url or url == "memory:":
        return ChannelWords(channel, ranks)
    return FolderWords(Path(url).expanduser(), run)
