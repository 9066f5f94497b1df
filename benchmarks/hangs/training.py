"""A small training of several ranks over gloo, of which one does something wrong at one step."""

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch
import torch.distributed as distributed
from mindscope.watching import watch
from torch.utils.data import DataLoader, TensorDataset

from .faults import Fault, PipelineStep, SkipStep, Step

#: Each step sleeps so long: steps of a real training take some time.
_STEP_S = 0.02
_TIMEOUT = timedelta(seconds=240)


@dataclass(frozen=True)
class Job:
    """One training.

    Args:
        folder: Of its store and files.
        size: How many ranks train.
        culprit: The rank that does something wrong.
        fault: What; None for a healthy training.
        at: The step at which it happens.
        steps: How many steps there are.
        pause: What a healthy rank 1 does instead, at this step: something slow.
        is_ddp: Whether DDP reduces the gradients, also without a fault.
        is_pipeline: Whether the ranks are stages of a pipeline, also without a fault.
    """

    folder: Path
    size: int
    culprit: int = 1
    fault: Fault | None = None
    at: int = 40
    steps: int = 20_000
    pause: Callable[[Step], None] | None = None
    is_watched: bool = True
    is_ddp: bool = False
    is_pipeline: bool = False

    @property
    def kind_of_step(self) -> type[Step]:
        """How the ranks communicate."""
        return PipelineStep if self.is_pipeline or (self.fault is not None and self.fault.is_pipeline) else Step

    @property
    def uses_ddp(self) -> bool:
        """Whether DDP reduces the gradients."""
        return self.is_ddp or (self.fault is not None and self.fault.uses_ddp)

    @property
    def store(self) -> Path:
        """The folder of the runs."""
        return self.folder / "runs"

    @property
    def mark(self) -> Path:
        """A file that appears when the fault happens, with the time in it."""
        return self.folder / "happened"


def start(job: Job) -> list[BaseProcess]:
    """Start the ranks as forks of this process, which has imported everything and started no thread."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_train, args=(job, rank), daemon=False) for rank in range(job.size)]
    for process in processes:
        process.start()
    return processes


def _train(job: Job, rank: int) -> None:
    _be_quiet(job.folder / f"rank{rank}.log")
    torch.set_num_threads(1)
    store = distributed.FileStore(str(job.folder / "rendezvous"), job.size)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=job.size, timeout=_TIMEOUT)
    everyone = list(range(job.size))
    groups = (distributed.new_group(everyone), distributed.new_group(everyone))
    torch.manual_seed(0)
    model: torch.nn.Module = torch.nn.Linear(8, 4)
    if job.uses_ddp:
        model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    monitor = watch(model, optimizer, store=job.store, run="hang") if job.is_watched else None
    torch.manual_seed(rank)
    behind = None if job.fault is None else job.fault.behind
    steps = job.steps if behind is None else 2 * job.at
    for number, (x,) in enumerate(DataLoader(TensorDataset(torch.randn(steps, 16, 8)), batch_size=None)):
        time.sleep(_STEP_S)
        step = job.kind_of_step(rank, number, model, job.folder, groups)
        try:
            _train_step(job, step, x, optimizer)
        except SkipStep:
            continue
        except StopIteration:
            break
    if behind is not None:
        if rank == job.culprit:
            _happen(job)
        behind(step)
    if monitor is not None:
        monitor.close()
    if behind is not None:
        time.sleep(60.0)  # the process of a rank that is ready does not end at once


def _train_step(job: Job, step: Step, x: torch.Tensor, optimizer: torch.optim.Optimizer) -> None:
    fault = job.fault if job.uses_ddp and (step.number, step.rank) == (job.at, job.culprit) else None
    if fault is not None and fault.is_before:
        fault.act(step, torch.zeros(()))
    loss = step.model(x).square().mean()
    if fault is not None and not fault.is_before:
        if fault.behind is None:
            _happen(job)
        fault.act(step, loss)
    optimizer.zero_grad()
    loss.backward()
    if not job.uses_ddp:
        _communicate(job, step.rank, step, loss)
    elif job.pause is not None and (step.number, step.rank) == (job.at, 1):
        job.pause(step)
    optimizer.step()


def _communicate(job: Job, rank: int, step: Step, loss: torch.Tensor) -> None:
    if job.pause is not None and step.number == job.at and rank == 1:
        job.pause(step)
    if job.fault is None or step.number != job.at:
        step.communicate(loss)
    elif rank == job.culprit:
        _happen(job)
        job.fault.act(step, loss)
    else:
        (job.fault.others or job.kind_of_step.communicate)(step, loss)


def _happen(job: Job) -> None:
    waiting = job.mark.with_suffix(".part")
    waiting.write_text(repr(time.time()))
    waiting.replace(job.mark)


def _be_quiet(log: Path) -> None:
    """Write what the rank prints into a file."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    threading.current_thread().name = "MainThread"
