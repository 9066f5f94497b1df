"""Last words from files of others: dumps of PyTorch's Flight Recorder, and what NCCL's RAS and Inspector print.

    Flight Recorder   a file a rank: the pickle of `_dump_fr_trace` (`TORCH_NCCL_DUMP_ON_TIMEOUT`), or its JSON
    RAS               the text of `ncclras`, or its JSON (`ncclras -f json`, NCCL 2.28): one file for the job
    Inspector         a JSON object a line, one file a process: the collectives that have ended

Pickles are read by an unpickler that makes nothing but plain containers and numbers. Ranks of a dump come from its
file's name, as torch's own analyzer takes them: the last number in it, `nccl_trace_rank_3`.
"""

import io
import json
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NoReturn

from ...storage.flight_recorder_dump import recorded_calls
from ...storage.last_words import CollectiveCall, LastWord
from ...storage.process import ProcessState
from ..errors import UnreadableDump
from .activity import Observed
from .analysis import analyse
from .hang_report import HangReport

__all__ = ["hang_of_files"]

#: Bytes of a file that are read (a dump of 2000 entries with stacks has some 5 MB).
_MOST_BYTES: Final = 256 << 20
_RANK: Final = re.compile(r"(\d+)(?:\.\w+)?$")
#: For how long ranks count as waiting of which no time is known.
_WAITED_S: Final = 60.0


@dataclass
class _Job:
    """What files tell of one job.

    Attributes:
        words: Last words by rank.
        seen: What is known of a rank's process.
        now: The newest time in any file.
        has_counts_only: Whether only the number of the last collective is known of each rank.
        without_ends: Ranks whose recorder marks no end of a call, as gloo's.
    """

    words: dict[int, LastWord] = field(default_factory=dict)
    seen: dict[int, Observed] = field(default_factory=dict)
    now: float = 0.0
    has_counts_only: bool = False
    without_ends: set[int] = field(default_factory=set)


def hang_of_files(paths: Sequence[Path]) -> HangReport:
    """Return who hangs, from these files alone.

    Raises:
        UnreadableDump: A file is none of the known formats.
    """
    job = _Job()
    for path in paths:
        try:
            with path.open("rb") as file:
                content = file.read(_MOST_BYTES)
        except OSError as error:
            raise UnreadableDump(f"{path} cannot be read: {error.strerror}") from error
        _read(path, content, job)
    if job.has_counts_only:
        _mark_ahead(job)
    _pass_by(job)
    ranks = {rank for word in job.words.values() for group in word.groups.values() for rank in group}
    for rank in ranks - set(job.words):
        job.words[rank] = LastWord(rank, len(ranks), at=job.now - _WAITED_S, phase="training")
    size = max(len(ranks), len(job.words))
    words = {rank: _at(word, job.now, size) for rank, word in job.words.items()}
    return analyse(words, job.now, job.seen)


def _at(word: LastWord, now: float, size: int) -> LastWord:
    """Return the word as said at the end of the recording, unless its rank left no file."""
    is_there = bool(word.calls or word.native) or word.threads
    fields = {name: getattr(word, name) for name in LastWord.__slots__}
    return LastWord(**{**fields, "size": size, "at": now if is_there else word.at, "stalled_s": _WAITED_S})


