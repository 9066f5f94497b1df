"""Simulated jobs of many ranks whose traces look like torch.profiler's, with a fault of known cost, or none.

A job is simulated twice from the same random numbers, with its fault and without: the difference of the two is what the
fault costs. Kernels run on streams after their launch, collectives when their last member has arrived, and each machine
has a clock of its own.
"""

import gzip
import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

#: What is injected, and what a diagnosis may say of it: (kind, name), `{}` is filled with the fault's target.
FAULTS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "healthy": (),
    "slow rank": (("rank", "{}"),),
    "slow operation of a rank": (("rank", "{}"),),
    "pauses of a rank's Python": (("rank", "{}"),),
    "slow loader of a rank": (("rank", "{}"),),
    "periodic pause of a rank": (("rank", "{}"),),
    "bursts of a rank": (("rank", "{}"),),
    "slow from the middle on": (("rank", "{}"),),
    "garbage collection on all ranks": (("cause", "garbage collection"),),
    "slow loader on all ranks": (("cause", "data loading"),),
    "slow machine": (("host", "node-{}"),),
    "slow stage": (("stage", "{}"),),
    "sequence lengths": (("cause", "sequence lengths"),),
    "slow network at times": (("cause", "communication"),),
}
_FORWARD_S, _BACKWARD_S, _LAUNCH_S, _OPTIMIZER_S = 1.5e-3, 3e-3, 2e-5, 1e-3
_DATA_S, _PYTHON_S, _TRANSFER_S = 1e-3, 3e-5, 6e-4


@dataclass(frozen=True, slots=True)
class Job:
    """A job to simulate.

    Args:
        fault: A key of `FAULTS`.
        target: The rank, machine or stage that has it.
        also: Another rank that is slow; -1 for none.
        strength: By how much it is stronger than the least of its kind.
        stages: Of a pipeline; 1 for data parallelism alone.
        has_device: Kernels on streams and NCCL, or operations of the processor and gloo.
        noise: Standard deviation of the logarithm of each duration.
    """

    fault: str
    target: int = 0
    also: int = -1
    strength: float = 1.0
    ranks: int = 4
    per_host: int = 4
    stages: int = 1
    steps: int = 20
    layers: int = 4
    has_device: bool = True
    noise: float = 0.02
    seed: int = 0

    @property
    def answers(self) -> tuple[tuple[str, str], ...]:
        """What a diagnosis may name."""
        return tuple((kind, name.format(self.target)) for kind, name in FAULTS[self.fault])


@dataclass(slots=True)
class _Rank:
    """One rank while it is simulated: the time of its processor and of its streams, and its events."""

    rank: int
    host: float = 0.0
    streams: dict[int, float] = field(default_factory=lambda: {7: 0.0, 20: 0.0, 21: 0.0, 22: 0.0})
    events: list[dict[str, Any]] = field(default_factory=list)
    correlation: int = 0


