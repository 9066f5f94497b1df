"""Runs one training of several ranks under mindscope with its defaults, and says what the diagnosis found."""

import contextlib
import shutil
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mindscope
import torch.distributed as dist

from ..faults.outcome import Alarm, said
from ..faults.together import train_together
from .faults import FAULTS, Fault
from .kinds import KINDS

#: Causes that speak about ranks: none of them may be found in a healthy training.
OF_RANKS = frozenset(
    (
        "identical_rank_data",
        "rank_desync",
        "rank_dropped",
        "rank_rng_error",
        "reduce_scale",
        "silent_data_corruption",
        "stale_weights",
    )
)


@dataclass(frozen=True, slots=True)
class Result:
    """What was found in one run.

    Args:
        name: Kind and fault; a healthy run has the kind alone.
        is_healthy: Whether nothing was injected.
        is_detected: Whether a right cause, or another one that speaks about ranks, was found.
        is_right: Whether the first root cause that speaks about ranks is a right one, on the right rank: a replica of
            two may be blamed together with the other where nothing tells them apart.
        is_named: As before, but the rank itself is named.
        said: Root causes with their rank and explanation.
        seconds: The run took.
        error: What ended it.
    """

    name: str
    is_healthy: bool
    is_detected: bool
    is_right: bool
    is_named: bool
    said: tuple[str, ...]
    seconds: float
    error: str


def run(name: str, seed: int) -> Result:
    """Run a fault, or the healthy training of a kind."""
    folder, began = Path(tempfile.mkdtemp(prefix="divergence-")), time.monotonic()
    fault = FAULTS.get(name)
    world = KINDS[fault.kind if fault else name].world
    try:
        error, _ = train_together(train_rank, name, seed, world, folder)
        with mindscope.open_store(folder) as store:
            alarms, roots = said(mindscope.diagnose(store, "latest")) if store.runs(limit=1) else ((), ())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _result(name, fault, alarms, roots, time.monotonic() - began, error)


def _result(
    name: str, fault: Fault | None, alarms: tuple[Alarm, ...], roots: tuple[Alarm, ...], seconds: float, error: str
) -> Result:
    right = fault.causes if fault else ()
    spoken = tuple(f"{root.cause} rank {root.rank} {root.site or '-'}: {root.explanation}" for root in roots)
    told = [root for root in roots if root.cause in OF_RANKS.union(right)][:1]
    told = [root for root in told if root.cause in right]
    return Result(
        name=name,
        is_healthy=fault is None,
        is_detected=any(alarm.cause in OF_RANKS.union(right) for alarm in alarms),
        is_right=fault is not None and any(_fits(root, fault) for root in told),
        is_named=fault is not None and any(fault.rank is None or root.rank == fault.rank for root in told),
        said=spoken,
        seconds=round(seconds, 2),
        error=error,
    )


def _fits(root: Alarm, fault: Fault) -> bool:
    """Whether the rank is right, or both of two replicas are named because nothing tells which of them it is."""
    is_both = "nothing tells which" in root.explanation
    return fault.rank is None or root.rank == fault.rank or is_both


def train_rank(name: str, seed: int, rank: int, folder: str, rendezvous: str) -> None:
    """Train one rank, in a process of its own."""
    fault = FAULTS.get(name)
    kind = KINDS[fault.kind if fault else name]
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=kind.world)
    training = kind(rank, seed)
    if fault is not None:
        fault.inject(training)

    def watch(watched: Any) -> Any:
        return mindscope.watch(watched.model, watched.optimizer, store=folder, run=name.replace("/", "-"))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        training.train(watch)
    dist.barrier()
    with contextlib.suppress(RuntimeError):
        dist.destroy_process_group()
