"""Small vision transformer on synthetic textures: mixup/CutMix, label smoothing, bf16 autocast, gradient accumulation, EMA."""
import copy
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_CLASSES = 10
IMAGE = 20
PATCH = 5
EPOCHS = 8
BATCH = 32
ACCUM = 2
PEAK_LR = 3e-3
SMOOTHING = 0.1
EMA_DECAY = 0.97


def smooth_field(n, rng):
    coarse = torch.from_numpy(rng.standard_normal((n, 1, 6, 6)).astype(np.float32))
    return F.interpolate(coarse, size=(IMAGE, IMAGE), mode="bicubic", align_corners=True)


def make_images(n, rng, templates):
    labels = torch.from_numpy(rng.integers(0, NUM_CLASSES, n))
    images = templates[labels]
    shifts = rng.integers(-1, 2, (n, 2))
    images = torch.stack([torch.roll(im, (int(dy), int(dx)), (1, 2)) for im, (dy, dx) in zip(images, shifts)])
    gain = torch.from_numpy(rng.uniform(0.6, 1.4, (n, 1, 1, 1)).astype(np.float32))
    noise = torch.from_numpy(rng.standard_normal(images.shape).astype(np.float32))
    images = gain * images + 0.6 * smooth_field(n, rng) + 0.5 * noise
    return 60.0 * images + 110.0, labels


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, D = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(D // self.heads)
        out = scores.softmax(dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(B, N, D))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class ViT(nn.Module):
    def __init__(self, dim=48, depth=2, heads=4):
        super().__init__()
        self.patch_embed = nn.Conv2d(1, dim, PATCH, stride=PATCH)
        tokens = (IMAGE // PATCH) ** 2
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(0.1 * torch.randn(1, tokens + 1, dim))
        self.blocks = nn.Sequential(*[Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, NUM_CLASSES)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = self.blocks(x + self.pos_embed)
        return self.head(self.norm(x)[:, 0])


def one_hot(labels):
    off = SMOOTHING / NUM_CLASSES
    return torch.full((len(labels), NUM_CLASSES), off).scatter_(1, labels[:, None], 1.0 - SMOOTHING + off)


def mix(images, labels, rng):
    target = one_hot(labels)
    perm = torch.from_numpy(rng.permutation(len(images)))
    if rng.random() < 0.5:
        lam = float(rng.beta(0.3, 0.3))
        images = lam * images + (1 - lam) * images[perm]
    else:
        lam = float(rng.beta(1.0, 1.0))
        side = int(IMAGE * math.sqrt(1 - lam))
        cy, cx = rng.integers(0, IMAGE, 2)
        y0, y1 = np.clip([cy - side // 2, cy + side // 2], 0, IMAGE)
        x0, x1 = np.clip([cx - side // 2, cx + side // 2], 0, IMAGE)
        images = images.clone()
        images[:, :, y0:y1, x0:x1] = images[perm][:, :, y0:y1, x0:x1]
        lam = 1 - (y1 - y0) * (x1 - x0) / IMAGE ** 2
    return images, lam * target + (1 - lam) * target[perm]


@torch.no_grad()
def update_ema(ema, model):
    for e, p in zip(ema.parameters(), model.parameters()):
        e.lerp_(p.to(e.dtype), 1 - EMA_DECAY)


@torch.no_grad()
def evaluate(model, images, labels):
    model.eval()
    logits = torch.cat([model(chunk) for chunk in images.split(250)])
    return (logits.argmax(1) != labels).float().mean().item()


def main(seed):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    templates = smooth_field(NUM_CLASSES, rng)
    train_x, train_y = make_images(1280, rng, templates)
    test_x, test_y = make_images(1000, rng, templates)
    mean, std = train_x.mean(), train_x.std()
    train_x = (train_x - mean) / std
    test_x = (test_x - mean) / std

    loader = DataLoader(TensorDataset(train_x, train_y), batch_size=BATCH, shuffle=True, drop_last=True)
    model = ViT()
    ema = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK_LR, weight_decay=0.05)
    total_steps = EPOCHS * len(loader) // ACCUM
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, PEAK_LR, total_steps=total_steps + 1, pct_start=0.15)

    micro = 0
    for epoch in range(EPOCHS):
        model.train()
        for images, labels in loader:
            images, target = mix(images, labels, rng)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(images)
            loss = -(target * F.log_softmax(logits.float(), dim=1)).sum(1).mean()
            (loss / ACCUM).backward()
            micro += 1
            if micro % ACCUM == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                scheduler.step()
                update_ema(ema, model)
        if epoch % 5 == 0 or epoch == EPOCHS - 1:
            print(f"epoch {epoch} loss {loss.item():.3f} test error {evaluate(ema, test_x, test_y):.3f}")
    print(f"result {evaluate(ema, test_x, test_y):.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
