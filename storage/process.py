"""The identity of the process that writes a recording, and whether it still runs."""

import math
import os
import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from .encoding.record_codec import from_json, to_json
from .records import Json

#: Seconds between the heartbeats of a writer that has nothing to write.
HEARTBEAT_S = 10.0
#: A writer on another machine counts as dead after so many seconds without a heartbeat: of its own clock, which may
#: be fast or slow, or of the clock of the database, by which writer and readers go. Our choice: twelve heartbeats, six.
SILENCE_S = 120.0
SILENCE_OF_ONE_CLOCK_S = 60.0


def identity() -> str:
    """Return the identity of this process, which another can check: machine, process id, start time."""
    return to_json(
        {"machine": _machine(), "host": platform.node(), "pid": (pid := os.getpid()), "started": started_at(pid)}
    )


def is_alive(writer: str, silent_s: float, *, most_s: float = SILENCE_S) -> bool:
    """Return whether the process `writer` still runs; on another machine its silence decides.

    Args:
        silent_s: Seconds since its last heartbeat.
        most_s: From so many on it counts as dead.
    """
    known = _known(writer)
    if not known:
        return False
    if known.get("machine") != _machine():
        return silent_s < most_s
    pid = known.get("pid")
    if not isinstance(pid, int):
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return known.get("started") == started_at(pid) and not _is_zombie(pid)


def silence_since(heartbeat_at: object) -> float:
    """Return the seconds since a heartbeat by this machine's clock; infinity of a value that is damaged."""
    return time.time() - heartbeat_at if isinstance(heartbeat_at, int | float) else math.inf


def describe(writer: str) -> str:
    """Return the writer as an error names it: `process 4711 on node-3`."""
    known = _known(writer)
    return f"process {known.get('pid', '?')} on {known.get('host', '?')}"


def _known(writer: str) -> dict[str, Json]:
    """Return the parts of an identity; empty where there is none, or a damaged one."""
    try:
        return from_json(writer) if writer else {}
    except (ValueError, TypeError):
        return {}


def machine() -> dict[str, Json]:
    """Return facts about this machine, which a run keeps."""
    return {
        "node": platform.node(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "pid": os.getpid(),
        "memory_bytes": _memory_bytes(),
    }


def _memory_bytes() -> int | None:
    """Return the memory of this machine, or of the container that the process is in; None where it is unknown."""
    sizes: list[int] = []
    try:
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
        return min(sizes[0], int(limit)) if limit.isdigit() else sizes[0]
    except (OSError, ValueError):
        return sizes[0] if sizes else None


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return the identity of this boot of the machine and of its process-id namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{platform.node()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return platform.node()


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def started_at(pid: int) -> str:
    """Return when a process of this machine was started, in ticks since its boot; empty where that is unknown."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def _is_zombie(pid: int) -> bool:
    return _stat(pid)[:1] == ["Z"]


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What another process of this machine is doing.

    Args:
        is_alive: None on another machine, or where it is unknown.
        letter: Its state in /proc: R, S, D (waits for a disk), T (stopped), Z; empty where unknown.
        major_faults: Page faults so far that read from a disk.
    """

    is_alive: bool | None = None
    letter: str = ""
    major_faults: int = 0


def process_state(writer: str) -> ProcessState:
    """Return what the process `writer` is doing now."""
    known = _known(writer)
    pid = known.get("pid")
    if known.get("machine") != _machine() or not isinstance(pid, int):
        return ProcessState()
    fields = _stat(pid)
    if len(fields) < 20 or known.get("started") != fields[19] or fields[0] in ("Z", "X"):
        return ProcessState(is_alive=False)
    return ProcessState(is_alive=True, letter=fields[0], major_faults=int(fields[9]))


def children_of(pid: int) -> list[int]:
    """Return the ids of the child processes of a process."""
    folder, found = f"/proc/{pid}/task", list[int]()
    try:
        threads = os.listdir(folder)
    except OSError:
        return []
    for thread in threads:
        try:
            found += map(int, Path(f"{folder}/{thread}/children").read_text().split())
        except (OSError, ValueError):  # a thread that has ended meanwhile
            continue
    return sorted(found)


def processor_s(pid: int) -> float:
    """Return the processor time in seconds that a process and its ended children have used; 0 where it is unknown."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / _TICKS if len(fields) > 14 else 0.0


_STATES: Final = {"R": "running", "S": "asleep", "D": "waiting for a disk", "T": "stopped", "t": "traced", "Z": "dead"}
_TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def state_of_process(pid: int) -> str:
    """Return the state of a process as a word."""
    return _STATES.get((_stat(pid) or ["?"])[0], "gone")


#: System calls in which processes wait: their numbers on x86_64 and on aarch64.
_WAITS: Final = (
    ("clock_nanosleep", 230, 115),
    ("epoll_pwait", 281, 22),
    ("epoll_wait", 232, None),
    ("fcntl", 72, 25),
    ("flock", 73, 32),
    ("fsync", 74, 82),
    ("futex", 202, 98),
    ("nanosleep", 35, 101),
    ("poll", 7, None),
    ("ppoll", 271, 73),
    ("pselect6", 270, 72),
    ("read", 0, 63),
    ("recvfrom", 45, 207),
    ("recvmsg", 47, 212),
    ("select", 23, None),
    ("wait4", 61, 260),
    ("waitid", 247, 95),
    ("write", 1, 64),
)
_NAMES: Final[Mapping[str, Mapping[int | None, str]]] = {
    "x86_64": {number: name for name, number, _ in _WAITS},
    "aarch64": {number: name for name, _, number in _WAITS},
}


def system_call(pid: int, thread: int) -> str:
    """Return the system call in which a thread waits; empty if it runs, or where that is unknown."""
    try:
        word = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()[0]
    except (OSError, IndexError):
        return ""
    if not word.isdigit():
        return ""
    return _NAMES.get(platform.machine(), {}).get(int(word), f"system call {word}")


def oom_kills() -> int:
    """Return how many processes the kernel's out-of-memory killer has ended in this container, or on this machine."""
    for path in ("/sys/fs/cgroup/memory.events", "/proc/vmstat"):
        try:
            lines = Path(path).read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.strip().isdigit():
                return int(value)
    return 0
