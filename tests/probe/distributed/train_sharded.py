"""Trains a network whose parameters are sharded over two processes by FSDP2, alone and watched; not a test itself.

Argument: a folder, for the store, the rendezvous, and what came out.
"""

import gc
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def train(rank, store):
    """What came out of four steps; the second layer's odd number of rows makes parts of other sizes on the ranks."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    mesh = init_device_mesh("cpu", (2,))
    for part in (net[0], net[2], net):
        fully_shard(part, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters(), 0.05)
    monitor = None
    if store is not None:
        import mindscope as ms

        config = {"statistics": ["sum"], "subjects": {"input": 1, "weight/spectrum": 1}, "histograms": {"every": 1}}
        monitor = ms.watch(net, optimizer, store=store, config=config, run="sharded")
    losses, squares = [], []
    for step in range(4):
        torch.manual_seed(1000 * rank + step)
        loss = torch.nn.functional.cross_entropy(net(torch.randn(16, 6)), torch.arange(16) % 3)
        optimizer.zero_grad()
        loss.backward()
        squares.append(float(net[0].weight.grad.to_local().double().square().sum()))
        optimizer.step()
        losses.append(loss.item().hex())
    if monitor is not None:
        monitor.close()
    weights = [value.hex() for one in net.parameters() for value in one.to_local().flatten().tolist()]
    return "\n".join([*losses, *(repr(one) for one in squares), *weights])


def main(folder):
    """Both trainings."""
    rank = int(os.environ["RANK"])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    for name, store in (("plain", None), ("watched", folder / "runs")):
        (folder / f"{name}{rank}").write_text(train(rank, store))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    gc.collect()  # a model of DDP holds the group, whose threads must end before the process does
    dist.destroy_process_group()
