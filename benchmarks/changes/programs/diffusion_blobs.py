"""DDPM on small blob images with a class condition, an EMA copy for sampling and a Charbonnier loss."""
import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

config = {
    "img": 20, "n_train": 4000, "classes": 4, "T": 200, "width": 48, "blocks": 3,
    "batch": 64, "lr": 4e-4, "steps": 4000, "ema": 0.999, "snr_cap": 5.0, "p_uncond": 0.1,
    "charb_eps": 1e-3, "seed": 9,
}


def load_blobs(n, seed):
    """Blobs of four kinds; images are up to `img` wide, padded with zeros to the right, with a validity map."""
    g = torch.Generator().manual_seed(seed)
    side = config["img"]
    yy, xx = torch.meshgrid(torch.arange(side).float(), torch.arange(side).float(), indexing="ij")
    kind = torch.randint(config["classes"], (n,), generator=g)
    cx = 4 + 8 * torch.rand(n, 1, 1, generator=g)
    cy = 4 + 12 * torch.rand(n, 1, 1, generator=g)
    sx = torch.tensor([2.0, 4.0, 2.0, 3.0])[kind].view(-1, 1, 1)
    sy = torch.tensor([2.0, 2.0, 4.0, 3.0])[kind].view(-1, 1, 1)
    x = 2 * torch.exp(-((xx - cx) / sx) ** 2 - ((yy - cy) / sy) ** 2) - 1
    width = torch.randint(16, side + 1, (n, 1, 1), generator=g)
    valid = (xx.expand(n, -1, -1) < width).float()
    return (x * valid).unsqueeze(1), valid.unsqueeze(1), kind


def cosine_alpha_bar(T, s=0.008):
    u = torch.arange(T + 1, dtype=torch.float64) / T
    f = torch.cos((u + s) / (1 + s) * math.pi / 2) ** 2
    betas = (1 - f[1:] / f[:-1]).clamp(max=0.999)
    return torch.cumprod(1 - betas, 0).float(), betas.float()


def timestep_embedding(t, dim):
    freqs = torch.exp(-math.log(10000.0) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    arg = t.float().unsqueeze(1) * freqs
    return torch.cat([arg.sin(), arg.cos()], dim=1)


class ResBlock(nn.Module):
    def __init__(self, ch, emb):
        super().__init__()
        self.n1, self.n2 = nn.GroupNorm(8, ch), nn.GroupNorm(8, ch)
        self.c1, self.c2 = nn.Conv2d(ch, ch, 3, padding=1), nn.Conv2d(ch, ch, 3, padding=1)
        self.film = nn.Linear(emb, 2 * ch)
        nn.init.zeros_(self.c2.weight)
        nn.init.zeros_(self.c2.bias)

    def forward(self, x, emb):
        h = self.c1(F.silu(self.n1(x)))
        scale, shift = self.film(F.silu(emb))[:, :, None, None].chunk(2, dim=1)
        h = self.n2(h) * (1 + scale) + shift
        return x + self.c2(F.silu(h))


class Denoiser(nn.Module):
    def __init__(self, ch, n_blocks, n_classes):
        super().__init__()
        emb = 4 * ch
        self.ch, self.null_class = ch, n_classes
        self.time_mlp = nn.Sequential(nn.Linear(ch, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.class_emb = nn.Embedding(n_classes + 1, emb)
        self.head = nn.Conv2d(2, ch, 3, padding=1)
        self.blocks = nn.ModuleList([ResBlock(ch, emb) for _ in range(n_blocks)])
        self.tail = nn.Sequential(nn.GroupNorm(8, ch), nn.SiLU(), nn.Conv2d(ch, 1, 3, padding=1))

    def forward(self, x, valid, t, cls):
        emb = self.time_mlp(timestep_embedding(t, self.ch)) + self.class_emb(cls)
        h = self.head(torch.cat([x, valid], dim=1))
        for block in self.blocks:
            h = block(h, emb)
        return self.tail(h)


@torch.no_grad()
def ema_step(ema, model, decay, step):
    decay = min(decay, (1 + step) / (10 + step))
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p, 1 - decay)


def diffusion_loss(net, x0, valid, cls, abar, gen):
    t = torch.randint(config["T"], (x0.size(0),), generator=gen)
    noise = torch.randn(x0.shape, generator=gen)
    ab = abar[t].view(-1, 1, 1, 1)
    xt = (ab.sqrt() * x0 + (1 - ab).sqrt() * noise) * valid
    drop = torch.rand(cls.shape, generator=gen) < config["p_uncond"]
    pred = net(xt, valid, t, torch.where(drop, torch.full_like(cls, net.null_class), cls))
    diff = (pred - noise) * valid
    per_image = (diff.pow(2) + config["charb_eps"] ** 2).sqrt().mul(valid).sum(dim=(1, 2, 3)) / valid.sum(dim=(1, 2, 3))
    snr = ab.flatten() / (1 - ab.flatten())
    weight = snr.clamp(max=config["snr_cap"]) / snr
    return (weight * per_image).mean()


def train():
    torch.manual_seed(config["seed"])
    gen = torch.Generator().manual_seed(config["seed"])
    x_all, valid_all, kind_all = load_blobs(config["n_train"], seed=1)
    x_val, valid_val, kind_val = load_blobs(256, seed=2)
    abar, _ = cosine_alpha_bar(config["T"])
    net = Denoiser(config["width"], config["blocks"], config["classes"])
    ema = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=config["lr"], weight_decay=1e-4)
    for step in range(config["steps"]):
        idx = torch.randint(config["n_train"], (config["batch"],), generator=gen)
        loss = diffusion_loss(net, x_all[idx], valid_all[idx], kind_all[idx], abar, gen)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        grad_norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        ema_step(ema, net, config["ema"], step)
        if step % 200 == 0:
            with torch.no_grad():
                val = diffusion_loss(ema, x_val, valid_val, kind_val, abar, torch.Generator().manual_seed(0))
            print(f"{step:5d} loss {loss.item():.4f} ema val {val.item():.4f} grad {grad_norm:.3f}")


if __name__ == "__main__":
    train()
