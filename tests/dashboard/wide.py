"""A run of 512 ranks on 64 hosts, rolled up: one of them is slow from step 30 on, another has an odd gradient once."""

from collections.abc import Iterator

import numpy as np
from mindscope.insight.rank_times import with_work
from mindscope.storage import Layout, Run, Store
from mindscope.storage.ranks.rank_stack import RankStack, StackedBlock
from mindscope.storage.ranks.rollup_recorder import RollupOptions, RollupRecorder
from mindscope.storage.ranks.topology import topology_of_mesh

RANKS, STEPS, SLOW, SINCE, ODD, ODD_STEP = 512, 60, 219, 30, 400, 12
TOPOLOGY = topology_of_mesh([f"node-{rank // 8:02d}" for rank in range(RANKS)], {"data": 64, "tensor": 8})
_GRADIENT = Layout("gradient", ("one.weight", "two.weight"), ("l2_norm",), ("float32",))
_SENT = Layout(
    "communication",
    ("all_reduce/data", "all_gather/tensor"),
    ("l2_norm", "bytes", "seconds", "wait_seconds"),
    ("float32", "float64", "float64", "float64"),
)


def stacks(steps: int = STEPS, first: int = 0) -> Iterator[RankStack]:
    """What all ranks record, a step after the other: they meet in the backward pass, so that the slow one shows."""
    for step in range(first, first + steps):
        random = np.random.default_rng(step)
        forward = random.normal(0.2, 0.002, RANKS)
        forward[SLOW] += 0.3 if step >= SINCE else 0.0
        wait = forward.max() - forward
        gradient = np.exp(random.normal(0.0, 0.1, (2, 1, RANKS))).astype(np.float32)
        gradient[1, 0, ODD] *= 1e3 if step == ODD_STEP else 1.0
        sent = np.zeros((2, 4, RANKS))
        sent[:, 1] = 4096.0
        sent[:, 2], sent[:, 3] = wait + 0.01, wait
        sent[1, 2:] = 0.01
        times = {"data": np.full(RANKS, 0.01), "forward": forward, "backward": wait + 0.3}
        scalars = {f"time/{name}_seconds": seconds for name, seconds in times.items()}
        scalars["step_seconds"] = sum(times.values())
        blocks = {_GRADIENT: StackedBlock(gradient), _SENT: StackedBlock(sent)}
        yield RankStack(step, 1_795_000_000.0 + step, np.arange(RANKS), blocks, scalars)


def recorder(store: Store, name: str = "wide") -> RollupRecorder:
    """The recorder of the run's roll-up."""
    return RollupRecorder(store, f"{name}-1", name, TOPOLOGY, RollupOptions(framework="pytorch", derive=with_work))


def write_wide(store: Store) -> Run:
    """Writes the whole run."""
    rolling = recorder(store)
    for stack in stacks():
        rolling.add_step(stack)
    rolling.close()
    return store.find_run("wide")
