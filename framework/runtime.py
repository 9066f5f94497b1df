"""What the process uses, and how: threads, determinism, memory, streams; names of MindSpore's `runtime`.

Memory: what is alive is found when it is asked for, by looking at the tensors, recorded nodes and arenas that the
garbage collector knows, so training pays nothing for it. The peak is only known while allocations are traced
(`start_memory_statistics`), which makes an eager step of a small network about a third slower; otherwise the figure
is the operating system's, of the whole process.
"""

import os
import re
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..garbage import objects_of
from .allocator import release_freed_memory
from .dtype import Array
from .errors import EngineError
from .optim.optimizer_memory import Arena
from .streams import Stream, current_stream, launch_blocking, synchronize
from .tape_node import TapeNode
from .tensor import Tensor

__all__ = [
    "Stream",
    "can_be_deterministic",
    "current_stream",
    "empty_cache",
    "get_threads",
    "is_deterministic",
    "launch_blocking",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "set_deterministic",
    "set_memory",
    "set_threads",
    "start_memory_statistics",
    "stop_memory_statistics",
    "synchronize",
    "threads",
]


def get_threads() -> dict[str, int]:
    """Return the threads of each library that has a pool: `openblas`, `mkl`, ... (with threadpoolctl), and `numba`."""
    found: dict[str, int] = {}
    if find_spec("threadpoolctl") is not None:
        for pool in import_module("threadpoolctl").threadpool_info():
            name = str(pool["internal_api"])
            found[name] = max(found.get(name, 0), int(pool["num_threads"]))
    numba = sys.modules.get("numba")
    if numba is not None:
        found["numba"] = int(numba.get_num_threads())
    return found


def set_threads(count: int) -> None:
    """Use that many threads for BLAS and the kernels from here on.

    Raises:
        ValueError: The count is less than 1.
        EngineError: threadpoolctl, which reaches BLAS, is not installed.
    """
    _limited(count)
    _set_numba(count)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Open a block in which BLAS and the kernels use that many threads.

    Raises:
        ValueError: The count is less than 1.
        EngineError: threadpoolctl, which reaches BLAS, is not installed.
    """
    numba = sys.modules.get("numba")
    before = None if numba is None else int(numba.get_num_threads())
    with _limited(count):
        _set_numba(count)
        try:
            yield
        finally:
            if before is not None:
                _set_numba(before)


def _limited(count: int) -> Any:
    if count < 1:
        raise ValueError(f"threads expects a count of 1 or more, got {count}")
    if find_spec("threadpoolctl") is None:
        raise EngineError(
            "the number of BLAS threads is set through threadpoolctl, which is not installed; pip install "
            "threadpoolctl, or set OPENBLAS_NUM_THREADS before Python starts"
        )
    return import_module("threadpoolctl").threadpool_limits(count)


def _set_numba(count: int) -> None:
    numba = sys.modules.get("numba")
    if numba is not None:
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))


_is_deterministic = [False]


def set_deterministic(deterministic: bool) -> None:
    """Make equal programs give equal bits on one machine from here on, with True.

    The kernels and random numbers of the engine always do. BLAS may share a product out among its threads in ways that
    depend on load, so it gets one thread (where threadpoolctl is installed; otherwise set OPENBLAS_NUM_THREADS=1).

    Raises:
        EngineError: BLAS cannot be told, threadpoolctl being absent.
    """
    if deterministic:
        set_threads(1)
    _is_deterministic[0] = bool(deterministic)


def is_deterministic() -> bool:
    """Return whether `set_deterministic(True)` was the last word."""
    return _is_deterministic[0]


def can_be_deterministic() -> bool:
    """Return whether BLAS can be told from here."""
    return find_spec("threadpoolctl") is not None


_UNITS = {"": 1, "b": 1, "kb": 1 << 10, "mb": 1 << 20, "gb": 1 << 30, "tb": 1 << 40}


def memory_allocated() -> int:
    """Return bytes of the distinct buffers behind all tensors, saved results and optimizer states that are alive."""
    return sum(_buffers().values())


def max_memory_allocated() -> int:
    """Return the peak in bytes since counting began: of all allocations while traced, else of the whole process."""
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[1]
    return _process_peak()


def memory_stats() -> dict[str, int]:
    """Return everything that is known, in bytes but for the count.

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
    """Trace allocations from here on, and count the peak anew."""
    if tracemalloc.is_tracing():
        tracemalloc.reset_peak()
    else:
        tracemalloc.start()


def stop_memory_statistics() -> None:
    """Stop tracing allocations."""
    tracemalloc.stop()


def empty_cache() -> None:
    """Give memory that the process has freed and keeps for reuse back to the operating system."""
    release_freed_memory()


def set_memory(max_size: str | int | None) -> None:
    """Let allocations that take the process's data beyond `max_size` fail with MemoryError from here on.

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


def _arrays() -> Iterator[Array]:
    for thing in objects_of(Tensor, Arena, TapeNode):
        if isinstance(thing, Tensor):
            data = getattr(thing, "_data", None)
            if isinstance(data, np.ndarray) and 0 not in data.strides[:1]:  # traced tensors have no memory
                yield data
        elif isinstance(thing, Arena):
            yield thing.flat
        elif thing.outputs is not None:
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
