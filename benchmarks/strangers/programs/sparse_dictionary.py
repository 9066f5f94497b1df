"""Sparse autoencoder on activations in superposition: 64 hidden features squeezed into 24 dimensions."""
from dataclasses import dataclass

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class SAEConfig:
    n_true: int = 64
    d_act: int = 24
    n_latents: int = 128
    p_active: float = 0.04
    l1: float = 0.2
    lr: float = 4e-3
    batch: int = 512
    steps: int = 400
    revive_every: int = 100
    buffer: int = 8192
    refill_every: int = 16
    seed: int = 17


class ActivationSource:
    """Stands in for a language model: returns residual-stream vectors in its own units."""

    def __init__(self, cfg, seed):
        self.cfg = cfg
        world = torch.Generator().manual_seed(cfg.seed)
        self.directions = F.normalize(torch.randn(cfg.n_true, cfg.d_act, generator=world), dim=1)
        self.offset = 2.0 * torch.randn(cfg.d_act, generator=world)
        self.rate = cfg.p_active * torch.linspace(0.5, 1.5, cfg.n_true)
        self.gen = torch.Generator().manual_seed(seed)

    def draw(self, n):
        on = torch.rand(n, self.cfg.n_true, generator=self.gen) < self.rate
        size = 0.5 + torch.rand(n, self.cfg.n_true, generator=self.gen)
        noise = 0.02 * torch.randn(n, self.cfg.d_act, generator=self.gen)
        return 6.0 * ((on * size) @ self.directions + noise + self.offset)


class Buffer:
    def __init__(self, source, cfg):
        self.source, self.cfg = source, cfg
        self.used = 0
        self.refill()

    def refill(self):
        self.store = self.source.draw(self.cfg.buffer)

    def next(self):
        if self.used == self.cfg.refill_every:
            self.refill()
            self.used = 0
        self.used += 1
        return self.store[torch.randint(0, len(self.store), (self.cfg.batch,))]


class SAE(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = F.normalize(torch.randn(cfg.n_latents, cfg.d_act), dim=1)
        self.W_dec = nn.Parameter(w)
        self.W_enc = nn.Parameter(w.T.clone())
        self.b_enc = nn.Parameter(torch.zeros(cfg.n_latents))
        self.b_dec = nn.Parameter(torch.zeros(cfg.d_act))

    def encode(self, x):
        return F.relu((x - self.b_dec) @ self.W_enc + self.b_enc)

    def decode(self, f):
        return f @ self.W_dec + self.b_dec

    @torch.no_grad()
    def drop_parallel_grad(self):
        g = self.W_dec.grad
        g -= (g * self.W_dec).sum(dim=1, keepdim=True) * self.W_dec

    @torch.no_grad()
    def unit_decoder(self):
        self.W_dec.div_(self.W_dec.norm(dim=1, keepdim=True))


@torch.no_grad()
def revive(sae, opt, dead, x):
    n = int(dead.sum())
    if n == 0:
        return
    resid = x - sae.decode(sae.encode(x))
    pick = torch.multinomial(resid.square().sum(1), n)
    fresh = F.normalize(resid[pick], dim=1)
    sae.W_dec[dead] = fresh
    sae.W_enc[:, dead] = 0.5 * fresh.T
    sae.b_enc[dead] = 0.0
    for p, where in ((sae.W_dec, (dead,)), (sae.W_enc, (slice(None), dead)), (sae.b_enc, (dead,))):
        for key in ("exp_avg", "exp_avg_sq"):
            opt.state[p][key][where] = 0.0


@torch.no_grad()
def report(sae, source, prep):
    x = prep(source.draw(4096))
    f = sae.encode(x)
    fvu = ((x - sae.decode(f)).square().sum() / (x - x.mean(0)).square().sum()).item()
    l0 = (f > 0).float().sum(1).mean().item()
    alive = (f > 0).any(0)
    cos = F.normalize(source.directions, dim=1) @ F.normalize(sae.W_dec[alive], dim=1).T
    recovered = cos.max(dim=1).values.mean().item() if alive.any() else 0.0
    return fvu, l0, int(alive.sum()), recovered


def main():
    cfg = SAEConfig()
    torch.manual_seed(cfg.seed)
    source, held_out = ActivationSource(cfg, seed=1), ActivationSource(cfg, seed=2)
    calib = source.draw(4096)
    centre = calib.mean(0)
    scale = (calib - centre).square().sum(1).mean().sqrt()
    prep = lambda a: (a - centre) / scale

    sae, buf = SAE(cfg), Buffer(source, cfg)
    opt = torch.optim.Adam(sae.parameters(), lr=cfg.lr, betas=(0.9, 0.99))
    fired = torch.zeros(cfg.n_latents, dtype=torch.bool)
    for step in range(cfg.steps):
        x = prep(buf.next())
        f = sae.encode(x)
        recon = (sae.decode(f) - x).square().sum(1).mean()
        sparsity = f.sum(1).mean()
        loss = recon + cfg.l1 * sparsity
        opt.zero_grad()
        loss.backward()
        sae.drop_parallel_grad()
        opt.step()
        sae.unit_decoder()
        fired |= (f > 0).any(0)
        if step % 50 == 0 or step == cfg.steps - 1:
            print(f"step {step} loss {loss.item():.4f} recon {recon.item():.4f} l0 {(f > 0).float().sum(1).mean():.2f}")
        if (step + 1) % cfg.revive_every == 0:
            if step + 1 < cfg.steps:
                revive(sae, opt, ~fired, x)
            fired.zero_()

    fvu, l0, alive, recovered = report(sae, held_out, prep)
    print(f"held-out fvu {fvu:.4f} l0 {l0:.2f} (true {cfg.p_active * cfg.n_true:.2f}) alive {alive}/{cfg.n_latents}")
    print(f"mean best cosine to a true feature {recovered:.4f}")
    print(f"result {fvu + (1 - recovered) + l0 / cfg.n_latents:.4f}")


if __name__ == "__main__":
    main()
