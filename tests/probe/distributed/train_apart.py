"""Trains a small network in one of several processes, one of which may do something wrong; not a test itself.

Arguments: the store ("-" for no monitor), a file for the losses, a file for the rendezvous, and what goes wrong; with
"away" behind it all numbers take the way of a device.
"""

import gc
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, FAULTY = 24, 5


def reduce_by_hand(net, wrong, step, rank, size):
    """Averages gradients; what is wrong may add them up, or leave one rank's share out."""
    for parameter in net.parameters():
        given = parameter.grad if not (wrong == "dropped" and rank == 1 and step >= FAULTY) else 0.0 * parameter.grad
        total = given.clone()
        dist.all_reduce(total)
        if wrong == "unreduced" and rank == 1 and step >= FAULTY:
            continue
        parameter.grad = total if wrong == "sum" else total / size


def main(store, losses_file, rendezvous, wrong):
    """Trains by hand, or with DDP where the name of the fault begins so."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)
    torch.manual_seed(rank if wrong == "seeds" else 0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model = DistributedDataParallel(net) if wrong.startswith("ddp") else net
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    monitor = None
    if store != "-":
        import mindscope as ms
        from mindscope.probe.adapters.torch import torch_tensors as torch_parts

        torch_parts.is_any_taken_for_remote = wrong.endswith("away")  # tensors take the way of tensors on a device
        monitor = ms.watch(model, optimizer, store=store, config={"subjects": {"ranks": {"every": 4}}}, run="apart")
    losses = []
    for step in range(STEPS):
        torch.manual_seed(step if wrong == "same data" else 1000 * rank + step)
        x, y = torch.randn(16, 6), torch.arange(16) % 3
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if wrong.startswith("ddp"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        else:
            reduce_by_hand(net, wrong, step, rank, size)
        if "bit" in wrong and rank == 1 and step == FAULTY:
            with torch.no_grad():
                net[3].weight.view(-1).view(torch.int32)[3] ^= 1 << 22
        optimizer.step()
        losses.append(loss.item().hex())
    if monitor is not None:
        monitor.close()
    with open(losses_file, "w") as file:
        file.write("\n".join(losses))


if __name__ == "__main__":
    main(*sys.argv[1:])
    gc.collect()  # a model of DDP holds the group, whose threads must end before the process does
    dist.destroy_process_group()
