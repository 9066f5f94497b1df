"""The memory that the C library has set aside for one thread.

SQLite's cache, packed records and the rules' histories of a writer thread are no Python objects that could be counted.
But glibc gives every thread an arena of its own for them: heaps aligned at 64 MB, each with a header. Their sizes are
what the thread holds, with the holes that glibc keeps.

Reference:
    glibc, malloc/arena.c, `heap_info`; malloc/malloc.c, `malloc_state` and `NON_MAIN_ARENA`.
"""

import ctypes
import os
import struct
import sys
from functools import cache
from typing import Any, Final

__all__ = ["heap_bytes_of_this_thread"]

#: Alignment of heaps, and most of their number that is read (our choice: 16 GB).
_ALIGNMENT: Final = 64 << 20
_MOST_HEAPS: Final = 256
#: A size that no list of the thread's own serves, which may hold memory of other threads, nor a mapping of its own.
_ASKED: Final = 8 << 10
#: Bit of a chunk's size that says that its arena is not the process's main one.
_OF_A_THREAD: Final = 4
_HEADER: Final = struct.Struct("PPn")  # arena, previous heap, size
#: Where an arena names the top of its newest heap: behind a lock, two flags and ten lists.
_TOP: Final = 96


def heap_bytes_of_this_thread() -> int:
    """Return the bytes of the calling thread's heaps; 0 where it shares the main one, or where they are not glibc's.

    Memory is read through the kernel, so that an allocator that looks otherwise is no danger.
    """
    libc = _libc()
    if libc is None:
        return 0
    place = libc.malloc(_ASKED)
    if not place:
        return 0
    try:
        memory = os.open("/proc/self/mem", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        libc.free(place)
        return 0
    try:
        return _heap_bytes(memory, place)
    except (OSError, struct.error, OverflowError):
        return 0
    finally:
        os.close(memory)
        libc.free(place)


@cache
def _libc() -> Any:  # ctypes knows its functions only when they are called
    """Return the C library if it is glibc with pointers of eight bytes."""
    if sys.platform != "linux" or struct.calcsize("P") != 8:
        return None
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return None
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    return libc


def _heap_bytes(memory: int, place: int) -> int:
    """Return the bytes of all heaps of the arena that this chunk is of."""
    if not _word(memory, place - 8) & _OF_A_THREAD:
        return 0
    heap = place & -_ALIGNMENT
    arena, _, _ = _HEADER.unpack(os.pread(memory, _HEADER.size, heap))
    newest = _word(memory, arena + _TOP) & -_ALIGNMENT
    if newest and _HEADER.unpack(os.pread(memory, _HEADER.size, newest))[0] == arena:
        heap = newest
    total = 0
    for _ in range(_MOST_HEAPS):
        owner, previous, size = _HEADER.unpack(os.pread(memory, _HEADER.size, heap))
        if owner != arena or not 0 < size <= _ALIGNMENT:
            return 0
        total += int(size)
        if not previous:
            return total
        heap = previous
    return total


def _word(memory: int, address: int) -> int:
    return int.from_bytes(os.pread(memory, 8, address), "little")
