"""Latent flow matching on procedurally drawn discs.

stage 1: a small conv autoencoder (3x16x16 -> 8x4x4)
stage 2: a tiny DiT learns the velocity field x1 - x0 in the (rescaled) latent space, class conditional
Samples come from the EMA weights (Heun, 12 steps).
"""
import copy
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(7)
torch.backends.cuda.matmul.allow_tf32 = True

N_CLASS, BATCH = 6, 32
AE_STEPS, FM_STEPS = 300, 560
EMA_DECAY = 0.985
PALETTE = torch.tensor([[1.0, .2, .2], [.2, 1.0, .2], [.2, .3, 1.0], [1.0, .9, .1], [.9, .2, .9], [.1, .9, .9]], device=device)


def draw(n, gen=None):
    """discs: the class fixes colour and the sector of the centre; radius and jitter are free"""
    y = torch.randint(0, N_CLASS, (n,), device=device, generator=gen)
    ang = (y + 0.35 * (2 * torch.rand(n, device=device, generator=gen) - 1)) * (2 * math.pi / N_CLASS)
    rad = 0.45 + 0.1 * (2 * torch.rand(n, device=device, generator=gen) - 1)
    r = 0.22 + 0.12 * torch.rand(n, device=device, generator=gen)
    g = (torch.arange(16, device=device) + 0.5) / 8 - 1
    d2 = (g.view(1, 1, -1) - (rad * ang.cos()).view(-1, 1, 1)) ** 2 + (g.view(1, -1, 1) - (rad * ang.sin()).view(-1, 1, 1)) ** 2
    mask = torch.sigmoid((r.view(-1, 1, 1) - d2.sqrt()) * 14)
    return (mask[:, None] * PALETTE[y][:, :, None, None]) * 2 - 1, y


def describe(img):
    """attributes of an image: centroid, mass and mean colour"""
    x = ((img.float() + 1) / 2).clamp(0, 1)
    m = x.amax(1)
    m = m * (m > 0.4)
    mass = m.sum((1, 2)).clamp_min(1e-3)
    g = (torch.arange(16, device=img.device) + 0.5) / 8 - 1
    cx = (m * g.view(1, 1, -1)).sum((1, 2)) / mass
    cy = (m * g.view(1, -1, 1)).sum((1, 2)) / mass
    col = (x * m[:, None]).sum((2, 3)) / mass[:, None]
    return torch.cat([cx[:, None], cy[:, None], (mass / 40)[:, None], col], 1)


class AutoEncoder(nn.Module):
    """patchify (4x4 pixels -> one latent cell with 8 channels) and back"""

    def __init__(self, c=128, zc=8):
        super().__init__()
        self.enc = nn.Sequential(nn.PixelUnshuffle(4), nn.Conv2d(48, c, 1), nn.SiLU(), nn.Conv2d(c, zc, 1))
        self.dec = nn.Sequential(nn.Conv2d(zc, c, 3, 1, 1), nn.SiLU(), nn.Conv2d(c, c, 1), nn.SiLU(), nn.Conv2d(c, 48, 1), nn.PixelShuffle(4))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1 = nn.LayerNorm(d, elementwise_affine=False)
        self.n2 = nn.LayerNorm(d, elementwise_affine=False)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))
        self.ada = nn.Linear(d, 6 * d)
        nn.init.zeros_(self.ada.weight)
        nn.init.zeros_(self.ada.bias)

    def forward(self, x, c):
        s1, b1, g1, s2, b2, g2 = self.ada(F.silu(c))[:, None].chunk(6, -1)
        B, L, D = x.shape
        h = self.n1(x) * (1 + s1) + b1
        q, k, v = self.qkv(h).view(B, L, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        x = x + g1 * self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, L, D))
        return x + g2 * self.mlp(self.n2(x) * (1 + s2) + b2)


class TinyDiT(nn.Module):
    def __init__(self, zc=8, d=64, depth=2, heads=4):
        super().__init__()
        self.inp, self.pos = nn.Linear(zc, d), nn.Parameter(0.1 * torch.randn(1, 16, d))
        self.label = nn.Embedding(N_CLASS, d)
        self.time = nn.Sequential(nn.Linear(64, d), nn.SiLU(), nn.Linear(d, d))
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.norm, self.out = nn.LayerNorm(d), nn.Linear(d, zc)
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(200.0), 32)))

    def forward(self, z, t, y):
        a = t[:, None].float() * self.freqs
        c = self.time(torch.cat([a.sin(), a.cos()], -1)) + self.label(y)
        x = self.inp(z.flatten(2).transpose(1, 2)) + self.pos
        for blk in self.blocks:
            x = blk(x, c)
        return self.out(self.norm(x)).transpose(1, 2).reshape_as(z)


