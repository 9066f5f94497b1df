"""Class-conditional DDPM with classifier-free guidance on short waveforms."""
import copy
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    length: int = 32
    n_classes: int = 4
    width: int = 24
    T: int = 80
    beta_start: float = 1e-3
    beta_end: float = 0.15
    p_uncond: float = 0.15
    guidance: float = 0.5
    lr: float = 2e-3
    batch_size: int = 64
    steps: int = 320
    ema_decay: float = 0.98
    seed: int = 0


def make_waveforms(n, cfg, gen):
    """sine / square / saw / gaussian bump, each with random phase and gain, in millivolts."""
    t = torch.linspace(0, 1, cfg.length)[None]
    y = torch.randint(0, cfg.n_classes, (n,), generator=gen)
    phase = torch.rand(n, 1, generator=gen)
    gain = 2.0 + torch.rand(n, 1, generator=gen)
    u = (2 * t + phase) % 1.0
    shapes = torch.stack([
        torch.sin(2 * math.pi * u),
        torch.where(u < 0.5, 1.0, -1.0),
        2 * u - 1,
        2 * torch.exp(-((t - 0.2 - 0.6 * phase) / 0.08) ** 2) - 0.5,
    ], dim=1)
    x = shapes[torch.arange(n), y] * gain + 0.05 * torch.randn(n, cfg.length, generator=gen)
    return x, y


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(1000.0) * torch.arange(dim // 2) / (dim // 2))
    ang = t.float()[:, None] * freqs[None]
    return torch.cat([ang.sin(), ang.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb_dim, dilation):
        super().__init__()
        self.norm = nn.GroupNorm(4, ch)
        self.conv1 = nn.Conv1d(ch, ch, 5, padding=2 * dilation, dilation=dilation)
        self.emb = nn.Linear(emb_dim, 2 * ch)
        self.conv2 = nn.Conv1d(ch, ch, 3, padding=1)

    def forward(self, x, emb):
        scale, shift = self.emb(emb)[:, :, None].chunk(2, dim=1)
        h = self.conv1(F.silu(self.norm(x)))
        h = h * (1 + scale) + shift
        return x + self.conv2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        w = cfg.width
        self.null = cfg.n_classes
        self.label_emb = nn.Embedding(cfg.n_classes + 1, 2 * w)
        self.time_mlp = nn.Sequential(nn.Linear(2 * w, 2 * w), nn.SiLU(), nn.Linear(2 * w, 2 * w))
        self.stem = nn.Conv1d(1, w, 5, padding=2)
        self.blocks = nn.ModuleList([ResBlock(w, 2 * w, d) for d in (1, 2, 4, 1)])
        self.head = nn.Sequential(nn.GroupNorm(4, w), nn.SiLU(), nn.Conv1d(w, 1, 3, padding=1))
        self.w = w

    def forward(self, x, t, y):
        emb = self.time_mlp(timestep_embedding(t, 2 * self.w)) + self.label_emb(y)
        h = self.stem(x[:, None])
        for block in self.blocks:
            h = block(h, F.silu(emb))
        return self.head(h)[:, 0]


class Diffusion:
    def __init__(self, cfg):
        self.cfg = cfg
        self.betas = torch.linspace(cfg.beta_start, cfg.beta_end, cfg.T)
        self.alphas = 1 - self.betas
        self.abar = torch.cumprod(self.alphas, 0)

    def training_loss(self, model, x0, y):
        cfg = self.cfg
        t = torch.randint(0, cfg.T, (len(x0),))
        drop = torch.rand(len(x0)) < cfg.p_uncond
        y_in = torch.where(drop, torch.full_like(y, model.null), y)
        eps = torch.randn_like(x0)
        a = self.abar[t][:, None]
        x_t = a.sqrt() * x0 + (1 - a).sqrt() * eps
        return F.mse_loss(model(x_t, t, y_in), eps)

    @torch.no_grad()
    def sample(self, model, y, w):
        x = torch.randn(len(y), self.cfg.length)
        null = torch.full_like(y, model.null)
        for i in reversed(range(self.cfg.T)):
            t = torch.full((len(y),), i)
            cond, uncond = model(x, t, y), model(x, t, null)
            eps = uncond + (1 + w) * (cond - uncond)
            beta, alpha, abar = self.betas[i], self.alphas[i], self.abar[i]
            x = (x - beta / (1 - abar).sqrt() * eps) / alpha.sqrt()
            if i > 0:
                x = x + beta.sqrt() * torch.randn_like(x)
        return x


@torch.no_grad()
def update_ema(ema, model, decay):
    for pe, p in zip(ema.parameters(), model.parameters()):
        pe.mul_(decay).add_(p, alpha=1 - decay)


def energy_distance(a, b):
    return (2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, b).mean()).item()


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed + 1)
    x_train, y_train = make_waveforms(4000, cfg, gen)
    x_test, y_test = make_waveforms(1000, cfg, gen)
    scale = x_train.std()

    model = Denoiser(cfg)
    ema = copy.deepcopy(model)
    diff = Diffusion(cfg)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-4)
    for step in range(cfg.steps):
        idx = torch.randint(0, len(x_train), (cfg.batch_size,))
        loss = diff.training_loss(model, x_train[idx] / scale, y_train[idx])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        update_ema(ema, model, cfg.ema_decay)
        if step % 50 == 0 or step == cfg.steps - 1:
            print(f"step {step} loss {loss.item():.4f}")

    ema.eval()
    per_class = []
    for c in range(cfg.n_classes):
        labels = torch.full((40,), c)
        fake = diff.sample(ema, labels, cfg.guidance) * scale
        per_class.append(energy_distance(fake, x_test[y_test == c]))
    print("energy distance per class", [round(d, 3) for d in per_class])
    print(f"result {sum(per_class) / len(per_class):.4f}")


if __name__ == "__main__":
    main()
