"""The memory of a thread is that of its own heaps, whatever other threads hold."""

import ctypes
import multiprocessing
import os
import platform
import subprocess
import sys
import threading

import pytest
from mindscope.storage.writing.thread_memory import heap_bytes_of_this_thread

pytestmark = pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="the heaps of threads are those of glibc")

PIECE = 100_000  # below the size for which the C library makes a mapping


class Pieces:
    """Memory of the C library, from whatever thread asks for it."""

    def __init__(self):
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype, self.libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        self.libc.free.argtypes = [ctypes.c_void_p]
        self.held = []

    def grow(self, megabytes):
        while len(self.held) * PIECE < megabytes * 1e6:
            self.held.append(self.libc.malloc(PIECE))

    def release(self):
        while self.held:
            self.libc.free(self.held.pop())


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def courses():
    pieces, found = Pieces(), []
    for megabytes in (5, 50, 150):
        pieces.grow(megabytes)
        found.append(heap_bytes_of_this_thread() / 1e6)
    pieces.release()
    return found


def test_the_bytes_follow_what_the_thread_holds_over_several_heaps():
    # in a process of its own: a thread of this one may get heaps that a former thread has grown
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        small, middle, large = pool.apply(in_thread, (courses,))
    assert middle - small == pytest.approx(45, abs=1)
    assert large - middle == pytest.approx(100, abs=1)


def test_what_another_thread_holds_is_none_of_it():
    def beside():
        before, pieces = heap_bytes_of_this_thread(), Pieces()
        in_thread(lambda: pieces.grow(30))
        found = heap_bytes_of_this_thread() - before
        pieces.release()
        return found

    assert in_thread(beside) < 1e6


def test_the_main_heap_is_nobodys_own():
    code = (
        "import threading\n"
        "from mindscope.storage.writing.thread_memory import heap_bytes_of_this_thread as held\n"
        "found = [held()]\n"
        "thread = threading.Thread(target=lambda: found.append(held()))\n"
        "thread.start(); thread.join(); print(found)"
    )
    shared = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=shared, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[0, 0]"
