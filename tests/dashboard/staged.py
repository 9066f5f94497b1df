"""A run of four stages of a pipeline: each sends what it computed to the next, and stage 1 is late with it."""

import numpy as np
from mindscope.storage import Block, Layout, Run, StepRecord, Store

STAGES, LATE, BYTES, WAITED_S = 4, 1, 2048.0, 0.3
_STATISTICS = ("l2_norm", "bytes", "seconds", "wait_seconds")
_DTYPES = ("float32", "float64", "float64", "float64")


def write_stages(store: Store) -> Run:
    """Write twenty steps of the run."""
    run: Run | None = None
    for rank in range(STAGES):
        writer = store.begin_run("stages", rank=rank, run_id=run.id if run else None, framework="pytorch")
        run = run or writer.run
        rows = {}
        if rank:
            waited = WAITED_S if rank - 1 == LATE else 0.01
            rows["recv/world:-1"] = [1.0, BYTES, waited + 0.01, waited]
        if rank + 1 < STAGES:
            rows["send/world:+1"] = [1.0, BYTES, 0.02, 0.005]
        block = Block(Layout("communication", tuple(rows), _STATISTICS, _DTYPES), np.array(list(rows.values())))
        writer.write([StepRecord(step, 1_795_000_000.0 + step, blocks=(block,)) for step in range(20)])
        writer.close()
    return store.find_run("stages")
