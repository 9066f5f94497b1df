"""Items after a function of their columns, in this process or in worker processes that keep their order.

    this process                                  worker k
    a thread sends task i to worker i mod n  -->  receives, applies, sends    (it ignores Ctrl-C: this process decides)
    results are read from worker i mod n     <--
    the pipe is closed, or this process dies -->  reads the end of the pipe and ends

Each worker has at most two tasks at a time, so that an early end leaves little behind. A failing task sends its
exception back with the traceback as text. A worker that dies is noticed by the end of its pipe.
"""

import multiprocessing
import pickle
import signal
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np

from ..dtype import Array
from ..errors import EngineError
from .dataset import Dataset, Item, Start, stage

__all__ = ["WorkerError", "WorkerPool", "WorkerTraceback"]

_AHEAD = 2
#: Seconds that a worker is given to end by itself.
_PATIENCE_S = 5.0


class WorkerError(EngineError, RuntimeError):
    """A worker process that died, or failed in a way that cannot be sent back."""


class WorkerTraceback(Exception):
    """Where in a worker an exception came from; the cause of that exception here."""

    def __str__(self) -> str:
        return f"in a worker process:\n{self.args[0]}"


class WorkerPool:
    """Processes that all apply one function.

    Args:
        function: Applied to the parts of every task.
        workers: How many processes.
        start: How they begin.

    Raises:
        ValueError: The function cannot be sent to another process.
    """

    __slots__ = ("_pipes", "_processes")

    def __init__(self, function: Callable[..., object], workers: int, start: Start) -> None:
        context: Any = multiprocessing.get_context(start)  # the class depends on how processes start
        self._pipes: list[Connection] = []
        self._processes: list[BaseProcess] = []
        _check_picklable(function, start)
        for number in range(workers):
            here, there = context.Pipe()
            inherited = [*self._pipes, here] if start == "fork" else []
            process = context.Process(
                target=_serve, args=(there, function, inherited), name=f"mindscope-data-{number}", daemon=True
            )
            with _without_interrupts():
                process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)

    def run(self, tasks: Iterator[tuple[object, ...]]) -> Iterator[Any]:
        """Return the results of the tasks, in their order.

        Raises:
            WorkerError: A worker died.
            Exception: Whatever the function, or the iterator of tasks, raised.
        """
        feeder = _Feeder(tasks, self._pipes)
        feeder.thread.start()
        is_complete = False
        try:
            number = 0
            while feeder.has_sent(number):
                yield self._receive(number % len(self._pipes), number)
                feeder.room.release()
                number += 1
            if feeder.error is not None:
                raise feeder.error
            is_complete = True
        finally:
            feeder.stop.set()
            feeder.room.release()
            if not is_complete:
                self._terminate()  # or the thread could wait for ever to send to a worker that waits for us
            feeder.thread.join()

    def _receive(self, worker: int, number: int) -> Any:
        try:
            is_good, result = self._pipes[worker].recv()
        except (EOFError, ConnectionError) as error:
            process = self._processes[worker]
            process.join(_PATIENCE_S)
            hint = (
                "; a script that starts workers needs its work under `if __name__ == '__main__':`"
                if number < len(self._pipes) and process.exitcode == 1
                else "; was it out of memory?"
                if process.exitcode == -signal.SIGKILL
                else ""
            )
            raise WorkerError(
                f"data worker {worker} died with exit code {process.exitcode} while it had item {number}{hint}"
            ) from error
        if is_good:
            return result
        raise _revived(*result)

    def _terminate(self) -> None:
        for process in self._processes:
            process.terminate()

    def close(self) -> None:
        """End the processes. May be called more than once."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(_PATIENCE_S)
            if process.is_alive():
                process.kill()
                process.join()
        self._pipes, self._processes = [], []


class _Feeder:
    """A thread that sends the tasks out, as many ahead as there is room for."""

    def __init__(self, tasks: Iterator[tuple[object, ...]], pipes: list[Connection]) -> None:
        self._tasks, self._pipes = tasks, pipes
        self._news = threading.Condition()
        self._sent, self._is_done = 0, False
        self.room = threading.Semaphore(_AHEAD * len(pipes))
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, name="mindscope-feed", daemon=True)

    def has_sent(self, number: int) -> bool:
        """Return whether there is a task of that number; waits until it is sent, or known not to come."""
        with self._news:
            self._news.wait_for(lambda: self._sent > number or self._is_done)
            return self._sent > number

    def _run(self) -> None:
        try:
            for number, task in enumerate(self._tasks):
                self.room.acquire()
                if self.stop.is_set():
                    break
                self._pipes[number % len(self._pipes)].send(task)
                with self._news:
                    self._sent = number + 1
                    self._news.notify()
        except (BrokenPipeError, ConnectionError):
            with self._news:
                self._sent += 1  # the reader of that pipe finds out why
        except BaseException as error:  # noqa: BLE001  (it belongs to the consumer, whatever it is)
            self.error = error
        finally:
            with self._news:
                self._is_done = True
                self._news.notify()


def _serve(pipe: Connection, function: Callable[..., object], inherited: list[Connection]) -> None:
    """Answer tasks until the pipe ends. Runs in the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for other in inherited:
        other.close()  # else the pipe would not end with the process that started us
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, function(*task))
        except BaseException as error:  # noqa: BLE001  (it is raised again where the result was wanted)
            answer = (False, _described(error))
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionError):
            return
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            pipe.send((False, (None, f"the result cannot be sent back: {error}", "")))