def _read(path: Path, content: bytes, job: _Job) -> None:
    try:
        if content[:1] == b"\x80":
            _flight_recorder(path, _PlainUnpickler(io.BytesIO(content)).load(), job)
            return
        text = content.decode()
        if "Job summary" in text or "Communicators..." in text:
            _ras_text(text, job)
            return
        for document in _documents(text):
            if "entries" in document:
                _flight_recorder(path, document, job)
            elif "communicators" in document:
                _ras_document(document, job)
            else:
                _inspector(document, job)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, pickle.UnpicklingError) as error:
        raise UnreadableDump(
            f"{path} is neither a dump of PyTorch's Flight Recorder, nor what NCCL's RAS or Inspector prints: {error}"
        ) from error


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler that makes no object of any class."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Refuse every class and function.

        Raises:
            UnpicklingError: Always.
        """
        raise pickle.UnpicklingError(f"it wants to make a {module}.{name}, which a dump has no need of")


def _documents(text: str) -> list[Mapping[str, Any]]:
    """Return one JSON object, or those of several in a row."""
    decoder, found, at = json.JSONDecoder(), list[Mapping[str, Any]](), 0
    while at < len(text):
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            break
        document, at = decoder.raw_decode(text, at)
        found.append(document)
    if not found or not all(isinstance(document, Mapping) for document in found):
        raise ValueError("no JSON object in it")
    return found


def _flight_recorder(path: Path, dump: Mapping[str, Any], job: _Job) -> None:
    named = _RANK.search(path.name)
    rank = int(named[1]) if named else int(dump.get("rank", len(job.words)))
    calls, groups = recorded_calls(dump)
    times = [max(call.began_at, call.ended_at) for call in calls]
    job.now = max([job.now, *(time + _WAITED_S for time in times)])
    job.words[rank] = LastWord(rank, 0, groups=groups, calls=_as_waiting(calls))
    if not any(call.state == "completed" for call in calls):
        job.without_ends.add(rank)


def _as_waiting(calls: Sequence[CollectiveCall]) -> tuple[CollectiveCall, ...]:
    """Return the calls with the one that the rank is in marked: the first of a group that has not ended.

    A recorder that marks no end, as gloo's, has the rank in its last call.
    """
    knows_ends = any(call.state == "completed" for call in calls)
    unfinished = [at for at, call in enumerate(calls) if call.state != "completed"]
    if not unfinished:
        return tuple(calls)
    stuck = unfinished[0] if knows_ends else len(calls) - 1
    fields = [{name: getattr(call, name) for name in CollectiveCall.__slots__} for call in calls]
    return tuple(
        CollectiveCall(**{**one, "state": "waiting" if at == stuck else "completed" if at < stuck else "enqueued"})
        for at, one in enumerate(fields)
    )


def _pass_by(job: _Job) -> None:
    """Mark as ended the last call of a rank that another rank has gone beyond, where no ends are recorded."""
    reached: dict[str, int] = {}
    for word in job.words.values():
        for call in word.calls:
            reached[call.group] = max(reached.get(call.group, -1), call.number)
    for rank, word in job.words.items():
        last = word.calls[-1] if word.calls else None
        if rank in job.without_ends and last is not None and last.number < reached[last.group]:
            job.words[rank] = replace(word, calls=(*word.calls[:-1], replace(last, state="completed")))


_COMMUNICATOR: Final = re.compile(r"^#(?P<name>\S+ \(\w+\)) (?P<state>\w+)")
_COUNT: Final = r"(?:launched up to operation (?P<number>\d+)|not launched)"
_COUNTED: Final = re.compile(rf"^\s*(?P<count>\d+) ranks? ha(?:ve|s) {_COUNT}")
_RANK_LINE: Final = re.compile(rf"^\s*Rank (?P<rank>\d+)(?: has {_COUNT})?.* -- GPU")
_KIND: Final = re.compile(r"Communicator ranks have different (?P<kind>.+?) ?operation counts")
_MISSING: Final = re.compile(r"^\s*The missing ranks?: (?P<ranks>[\d, -]+)")
_SUMMARY: Final = re.compile(r"^\s*\d+\s+\d+\s+\S+\s+\S+\s+\S+\s+(?P<ranks>\d+)\s+[A-Z]+", re.MULTILINE)


def _ras_text(text: str, job: _Job) -> None:
    """Read RAS' report: ranks that have launched fewer operations than most, and ranks that do not answer."""
    job.now = max(job.now, _WAITED_S)
    total = max((int(found["ranks"]) for found in _SUMMARY.finditer(text)), default=0)
    communicator, kind, behind = "world", "", list[tuple[int, int]]()
    counts: dict[int, int] = {}
    number = 0
    is_dead = bool(re.search(r"^DEAD$|considered dead", text, re.MULTILINE))
    for line in text.splitlines():
        if found := _COMMUNICATOR.match(line):
            communicator = found["name"]
        elif found := _KIND.search(line):
            kind = found["kind"].strip()
        elif found := _COUNTED.match(line):
            number = int(found["number"] or 0)
            counts[number] = int(found["count"])
        elif found := _RANK_LINE.match(line):
            behind.append((int(found["rank"]), int(found["number"]) if found["number"] else number))
        elif found := _MISSING.match(line):
            for rank in _numbers(found["ranks"]):
                job.words[rank] = LastWord(rank, total)
                job.seen[rank] = Observed(ProcessState(is_alive=False if is_dead else None))
    named = dict(behind)
    for rank in range(total):
        if rank not in job.words:
            most = max(counts, key=lambda value: counts[value]) if counts else 1  # of some collective, not told which
            job.words[rank] = _launched(rank, communicator, kind, named.get(rank, most), total)
    job.has_counts_only = True


