"""Conditional GAN on 16x16 blob pictures with an R1 penalty."""
import argparse

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=1500)
    ap.add_argument("--bs", type=int, default=64)
    ap.add_argument("--nz", type=int, default=24)
    ap.add_argument("--nf", type=int, default=32)
    ap.add_argument("--lr", type=float, default=2e-4)
    ap.add_argument("--r1", type=float, default=1.0)
    ap.add_argument("--log", type=int, default=100)
    ap.add_argument("--seed", type=int, default=0)
    return ap.parse_args()


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    k = torch.randint(0, 4, (n,), generator=g)
    cy = torch.where(k < 2, 4.5, 10.5) + torch.rand(n, generator=g)
    cx = torch.where(k % 2 == 0, 4.5, 10.5) + torch.rand(n, generator=g)
    s = 1.5 + torch.rand(n, generator=g)
    ax = torch.arange(16.0)
    d = (ax[None, :, None] - cy[:, None, None]) ** 2 + (ax[None, None, :] - cx[:, None, None]) ** 2
    im = torch.exp(-d / (2 * s[:, None, None] ** 2))
    return (im * 2 - 1).unsqueeze(1), k


class Gen(nn.Module):
    def __init__(self, nz, nf):
        super().__init__()
        self.emb = nn.Embedding(4, 8)
        self.net = nn.Sequential(
            nn.ConvTranspose2d(nz + 8, 2 * nf, 4, 1, 0, bias=False), nn.BatchNorm2d(2 * nf), nn.ReLU(),
            nn.ConvTranspose2d(2 * nf, nf, 4, 2, 1, bias=False), nn.BatchNorm2d(nf), nn.ReLU(),
            nn.ConvTranspose2d(nf, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z, k):
        h = torch.cat([z, self.emb(k)], 1)
        return self.net(h[:, :, None, None])


class Disc(nn.Module):
    def __init__(self, nf):
        super().__init__()
        self.emb = nn.Embedding(4, 256)
        self.net = nn.Sequential(
            nn.Conv2d(2, nf, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Conv2d(nf, 2 * nf, 4, 2, 1), nn.LeakyReLU(0.2),
            nn.Flatten(), nn.Linear(2 * nf * 16, 1))

    def forward(self, x, k):
        plane = self.emb(k).view(-1, 1, 16, 16)
        return self.net(torch.cat([x, plane], 1)).squeeze(1)


def init_w(m):
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


def endless(dl):
    while True:
        yield from dl


def main():
    a = get_args()
    torch.manual_seed(a.seed)
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    dl = DataLoader(TensorDataset(*make_data(4096, a.seed)), batch_size=a.bs, shuffle=True, drop_last=True)
    G, D = Gen(a.nz, a.nf).to(dev), Disc(a.nf).to(dev)
    G.apply(init_w)
    D.apply(init_w)
    og = torch.optim.Adam(G.parameters(), lr=a.lr, betas=(0.5, 0.999))
    od = torch.optim.Adam(D.parameters(), lr=a.lr, betas=(0.5, 0.999))
    one, zero = torch.ones(a.bs, device=dev), torch.zeros(a.bs, device=dev)
    it = endless(dl)

    for i in range(a.steps):
        x, k = next(it)
        x, k = x.to(dev), k.to(dev)
        x.requires_grad_(True)
        z = torch.randn(a.bs, a.nz, device=dev)
        fk = G(z, k)

        # discriminator
        od.zero_grad()
        dr = D(x, k)
        gx, = torch.autograd.grad(dr.sum(), x, create_graph=True)
        pen = gx.pow(2).flatten(1).sum(1).mean()
        ld = bce(dr, one) + bce(D(fk.detach(), k), zero) + 0.5 * a.r1 * pen
        ld.backward()
        od.step()

        # generator
        og.zero_grad()
        lg = bce(D(fk, k), one)
        lg.backward()
        og.step()

        if i % a.log == 0:
            print(f"{i:5d} D {ld.item():.3f} G {lg.item():.3f} r1 {pen.item():.4f}")


if __name__ == "__main__":
    main()
