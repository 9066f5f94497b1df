"""Reads one trace file into columns: what each event is, when, on which lane, and what joins it to others."""

import math
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import UnreadableTrace
from .begin_end_pairs import BeginEndPairs
from .json_stream import JsonStream

__all__ = ["EVENT", "CollectiveCall", "TraceFile", "read_trace_file"]

#: One event. `name`, `category` and `lane` number the entries of the file's tables, `call` its collective calls; -1 is
#: none. Times in microseconds; `size` is the number of elements that the operation got, NaN where unknown.
EVENT: Final = np.dtype(
    [
        ("start", "f8"),
        ("duration", "f8"),
        ("name", "i4"),
        ("category", "i4"),
        ("lane", "i4"),
        ("stream", "i4"),
        ("device", "i4"),
        ("correlation", "i8"),
        ("bytes", "f8"),
        ("bandwidth", "f8"),
        ("call", "i4"),
        ("size", "f8"),
    ]
)
#: Events of one file (our choice: a gigabyte of columns, some 4 GB of JSON).
_MOST_EVENTS: Final = 10_000_000
_BATCH: Final = 65_536
#: Which input of an operation says how much it was given: the tokens of an embedding, the rows of a product.
_SIZED: Final = {"aten::embedding": 1, "aten::linear": 0, "aten::mm": 0, "aten::addmm": 1, "aten::conv2d": 0}
#: What is read of the head of a file, beside the events.
_HEAD: Final = ("distributedInfo", "deviceProperties", "baseTimeNanoseconds", "host_name")
_NAN: Final = math.nan


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """What a trace says of one call of a collective.

    Args:
        operation: As the trace names it; empty if only the kernel's name tells.
        group: Name of the process group.
        ranks: Its ranks, as text; empty if the trace does not say.
        peer: The other rank of a send or receive; -1 for collectives.
    """

    operation: str
    group: str
    ranks: str
    peer: int


@dataclass(frozen=True, slots=True, eq=False)
class TraceFile:
    """One file, as it is.

    Args:
        events: `(n,)` of dtype `EVENT`, by start; complete events, and pairs of begin and end.
        names, categories: Their texts.
        calls: Of the collectives.
        rank: As the file says; -1 if it does not.
        host: Name of the machine; empty if unknown.
        base_us: What the file's times are relative to, in microseconds since 1970; 0 if they are not.
        group_ranks: Ranks of every process group, by its name.
        group_words: The description of each group.
        notes: What was left out, a line each.
    """

    path: str
    events: NDArray[np.void]
    names: tuple[str, ...]
    categories: tuple[str, ...]
    calls: tuple[CollectiveCall, ...]
    rank: int
    world_size: int
    host: str
    base_us: float
    devices: tuple[str, ...]
    group_ranks: Mapping[str, tuple[int, ...]]
    group_words: Mapping[str, str]
    notes: tuple[str, ...]


def read_trace_file(path: str | Path) -> TraceFile:
    """Read a trace of torch.profiler (Kineto) or another one in Chrome's format, plain or compressed by gzip.

    A file that is damaged after its first event is read up to the damage, and `notes` says so.

    Raises:
        UnreadableTrace: It cannot be opened, is no such trace, or has no complete event and no pair of begin and end.
    """
    head: dict[str, Any] = {}
    gathered = _Events()
    with closing(JsonStream(Path(path))) as stream:
        _read(stream, gathered, head)
    events, notes = gathered.result()
    if not len(events):
        reasons = "".join(f": {reason}" for reason in (stream.damage, *notes) if reason)
        raise UnreadableTrace(
            f"the trace {str(path)!r} has no complete event (ph X, or B with its E){_printable(reasons)}; "
            "expected is a file of torch.profiler's export_chrome_trace, plain or .gz"
        )
    if stream.damage:
        notes.append(f"{path}: {stream.damage}; the {len(events)} events before that are used")
    return _file(str(path), events, gathered, head, [_printable(note) for note in notes])