def _ras_document(document: Mapping[str, Any], job: _Job) -> None:
    """Read RAS' JSON: counts of every collective by rank, and missing ranks with what is known of them."""
    job.now = max(job.now, _WAITED_S)
    for at, communicator in enumerate(document["communicators"]):
        name = str(communicator.get("hash", at))
        size = int(communicator.get("size", 0)) or len(communicator["ranks"])
        for one in communicator["ranks"]:
            counts = {str(kind): int(count) for kind, count in one.get("collective_counts", {}).items() if int(count)}
            rank = int(one["rank"])
            job.words[rank] = _launched(rank, name, max(counts, default=""), sum(counts.values()), size)
        for one in communicator.get("missing_ranks", ()):
            rank, status = int(one["rank"]), one.get("status", {})
            job.words[rank] = LastWord(rank, size)
            job.seen[rank] = Observed(ProcessState(is_alive=False if status.get("considered_dead") else None))
    job.has_counts_only = True


def _launched(rank: int, communicator: str, kind: str, count: int, size: int) -> LastWord:
    """Return the word of a rank of which only the count of launched collectives is known."""
    call = CollectiveCall(count, kind or "a collective", communicator, "completed", began_at=1.0)
    return LastWord(rank, size, groups={communicator: tuple(range(size))}, calls=(call,) if count else ())


def _mark_ahead(job: _Job) -> None:
    """Mark the ranks that have launched most as waiting for the others."""
    numbers = {rank: word.calls[-1].number for rank, word in job.words.items() if word.calls}
    most = max(numbers.values(), default=0)
    absent = any(not word.calls for word in job.words.values())
    for rank, number in numbers.items():
        if number == most and (absent or min(numbers.values()) < most):
            word = job.words[rank]
            last = word.calls[-1]
            waiting = CollectiveCall(last.number, last.operation, last.group, "waiting", began_at=1.0)
            job.words[rank] = LastWord(rank, word.size, groups=word.groups, calls=(waiting,))


def _inspector(document: Mapping[str, Any], job: _Job) -> None:
    """Read one collective that has ended: a rank's last one tells how far it has come."""
    header, performance = document["header"], document["coll_perf"]
    rank, size = int(header["rank"]), int(header["n_ranks"])
    at = float(document.get("metadata", {}).get("dump_timestamp_us", 0)) / 1e6
    communicator = str(header["id"])
    job.now = max(job.now, at + _WAITED_S)
    number = int(performance["coll_sn"])
    known = job.words.get(rank)
    if known is not None and known.calls and known.calls[-1].number >= number:
        return
    call = CollectiveCall(number, str(performance["coll"]), communicator, "completed", began_at=at, ended_at=at)
    job.words[rank] = LastWord(rank, size, groups={communicator: tuple(range(size))}, calls=(call,))
    job.has_counts_only = True


def _numbers(text: str) -> Iterable[int]:
    """Yield the ranks of `3, 5-7`."""
    for part in text.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        if first:
            yield from range(int(first), int(last or first) + 1)
