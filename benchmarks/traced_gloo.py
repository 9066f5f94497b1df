"""Real jobs of a few processes over gloo, traced by torch.profiler, with something that one rank does longer.

python benchmarks/traced_gloo.py RANK RANKS FAULT FOLDER      one process of a job
"""

import gc
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

#: What rank 1 does longer, and what of it the diagnosis may say.
REAL_FAULTS: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "healthy": (),
    "sleep": (("rank", "1"),),
    "computing": (("rank", "1"),),
    "collection": (("rank", "1"), ("cause", "garbage collection")),
    "loader": (("rank", "1"),),
}
_STEPS: Final = 12


def run_job(fault: str, ranks: int, folder: Path) -> float:
    """Run a job, whose traces are in the folder then; return what the fault took of a mean step, in seconds.

    Raises:
        RuntimeError: A process failed; the message has the end of what it said.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(ranks), fault, str(folder)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    outputs = [process.communicate(timeout=180)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        if process.returncode:
            raise RuntimeError(f"a process of the job ended with {process.returncode}: {output[-2000:]}")
    return float(json.loads((folder / "injected.txt").read_text()))


def _main(rank: int, ranks: int, fault: str, folder: Path) -> None:
    import torch
    from torch import distributed
    from torch.profiler import ProfilerActivity, profile, schedule

    torch.set_num_threads(1)
    torch.manual_seed(rank)
    distributed.init_process_group("gloo", rank=rank, world_size=ranks)
    model = torch.nn.Sequential(
        torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.Linear(512, 10)
    )
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
    data = torch.utils.data.TensorDataset(
        torch.randn(64 * (_STEPS + 3), 512), torch.randint(0, 10, (64 * (_STEPS + 3),))
    )
    slow = fault if rank == 1 and fault != "healthy" else ""
    loader = torch.utils.data.DataLoader(_Slow(data, slow == "loader"), batch_size=64)
    took: list[float] = []
    active = schedule(wait=1, warmup=1, active=_STEPS)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=active, **_collections()) as profiler:
        for inputs, labels in loader:
            took.append(_fault(slow, inputs))
            loss = torch.nn.functional.cross_entropy(parallel(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            profiler.step()
            if len(took) == _STEPS + 2:
                break
    profiler.export_chrome_trace(str(folder / f"rank{rank}.json"))
    if rank == 1:
        injected = took[3:] if slow != "loader" else [64 * _ITEM_S]
        (folder / "injected.txt").write_text(json.dumps(sum(injected) / len(injected)))
    distributed.barrier()
    distributed.destroy_process_group()


_ITEM_S: Final = 3e-4


class _Slow:
    """A data set that takes its time for each item."""

    def __init__(self, data: Any, is_slow: bool) -> None:
        self._data, self._is_slow = data, is_slow

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, place: int) -> Any:
        until = time.perf_counter() + (_ITEM_S if self._is_slow else 0.0)
        while time.perf_counter() < until:
            pass
        return self._data[place]


def _fault(fault: str, inputs: Any) -> float:
    """Do what the rank does longer, and return what it took."""
    import torch

    begun = time.perf_counter()
    if fault == "sleep":
        time.sleep(0.02)
    elif fault == "computing":
        weight = torch.randn(512, 512)
        for _ in range(30):
            inputs = torch.mm(inputs, weight) * 0.01
    elif fault == "collection":
        _garbage.extend([[] for _ in range(3000)])
        gc.collect()
    return time.perf_counter() - begun if fault else 0.0


_garbage: list[list[object]] = [[] for _ in range(300_000)]


def _collections() -> dict[str, Any]:
    """Return the options that let the profiler note garbage collections, where this PyTorch knows them."""
    from torch._C import _profiler

    try:
        return {"experimental_config": _profiler._ExperimentalConfig(record_python_gc_info=True), "with_stack": True}
    except TypeError:
        return {}


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], Path(sys.argv[4]))
