"""The identity of the process that writes a recording, and whether it still runs."""

import os
import platform
import time
from functools import lru_cache
from pathlib import Path

from .encoding.record_codec import from_json, to_json
from .records import Json

#: A writer on another machine counts as dead after so many seconds without a heartbeat (it sends one every 10 s).
SILENCE_S = 120.0


def identity() -> str:
    """Return the identity of this process, which another can check: machine, process id, start time."""
    return to_json(
        {"machine": _machine(), "host": platform.node(), "pid": (pid := os.getpid()), "started": started_at(pid)}
    )


def is_alive(writer: str, heartbeat_at: float) -> bool:
    """Return whether the process `writer` still runs; on another machine the time of its last heartbeat decides."""
    if not writer:
        return False
    known = from_json(writer)
    if known.get("machine") != _machine():
        return time.time() - heartbeat_at < SILENCE_S
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


def describe(writer: str) -> str:
    """Return the writer as an error names it: `process 4711 on node-3`."""
    known = from_json(writer) if writer else {}
    return f"process {known.get('pid', '?')} on {known.get('host', '?')}"


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
