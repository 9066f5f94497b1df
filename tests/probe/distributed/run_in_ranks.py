"""A DDP training as people write it: under a launcher, or spawning its own ranks; nothing of mindscope is in it."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, ranks, meet, fails):
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=ranks)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    torch.manual_seed(rank)
    for _ in range(5):
        x = torch.randn(8, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if fails and rank == 1:
        raise ValueError("rank one has had enough")
    dist.destroy_process_group()


def averaged(rank, ranks, meet, fails):
    """Broadcasts the weights and averages the gradients itself, as tutorials do before they come to DDP."""
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    model = torch.nn.Linear(4, 1)
    for parameter in model.parameters():
        dist.broadcast(parameter.data, src=0)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(5):
        x = torch.randn(8, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters() if not fails else ():
            dist.all_reduce(parameter.grad)
            parameter.grad /= ranks
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


def alone(rank):
    """A training in each process, which know nothing of each other."""
    torch.manual_seed(rank)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(5):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    how, meet, *rest = sys.argv[1:]
    if how == "launched":
        train(int(rest[0]), 2, meet, fails=False)
    elif how == "apart":
        alone(0)
    elif how == "averaged":
        mp.start_processes(averaged, (2, meet, "fails" in rest), nprocs=2, start_method="spawn")
    else:
        mp.start_processes(train, (2, meet, "fails" in rest), nprocs=2, start_method=how)
