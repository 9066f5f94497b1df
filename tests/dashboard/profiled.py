"""A run of two ranks whose profile is known: data takes half a step, rank 1 works longer, memory peaks at one step."""

import numpy as np
from mindscope.storage import Block, Event, Layout, ModuleInfo, ParameterInfo, Run, StepRecord, Store, Structure

from tests.insight.profile.looked import LOOKED

STEPS, SPLIT_EVERY = 60, 5
PHASES = {"data": 0.05, "forward": 0.01, "backward": 0.02, "optimizer": 0.01}
SLOW_PHASES = {"data": 0.05, "forward": 0.02, "backward": 0.02, "optimizer": 0.01}
OTHER_S, MONITOR_S = 0.01, 0.001
#: The one step that takes longer, between two that are split, and the one at which memory is highest.
LONG_STEP, LONG_S, PEAK_STEP = 32, 1.5, 40
WAITS = (0.02, 0.0)
_COMMUNICATION = Layout("communication", ("all_reduce/world",), ("bytes", "seconds", "wait_seconds"), ("float64",) * 3)


def _record(rank: int, step: int) -> StepRecord:
    phases = SLOW_PHASES if rank else PHASES
    scalars = {
        "step_seconds": LONG_S if step == LONG_STEP else sum(phases.values()) + OTHER_S,
        "memory/host_bytes": 2e9 if step == PEAK_STEP else 1e9 + step * 1e6,
    }
    if step % SPLIT_EVERY == 0:
        scalars |= {f"time/{name}_seconds": seconds for name, seconds in phases.items()}
        scalars |= {"time/monitor_seconds": MONITOR_S, "time/communication_seconds": 0.005}
    events = (Event("operators", step, data={**LOOKED, "step": step}),) if step == 3 and rank == 0 else ()
    costs = Block(_COMMUNICATION, np.array([[4096.0, WAITS[rank] + 0.001, WAITS[rank]]]))
    return StepRecord(step, 1000.0 + 0.1 * step, scalars=scalars, blocks=(costs,), events=events)


def write_profiled(store: Store, name: str = "profiled") -> Run:
    """Writes the run."""
    structure = Structure(
        modules=(ModuleInfo("head", "Dense", 0),),
        parameters=(ParameterInfo("head.weight", (64, 8), "float32", group=(0, 0)),),
    )
    identity: str | None = None
    for rank in range(2):
        writer = store.begin_run(name, rank=rank, run_id=identity, framework="engine")
        identity = writer.run.id
        writer.write_structure(structure)
        writer.write([_record(rank, step) for step in range(STEPS)])
        writer.close()
    return store.find_run(name)
