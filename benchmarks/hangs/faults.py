"""What goes wrong in one rank at one step: each fault is a function that the training calls instead of its own part.

A step of the training reduces the loss, then the gradient, then gathers a count. `Step` does it; a fault replaces
`Step.communicate` in the culprit, or is called at the step's begin.
"""

import ctypes
import mmap
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as distributed

Tensor = torch.Tensor
_FOR_EVER_S = 900.0


@dataclass
class Step:
    """The communication of one step in one rank.

    Args:
        groups: Two groups of all ranks, for faults of more than the default group.
    """

    rank: int
    number: int
    model: torch.nn.Module
    folder: Path
    groups: tuple[object, object]
    count: int = 1
    dtype: torch.dtype = torch.float32
    source: int = 0

    def communicate(self, loss: Tensor) -> None:
        """Reduce, broadcast and gather as every rank does."""
        self.reduce_loss(loss)
        self.reduce_gradient()
        self.share_rate()
        self.gather_count()

    def reduce_loss(self, loss: Tensor) -> None:
        """Sum the loss over the ranks."""
        distributed.all_reduce(loss.detach().repeat(self.count).to(self.dtype))

    def share_rate(self) -> None:
        """Take the learning rate from one rank."""
        distributed.broadcast(torch.tensor([0.1, 0.9, 0.0]), self.source)

    def reduce_gradient(self) -> None:
        """Sum every gradient over the ranks."""
        for parameter in self.model.parameters():
            distributed.all_reduce(parameter.grad)

    def gather_count(self) -> None:
        """Gather how many samples each rank had."""
        parts = [torch.zeros(2) for _ in range(distributed.get_world_size())]
        distributed.all_gather(parts, torch.full((2,), float(self.rank)))


@dataclass
class PipelineStep(Step):
    """The communication of one stage of a pipeline: activations go from the last rank to the first, gradients back.

    Args:
        receiver: The rank that activations go to; None for the stage behind this one.
        tag: Of the activations that this rank sends.
        sends_edge: Whether this rank sends its edge in a batch, as it does with its neighbours.
    """

    receiver: int | None = None
    tag: int = 0
    sends_edge: bool = True

    def communicate(self, loss: Tensor) -> None:
        """Pass two micro-batches on, their gradients back and edges to the neighbours, and sum the loss."""
        for _ in range(2):
            self.take_activations()
            self.give_activations()
        for _ in range(2):
            self.take_gradients()
            self.give_gradients()
        self.exchange_edges()
        self.reduce_loss(loss)

    @property
    def has_next(self) -> bool:
        """Whether there is a rank above, which activations come from."""
        return self.rank + 1 < distributed.get_world_size()

    def take_activations(self) -> None:
        """Receive them from the rank above."""
        if self.has_next:
            distributed.recv(torch.zeros(16), self.rank + 1)

    def give_activations(self) -> None:
        """Send them to the rank below."""
        if self.rank:
            to = self.rank - 1 if self.receiver is None else self.receiver
            distributed.send(torch.ones(16), to, tag=self.tag)

    def take_gradients(self) -> None:
        """Receive them from the rank below."""
        if self.rank:
            distributed.irecv(torch.zeros(8), self.rank - 1).wait()

    def give_gradients(self) -> None:
        """Send them to the rank above."""
        if self.has_next:
            distributed.isend(torch.ones(8), self.rank + 1).wait()

    def exchange_edges(self) -> None:
        """Give the ranks above and below an edge each, and take theirs, in one batch."""
        operations = []
        for peer in (self.rank - 1, self.rank + 1):
            if 0 <= peer < distributed.get_world_size():
                if self.sends_edge or peer > self.rank:
                    operations.append(distributed.P2POp(distributed.isend, torch.ones(4), peer))
                operations.append(distributed.P2POp(distributed.irecv, torch.zeros(4), peer))
        for work in distributed.batch_isend_irecv(operations):
            work.wait()


