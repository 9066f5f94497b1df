"""What the process uses, and how: memory, threads, streams, determinism; names of MindSpore's `runtime`."""

from .determinism import can_be_deterministic, is_deterministic, set_deterministic
from .memory import (
    empty_cache,
    max_memory_allocated,
    memory_allocated,
    memory_stats,
    set_memory,
    start_memory_statistics,
    stop_memory_statistics,
)
from .streams import Stream, current_stream, launch_blocking, synchronize
from .threads import get_threads, set_threads, threads

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
