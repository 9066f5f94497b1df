"""What malloc does with memory that a step has freed: it keeps it for the next step.

Left alone, glibc gives large blocks, and the end of its heap, back to the operating system as soon as they are free,
and the next step has every page of them zeroed again. Which blocks that are hangs on where a few small ones happen to
lie: equal steps took up to a third longer beside something that only counted them (ADR 0018). MindSpore keeps what was
freed in a pool of its own; glibc's heap is a pool if it is told to be.
"""

import ctypes
import os
from typing import Any, Final

__all__ = ["keep_freed_memory", "release_freed_memory"]

#: Parameters of `mallopt`, from glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: Free bytes at the end of the heap above which they are given back, our choice; and the size from which a block is
#: mapped by itself, than which glibc allows no larger one.
_KEPT: Final = 1 << 30
_MAPPED: Final = 32 << 20
_SAID_IN = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")


def keep_freed_memory() -> bool:
    """Return whether the allocator of this process keeps from here on what is freed, up to a gigabyte.

    False where it is another than glibc's, and where the environment says already what it is to do.
    """
    is_said = any(name in os.environ for name in _SAID_IN) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    libc = None if is_said else _glibc()
    return libc is not None and all(
        libc.mallopt(*setting) for setting in ((_MMAP_THRESHOLD, _MAPPED), (_TRIM_THRESHOLD, _KEPT))
    )


def release_freed_memory() -> None:
    """Give memory that was kept back to the operating system, where the allocator can."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _glibc() -> Any | None:
    """Return the process's C library; None where it is another."""
    try:
        libc = ctypes.CDLL(None)
        _ = libc.gnu_get_libc_version
    except (AttributeError, OSError, TypeError):  # another C library, or another system
        return None
    return libc
