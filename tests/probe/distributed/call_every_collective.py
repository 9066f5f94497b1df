"""Calls every collective in one of two processes, at once and asynchronously, alone and watched; not a test itself.

Argument: a folder, for the store, the rendezvous, and what came out.
"""

import gc
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed import isend as kept_from_before

CALLS = {
    "all_reduce": lambda give, got, rank, later: dist.all_reduce(got[0].copy_(give(2)), async_op=later),
    "all_gather": lambda give, got, rank, later: dist.all_gather(got, give(2), async_op=later),
    "all_gather_single": lambda give, got, rank, later: dist.all_gather_single(
        got[0].resize_(4), give(2), async_op=later
    ),
    "reduce_scatter": lambda give, got, rank, later: dist.reduce_scatter(got[0], [give(2), give(2)], async_op=later),
    "reduce_scatter_single": lambda give, got, rank, later: dist.reduce_scatter_single(got[0], give(4), async_op=later),
    "broadcast": lambda give, got, rank, later: dist.broadcast(got[0].copy_(give(2)), 1, async_op=later),
    "all_to_all": lambda give, got, rank, later: dist.all_to_all(got, [give(2), give(2) + 0.5], async_op=later),
    "all_to_all_single": lambda give, got, rank, later: dist.all_to_all_single(got[0], give(2), async_op=later),
    "reduce": lambda give, got, rank, later: dist.reduce(got[0].copy_(give(2)), 0, async_op=later),
    "gather": lambda give, got, rank, later: dist.gather(give(2), got if rank == 0 else None, 0, async_op=later),
    "scatter": lambda give, got, rank, later: dist.scatter(
        got[0], [give(2), give(2) + 0.5] if rank == 0 else None, 0, async_op=later
    ),
}


def message(rank, give, received):
    """A value to the other rank and one back."""
    if rank == 0:
        dist.send(give(2), 1)
        dist.recv(received, 1)
    else:
        dist.recv(received, 0)
        dist.send(give(2), 0)


def collectives(rank):
    """Everything that came out, in order."""

    def give(size):
        return torch.arange(size, dtype=torch.float32) + 10 * (rank + 1)

    out = []
    for call in CALLS.values():
        for later in (False, True):
            got = [torch.zeros(2), torch.zeros(2)]
            work = call(give, got, rank, later)
            if later:
                work.wait()
            out += got
    received = torch.zeros(2)
    message(rank, give, received)
    out.append(received)
    for send in (dist.isend, kept_from_before):
        received = torch.zeros(2)
        operations = [dist.P2POp(send, give(2), 1 - rank), dist.P2POp(dist.irecv, received, 1 - rank)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        out.append(received)
    received = torch.zeros(2)
    for work in (dist.isend(give(2), 1 - rank), dist.irecv(received, 1 - rank)):
        work.wait()
    dist.barrier()
    return [*out, received], operations


def step(rank, store):
    """What came out of one step, in which all of it is called."""
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    monitor = None
    if store is not None:
        import mindscope as ms

        monitor = ms.watch(net, optimizer, store=store, run="collectives")
    net(torch.ones(1, 2)).sum().backward()
    out, operations = collectives(rank)
    optimizer.step()
    if monitor is not None:
        monitor.close()
        for work in dist.batch_isend_irecv(operations):  # made while the monitor was there
            work.wait()
        assert type(dist.isend).__name__ == type(dist.all_reduce).__name__ == "function"
    return "\n".join(str(one.tolist()) for one in out)


def main(folder):
    """Both."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    for name, store in (("plain", None), ("watched", folder / "runs")):
        (folder / f"{name}{rank}").write_text(step(rank, store))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    gc.collect()  # a model of DDP holds the group, whose threads must end before the process does
    dist.destroy_process_group()
