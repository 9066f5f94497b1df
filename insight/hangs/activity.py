"""What a rank does that others wait for, told from its last word and from what its process looks like now."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ...storage.code_places import is_library
from ...storage.last_words import CollectiveCall, LastWord, ThreadStack
from ...storage.process import ProcessState
from .hang_report import call_words, group_words

__all__ = ["Activity", "Observed", "activity_of", "place", "user_frame"]

#: Most certain first: what the process is, then what its training is, then what its main thread is in.
Kind = Literal[
    "dead",
    "ended",
    "stopped",
    "exception",
    "finished",
    "paging",
    "silent",
    "collective",
    "data_loader",
    "lock",
    "sleep",
    "checkpoint",
    "compilation",
    "user_code",
    "unknown",
]

#: Seconds without a beat after which a heartbeat counts as silent: ten beats (our choice).
SILENT_S: Final = 5.0
#: Page faults a second that read from a disk, above which a process is paging; a program that starts has hundreds in
#: all (our choice).
_PAGING: Final = 100.0
#: From so many processor seconds a second, or bytes a second, on a rank works (our choice: a thread that polls a lock
#: ten times a second uses 0.2 %, and a log writes some kilobytes).
_WORKS, _MOVES = 0.05, 2.0**20

_LOCK: Final = re.compile(r"\.acquire\(|^\s*(?:async )?with\b.*(?:lock|mutex|semaphore|condition)", re.IGNORECASE)
_SLEEP: Final = re.compile(r"\bsleep\(")
#: Frames that tell what a thread is in, the most telling first: (kind, words, part of the path).
_PLACES: Final[tuple[tuple[Kind, str, re.Pattern[str]], ...]] = (
    ("compilation", "compiles", re.compile(r"torch/_(?:dynamo|inductor|functorch)/|torch/fx/|numba/core/|triton/")),
    ("data_loader", "waits in the data loader", re.compile(r"torch/utils/data/|/framework/data/")),
    (
        "checkpoint",
        "writes or reads a checkpoint",
        re.compile(r"torch/serialization\.py$|torch/distributed/checkpoint/|safetensors/"),
    ),
)


@dataclass(frozen=True, slots=True)
class Observed:
    """What can be seen of a rank from outside.

    Args:
        process: Its process now; None where nobody has looked.
        major_faults: Of the process per second, seen from outside.
        oom_kills: Processes that the out-of-memory killer has ended by now.
    """

    process: ProcessState | None = None
    major_faults: float = 0.0
    oom_kills: int = 0


@dataclass(frozen=True, slots=True)
class Activity:
    """What a rank does.

    Args:
        kind: In one word.
        words: In a sentence without its subject: `sleeps at train.py:12: time.sleep(60)`.
        is_busy: Whether it uses the processor or moves data: it may come yet.
        file, line: The user's line; empty where it is unknown.
        call: The collective that it waits in.
    """

    kind: Kind
    words: str
    is_busy: bool = False
    file: str = ""
    line: int = 0
    call: CollectiveCall | None = None


def activity_of(word: LastWord, now: float, seen: Observed, end_note: str = "") -> Activity:
    """Return what the rank does.

    Args:
        now: In seconds since 1970, by the clock of the words.
        end_note: What a fatal signal has left: `SIGSEGV at train.py, line 7`.
    """
    process = seen.process or ProcessState()
    silent_s = now - word.at
    if word.phase == "failed":
        return Activity("exception", f"failed in step {word.step}: {word.error}")
    if word.phase == "finished":
        file, line = user_frame(word.main_thread)
        where = f", at {place(file, line)}" if file else ""
        words = f"has ended its training in step {word.step}{where}, and calls no further collective"
        return Activity("finished", words, file=file, line=line)
    if process.is_alive is False:
        return _activity(word, "dead", _death(word, seen, end_note))
    if process.letter in ("T", "t"):
        return _activity(word, "stopped", f"is stopped (SIGSTOP, or a debugger){_where(word)}")
    faults = max(word.major_faults if silent_s < SILENT_S else 0.0, seen.major_faults)
    if faults >= _PAGING and word.open_call is None:
        words = f"reads pages back from a disk, {faults:.0f} a second: it swaps, or uses a file as memory{_where(word)}"
        return _activity(word, "paging", words)
    if word.error:
        return _activity(word, "unknown", f"goes on, but its heartbeat has failed: {word.error}", is_busy=True)
    if silent_s > SILENT_S:
        is_known = process.is_alive is True
        why = "native code holds its interpreter" if is_known else "it is dead or stopped, or its host is gone"
        return _activity(word, "silent", f"has not said a word for {silent_s:.0f} s: {why}{_where(word)}")
    return _at_work(word)


def _activity(
    word: LastWord, kind: Kind, words: str, *, is_busy: bool = False, call: CollectiveCall | None = None
) -> Activity:
    """Return an activity with the user's line."""
    file, line = user_frame(word.main_thread)
    return Activity(kind, words, is_busy, file, line, call)


