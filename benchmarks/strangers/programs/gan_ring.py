#!/usr/bin/env python
"""GAN on a mixture of 10 waveform families (32 samples per waveform): hinge loss, R1 penalty on real data,
one GradScaler per optimizer, generator EMA for evaluation. Data are made on the device."""
import copy
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.amp import GradScaler, autocast
from torch.nn.utils.parametrizations import spectral_norm

dev = torch.device("cuda" if torch.cuda.is_available() else "cpu")
use_amp = dev.type == "cuda"  # the scalers run everywhere, fp16 only where it is fast

HP = dict(steps=900, bs=128, z=16, lr_g=1.5e-3, lr_d=1.5e-3, r1=0.3, r1_every=4, ema=0.99, seed=3)
torch.manual_seed(HP["seed"])
MODES, T = 10, 32


class Waves:
    """mode k: a fixed smooth template, free amplitude (0.8..1.2) and offset, and a little noise"""

    def __init__(self):
        g = torch.Generator().manual_seed(99)
        t = torch.linspace(0, 1, T)
        co = torch.randn(MODES, 4, 2, generator=g) / torch.arange(1, 5).view(1, 4, 1).sqrt()
        ph = 2 * torch.pi * t.view(1, 1, T) * torch.arange(1, 5).view(1, 4, 1)
        tpl = (co[..., :1] * ph.sin() + co[..., 1:] * ph.cos()).sum(1)
        self.tpl = (tpl / tpl.std(1, keepdim=True)).to(dev)

    def batch(self, n):
        k = torch.randint(MODES, (n,), device=dev)
        a = 0.8 + 0.4 * torch.rand(n, 1, device=dev)
        b = 0.15 * torch.randn(n, 1, device=dev)
        return a * self.tpl[k] + b + 0.05 * torch.randn(n, T, device=dev)


class Generator(nn.Module):
    def __init__(self, z, h=96):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(z, h), nn.BatchNorm1d(h), nn.LeakyReLU(0.2),
            nn.Linear(h, h), nn.BatchNorm1d(h), nn.LeakyReLU(0.2),
            nn.Linear(h, h), nn.BatchNorm1d(h), nn.LeakyReLU(0.2))
        self.to_wave = nn.Linear(h, T)

    def forward(self, z):
        return self.to_wave(self.body(z))


class Discriminator(nn.Module):
    def __init__(self, h=96):
        super().__init__()
        self.stem = nn.Linear(T, h)
        self.mid = nn.ModuleList([spectral_norm(nn.Linear(h, h)) for _ in range(2)])
        self.score = nn.Linear(h, 1)

    def forward(self, x):
        x = F.leaky_relu(self.stem(x), 0.2)
        for m in self.mid:
            x = F.leaky_relu(m(x), 0.2) + x
        return self.score(x).squeeze(-1)


def toggle(net, on):
    for w in net.parameters():
        w.requires_grad_(on)


@torch.no_grad()
def update_ema(ema, net, decay):
    for a, b in zip(ema.parameters(), net.parameters()):
        a.lerp_(b, 1 - decay)
    for a, b in zip(ema.buffers(), net.buffers()):
        a.copy_(b)


def r1_penalty(D, real, scaler):
    """|grad_x D(x)|^2 in float32; grads are taken of the scaled score and divided again before the square"""
    x = real.detach().requires_grad_(True)
    with autocast(dev.type, dtype=torch.float16 if use_amp else torch.bfloat16, enabled=use_amp):
        s = D(x)
    g, = torch.autograd.grad(scaler.scale(s.float().sum()), x, create_graph=True)
    g = g / scaler.get_scale()
    return g.float().pow(2).sum(1).mean()


@torch.no_grad()
def evaluate(G, waves, n=3000):
    G.eval()
    z = torch.randn(n, HP["z"], device=dev)
    fake = G(z).float()
    real = waves.batch(n)
    # fit amplitude and offset of every template, look at the residue
    c = fake - fake.mean(1, keepdim=True)
    tpl = waves.tpl - waves.tpl.mean(1, keepdim=True)
    amp = (c @ tpl.T) / tpl.pow(2).sum(1)
    res = (c[:, None] - amp[..., None] * tpl[None]).pow(2).mean(-1).sqrt()
    err, k = res.min(1)
    a = amp.gather(1, k[:, None])[:, 0]
    good = (err < 0.25) & (a > 0.6) & (a < 1.4)
    counts = torch.bincount(k[good], minlength=MODES).float() / n
    proj = F.normalize(torch.randn(T, 128, device=dev), dim=0)
    swd = ((fake @ proj).sort(0).values - (real @ proj).sort(0).values).abs().mean()
    return good.float().mean().item(), int((counts > 0.25 / MODES).sum()), swd.item()


def train():
    waves = Waves()
    G, D = Generator(HP["z"]).to(dev), Discriminator().to(dev)
    G_ema = copy.deepcopy(G)
    toggle(G_ema, False)
    fused = dict(fused=True) if dev.type == "cuda" else {}
    og = torch.optim.Adam(G.parameters(), lr=HP["lr_g"], betas=(0.0, 0.99), **fused)
    od = torch.optim.Adam(D.parameters(), lr=HP["lr_d"], betas=(0.0, 0.99), **fused)
    sg, sd = GradScaler(dev.type, init_scale=1024.0), GradScaler(dev.type, init_scale=1024.0)
    decay = lambda s: max(0.05, min(1.0, 2.0 * (1 - s / HP["steps"])))
    lg, ld = (torch.optim.lr_scheduler.LambdaLR(o, decay) for o in (og, od))

    for step in range(HP["steps"]):
        # ---- discriminator
        toggle(D, True)
        real = waves.batch(HP["bs"])
        z = torch.randn(HP["bs"], HP["z"], device=dev)
        with autocast(dev.type, dtype=torch.float16 if use_amp else torch.bfloat16, enabled=use_amp):
            fake = G(z).detach()
            s_real, s_fake = D(real), D(fake)
        d_loss = F.relu(1 - s_real.float()).mean() + F.relu(1 + s_fake.float()).mean()
        od.zero_grad(set_to_none=True)
        total = d_loss
        if step % HP["r1_every"] == 0:
            total = total + 0.5 * HP["r1"] * HP["r1_every"] * r1_penalty(D, real, sd)
        sd.scale(total).backward()
        sd.unscale_(od)
        nn.utils.clip_grad_norm_(D.parameters(), 10.0, foreach=True)
        sd.step(od)
        sd.update()

        # ---- generator
        toggle(D, False)
        z = torch.randn(HP["bs"], HP["z"], device=dev)
        og.zero_grad(set_to_none=True)
        with autocast(dev.type, dtype=torch.float16 if use_amp else torch.bfloat16, enabled=use_amp):
            s = D(G(z))
        g_loss = -s.float().mean()
        sg.scale(g_loss).backward()
        sg.step(og)
        sg.update()
        lg.step()
        ld.step()
        update_ema(G_ema, G, HP["ema"])
        if step % 100 == 0 or step == HP["steps"] - 1:
            print(f"{step:5d} | D loss {d_loss.item():.3f} | G loss {g_loss.item():.3f} | scale {sd.get_scale():.0f}")
    return G_ema, waves


if __name__ == "__main__":
    tic = time.perf_counter()
    G, waves = train()
    good, modes, swd = evaluate(G, waves)
    print(f"took {time.perf_counter() - tic:.1f}s")
    print(f"FINAL good {good:.3f} modes {modes}/{MODES} swd {swd:.4f}")
