"""Memory on the CPU: what tensors hold now, what was the most, and a limit.

What is alive is found when it is asked for, by looking at the tensors, recorded nodes and arenas that the garbage
collector knows: training pays nothing for it. The most there ever was is only known while allocations are traced
(`start_memory_statistics`), which makes an eager step of a small network about a third slower; otherwise the figure is
the operating system's, of the whole process.
"""

import gc
import os
import re
import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..allocator import release_freed_memory
from ..node import Node
from ..optim.arena import Arena
from ..tensor import Tensor

_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def memory_allocated() -> int:
    """Bytes of the distinct buffers behind all tensors, saved results and optimizer states that are alive."""
    return sum(_buffers().values())


def max_memory_allocated() -> int:
    """The most bytes since counting began: of all allocations while they are traced, else of the whole process."""
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[1]
    return _process_peak()


def memory_stats() -> dict[str, int]:
    """Everything that is known, in bytes but for the count.

    Returns:
        `tensor_bytes` and `tensor_buffers` (alive now), `process_bytes` and `process_peak_bytes` (of the operating
        system), and `traced_bytes` and `traced_peak_bytes` while allocations are traced.
    """
    buffers = _buffers()
    stats = {
        "tensor_bytes": sum(buffers.values()),
        "tensor_buffers": len(buffers),
        "process_bytes": _process_now(),
        "process_peak_bytes": _process_peak(),
    }
    if tracemalloc.is_tracing():
        stats["traced_bytes"], stats["traced_peak_bytes"] = tracemalloc.get_traced_memory()
    return stats


def start_memory_statistics() -> None:
    """Nothing; allocations are traced from here on, and the most there was is counted anew."""
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    else:
        tracemalloc.start()


def stop_memory_statistics() -> None:
    """Nothing; allocations are traced no more."""
    tracemalloc.stop()


def empty_cache() -> None:
    """Nothing; memory that the process has freed and keeps for what comes goes back to the operating system."""
    release_freed_memory()


def set_memory(max_size: str | int | None) -> None:
    """Nothing; allocations that take the process's data beyond `max_size` fail with MemoryError from here on.

    Args:
        max_size: Bytes, or words like `2GB` or `512 MB`; None takes the limit back.

    Raises:
        ValueError: The size cannot be read, or is less than the process has.
        OSError: The system has no such limit (it needs Linux), or does not let it be raised.
    """
    if not sys.platform.startswith("linux"):
        raise OSError("set_memory needs Linux, whose limit on the data of a process it sets; leave it out here")
    import resource  # noqa: PLC0415  (there is no such module on other systems)

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if max_size is None:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        return
    size = _bytes(max_size)
    empty_cache()
    held = _status("VmData") or 0
    if size < held:
        raise ValueError(f"set_memory expects more than the {held} bytes that the process has already, got {size}")
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))


def _buffers() -> dict[int, int]:
    """Size by address of the buffers that live tensors, nodes and arenas hold."""
    found: dict[int, int] = {}
    for array in _arrays():
        while isinstance(array.base, np.ndarray):
            array = array.base
        found[array.__array_interface__["data"][0]] = array.nbytes
    found.pop(0, None)
    return {address: size for address, size in found.items() if size}


def _arrays() -> Iterator[np.ndarray[Any, Any]]:
    for thing in gc.get_objects():
        kind = type(thing)  # isinstance would ask proxies of other libraries for their class, and wake them
        if issubclass(kind, Tensor):
            data = getattr(thing, "_data", None)
            if isinstance(data, np.ndarray) and 0 not in data.strides[:1]:  # traced tensors have no memory
                yield data
        elif kind is Arena:
            yield thing.flat
        elif kind is Node and thing.outputs is not None:
            outputs = thing.outputs if isinstance(thing.outputs, tuple) else (thing.outputs,)
            yield from (array for array in outputs if isinstance(array, np.ndarray))


def _process_now() -> int:
    return _status("VmRSS") or _process_peak()


def _process_peak() -> int:
    found = _status("VmHWM")
    if found is not None or os.name != "posix":
        return found or 0
    import resource  # noqa: PLC0415  (there is no such module on Windows)

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _status(name: str) -> int | None:
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith(f"{name}:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def _bytes(size: str | int) -> int:
    if isinstance(size, int):
        return size
    found = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]*)\s*", size.lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"set_memory expects bytes or words like '2GB', got {size!r}")
    return int(float(found[1]) * _UNITS[found[2]])
