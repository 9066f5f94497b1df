"""Runs side by side, each in processes of its own that one server forks with everything loaded."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from .cases import CASES
from .outcome import Outcome
from .run import run_case
from .table import SCRIPTS
from .together import server

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def outcomes_of(jobs: Sequence[tuple[str, int]], *, processes: int) -> Iterator[Outcome]:
    """The outcome of every case and seed, as they come."""
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    with ThreadPoolExecutor(processes) as pool:
        for future in as_completed([pool.submit(_work, name, seed) for name, seed in jobs]):
            yield future.result()


def _work(name: str, seed: int) -> Outcome:
    try:
        if SCRIPTS[CASES[name].script].world > 1:
            return run_case(CASES[name], seed)  # which has its ranks forked
        return _forked(name, seed)
    except Exception as error:  # noqa: BLE001  one broken case must not end the others; it counts as a miss, by name
        return Outcome(name, seed, error=f"{type(error).__name__}: {error}")


def _forked(name: str, seed: int) -> Outcome:
    context = server()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_and_send, args=(name, seed, theirs))
    process.start()
    theirs.close()
    try:
        outcome: Outcome = ours.recv()
    except EOFError:
        raise RuntimeError(f"the process of case {name!r} ended without a word; run the case alone") from None
    finally:
        process.join()
    return outcome


def _run_and_send(name: str, seed: int, connection: Any) -> None:
    try:
        connection.send(run_case(CASES[name], seed))
    except Exception as error:  # noqa: BLE001  as above
        connection.send(Outcome(name, seed, error=f"{type(error).__name__}: {error}"))
