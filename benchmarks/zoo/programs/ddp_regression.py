"""Two processes under DistributedDataParallel, spawned by the program, on a regression with a sampler per rank."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def data(n, generator):
    x = torch.randn(n, 10, generator=generator)
    y = torch.sin(x[:, :1] * 2) + x[:, 1:2] * x[:, 2:3] + 0.1 * torch.randn(n, 1, generator=generator)
    return x, y


def worker(rank, world, seed, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    dataset = TensorDataset(*data(4000, generator))
    sampler = DistributedSampler(dataset, world, rank, shuffle=True, seed=seed)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    loss_fn = nn.MSELoss()
    for epoch in range(6):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch}: {loss.item():.4f}", flush=True)
    if rank == 0:
        x, y = data(1000, generator)
        with torch.no_grad():
            print("result", loss_fn(model.module(x), y).item(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(worker, args=(2, seed, os.path.join(folder, "meet")), nprocs=2)