def skipped(step: Step, loss: Tensor) -> None:
    """One rank leaves the reduction of the loss out."""
    step.reduce_gradient()
    step.gather_count()


def skipped_last(step: Step, loss: Tensor) -> None:
    """One rank leaves the last collective of its step out."""
    step.reduce_loss(loss)
    step.reduce_gradient()


def extra(step: Step, loss: Tensor) -> None:
    """One rank reduces something more."""
    distributed.all_reduce(torch.ones(5))
    step.communicate(loss)


def reordered(step: Step, loss: Tensor) -> None:
    """One rank gathers before it reduces."""
    step.gather_count()
    step.reduce_loss(loss)
    step.reduce_gradient()


def mismatched(step: Step, loss: Tensor) -> None:
    """One rank broadcasts where the others reduce."""
    distributed.broadcast(loss.detach().reshape(1).clone(), 0)
    step.reduce_gradient()
    step.gather_count()


def shape(step: Step, loss: Tensor) -> None:
    """One rank reduces a loss of another shape."""
    step.count = 7
    step.communicate(loss)


def dtype(step: Step, loss: Tensor) -> None:
    """One rank reduces a loss of another dtype."""
    step.dtype = torch.float64
    step.communicate(loss)


def root(step: Step, loss: Tensor) -> None:
    """One rank broadcasts from another rank."""
    step.source = step.rank
    step.communicate(loss)


def killed(step: Step, loss: Tensor) -> None:
    """The kernel kills a rank, as when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def stopped(step: Step, loss: Tensor) -> None:
    """A rank is stopped."""
    os.kill(os.getpid(), signal.SIGSTOP)


def sleeping(step: Step, loss: Tensor) -> None:
    """A rank sleeps."""
    time.sleep(_FOR_EVER_S)


def paging(step: Step, loss: Tensor) -> None:
    """A rank reads its memory back from a disk, page by page: an imitation of swapping, by a file."""
    with tempfile.NamedTemporaryFile(dir=step.folder) as file:
        os.truncate(file.fileno(), 64 << 20)
        file.write(os.urandom(64 << 20))
        file.flush()
        os.fsync(file.fileno())
        memory = mmap.mmap(file.fileno(), 64 << 20)
        memory.madvise(mmap.MADV_RANDOM)
        until = time.monotonic() + _FOR_EVER_S
        while time.monotonic() < until:
            memory.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for at in range(0, 64 << 20, 1 << 14):
                memory[at]


def lock(step: Step, loss: Tensor) -> None:
    """A rank waits for a lock that a thread holds which waits for another that the rank holds."""
    one, other = threading.Lock(), threading.Lock()

    def work() -> None:
        with other:
            time.sleep(0.2)
            with one:
                pass

    with one:
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
        with other:
            step.communicate(loss)


class _Stuck(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Tensor:
        if index == 5:
            time.sleep(_FOR_EVER_S)
        return torch.ones(2)


def worker(step: Step, loss: Tensor) -> None:
    """A worker of a rank's data loader is stuck."""
    for batch in torch.utils.data.DataLoader(_Stuck(), batch_size=2, num_workers=1):
        loss = loss + batch.sum() * 0
    step.communicate(loss)


def loader(step: Step, loss: Tensor) -> None:
    """A rank's data set is stuck in the process itself."""
    for batch in torch.utils.data.DataLoader(_Stuck(), batch_size=2):
        loss = loss + batch.sum() * 0
    step.communicate(loss)


def caught(step: Step, loss: Tensor) -> None:
    """One rank catches an exception of its own and goes on with the next step."""
    try:
        step.reduce_loss(loss)
        int("a sample that cannot be read")
    except ValueError:
        return


def raised(step: Step, loss: Tensor) -> None:
    """One rank fails."""
    raise ValueError("a sample cannot be read")


