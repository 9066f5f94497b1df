"""Contrastive image/caption encoders, data parallel by hand (torchrun --nproc_per_node=N clip_ranks.py)."""
import math
import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

conf = dict(n=8192, bs=64, epochs=12, base_lr=1e-3, dim=64, vocab=60, maxlen=12, pad=0, seed=17, wd=0.02, warm=50)


class Pairs(Dataset):
    """Every item has 4 attributes; the image is a noisy projection, the caption names them in some order."""

    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.attr = torch.randint(0, 14, (n, 4), generator=g)
        basis = torch.randn(4, 14, 96, generator=torch.Generator().manual_seed(99))
        self.img = sum(basis[k][self.attr[:, k]] for k in range(4)) / 2 + 0.3 * torch.randn(n, 96, generator=g)
        self.txt = torch.full((n, conf["maxlen"]), conf["pad"])
        for i in range(n):
            words = (1 + self.attr[i] + 14 * torch.arange(4))[torch.randperm(4, generator=g)]
            filler = torch.randint(57, 60, (int(torch.randint(0, 7, (1,), generator=g)),), generator=g)
            row = torch.cat([words, filler])
            self.txt[i, : len(row)] = row

    def __len__(self):
        return len(self.img)

    def __getitem__(self, i):
        return self.img[i], self.txt[i]


class ImgTower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(96, 256), nn.GELU(), nn.Dropout(0.1), nn.Linear(256, d))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class TxtTower(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.emb = nn.Embedding(conf["vocab"], 128)
        self.mix = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Dropout(0.1))
        self.out = nn.Linear(256, d)

    def forward(self, tok):
        keep = (tok != conf["pad"]).unsqueeze(-1).float()
        h = self.mix(self.emb(tok))
        pooled = (h * keep).sum(1) / keep.sum(1).clamp(min=1)
        return F.normalize(self.out(pooled), dim=-1)


class DualEncoder(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.img, self.txt = ImgTower(d), TxtTower(d)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))


def gather_all(t, rank, world):
    """All ranks' rows; the own rows keep their gradient."""
    if world == 1:
        return t
    parts = [torch.zeros_like(t) for _ in range(world)]
    dist.all_gather(parts, t.detach().contiguous())
    parts[rank] = t
    return torch.cat(parts)


def contrastive(model, img, txt, rank, world):
    zi, zt = model.img(img), model.txt(txt)
    scale = model.logit_scale.exp().clamp(max=100)
    target = torch.arange(len(zi)) + rank * len(zi)
    li = scale * zi @ gather_all(zt, rank, world).T
    lt = scale * zt @ gather_all(zi, rank, world).T
    return 0.5 * (F.cross_entropy(li, target) + F.cross_entropy(lt, target)), li, target


def average_gradients(model, world):
    if world == 1:
        return
    for p in model.parameters():
        dist.all_reduce(p.grad, op=dist.ReduceOp.SUM)
        p.grad /= world


def sync_from_rank0(model, world):
    if world > 1:
        for t in list(model.parameters()) + list(model.buffers()):
            dist.broadcast(t.data, src=0)

def main():
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if world > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(conf["seed"] + rank)
    model = DualEncoder(conf["dim"])
    sync_from_rank0(model, world)
    data = Pairs(conf["n"], seed=1)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=True, seed=conf["seed"])
    loader = DataLoader(data, conf["bs"], sampler=sampler, drop_last=True)
    lr = conf["base_lr"] * math.sqrt(conf["bs"] * world / 64)
    opt = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=conf["wd"])
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: min(1.0, (k + 1) / conf["warm"]))
    for epoch in range(conf["epochs"]):
        sampler.set_epoch(epoch)
        model.train()
        for img, txt in loader:
            loss, li, target = contrastive(model, img, txt, rank, world)
            opt.zero_grad()
            loss.backward()
            average_gradients(model, world)
            opt.step()
            sched.step()
        hit = (li.argmax(1) == target).float().mean()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.3f} top-1 {hit.item():.3f} temp {model.logit_scale.exp().item():.1f}")
            torch.save(model.state_dict(), "clip_ranks.pt")
    if world > 1:
        dist.destroy_process_group()

if __name__ == "__main__":
    main()