def _death(word: LastWord, seen: Observed, end_note: str) -> str:
    if end_note:
        return f"was ended by {end_note}, in step {word.step}"
    if seen.oom_kills > word.oom_kills:
        return f"is gone in step {word.step}: the kernel's out-of-memory killer has struck since it began"
    return f"is gone in step {word.step} without a word: killed by SIGKILL, or its machine went down"


def _at_work(word: LastWord) -> Activity:
    """Return what a rank does whose heartbeat beats."""
    is_busy = word.processor >= _WORKS or word.read_write >= _MOVES
    if (call := word.open_call) is not None:
        where, group = place(call.file, call.line), group_words(call.group, word.groups.get(call.group, ()))
        return _activity(word, "collective", f"waits in {call_words(call.operation, group)} at {where}", call=call)
    main = word.main_thread
    if main is None:
        if word.stalled_s < SILENT_S or not word.calls:
            return Activity("unknown", "goes on" if word.stalled_s < 1.0 else "is in an unknown place", is_busy=True)
        return Activity("unknown", f"has not called it{_where(word)}")
    kind, words = _doing(main)
    worker = f"; {'; '.join(word.children)}" if kind == "data_loader" and word.children else ""
    busy = f", using {word.processor:.1f} processors" if is_busy else ""
    return _activity(word, kind, f"{words}{_where(word)}{busy}{worker}", is_busy=is_busy)


def _doing(main: ThreadStack) -> tuple[Kind, str]:
    """Return what the main thread does."""
    for kind, words, path in _PLACES:
        if any(path.search(file) for file, _, _ in main.frames):
            return kind, words
    if _LOCK.search(main.code) or _waits_in_threading(main):
        return "lock", "waits for a lock"
    if main.system_call == "futex" and not is_library(main.frames[0][0]):
        return "lock", "waits for a lock"
    if _SLEEP.search(main.code) or main.system_call in ("nanosleep", "clock_nanosleep"):
        return "sleep", "sleeps"
    if main.system_call:
        return "user_code", f"waits in the system call {main.system_call}"
    return "user_code", "is in user code"


def _waits_in_threading(main: ThreadStack) -> bool:
    """Return whether the innermost frame is one of Python's own locks and queues."""
    if not main.frames:
        return False
    file, _, function = main.frames[0]
    return Path(file).name in ("threading.py", "queue.py", "synchronize.py") and function in (
        "acquire",
        "wait",
        "_wait_for_tstate_lock",
        "join",
        "get",
        "put",
        "__enter__",
    )


def user_frame(stack: ThreadStack | None) -> tuple[str, int]:
    """Return the innermost line of a stack that is no library's; ("", 0) if there is none."""
    for file, line, _ in () if stack is None else stack.frames:
        if not file.startswith("<") and not is_library(file):
            return file, line
    return "", 0


def place(file: str, line: int) -> str:
    """Return a line as people name it: `train.py:12`."""
    return f"{Path(file).name}:{line}" if file else "an unknown line"


def _where(word: LastWord) -> str:
    file, line = user_frame(word.main_thread)
    if not file:
        last = word.calls[-1] if word.calls else None
        return "" if last is None else f"; its last collective was {last.operation} at {place(last.file, last.line)}"
    main = word.main_thread
    code = f": {main.code}" if main is not None and main.code and main.frames[0][:2] == (file, line) else ""
    return f" at {place(file, line)}{code}"