class _Simulation:
    def __init__(self, job: Job, *, is_faulty: bool) -> None:
        self.job, self._is_faulty = job, is_faulty and job.fault != "healthy"
        self._draw = np.random.default_rng(job.seed)
        self.ranks = [_Rank(rank) for rank in range(job.ranks)]
        self.ends: list[float] = []
        self._sizes = self._draw.lognormal(0.0, 0.25 * job.strength, (job.steps, job.ranks))
        self._bursts = self._draw.random((job.steps, job.ranks)) < 0.2
        self._slow_steps = self._draw.random(job.steps) < 0.3
        if not self._slow_steps[1:].any():
            self._slow_steps[job.steps // 2] = True

    def run(self) -> None:
        for step in range(self.job.steps):
            begun = [rank.host for rank in self.ranks]
            self._begin(step)
            if self.job.stages > 1:
                self._pipeline(step)
            else:
                self._data_parallel(step)
            self._end(step)
            for rank, since in zip(self.ranks, begun, strict=True):
                _event(rank, "user_annotation", f"ProfilerStep#{step}", since, rank.host - since, thread=1)
            self.ends.append(max(rank.host for rank in self.ranks))

    # what is injected

    def _factor(self, rank: int, step: int, operation: str) -> float:
        """Return by how much the fault slows an operation."""
        job = self.job
        size = self._sizes[step, rank] if job.fault == "sequence lengths" and self._is_faulty else 1.0
        if not self._is_faulty:
            return 1.0
        slow = 1.0 + 0.3 * job.strength
        if job.fault == "slow rank" and rank in (job.target, job.also):
            return slow
        if job.fault == "slow from the middle on" and rank == job.target and step >= job.steps // 2:
            return slow
        if job.fault == "slow operation of a rank" and rank == job.target and operation == "gemm_backward_1":
            return 1.0 + 2.0 * job.strength
        if job.fault == "slow machine" and rank // job.per_host == job.target:
            return slow
        if job.fault == "slow stage" and self._stage(rank) == job.target:
            return slow
        return float(size)

    def _pause(self, rank: int, step: int) -> float:
        """Return for how long Python stands before the forward."""
        job = self.job
        if not self._is_faulty or rank != job.target:
            return 0.0
        if job.fault == "pauses of a rank's Python":
            return 8e-3 * job.strength
        if job.fault == "periodic pause of a rank" and step % 4 == 2:
            return 3e-2 * job.strength
        if job.fault == "bursts of a rank" and self._slow_steps[step]:
            return 3e-2 * job.strength
        return 0.0

    def _loader(self, rank: int) -> float:
        job = self.job
        if not self._is_faulty:
            return 0.0
        if job.fault == "slow loader of a rank" and rank == job.target:
            return 8e-3 * job.strength
        return 1.2e-2 * job.strength if job.fault == "slow loader on all ranks" else 0.0

    def _collection(self, rank: int, step: int) -> float:
        if self.job.fault != "garbage collection on all ranks" or not self._is_faulty:
            return 0.0
        return 2e-2 * self.job.strength if self._bursts[step, rank] else 0.0

    def _slow_network(self, step: int) -> float:
        is_slow = self._is_faulty and self.job.fault == "slow network at times" and self._slow_steps[step]
        return 15.0 * self.job.strength if is_slow else 1.0

    # what ranks do

    def _noisy(self, seconds: float) -> float:
        return float(seconds * self._draw.lognormal(0.0, self.job.noise))

    def _stage(self, rank: int) -> int:
        return rank * self.job.stages // self.job.ranks

    def _begin(self, step: int) -> None:
        for rank in self.ranks:
            load = self._noisy(_DATA_S) + self._loader(rank.rank)
            _event(
                rank,
                "user_annotation",
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                rank.host,
                load,
                thread=1,
            )
            rank.host += load + self._noisy(_PYTHON_S)
            tokens = (
                int(1000 * self._sizes[step, rank.rank])
                if self.job.fault == "sequence lengths" and self._is_faulty
                else 1000
            )
            _event(
                rank,
                "cpu_op",
                "aten::embedding",
                rank.host,
                1e-5,
                thread=1,
                args={"Input Dims": [[5000, 64], [tokens]]},
            )
            rank.host += 1e-5 + self._pause(rank.rank, step)
            if collected := self._collection(rank.rank, step):
                _event(rank, "python_function", "Python GC", rank.host, collected, thread=1)
                rank.host += collected
            if step == 0:
                rank.host += 0.02  # caches and compilers

    def _compute(self, rank: _Rank, step: int, operation: str, seconds: float) -> None:
        """Run an operation: on the processor, or by a launch on stream 7."""
        took = self._noisy(seconds) * self._factor(rank.rank, step, operation)
        gap = self._noisy(_PYTHON_S)
        rank.host += gap
        if not self.job.has_device:
            _event(rank, "cpu_op", operation, rank.host, took, thread=1)
            rank.host += took
            return
        call = self._noisy(_LAUNCH_S)
        _event(rank, "cpu_op", f"aten::{operation}", rank.host, call + 1e-5, thread=1)
        self._launch(rank, operation, 7, took, rank.host + 2e-6, call)
        rank.host += call + 1e-5

    def _launch(self, rank: _Rank, name: str, stream: int, seconds: float, at: float, call: float) -> float:
        """Launch a kernel, and return when it begins."""
        rank.correlation += 1
        begin = max(at + call / 2 + 4e-6, rank.streams[stream] + 1e-6)
        _event(rank, "cuda_runtime", "cudaLaunchKernel", at, call, thread=1, args={"correlation": rank.correlation})
        if seconds >= 0.0:
            _kernel(rank, name, stream, begin, seconds)
        return begin

    def _data_parallel(self, step: int) -> None:
        for layer in range(self.job.layers):
            for rank in self.ranks:
                self._compute(rank, step, f"gemm_forward_{layer}", _FORWARD_S)
        for layer in range(self.job.layers):
            for rank in self.ranks:
                self._compute(rank, step, f"gemm_backward_{layer}", _BACKWARD_S)
            self._collective(step, self.ranks)
        for rank in self.ranks:
            if not self.job.has_device:  # the backward pass ends when the last collective has
                rank.host = max(rank.host, rank.streams[20]) + 5e-6
            rank.streams[7] = max(rank.streams[7], rank.streams[20] + 3e-6)
            self._compute(rank, step, "optimizer", _OPTIMIZER_S)

    def _collective(self, step: int, members: list[_Rank]) -> None:
        """Reduce the gradients of a layer beside the backward pass."""
        took = self._noisy(_TRANSFER_S) * self._slow_network(step)
        begins = []
        for rank in members:
            if self.job.has_device:
                rank.streams[20] = max(rank.streams[20], rank.streams[7] + 2e-6)
                begins.append(self._launch(rank, "", 20, -1.0, rank.host, 1e-5))
                rank.host += 1.2e-5
            else:
                _event(rank, "cpu_op", "c10d::allreduce_", rank.host, 1e-5, thread=1)
                rank.host += 1.2e-5
                begins.append(max(rank.streams[20], rank.host))
        until = max(begins) + took
        group = [rank.rank for rank in members]
        for rank, begin in zip(members, begins, strict=True):
            if self.job.has_device:
                said = {
                    "Collective name": "allreduce",
                    "Process Group Name": f"dp_{group[0]}",
                    "Process Group Ranks": str(group),
                }
                _kernel(rank, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20, begin, until - begin, said)
            else:
                _event(rank, "user_annotation", "gloo:all_reduce", begin, until - begin, thread=2)
                rank.streams[20] = until

    def _pipeline(self, step: int) -> None:
        """Run three micro-batches forward, then backward, over the stages; replicas of a stage then reduce."""
        stages, width = self.job.stages, self.job.ranks // self.job.stages
        for name, order, seconds in (
            ("forward", range(stages), _FORWARD_S),
            ("backward", range(stages - 1, -1, -1), _BACKWARD_S),
        ):
            for _ in range(3):
                for place, stage in enumerate(order):
                    for column in range(width):
                        rank = self.ranks[stage * width + column]
                        if place:
                            other = self.ranks[[*order][place - 1] * width + column]
                            self._message(other, rank)
                        for layer in range(self.job.layers):
                            self._compute(rank, step, f"gemm_{name}_{layer}", seconds / 2)
        for stage in range(stages):
            self._collective(step, self.ranks[stage * width : (stage + 1) * width])
        for rank in self.ranks:
            rank.streams[7] = max(rank.streams[7], rank.streams[20] + 3e-6)
            self._compute(rank, step, "optimizer", _OPTIMIZER_S)

    def _message(self, sender: _Rank, receiver: _Rank) -> None:
        sender.streams[21] = max(sender.streams[21], sender.streams[7] + 2e-6)
        begin = (
            self._launch(sender, "", 21, -1.0, sender.host, 1e-5),
            self._launch(receiver, "", 22, -1.0, receiver.host, 1e-5),
        )
        sender.host, receiver.host = sender.host + 1.2e-5, receiver.host + 1.2e-5
        until = max(begin) + self._noisy(1e-4)
        for rank, since, stream, word, peer in (
            (sender, begin[0], 21, "send", {"Dst Rank": receiver.rank}),
            (receiver, begin[1], 22, "recv", {"Src Rank": sender.rank}),
        ):
            _kernel(rank, "ncclDevKernel_SendRecv", stream, since, until - since, {"Collective name": word, **peer})
        receiver.streams[7] = max(receiver.streams[7], until + 2e-6)

    def _end(self, step: int) -> None:
        """Let all ranks meet: the norm of all gradients is reduced, and its value read."""
        self._collective(step, self.ranks) if self.job.stages > 1 else None
        for rank in self.ranks:
            if self.job.has_device:
                last = max(rank.streams.values())
                until = max(rank.host, last) + 5e-6
                rank.correlation += 1
                _event(
                    rank,
                    "cuda_runtime",
                    "cudaDeviceSynchronize",
                    rank.host,
                    until - rank.host,
                    thread=1,
                    args={"correlation": rank.correlation},
                )
                rank.host = until


def _event(
    rank: _Rank,
    category: str,
    name: str,
    start: float,
    seconds: float,
    *,
    thread: int,
    args: dict[str, Any] | None = None,
) -> None:
    rank.events.append(
        {
            "ph": "X",
            "cat": category,
            "name": name,
            "pid": 100 + rank.rank,
            "tid": thread,
            "ts": start * 1e6,
            "dur": seconds * 1e6,
            "args": args or {},
        }
    )


def _kernel(
    rank: _Rank, name: str, stream: int, start: float, seconds: float, said: dict[str, Any] | None = None
) -> None:
    args = {"device": 0, "stream": stream, "correlation": rank.correlation, **(said or {})}
    rank.events.append(
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": stream,
            "ts": start * 1e6,
            "dur": seconds * 1e6,
            "args": args,
        }
    )
    rank.streams[stream] = start + seconds