def checkpoint_barrier(step: Step, loss: Tensor) -> None:
    """One rank writes a checkpoint and waits in a barrier that the others do not call."""
    torch.save(step.model.state_dict(), step.folder / f"checkpoint{step.rank}.pt")
    distributed.barrier()
    step.communicate(loss)


def branch(step: Step, loss: Tensor) -> None:
    """One rank takes a branch that depends on its own data."""
    if loss.item() > -1e9:
        distributed.all_reduce(torch.tensor([loss.item(), 1.0, 2.0]))
    step.communicate(loss)


def circle(step: Step, loss: Tensor) -> None:
    """One rank uses two groups in the other order."""
    distributed.all_reduce(torch.ones(3), group=step.groups[1])
    distributed.all_reduce(torch.ones(3), group=step.groups[0])
    step.communicate(loss)


def other_circle(step: Step, loss: Tensor) -> None:
    """What the others do then."""
    distributed.all_reduce(torch.ones(3), group=step.groups[0])
    distributed.all_reduce(torch.ones(3), group=step.groups[1])
    step.communicate(loss)


def receive(step: Step, loss: Tensor) -> None:
    """One rank receives what nobody sends."""
    others = [rank for rank in range(distributed.get_world_size()) if rank != step.rank]
    distributed.recv(torch.zeros(4), src=others[0])
    step.communicate(loss)


def native(step: Step, loss: Tensor) -> None:
    """Native code of one rank holds Python's interpreter."""
    ctypes.PyDLL(None).sleep(int(_FOR_EVER_S))


def child(step: Step, loss: Tensor) -> None:
    """One rank waits for a program that does not end."""
    subprocess.run(["sleep", str(_FOR_EVER_S)], check=False)


def early_end(step: Step, loss: Tensor) -> None:
    """One rank ends its training: it has less data than the others."""
    raise StopIteration


class SkipStep(Exception):
    """Ends the step of one rank, as a `continue` does."""


def skipped_step(step: Step, loss: Tensor) -> None:
    """One rank leaves a step out, as for a batch that it does not like."""
    raise SkipStep


def in_barrier(step: Step) -> None:
    """All ranks meet behind the last step."""
    distributed.barrier()


def in_validation(step: Step) -> None:
    """All ranks add their losses of a validation up: gloo ends a process where another sum meets this one."""
    distributed.all_reduce(torch.zeros(2))


def nowhere(step: Step) -> None:
    """The training ends, and its process goes on."""


def missing_send(step: Step, loss: Tensor) -> None:
    """One stage does not pass its activations on."""
    assert isinstance(step, PipelineStep)
    step.take_activations()
    step.take_gradients()
    step.give_gradients()


def missing_batched_send(step: Step, loss: Tensor) -> None:
    """One stage leaves a send out of its batch."""
    assert isinstance(step, PipelineStep)
    step.sends_edge = False
    step.communicate(loss)


def wrong_destination(step: Step, loss: Tensor) -> None:
    """One stage sends its activations to a rank that does not receive them."""
    assert isinstance(step, PipelineStep)
    step.receiver = (step.rank + 1) % distributed.get_world_size()
    step.communicate(loss)


def wrong_tag(step: Step, loss: Tensor) -> None:
    """One stage sends its activations with another tag than the next one receives."""
    assert isinstance(step, PipelineStep)
    step.tag = 5
    step.communicate(loss)


def receives_first(step: Step, loss: Tensor) -> None:
    """One stage receives before it sends, as the next one does."""
    assert isinstance(step, PipelineStep)
    step.take_activations()
    step.take_gradients()
    step.give_activations()


def dead_stage(step: Step, loss: Tensor) -> None:
    """One stage dies between what it receives and what it sends."""
    assert isinstance(step, PipelineStep)
    step.take_activations()
    os.kill(os.getpid(), signal.SIGKILL)


def sleeping_stage(step: Step, loss: Tensor) -> None:
    """One stage sleeps before it sends."""
    assert isinstance(step, PipelineStep)
    step.take_activations()
    time.sleep(_FOR_EVER_S)


