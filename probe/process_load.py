"""What this process does when it seems to stand still: its load, its children, and the stacks of its threads."""

import linecache
import os
import resource
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import Final

from ..storage.code_places import OUR_FILES
from ..storage.last_words import ThreadStack
from ..storage.process import children_of, processor_s, state_of_process, system_call

__all__ = ["Load", "LoadMeter", "children", "raised_in", "stacks"]

#: Seconds over which a load is averaged (our choice: longer than a pause of the scheduler).
_SPAN_S: Final = 3.0
#: Frames of a stack, and threads, that are told.
_MOST_FRAMES, _MOST_THREADS, _MOST_CHILDREN = 40, 24, 16


@dataclass(frozen=True, slots=True)
class Load:
    """What the process uses, per second: processor seconds, bytes read and written, page faults that read a disk."""

    processor: float = 0.0
    read_write: float = 0.0
    major_faults: float = 0.0


class LoadMeter:
    """Measures the load of this process and its children, without the part of the calling thread."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float, float, float]] = deque(maxlen=64)

    def forget(self) -> None:
        """Begin anew: what was measured before is of another phase."""
        self._samples.clear()

    def measure(self) -> Load:
        """Take a sample and return the load since the one of three seconds ago."""
        now = time.monotonic()
        busy = time.process_time() - time.thread_time() + sum(processor_s(child) for child in children_of(os.getpid()))
        faults = float(resource.getrusage(resource.RUSAGE_SELF).ru_majflt)
        self._samples.append((now, busy, float(_read_write("self") - _read_write("thread-self")), faults))
        while len(self._samples) > 2 and self._samples[1][0] < now - _SPAN_S:
            self._samples.popleft()
        then = self._samples[0]
        span = now - then[0]
        if span <= 0:
            return Load()
        rates = [max(0.0, (new - old) / span) for new, old in zip(self._samples[-1][1:], then[1:], strict=True)]
        return Load(*rates)


def _read_write(whose: str) -> int:
    """Return the bytes that this process (`self`), or the calling thread (`thread-self`), has read and written."""
    try:
        lines = Path(f"/proc/{whose}/io").read_text().splitlines()
    except OSError:
        return 0
    fields = dict(line.split(": ") for line in lines)
    return int(fields.get("rchar", 0)) + int(fields.get("wchar", 0))


def stacks() -> tuple[ThreadStack, ...]:
    """Return what every thread does that is not ours, the main thread first."""
    threads = {thread.ident: thread for thread in threading.enumerate()}
    main = threading.main_thread().ident
    found = []
    for ident, frame in sys._current_frames().items():
        thread = threads.get(ident)
        name = f"thread {ident}" if thread is None else thread.name
        if name.startswith("mindscope-"):
            continue
        frames = _frames(frame)
        code = linecache.getline(frames[0][0], frames[0][1]).strip() if frames else ""
        call = "" if thread is None or thread.native_id is None else system_call(os.getpid(), thread.native_id)
        found.append(ThreadStack(name, ident == main, frames, call, code[:200]))
    return tuple(sorted(found, key=lambda stack: not stack.is_main)[:_MOST_THREADS])


def raised_in(error: BaseException) -> tuple[ThreadStack, ...]:
    """Return where the error was raised, as the stack of the main thread; nothing without a traceback."""
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith(OUR_FILES)
    ]
    return (ThreadStack("MainThread", True, tuple(frames[: -_MOST_FRAMES - 1 : -1])),) if frames else ()


def _frames(frame: FrameType | None) -> tuple[tuple[str, int, str], ...]:
    """Return the frames that are not ours, innermost first."""
    found: list[tuple[str, int, str]] = []
    while frame is not None and len(found) < _MOST_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(OUR_FILES):
            found.append((code.co_filename, frame.f_lineno or 0, code.co_name))  # None between lines
        frame = frame.f_back
    return tuple(found)


def children() -> tuple[str, ...]:
    """Return a line about each child process: its name, its state and the system call in which it waits."""
    found = []
    for child in children_of(os.getpid())[:_MOST_CHILDREN]:
        name = _name(child)
        if name:
            call = system_call(child, child)
            waits = f" in {call}" if call else ""
            found.append(
                f"process {child} ({name}) is {state_of_process(child)}{waits}, {processor_s(child):.1f} s used"
            )
    return tuple(found)


def _name(pid: int) -> str:
    """Return the name of a process; empty for those that only watch over resources."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
    return "" if "resource_tracker" in command or "compile_worker" in command else name