def true_cost_s(job: Job) -> tuple[float, float]:
    """Return what a step of the job takes, and how much of it is the fault's, as means without the first step."""
    means = []
    for is_faulty in (True, False):
        simulation = _Simulation(job, is_faulty=is_faulty)
        simulation.run()
        means.append(float(np.diff(simulation.ends).mean()))
    return means[0], means[0] - means[1]


def write_traces(job: Job, folder: Path, *, is_packed: bool = False) -> list[Path]:
    """Simulate the job with its fault, and write the trace of each rank."""
    simulation = _Simulation(job, is_faulty=True)
    simulation.run()
    clocks = np.random.default_rng(job.seed + 1).normal(0.0, 5e-3, job.ranks)
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "ranks": [*range(job.ranks)]}]
    paths = []
    for rank in simulation.ranks:
        host = rank.rank // job.per_host
        document = {
            "schemaVersion": 1,
            "distributedInfo": {
                "backend": "nccl" if job.has_device else "gloo",
                "rank": rank.rank,
                "world_size": job.ranks,
                "pg_config": groups,
            },
            "deviceProperties": [{"id": 0, "name": "simulated"}] if job.has_device else [],
            "host_name": f"node-{host}",
            "baseTimeNanoseconds": 1_700_000_000_000_000_000,
            "traceEvents": [{**event, "ts": event["ts"] + 1e6 + clocks[host] * 1e6} for event in rank.events],
        }
        path = folder / f"rank{rank.rank}.json{'.gz' * is_packed}"
        text = json.dumps(document).encode()
        path.write_bytes(gzip.compress(text, 1) if is_packed else text)
        paths.append(path)
    return paths


def as_healthy(job: Job) -> Job:
    """Return the job without its fault."""
    return replace(job, fault="healthy")