@dataclass(frozen=True)
class Fault:
    """A fault and what a report may say of it.

    Args:
        act: What the culprit does.
        kinds: Kinds of the report that are right.
        others: What the others do at this step.
        are_all: Whether every rank is a culprit: none of them is wrong by itself.
        uses_ddp: Whether the gradient is reduced by DDP, in its backward pass.
        is_before: Whether it happens before the forward pass rather than before the backward.
        behind: What all ranks do behind their last step; None if the steps do not end.
        is_pipeline: Whether the ranks are stages of a pipeline.
        least_ranks: Fewer cannot do it.
    """

    act: Callable[[Step, Tensor], None]
    kinds: tuple[str, ...]
    others: Callable[[Step, Tensor], None] | None = None
    are_all: bool = False
    uses_ddp: bool = False
    is_before: bool = False
    behind: Callable[[Step], None] | None = None
    is_pipeline: bool = False
    least_ranks: int = 2


_ORDER = ("skipped", "order")
FAULTS = {
    "skipped": Fault(skipped, _ORDER),
    "skipped last": Fault(skipped_last, _ORDER),
    "extra": Fault(extra, ("extra", "mismatch", "shape")),
    "reordered": Fault(reordered, ("reordered", "order", "skipped")),
    "mismatched": Fault(mismatched, ("mismatch", "extra")),
    "shape": Fault(shape, ("shape",)),
    "dtype": Fault(dtype, ("dtype",)),
    "root": Fault(root, ("argument",)),
    "killed": Fault(killed, ("dead",)),
    "stopped": Fault(stopped, ("stopped",)),
    "sleeping": Fault(sleeping, ("sleep",)),
    "paging": Fault(paging, ("paging",)),
    "lock": Fault(lock, ("lock",)),
    "worker": Fault(worker, ("data_loader",)),
    "data set": Fault(loader, ("data_loader",)),
    "exception, caught": Fault(caught, (*_ORDER, "reordered")),
    "exception": Fault(raised, ("exception",)),
    "checkpoint barrier": Fault(checkpoint_barrier, ("mismatch", "extra")),
    "branch on local data": Fault(branch, ("mismatch", "extra", "shape")),
    "two groups": Fault(circle, ("deadlock", "order", "mismatch"), other_circle, are_all=True),
    "receive without send": Fault(receive, ("extra", "mismatch", "deadlock", "user_code", "collective")),
    "native code": Fault(native, ("silent",)),
    "child process": Fault(child, ("user_code",)),
    "early end": Fault(early_end, ("finished",)),
    "sleeping, DDP": Fault(sleeping, ("sleep",), uses_ddp=True),
    "killed, DDP": Fault(killed, ("dead",), uses_ddp=True),
    "step left out, DDP": Fault(skipped_step, ("skipped",), uses_ddp=True, is_before=True, behind=in_barrier),
    "step left out, end, DDP": Fault(skipped_step, ("skipped",), uses_ddp=True, is_before=True, behind=nowhere),
    "backward left out, DDP": Fault(skipped_step, ("skipped",), uses_ddp=True, behind=in_barrier),
    "step left out, validation, DDP": Fault(
        skipped_step, ("skipped",), uses_ddp=True, is_before=True, behind=in_validation
    ),
    "missing send": Fault(missing_send, ("skipped",), is_pipeline=True),
    "missing send, batch": Fault(missing_batched_send, ("skipped",), is_pipeline=True),
    "wrong destination": Fault(wrong_destination, ("peer",), is_pipeline=True, least_ranks=3),
    "wrong tag": Fault(wrong_tag, ("tag",), is_pipeline=True),
    "both receive first": Fault(receives_first, ("skipped", "reordered"), is_pipeline=True),
    "dead stage": Fault(dead_stage, ("dead",), is_pipeline=True),
    "sleeping stage": Fault(sleeping_stage, ("sleep",), is_pipeline=True),
}
