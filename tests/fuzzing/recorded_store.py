"""A small recorded run, from which valid exports, run files and command lines are made."""

from pathlib import Path
from typing import Final

import numpy as np
from mindscope.storage import (
    Block,
    Event,
    Finding,
    Histogram,
    Layout,
    ModuleInfo,
    ParameterInfo,
    StepRecord,
    Store,
    Structure,
    open_store,
)

#: Id of the recorded run; the same each time, as the inputs made of it.
RUN: Final = "20261121-053312-trained-3f2a91c4"
_ACTIVATION = Layout("activation", ("net.0", "net.1"), ("mean", "max"), ("float32", "float64"), calls=(0, 1))
_GRADIENT = Layout("gradient", ("net.0.weight",), ("l2_norm", "nans"), ("float32", "uint64"))


def record_run(store: Store, *, steps: int = 20, name: str = "trained") -> str:
    """Write a run of two ranks with every kind of record, and return its id."""
    for rank in (0, 1):
        writer = store.begin_run(name, rank=rank, run_id=RUN, config={"every": 1}, tags={"sweep": "a"})
        writer.write_structure(
            Structure(
                (ModuleInfo("", "Net", 2), ModuleInfo("net.0", "Dense", 0), ModuleInfo("net.1", "ReLU", 1)),
                (ParameterInfo("net.0.weight", (4, 4), "float32", group=(0, 0)),),
                subjects=("activation", "gradient"),
            )
        )
        writer.write([_record(step, rank) for step in range(steps)], findings=[_finding(rank)] if rank == 0 else [])
        while writer.maintain():
            pass
        writer.close()
    return RUN


def _record(step: int, rank: int) -> StepRecord:
    values = np.array([[0.1 * step + rank, np.inf], [np.nan if step == 3 else 1.0, 1e-300]])
    blocks = (
        Block(_ACTIVATION, values, np.array([True, step != 3])),
        Block(_GRADIENT, np.array([[1.0 / (step + 1), 0.0]])),
    )
    drawn = Histogram("net.0", "activation", np.linspace(-1.0, 1.0, 5), np.array([1, 2, 3, 4]))
    events = (Event("step_skipped", step, data={"loss_scale": 2.0**15}),) if step % 10 == 7 else ()
    return StepRecord(
        step,
        100.0 + step,
        blocks=blocks,
        scalars={"loss": 1 / (1 + step)},
        histograms=(drawn,) if step % 10 == 0 else (),
        events=events,
    )


def _finding(rank: int) -> Finding:
    return Finding("dead-relu", "dead_units", "warning", 5, 3, "net.1", "activation/mean", {"share": 0.5}, "why", "do")


def run_files(folder: Path) -> list[Path]:
    """Record a run in the folder, and return its files, one a rank."""
    with open_store(folder) as store:
        record_run(store)
    return sorted(folder.glob("*.rank*.db"))
