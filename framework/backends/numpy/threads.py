"""Work split between threads of the engine, each of which computes with one thread of BLAS.

OpenBLAS's own threads wait for each other in a loop; on cores that others use too they run many times slower than one.
A split in a few large parts, each on its own, does not. How many threads there may be is what BLAS was told
(`OPENBLAS_NUM_THREADS`, threadpoolctl), by default every core. With one thread nothing here is used.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from ...specs import Spec
from ...tensor import Array

__all__ = ["Task", "at_once", "parts_of", "product", "single_threaded_blas", "thread_count"]

#: A function and its arguments.
Task = tuple[Callable[..., object], tuple[object, ...]]

_NAMES = ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_", "openblas_{}_num_threads")


@cache
def _blas() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Return the functions that get and set the number of threads of NumPy's own OpenBLAS, if it has one."""
    folder = Path(np.__file__).resolve().parent
    found = [*folder.parent.glob("numpy.libs/*openblas*"), *folder.glob(".libs/*openblas*")]
    found += folder.glob(".dylibs/*openblas*")
    for path in found:
        try:
            library = ctypes.CDLL(str(path))
        except OSError:
            continue
        for name in _NAMES:
            get, set_ = (getattr(library, name.format(word), None) for word in ("get", "set"))
            if get is not None and set_ is not None:
                return get, set_
    return None


def thread_count() -> int:
    """Return how many threads a compiled function may use: those of BLAS, at most one a core."""
    functions = _blas()
    if functions is None:
        return 1
    return max(1, min(int(functions[0]()), len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 64))


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Open a block in which BLAS uses one thread for each of ours; afterwards as many as before."""
    functions = _blas()
    assert functions is not None
    get, set_ = functions
    before = get()
    set_(1)
    try:
        yield
    finally:
        set_(before)


def parts_of(length: int, count: int) -> list[slice]:
    """Return the indices below `length` in `count` runs that differ by at most one."""
    ends = [length * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(ends) if b > a]


def at_once(tasks: Sequence[Task]) -> None:
    """Run all tasks: the first here, each other by a thread of its own.

    Where another call is using the threads, all are done here, one after the other.
    """
    crew = _crew(os.getpid())
    if not crew.lock.acquire(blocking=False):
        for function, arguments in tasks:
            function(*arguments)
        return
    try:
        crew.run(tasks)
    finally:
        crew.lock.release()


class _Crew:
    """The threads of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._workers: list[_Worker] = []

    def run(self, tasks: Sequence[Task]) -> None:
        """Run the tasks, and raise the first error among them."""
        while len(self._workers) < len(tasks) - 1:
            self._workers.append(_Worker())
        busy = self._workers[: len(tasks) - 1]
        for worker, task in zip(busy, tasks[1:], strict=True):
            worker.start(task)
        error: BaseException | None = None
        try:
            function, arguments = tasks[0]
            function(*arguments)
        finally:
            for worker in busy:
                error = worker.finish() or error
        if error is not None:
            raise error


class _Worker:
    """One thread that waits for tasks."""

    def __init__(self) -> None:
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._task: Task | None = None
        self._error: BaseException | None = None
        threading.Thread(target=self._loop, name="mindscope-kernels", daemon=True).start()

    def start(self, task: Task) -> None:
        """Start the task on the thread."""
        self._task, self._error = task, None
        self._go.release()

    def finish(self) -> BaseException | None:
        """Return what the task raised, once it is done."""
        self._done.acquire()
        return self._error

    def _loop(self) -> None:
        with np.errstate(all="ignore"):
            while True:
                self._go.acquire()
                assert self._task is not None
                function, arguments = self._task
                try:
                    function(*arguments)
                except BaseException as error:  # noqa: BLE001 (it is raised where the task came from)
                    self._error = error
                self._task = None
                self._done.release()


@cache
def _crew(process: int) -> _Crew:
    """Return the threads of a process; a fork starts without any."""
    del process
    return _Crew()


# Multiplications below which waking a thread costs more than it saves. Our choice: about 100 us of one core.
_WORTH_A_THREAD = 4_000_000


def product(a: Spec, b: Spec, out: Spec) -> Callable[..., object]:
    """`run(a, b, out)` for arrays of these specs."""
    count = thread_count()
    if count == 1 or out.size * a.shape[-1] < _WORTH_A_THREAD * count or len(out.shape) < 2:
        return np.matmul
    if len(out.shape) > 2:
        return _by_stack(a, b, out, count) if out.shape[0] >= count else np.matmul
    if out.shape[0] >= out.shape[1]:
        rows = parts_of(out.shape[0], count)
        return lambda a, b, out: at_once([(np.matmul, (a[part], b, out[part])) for part in rows])
    columns = parts_of(out.shape[1], count)
    return lambda a, b, out: at_once([(np.matmul, (a, b[:, part], out[:, part])) for part in columns])


def _by_stack(a: Spec, b: Spec, out: Spec, count: int) -> Callable[..., object]:
    parts = parts_of(out.shape[0], count)
    cut_a, cut_b = (x.shape[:1] == out.shape[:1] and len(x.shape) == len(out.shape) for x in (a, b))

    def run(a: Array, b: Array, out: Array) -> None:
        at_once([(np.matmul, (a[part] if cut_a else a, b[part] if cut_b else b, out[part])) for part in parts])

    return run