def _read(stream: JsonStream, gathered: "_Events", head: dict[str, Any]) -> None:
    """Read the events, and what the file says of itself."""
    if stream.take("["):
        gathered.read(stream)
    elif stream.take("{"):
        for key in stream.members():
            if key == "traceEvents" and stream.take("["):
                gathered.read(stream)
            else:
                value = stream.value()
                if key in _HEAD:
                    head[key] = value
            if gathered.is_full:
                break
    else:
        stream.damage = stream.damage or "it does not begin with an object or a list"


class _Events:
    """The columns of a file as they are read."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.categories: dict[str, int] = {}
        self.lanes: dict[tuple[object, object], int] = {}
        self.calls: list[CollectiveCall] = []
        self.is_full = False
        self._rows: list[tuple[object, ...]] = []
        self._arrays: list[NDArray[np.void]] = []
        self._places: list[int] = []
        self._place_arrays: list[NDArray[np.int64]] = []
        self._pairs = BeginEndPairs()
        self._count, self._odd, self._read = 0, 0, 0

    def read(self, stream: JsonStream) -> None:
        """Read the events of the array that begins here."""
        for event in stream.elements():
            self._read += 1
            if type(event) is not dict:
                self._odd += 1
                continue
            phase = event.get("ph")
            if phase == "X":
                self._complete(event, self._read)
            elif phase in ("B", "E"):
                self._part(event, phase)
            if len(self._rows) >= _BATCH:
                self._store()
                if self._count >= _MOST_EVENTS:
                    self.is_full = True
                    return

    def result(self) -> tuple[NDArray[np.void], list[str]]:
        """Return the events by start, and what was left out."""
        self._store()
        events = np.concatenate(self._arrays) if self._arrays else np.empty(0, EVENT)
        places = np.concatenate(self._place_arrays) if self._place_arrays else np.empty(0, np.int64)
        sound = np.isfinite(events["start"]) & np.isfinite(events["duration"]) & (events["duration"] >= 0.0)
        sound &= np.abs(events["start"]) < 1e18
        sound &= events["duration"] < 1e14
        odd = self._odd + int((~sound).sum())
        events, places = events[sound], places[sound]
        notes = []
        if odd:
            notes.append(
                f"{odd} events without a name, with a time that is no finite number, or with an end before their "
                "begin, are left out"
            )
        notes += self._pairs.notes()
        if self.is_full:
            notes.append(f"only the first {_MOST_EVENTS} events are read")
        # of events with the same times, the one that begins first in the file is the outer one
        return events[np.lexsort((places, -events["duration"], events["start"]))], notes

    def _part(self, event: dict[str, Any], phase: str) -> None:
        """Keep the begin of an event, or store what its end makes complete."""
        try:
            if phase == "B":
                self._pairs.begin(event, self._read)
            elif joined := self._pairs.end(event):
                self._complete(joined[1], joined[0])
        except (KeyError, TypeError, ValueError, OverflowError):
            self._odd += 1

    def _complete(self, event: dict[str, Any], place: int) -> None:
        name, category, arguments = event.get("name"), event.get("cat", ""), event.get("args")
        try:
            start, duration = float(event["ts"]), float(event["dur"])
            number = self.names.setdefault(name, len(self.names))  # type: ignore[arg-type]  # checked below
            kind = self.categories.setdefault(category, len(self.categories))
            lane = self.lanes.setdefault((event.get("pid"), event.get("tid")), len(self.lanes))
        except (KeyError, TypeError, ValueError, OverflowError):
            self._odd += 1
            return
        if type(arguments) is not dict:
            arguments = {}
        if "stream" in arguments or "device" in arguments or "correlation" in arguments:
            stream, device = _small(arguments.get("stream")), _small(arguments.get("device"))
            correlation = arguments.get("correlation")
            if type(correlation) is not int or not 0 <= correlation < 2**62:
                correlation = -1
            size_bytes, bandwidth = _real(arguments.get("bytes")), _real(arguments.get("memory bandwidth (GB/s)"))
        else:
            stream = device = correlation = -1
            size_bytes = bandwidth = _NAN
        size = _size(arguments, _SIZED[name]) if name in _SIZED else _NAN
        call = self._call(name, arguments)
        self._rows.append(
            (start, duration, number, kind, lane, stream, device, correlation, size_bytes, bandwidth, call, size)
        )
        self._places.append(place)

    def _call(self, name: object, arguments: dict[str, Any]) -> int:
        """Return the number of the collective call that the arguments describe; -1 if they describe none."""
        if "Collective name" in arguments:
            peers = [arguments.get(f"{end} Rank") for end in ("Src", "Dst")]
            made = CollectiveCall(
                operation=str(arguments["Collective name"])[:100],
                group=str(arguments.get("Process Group Name", ""))[:200],
                ranks=str(arguments.get("Process Group Ranks", ""))[:5000],
                peer=next((_small(peer) for peer in peers if type(peer) is int), -1),
            )
        elif type(name) is str and name.startswith(("c10d::", "gloo:")):
            made = CollectiveCall("", "", "", _peer(name, arguments))
        else:
            return -1
        self.calls.append(made)
        return len(self.calls) - 1

    def _store(self) -> None:
        if self._rows:
            self._arrays.append(np.array(self._rows, EVENT))
            self._place_arrays.append(np.array(self._places, np.int64))
            self._count += len(self._rows)
            self._rows.clear()
            self._places.clear()


def _size(arguments: dict[str, Any], place: int) -> float:
    """Return the number of elements of one input, or of the tensors of a list; NaN if the shapes are not recorded."""
    shapes = arguments.get("Input Dims")
    if type(shapes) is not list or len(shapes) <= place or type(shapes[place]) is not list:
        return _NAN
    shape = shapes[place]
    parts = shape if shape and all(type(part) is list for part in shape) else [shape]
    total = 0.0
    for part in parts:
        product = 1.0
        for length in part:
            product *= length if type(length) is int and 0 <= length < 2**50 else _NAN
        total += product
    return total if math.isfinite(total) else _NAN


def _peer(name: str, arguments: dict[str, Any]) -> int:
    """Return the other rank of `c10d::send` and `c10d::recv_`, which is their second argument."""
    inputs = arguments.get("Concrete Inputs")
    if not name.startswith(("c10d::send", "c10d::recv")) or type(inputs) is not list:
        return -1
    ranks = [int(text) for text in inputs[1:3] if type(text) is str and text.isascii() and text.isdigit()]
    return ranks[0] if ranks and ranks[0] < 2**30 else -1


def _small(value: object) -> int:
    return value if type(value) is int and -1 <= value < 2**30 else -1


def _real(value: object) -> float:
    try:
        return float(value) if value is not None else _NAN  # type: ignore[arg-type]  # what is no number is refused
    except (TypeError, ValueError, OverflowError):
        return _NAN


def _printable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def _file(
    path: str, events: NDArray[np.void], gathered: _Events, head: Mapping[str, Any], notes: Iterable[str]
) -> TraceFile:
    spread = head.get("distributedInfo")
    spread = spread if type(spread) is dict else {}
    listed = spread.get("pg_config")
    groups = [group for group in listed if type(group) is dict] if type(listed) is list else []
    devices = head.get("deviceProperties")
    known = devices if type(devices) is list else []
    base = _real(head.get("baseTimeNanoseconds"))
    return TraceFile(
        path=path,
        events=events,
        names=tuple(_printable(str(name)[:2000]) for name in gathered.names),
        categories=tuple(_printable(str(category)[:200]).lower() for category in gathered.categories),
        calls=tuple(gathered.calls),
        rank=_small(spread.get("rank")),
        world_size=_small(spread.get("world_size")),
        host=_printable(str(head.get("host_name") or "")[:200]),
        base_us=base / 1e3 if 0.0 < base < 1e20 else 0.0,
        devices=tuple(_printable(str(entry.get("name", ""))[:100]) for entry in known[:64] if type(entry) is dict),
        group_ranks={str(group.get("pg_name", ""))[:200]: _ranks(group.get("ranks")) for group in groups[:5000]},
        group_words={
            str(group.get("pg_name", ""))[:200]: str(group.get("pg_desc", ""))[:200] for group in groups[:5000]
        },
        notes=tuple(notes),
    )


def _ranks(value: object) -> tuple[int, ...]:
    return tuple(_small(rank) for rank in value[:100_000]) if type(value) is list else ()
