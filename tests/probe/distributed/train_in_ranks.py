"""Trains a small network in one of two processes, as a launcher would start it; not a test itself.

Arguments: the store ("-" for no monitor), a file for the losses, a file for the rendezvous, and a mode.
"""

import gc
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, PERTURBED = 8, 5


def main(store, losses_file, rendezvous, mode):
    """Trains; rank 1's batch of one step is scaled up in mode "perturbed"."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    monitor = None
    if store != "-":
        import mindscope as ms

        config = {"subjects": {"gradient/unreduced": 1}, "histograms": {"every": 0}}
        monitor = ms.watch(model, optimizer, store=store, config=config, run="ranks")
    losses = []
    for step in range(STEPS):
        torch.manual_seed(1000 * rank + step)
        x, y = torch.randn(16, 6), torch.arange(16) % 3
        if mode == "perturbed" and rank == 1 and step == PERTURBED:
            x = x * 10.0
        if mode == "dies" and rank == 1 and step == PERTURBED:
            os._exit(9)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        work = dist.all_reduce(total, async_op=step % 2 == 1)
        if work is not None:
            work.wait()
        losses.append(f"{loss.item().hex()} {total.item().hex()}")
    if monitor is not None:
        monitor.close()
    with open(losses_file, "w") as file:
        file.write("\n".join(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
    gc.collect()  # a model of DDP holds the group, whose threads must end before the process does
    dist.destroy_process_group()
