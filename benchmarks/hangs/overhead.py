"""What the ring and the heartbeat cost: a training of two ranks with and without them, in turns."""

import multiprocessing
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as distributed
from mindscope.probe.adapters.torch.torch_collective_ring import RING, NotedCall
from mindscope.watching import watch

_STEPS, _WIDTH, _CALLS = 1200, 512, 8
#: Steps take turns at random, alike in both ranks: the monitor's own work falls on even steps. What differs between the
#: two without the ring is noise.
_TURNS = ("on", "off", "on", "off, too")
_CONFIG = {"every": 1_000_000}  # the monitor itself records next to nothing: only the ring and the heartbeat are asked


def measure() -> dict[str, Any]:
    """Return the cost of a step with eight collectives, of a call, and of the heartbeat."""
    folder = Path(tempfile.mkdtemp(prefix="hangs-"))
    context = multiprocessing.get_context("fork")
    mine, theirs = context.Pipe()
    ranks = [context.Process(target=_train, args=(folder, rank, theirs if rank == 0 else None)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    found: dict[str, Any] = mine.recv()
    for rank in ranks:
        rank.join(timeout=30)
    return found


def _train(folder: Path, rank: int, pipe: Connection | None) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", store=distributed.FileStore(str(folder / "meet"), 2), rank=rank, world_size=2
    )
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(_WIDTH, _WIDTH) for _ in range(_CALLS // 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    x = torch.randn(128, _WIDTH)
    with watch(model, optimizer, store=folder / "runs", config=_CONFIG):
        heartbeat = _heartbeat_id()
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in _TURNS}
        began, busy = time.monotonic(), _thread_s(heartbeat)
        order = random.Random(0)
        for _ in range(_STEPS):
            turn = order.choice(_TURNS)
            RING.is_on = turn == "on"
            times[turn].append(_step(model, optimizer, x))
        share = (_thread_s(heartbeat) - busy) / (time.monotonic() - began)
        RING.is_on = True
        in_place_us = _in_place_us(lambda: _step(model, optimizer, x))
        if pipe is not None:
            pipe.send(_result(times, share, in_place_us))
        distributed.barrier()


def _step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> tuple[float, float]:
    """Return the seconds of a step, by the clock and of the processor in this thread."""
    began, busy = time.perf_counter(), time.thread_time()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    for parameter in model.parameters():
        distributed.all_reduce(parameter.grad)
    optimizer.step()
    return time.perf_counter() - began, time.thread_time() - busy


def _in_place_us(step: Callable[[], object]) -> float:
    """Return what noting a call costs within steps, whose work has emptied the caches: the median in microseconds."""
    costs: list[float] = []

    def timed(method: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            began = time.perf_counter()
            method(*arguments)
            costs.append(time.perf_counter() - began)

        return call

    begin, end = NotedCall.__init__, NotedCall.ends
    NotedCall.__init__, NotedCall.ends = timed(begin), timed(end)  # type: ignore[method-assign]
    for _ in range(100):
        step()
    NotedCall.__init__, NotedCall.ends = begin, end  # type: ignore[method-assign]
    return (statistics.median(costs[::2]) + statistics.median(costs[1::2])) * 1e6


def _result(times: Mapping[str, list[tuple[float, float]]], share: float, in_place_us: float) -> dict[str, Any]:
    wall, busy = ({name: statistics.median(step[at] for step in times[name]) for name in times} for at in (0, 1))
    call_us = _call_us()
    return {
        "step_ms": round(wall["off"] * 1e3, 3),
        "collectives_a_step": _CALLS,
        "ratio_of_time": round(wall["on"] / wall["off"], 4),
        "ratio_of_processor_time": round(busy["on"] / busy["off"], 4),
        "noise_of_time": round(wall["off, too"] / wall["off"], 4),
        "noise_of_processor_time": round(busy["off, too"] / busy["off"], 4),
        "call_us": round(call_us, 2),
        "call_in_place_us": round(in_place_us, 2),
        "ring_share_of_step": round(in_place_us * 1e-6 * _CALLS / wall["off"], 5),
        "heartbeat_share_of_a_processor": round(share, 5),
        "target": 0.005,
    }


def _call_us() -> float:
    """Return what noting one call costs, in microseconds."""
    bound = {"tensor": torch.ones(4)}
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(1000):
            NotedCall("all_reduce", bound, ("tensor",)).ends("completed")
        best = min(best, time.perf_counter() - began)
    return best * 1e3


def _heartbeat_id() -> int:
    import threading

    return next(thread.native_id or 0 for thread in threading.enumerate() if thread.name == "mindscope-heartbeat")


def _thread_s(thread: int) -> float:
    """Return the processor seconds of a thread of this process."""
    return int(Path(f"/proc/{os.getpid()}/task/{thread}/schedstat").read_text().split()[0]) / 1e9
