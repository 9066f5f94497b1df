"""Several processes that train one model together, forked from a server that has everything loaded."""

import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: After so long without an end a rank is taken for dead; our choice, far beyond what a run takes on a busy machine.
_PATIENCE_S = 120.0


#: What a rank does, by case, seed, rank, the store's folder and the file at which the ranks meet.
Work = Callable[[str, int, int, str, str], None]


def server() -> Any:
    """Whence processes are forked; Any: the context's classes have no names of their own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.faults.preload"])
    return context


def train_together(work: Work, name: str, seed: int, world: int, folder: Path) -> tuple[str, float]:
    """What ended the training, empty if nothing did, and the processor seconds of its slowest rank."""
    context = server()
    rendezvous = folder.with_suffix(".rendezvous")
    ranks = [
        context.Process(target=work, args=(name, seed, rank, str(folder), str(rendezvous))) for rank in range(world)
    ]
    for process in ranks:
        process.start()
    deadline = time.monotonic() + _PATIENCE_S
    for process in ranks:
        process.join(max(0.1, deadline - time.monotonic()))
    for process in ranks:
        if process.is_alive():
            process.kill()
            process.join()
    codes = [process.exitcode for process in ranks]
    return "" if not any(codes) else f"ranks ended with {codes}", _seconds(rendezvous, world)


def _seconds(rendezvous: Path, world: int) -> float:
    notes = [Path(f"{rendezvous}.{rank}") for rank in range(world)]
    found = max((float(note.read_text(encoding="utf-8")) for note in notes if note.exists()), default=0.0)
    for file in (rendezvous, *notes):
        file.unlink(missing_ok=True)
    return found
