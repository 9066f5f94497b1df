"""Flatland radiance field: one-dimensional cameras looking into a two-dimensional scene."""
import math
import sys

import torch
import torch.nn.functional as F
from torch import nn, optim

NEAR, FAR, SAMPLES = 1.0, 3.0, 24
PIXELS = 48


class Scene:
    def __init__(self, gen):
        self.c = (torch.rand(6, 2, generator=gen) - 0.5) * 1.3
        self.r = 0.12 + 0.14 * torch.rand(6, generator=gen)
        self.rgb = torch.rand(6, 3, generator=gen)

    def field(self, p):
        d = (p[..., None, :] - self.c).norm(dim=-1) - self.r
        occ = torch.sigmoid(-d * 25)
        sigma = 14 * occ.amax(-1)
        w = occ / (occ.sum(-1, keepdim=True) + 1e-6)
        stripes = 0.5 + 0.5 * torch.sin(9 * p[..., :1] + 7 * p[..., 1:])
        return sigma, (w @ self.rgb) * (0.5 + 0.5 * stripes)

    def photograph(self, o, d, k=128):
        z = torch.linspace(NEAR, FAR, k + 1)
        step = z[1] - z[0]
        z = (z[:-1] + step / 2)[None, :, None]
        sigma, rgb = self.field(o[:, None] + d[:, None] * z)
        tau = sigma * step
        weights = (1 - torch.exp(-tau)) * torch.exp(tau - tau.cumsum(1))
        return (weights[..., None] * rgb).sum(1)


def rays_for(angle):
    o = torch.tensor([2 * math.cos(angle), 2 * math.sin(angle)])
    fwd, side = -o / 2, torch.tensor([-math.sin(angle), math.cos(angle)])
    s = torch.linspace(-0.5, 0.5, PIXELS)[:, None]
    d = F.normalize(fwd + s * side, dim=1)
    return o.expand(PIXELS, 2), d


def composite(sigma, rgb, z):
    delta = torch.cat([z[:, 1:] - z[:, :-1], torch.full_like(z[:, :1], 0.1)], dim=1)
    alpha = 1 - torch.exp(-sigma * delta)
    trans = torch.cumprod(1 - alpha + 1e-10, dim=1)
    trans = torch.cat([torch.ones_like(trans[:, :1]), trans[:, :-1]], dim=1)
    weights = alpha * trans
    depth = (weights.detach() * z).sum(1)
    colour = (weights[..., None] * rgb).sum(1)
    return colour, depth


def depths(n, k, jitter):
    edges = torch.linspace(NEAR, FAR, k + 1)
    lo, hi = edges[:-1].expand(n, k), edges[1:].expand(n, k)
    u = torch.rand(n, k) if jitter else torch.full((n, k), 0.5)
    return lo + (hi - lo) * u


class Field(nn.Module):
    def __init__(self, bands=5, width=64, depth=3):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(bands) * math.pi / 2)
        self.inp = nn.Linear(2 + 4 * bands, width)
        self.hidden = nn.ModuleList([nn.Linear(width, width) for _ in range(depth - 1)])
        self.sigma = nn.Linear(width, 1)
        self.rgb = nn.Linear(width, 3)

    def encode(self, p):
        a = (p[..., None] * self.freqs).flatten(-2)
        return torch.cat([p, a.sin(), a.cos()], dim=-1)

    def forward(self, p):
        h = F.relu(self.inp(self.encode(p)))
        for lin in self.hidden:
            h = F.relu(lin(h))
        return F.softplus(self.sigma(h)).squeeze(-1) * 5, torch.sigmoid(self.rgb(h))


def render(field, o, d, k=SAMPLES, jitter=False):
    z = depths(len(o), k, jitter)
    p = o[:, None] + d[:, None] * z[..., None]
    sigma, rgb = field(p)
    return composite(sigma, rgb, z)


def capture(scene, angles):
    rays = [rays_for(a) for a in angles]
    o, d = torch.cat([r[0] for r in rays]), torch.cat([r[1] for r in rays])
    return o, d, scene.photograph(o, d)


def test_error(model, held):
    o, d, c = held
    model.eval()
    with torch.no_grad():
        pred, _ = render(model, o, d, k=64)
    model.train()
    return F.mse_loss(pred, c).item()


def main():
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    torch.manual_seed(seed)
    scene = Scene(torch.Generator().manual_seed(seed + 3))
    train = capture(scene, [2 * math.pi * i / 40 for i in range(40)])
    held = capture(scene, [2 * math.pi * (i + 0.5) / 20 for i in range(20)])

    model = Field()
    opt = optim.Adam(model.parameters(), lr=5e-3)
    steps, per_epoch, B = 480, 40, 160
    sched = optim.lr_scheduler.ExponentialLR(opt, gamma=0.85)
    for step in range(1, steps + 1):
        idx = torch.randint(0, len(train[0]), (B,))
        o, d, target = (t[idx] for t in train)
        colour, depth = render(model, o, d, jitter=True)
        loss = F.mse_loss(colour, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % per_epoch == 0:
            sched.step()
        if step % 120 == 0:
            err = test_error(model, held)
            print(f"{step:4d} mse {loss.item():.5f} mean depth {depth.mean().item():.2f} held-out psnr {-10 * math.log10(err):.2f}")
    print("result", test_error(model, held))


if __name__ == "__main__":
    main()