@torch.no_grad()
def sample(net, y, steps=12):
    z = torch.randn(len(y), 8, 4, 4, device=device)
    dt = 1.0 / steps
    for i in range(steps):
        t0 = torch.full((len(y),), i / steps, device=device)
        v = net(z, t0, y).float()
        v2 = net(z + dt * v, t0 + dt, y).float()
        z = z + dt * 0.5 * (v + v2)
    return z


def amp():
    return torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda")


start = time.time()
# ---------------------------------------------------------------- stage 1
ae = AutoEncoder().to(device)
ae_opt = torch.optim.AdamW(ae.parameters(), lr=6e-3, fused=device == "cuda")
ae_sched = torch.optim.lr_scheduler.CosineAnnealingLR(ae_opt, AE_STEPS, eta_min=1e-4)
for it in range(AE_STEPS):
    x, _ = draw(BATCH)
    with amp():
        z = ae.enc(x)
        rec = ae.dec(z + 0.05 * torch.randn_like(z))
    loss = F.mse_loss(rec.float(), x) + 1e-4 * z.float().pow(2).mean()
    ae_opt.zero_grad(set_to_none=True)
    loss.backward()
    ae_opt.step()
    ae_sched.step()
    if it % 60 == 0:
        print(f"[ae] {it:4d} loss {loss.item():.4f}")
ae.requires_grad_(False).eval()
with torch.no_grad():
    ref = ae.enc(draw(512)[0]).float()
shift, scale = ref.mean((0, 2, 3), keepdim=True), ref.std((0, 2, 3), keepdim=True)

# ---------------------------------------------------------------- stage 2
net = TinyDiT().to(device)
ema = copy.deepcopy(net).requires_grad_(False).eval()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=0.01, betas=(0.9, 0.98), fused=device == "cuda")
sched = torch.optim.lr_scheduler.LambdaLR(
    opt, lambda s: min(1.0, (s + 1) / 40) * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * min(1.0, s / FM_STEPS)))))
noise = torch.empty(BATCH, 8, 4, 4, device=device).normal_()
running = 0.0
for it in range(FM_STEPS):
    x, y = draw(BATCH)
    with torch.no_grad(), amp():
        z1 = (ae.enc(x).float() - shift) / scale
    noise.normal_()
    t = torch.sigmoid(torch.randn(BATCH, device=device))
    tt = t.view(-1, 1, 1, 1)
    zt = (1 - tt) * noise + tt * z1
    with amp():
        v = net(zt, t, y)
    loss = F.mse_loss(v.float(), z1 - noise)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    sched.step()
    with torch.no_grad():
        torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 1 - EMA_DECAY)
    running += loss.detach()
    if (it + 1) % 56 == 0:
        print(f"[fm] {it + 1:4d} loss {(running / 56).item():.4f} lr {sched.get_last_lr()[0]:.2e}")
        running = 0.0

# ---------------------------------------------------------------- evaluation
torch.manual_seed(123)
real, yr = draw(600)
yg = torch.arange(N_CLASS, device=device).repeat_interleave(100)
z = sample(ema, yg)
fake = ae.dec((z * scale + shift)).float()
ar, af = describe(real), describe(fake)
proto = torch.stack([ar[yr == k].mean(0) for k in range(N_CLASS)])
spread = torch.stack([ar[yr == k].std(0) for k in range(N_CLASS)])
hit = (((af - proto[yg]) / (spread[yg] + 0.06)).abs().amax(1) < 3.0).float().mean()
dist = 0.0
for k in range(N_CLASS):  # per attribute 1-d Wasserstein distance
    q = torch.linspace(0.02, 0.98, 49, device=device)
    dist += (ar[yr == k].quantile(q, 0) - af[yg == k].quantile(q, 0)).abs().mean() / N_CLASS
print(f"time {time.time() - start:.1f}s")
print(f"FINAL good_samples {hit.item():.3f} attr_w1 {dist.item():.4f}")
