"""Trains a network by tensor and data parallelism, two by two, in four processes; not a test itself.

Arguments: a folder, for the store, the rendezvous and what came out, and what goes wrong, if anything.
"""

import gc
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

STEPS, FAULTY = 14, 8


class Split(torch.nn.Module):
    """A dense pair whose hidden units lie on two ranks; `first` and `bias` are held whole."""

    def __init__(self, group):
        super().__init__()
        self.first = torch.nn.Linear(6, 8)
        whole, place = (torch.nn.Linear(8, 8, bias=False), torch.nn.Linear(8, 3, bias=False)), dist.get_rank(group)
        self.column, self.row = torch.nn.Linear(8, 4, bias=False), torch.nn.Linear(4, 3, bias=False)
        self.bias, self.group = torch.nn.Parameter(torch.zeros(3)), group
        with torch.no_grad():
            self.column.weight.copy_(whole[0].weight[4 * place : 4 * place + 4])
            self.row.weight.copy_(whole[1].weight[:, 4 * place : 4 * place + 4])

    def forward(self, x):
        """The logits."""
        x = torch.relu(self.first(x))
        x.register_hook(lambda gradient: summed(gradient, self.group))
        part = self.row(torch.relu(self.column(x)))
        return part + (summed(part.detach(), self.group) - part.detach()) + self.bias


def summed(tensor, group):
    """The sum over the ranks of the group."""
    total = tensor.clone()
    dist.all_reduce(total, group=group)
    return total


def train(rank, wrong, store):
    """The losses of every step; watched where there is a store."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    torch.manual_seed(0)
    net = Split(mesh.get_group("tp"))
    optimizer = torch.optim.AdamW(net.parameters(), 0.01)
    monitor = None
    if store is not None:
        import mindscope as ms

        monitor = ms.watch(net, optimizer, store=store, config={"subjects": {"ranks": {"every": 1}}}, run="parts")
    losses = []
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(100 * (rank // 2) + step)
        x = torch.randn(16, 6, generator=generator)
        loss = torch.nn.functional.cross_entropy(net(x), (x @ torch.ones(6, 3).tril()).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        for parameter in net.parameters():
            parameter.grad = summed(parameter.grad, mesh.get_group("dp")) / 2
        if wrong == "bit" and rank == 3 and step == FAULTY:
            net.column.weight.data.view(-1)[3] += 0.5
        optimizer.step()
        losses.append(loss.item().hex())
    if monitor is not None:
        monitor.close()
    return "\n".join(losses)


def main(folder, wrong):
    """Both trainings; what is wrong is so in both."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=4)
    for name, store in (("plain", None), ("watched", folder / "runs")):
        (folder / f"{name}{rank}").write_text(train(rank, wrong, store))
    dist.barrier()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
    gc.collect()
    dist.destroy_process_group()
