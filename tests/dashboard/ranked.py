"""A run of four ranks that reduce their gradients: rank 2 works longer, and the others wait for it."""

import math

import numpy as np
from mindscope.storage import Block, Layout, Run, StepRecord, Store

RANKS, STEPS, SLOW = 4, 40, 2
STEP_S = 0.5
#: Bytes that each of the two calls a step moves.
MOVED = 4096.0


def waiting(rank: int) -> float:
    """Seconds that a call of the rank waits."""
    return 0.01 if rank == SLOW else 0.1


def write_ranks(store: Store) -> Run:
    """Writes the run, one writer a rank."""
    layout = Layout(
        "communication",
        ("all_reduce/world", "all_reduce/world"),
        ("l2_norm", "bytes", "seconds", "wait_seconds"),
        ("float32", "float64", "float64", "float64"),
        calls=(0, 1),
    )
    run: Run | None = None
    for rank in range(RANKS):
        writer = store.begin_run("four-ranks", rank=rank, run_id=run.id if run else None, framework="pytorch")
        run = run or writer.run
        values = np.array([[1.0 + rank, MOVED, 0.2, waiting(rank)]] * 2)
        loss = [math.nan if rank == 3 and step == 20 else 1 / (step + 1) for step in range(STEPS)]
        writer.write(
            [
                StepRecord(
                    step,
                    1_795_000_000.0 + step,
                    blocks=(Block(layout, values),),
                    scalars={"loss": loss[step], "step_seconds": STEP_S},
                )
                for step in range(STEPS)
            ]
        )
        writer.close()
    return store.find_run("four-ranks")
