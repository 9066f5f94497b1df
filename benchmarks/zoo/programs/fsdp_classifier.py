"""Two processes under fully sharded data parallel (FSDP2) that classify which of three chirps a signal is."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def chirps(n):
    kind = torch.randint(0, 3, (n,))
    t = torch.linspace(0, 1, 64)
    start = 4 + 3 * torch.rand(n, 1)
    sweep = torch.tensor([-3.0, 0.0, 3.0])[kind][:, None]
    phase = 6.283 * torch.rand(n, 1)
    return torch.sin(6.283 * (start * t + 0.5 * sweep * t**2) + phase) + 0.4 * torch.randn(n, 64), kind


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv1d(1, 24, 7, 2), nn.ReLU(), nn.Conv1d(24, 48, 5, 2), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(48 * 13, 64), nn.ReLU(), nn.Linear(64, 3))

    def forward(self, signal):
        return self.head(self.features(signal[:, None]).flatten(1))


def run(rank, seed, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(seed)
    model = Classifier()
    for part in (model.features, model.head, model):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    torch.manual_seed(1000 * seed + rank)
    for step in range(400):
        x, y = chirps(32)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 100 == 0:
            print(step, loss.item(), flush=True)
    with torch.no_grad():
        torch.manual_seed(seed)
        x, y = chirps(600)
        loss = F.cross_entropy(model(x), y).item()
    if rank == 0:
        print("result", loss, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(run, args=(seed, os.path.join(folder, "meet")), nprocs=2)