def _described(error: BaseException) -> tuple[bytes | None, str, str]:
    """Return the exception as bytes where that works, its last line, and the traceback as text."""
    text = "".join(traceback.format_exception(error))
    try:
        packed = pickle.dumps(error)
        pickle.loads(packed)  # some can be written and not read: found here, not where nobody can tell any more
    except Exception:  # noqa: BLE001  (user exceptions fail to pickle in ways of their own)
        packed = None
    return packed, "".join(traceback.format_exception_only(error)).strip(), text


def _revived(packed: bytes | None, line: str, text: str) -> BaseException:
    if packed is None:
        return WorkerError(f"the function of map failed in a worker process: {line}\n{text}")
    error: BaseException = pickle.loads(packed)
    error.__cause__ = WorkerTraceback(text)
    return error


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Return a block in which Ctrl-C waits; a process begun in it never gets one, not even while it starts."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _check_picklable(function: Callable[..., object], start: Start) -> None:
    if start == "fork":
        return
    try:
        pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"map with workers sends its function to other processes, and this one cannot be sent ({error}); define it "
            f"at the top of a module, or pass start='fork'"
        ) from error


class ColumnFunction:
    """What is done to one item; goes to the workers as a whole."""

    __slots__ = ("_function", "_seed")

    def __init__(self, function: Callable[..., Item | Array], seed: int | None) -> None:
        self._function, self._seed = function, seed

    def __call__(self, epoch: int, position: int, item: Item) -> Item:
        """Return the columns that the function makes of these."""
        if self._seed is None:
            made = self._function(*item)
        else:
            entropy = np.random.SeedSequence([self._seed, epoch, position])
            made = self._function(np.random.Generator(np.random.Philox(entropy)), *item)
        return made if isinstance(made, tuple) else (made,)


@stage("map")
class Mapped(Dataset):
    """Items after a function of their columns."""

    __slots__ = ("__weakref__", "_apply", "_idle", "_source", "_start", "_workers")

    def __init__(
        self,
        source: Dataset,
        function: Callable[..., Item | Array],
        seed: int | None,
        workers: int,
        start: Start,
    ) -> None:
        if workers < 0:
            raise ValueError(f"map expects 0 workers or more, got {workers}")
        if seed is not None and seed < 0:
            raise ValueError(f"map expects a seed of 0 or more, or None, got {seed}")
        if start not in ("spawn", "fork", "forkserver"):
            raise ValueError(f"map expects start to be one of spawn, fork, forkserver, got {start!r}")
        self._source, self._apply = source, ColumnFunction(function, seed)
        self._workers, self._start = workers, start
        self._idle: list[WorkerPool] = []
        weakref.finalize(self, _close, self._idle)

    def __len__(self) -> int:
        return len(self._source)

    def epoch(self, number: int = 0, *, start: int = 0) -> Iterator[Item]:
        """Return the items of that epoch, from `start` on."""
        tasks = (
            (number, position, item) for position, item in enumerate(self._source.epoch(number, start=start), start)
        )
        if not self._workers:
            for task in tasks:
                yield self._apply(*task)
            return
        pool = self._idle.pop() if self._idle else WorkerPool(self._apply, self._workers, self._start)
        try:
            yield from pool.run(tasks)
        except BaseException:
            pool.close()  # it may have items of this epoch in its pipes; closing the iterator comes here too
            raise
        self._idle.append(pool)


def _close(pools: list[WorkerPool]) -> None:
    while pools:
        pools.pop().close()
