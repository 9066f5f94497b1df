"""Class-conditional denoising diffusion on 8x8 glyphs, sampled with DDIM and classifier-free guidance."""
import copy
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE, CLASSES, STEPS = 8, 4, 200
NULL = CLASSES


def draw_glyphs(n, gen):
    """Bars, columns, frames and discs at random places, pixel values in [-1, 1]."""
    labels = torch.randint(0, CLASSES, (n,), generator=gen)
    ys, xs = torch.meshgrid(torch.arange(SIZE), torch.arange(SIZE), indexing="ij")
    cy = torch.randint(2, SIZE - 2, (n,), generator=gen)[:, None, None]
    cx = torch.randint(2, SIZE - 2, (n,), generator=gen)[:, None, None]
    dy, dx = (ys[None] - cy).abs(), (xs[None] - cx).abs()
    cheb = torch.maximum(dy, dx)
    shapes = torch.stack([dy <= 0, dx <= 0, cheb == 2, (dy ** 2 + dx ** 2) <= 4], 1).float()
    pictures = shapes[torch.arange(n), labels]
    pictures = pictures * (0.8 + 0.2 * torch.rand(n, 1, 1, generator=gen))
    pictures = pictures * 2 - 1 + 0.03 * torch.randn(n, SIZE, SIZE, generator=gen)
    return pictures.clamp(-1, 1).unsqueeze(1), labels


class Schedule:
    def __init__(self, steps=STEPS, s=0.008):
        t = torch.linspace(0, 1, steps + 1)
        f = torch.cos((t + s) / (1 + s) * math.pi / 2) ** 2
        betas = (1 - f[1:] / f[:-1]).clamp(max=0.999)
        self.steps = steps
        self.alphas_bar = torch.cumprod(1 - betas, 0)

    def add_noise(self, x0, noise, t):
        a = self.alphas_bar[t].view(-1, 1, 1, 1)
        return a.sqrt() * x0 + (1 - a).sqrt() * noise


def timestep_embedding(t, dim):
    half = dim // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
    args = t.float()[:, None] * freqs[None]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, width, emb):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.film = nn.Linear(emb, 2 * width)
        self.norm = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x, emb):
        scale, shift = self.film(emb)[:, :, None, None].chunk(2, dim=1)
        h = self.norm(self.conv1(x)) * (1 + scale) + shift
        return x + self.conv2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, width=32, emb=64):
        super().__init__()
        self.emb = emb
        self.time_mlp = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label_emb = nn.Embedding(CLASSES + 1, emb)
        self.stem = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)
        self.mid = nn.ModuleList([ResBlock(2 * width, emb) for _ in range(2)])
        self.up = nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1)
        self.out = ResBlock(width, emb)
        self.head = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x, t, y):
        emb = F.silu(self.time_mlp(timestep_embedding(t, self.emb)) + self.label_emb(y))
        skip = self.stem(x)
        h = self.down(F.silu(skip))
        for block in self.mid:
            h = block(h, emb)
        h = self.out(self.up(F.silu(h)) + skip, emb)
        return self.head(F.silu(h))


@torch.no_grad()
def update_ema(ema, model, step, decay=0.99):
    decay = min(decay, (1 + step) / (10 + step))
    for p_ema, p in zip(ema.parameters(), model.parameters()):
        p_ema.lerp_(p, 1 - decay)


@torch.no_grad()
def ddim_sample(model, schedule, labels, guidance=1.5, n_steps=16, gen=None):
    x = torch.randn(len(labels), 1, SIZE, SIZE, generator=gen)
    times = torch.linspace(schedule.steps - 1, 0, n_steps).round().long()
    for i, t in enumerate(times):
        tb = torch.full((len(labels),), int(t))
        eps_cond = model(x, tb, labels)
        eps_null = model(x, tb, torch.full_like(labels, NULL))
        eps = eps_null + guidance * (eps_cond - eps_null)
        a = schedule.alphas_bar[t]
        a_prev = schedule.alphas_bar[times[i + 1]] if i + 1 < n_steps else torch.tensor(1.0)
        x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
        eps = (x - a.sqrt() * x0) / (1 - a).sqrt()
        x = a_prev.sqrt() * x0 + (1 - a_prev).sqrt() * eps
    return x.clamp(-1, 1)


def energy_distance(a, b):
    a, b = a.flatten(1), b.flatten(1)
    within_a = torch.cdist(a, a).sum() / (len(a) * (len(a) - 1))
    within_b = torch.cdist(b, b).sum() / (len(b) * (len(b) - 1))
    return (2 * torch.cdist(a, b).mean() - within_a - within_b).item()


def evaluate(model, schedule, pictures, labels, gen):
    model.eval()
    distances = []
    for c in range(CLASSES):
        real = pictures[labels == c]
        fake = ddim_sample(model, schedule, torch.full((len(real),), c), gen=gen)
        distances.append(energy_distance(fake, real))
    return sum(distances) / CLASSES


def main(seed):
    torch.manual_seed(seed)
    gen = torch.Generator().manual_seed(1000 + seed)
    train_x, train_y = draw_glyphs(4096, gen)
    test_x, test_y = draw_glyphs(160, gen)
    schedule = Schedule()
    model = Denoiser()
    ema = copy.deepcopy(model).requires_grad_(False)
    opt = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-4)
    total, batch, p_uncond = 250, 32, 0.15
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=3e-3, total_steps=total, pct_start=0.1)
    for step in range(total):
        idx = torch.randint(0, len(train_x), (batch,), generator=gen)
        x0, y = train_x[idx], train_y[idx]
        drop = torch.rand(batch, generator=gen) < p_uncond
        y = torch.where(drop, torch.full_like(y, NULL), y)
        t = torch.randint(0, schedule.steps, (batch,), generator=gen)
        noise = torch.randn(x0.shape, generator=gen)
        pred = model(schedule.add_noise(x0, noise, t), t, y)
        loss = F.mse_loss(pred, noise)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        update_ema(ema, model, step)
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.5f}")
    print(f"result {evaluate(ema, schedule, test_x, test_y, gen):.5f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
