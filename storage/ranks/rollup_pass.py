"""Rolls up a run whose ranks have recorded themselves, as a pass over its store."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from ..run_info import Run
from ..store import Store
from .rollup_recorder import RollupOptions, RollupRecorder, newest_rolled
from .topology import read_topology

#: Steps that are read of each rank at a time.
_WINDOW: Final = 64
#: Seconds between two passes over a run that is followed (our choice: a page looks every two).
_PAUSE_S: Final = 2.0
#: Steps by which the writer of a rank that runs may be behind, as `docs/store.md` promises.
_BEHIND: Final = 64


@dataclass(frozen=True, slots=True)
class RolledUp:
    """What a pass has rolled up.

    Args:
        first: The first step that was new; `last` is the newest that is rolled up now, -1 for none.
        late: Records that came after their step was rolled up by an earlier pass.
    """

    run: Run
    first: int
    last: int
    late: int = 0


def roll_up_run(
    store: Store,
    reference: str,
    options: RollupOptions | None = None,
    *,
    told: Callable[[int, int], None] = lambda _done, _steps: None,
) -> RolledUp:
    """Roll up all steps of a run that are not rolled up yet; of one that is written, those that are complete.

    A step counts as complete 64 steps behind the newest, which is what the writer of a rank may be behind.

    Args:
        told: Called after each window with the newest step that is rolled up and the last that will be.

    Raises:
        RunNotFound: No run matches.
        StoreUnavailable: Another process rolls the run up.
    """
    run = store.find_run(reference)
    first = newest_rolled(store, run.id)[0] + 1
    last = run.last_step - (_BEHIND if run.state == "running" else 0)
    if first > last:
        return RolledUp(run, first, first - 1)
    topology = replace(read_topology(store, run.id, run.ranks), ranks=len(run.ranks))
    chosen = replace(options or RollupOptions(), has_details=False, framework=run.framework)
    recorder = RollupRecorder(store, run.id, run.name, topology, chosen)
    for begin, end in _windows(first, last):
        for rank in run.ranks:
            for record in store.replay(run.id, rank=rank, first=begin, last=end):
                recorder.add(rank, record)
        recorder.finish()
        told(recorder.last_step, last)
    recorder.close()
    return RolledUp(run, first, recorder.last_step, recorder.late)


def follow_run(
    store: Store,
    reference: str,
    options: RollupOptions | None = None,
    *,
    told: Callable[[int, int], None] = lambda _done, _steps: None,
    pause: Callable[[float], object] = time.sleep,
) -> RolledUp:
    """Roll up a run again and again while its ranks write; return when it has ended and is rolled up whole.

    Args:
        told: As of `roll_up_run`.
        pause: Waits for so many seconds between two passes.

    Raises:
        RunNotFound: No run matches.
        StoreUnavailable: Another process rolls the run up.
    """
    run = store.find_run(reference).id
    first, late = -1, 0
    while True:
        done = roll_up_run(store, run, options, told=told)
        first, late = (done.first if first < 0 else first), late + done.late
        if done.run.state != "running":  # as it was before the pass
            return replace(done, first=first, late=late)
        pause(_PAUSE_S)


def _windows(first: int, last: int) -> Iterator[tuple[int, int]]:
    for begin in range(first, last + 1, _WINDOW):
        yield begin, min(begin + _WINDOW - 1, last)
