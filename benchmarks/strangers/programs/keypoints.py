"""Body joints of little stick figures as heat maps, read out by the expectation of each map."""
import sys
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

JOINTS = ["head", "neck", "hip", "left_hand", "right_hand", "left_foot", "right_foot"]
BONES = [(0, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)]
MIRROR = [0, 1, 2, 4, 3, 6, 5]


@dataclass
class Config:
    size: int = 32
    stride: int = 2
    train: int = 640
    test: int = 200
    epochs: int = 7
    batch: int = 32
    lr: float = 6e-3
    sigma: float = 1.0
    widths: list = field(default_factory=lambda: [8, 16, 24])


def figure(rng, size):
    """Joints (7, 2) as x, y of a person who faces the camera: its left hand is on the right of the picture."""
    tilt = rng.uniform(-0.5, 0.5)
    long = rng.uniform(0.8, 1.15)
    arms, legs = rng.uniform(-0.9, 1.0, 2), rng.uniform(0.15, 0.8, 2)
    body = np.array([[0, -9], [0, -6], [0, 1],
                     [6 * np.cos(arms[0]), -6 + 6 * np.sin(arms[0])], [-6 * np.cos(arms[1]), -6 + 6 * np.sin(arms[1])],
                     [8 * np.sin(legs[0]), 1 + 8 * np.cos(legs[0])], [-8 * np.sin(legs[1]), 1 + 8 * np.cos(legs[1])]])
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    return long * body @ turn.T + size / 2 + rng.uniform(-3, 3, 2)


def paint(joints, rng, size):
    yy, xx = np.mgrid[:size, :size].astype(float)
    img = rng.normal(0.3, 0.12, (size, size))
    for a, b in BONES:
        p, d = joints[a], joints[b] - joints[a]
        t = (((xx - p[0]) * d[0] + (yy - p[1]) * d[1]) / (d @ d)).clip(0, 1)
        near = (xx - p[0] - t * d[0]) ** 2 + (yy - p[1] - t * d[1]) ** 2 < 0.9
        img[near] = rng.uniform(0.7, 1.0)
    img[(xx - joints[0, 0]) ** 2 + (yy - joints[0, 1]) ** 2 < 5] = 1.0
    return img


def dataset(n, rng, cfg, skipped):
    """Images, joints and marks of which joints the annotators set; those that they skipped are written as 0, 0."""
    joints = np.stack([figure(rng, cfg.size) for _ in range(n)])
    images = np.stack([paint(j, rng, cfg.size) for j in joints])
    seen = (rng.random((n, len(JOINTS))) > skipped) & ((joints > 0) & (joints < cfg.size - 1)).all(-1)
    joints[~seen] = 0
    return (torch.tensor(images, dtype=torch.float32)[:, None] - 0.4, torch.tensor(joints, dtype=torch.float32),
            torch.tensor(seen, dtype=torch.float32))


class HeatNet(nn.Module):
    def __init__(self, widths):
        super().__init__()
        a, b, c = widths
        self.stem = nn.Sequential(nn.Conv2d(1, a, 5, stride=2, padding=2), nn.BatchNorm2d(a), nn.ReLU())
        self.down = nn.Sequential(nn.Conv2d(a, b, 3, stride=2, padding=1), nn.BatchNorm2d(b), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(b, c, 3, stride=2, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
                                  nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(),
                                  nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(c, b, 3, padding=1))
        self.back = nn.Sequential(nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(b, a, 3, padding=1))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv2d(a, a, 3, padding=1), nn.ReLU(), nn.Conv2d(a, len(JOINTS), 1))

    def forward(self, x):
        fine = self.stem(x)
        mid = self.down(fine)
        mid = mid + self.deep(mid)
        return self.head(fine + self.back(mid))


def target_maps(joints, cfg):
    cells = torch.arange(cfg.size // cfg.stride) * cfg.stride + (cfg.stride - 1) / 2
    gx = torch.exp(-((cells - joints[..., :1]) / cfg.stride) ** 2 / (2 * cfg.sigma ** 2))
    gy = torch.exp(-((cells - joints[..., 1:]) / cfg.stride) ** 2 / (2 * cfg.sigma ** 2))
    maps = gy[..., :, None] * gx[..., None, :]
    return maps / maps.sum((-1, -2), keepdim=True).clamp(min=1e-6)


def heat_loss(logits, joints, seen, cfg):
    logp = F.log_softmax(logits.flatten(2), -1)
    each = -(target_maps(joints, cfg).flatten(2) * logp).sum(-1)
    return (each * seen).sum() / seen.sum()


def read_out(logits, cfg):
    p = logits.flatten(2).softmax(-1).view_as(logits)
    cells = torch.arange(logits.shape[-1]) * cfg.stride + (cfg.stride - 1) / 2
    x = (p.sum(-2) * cells).sum(-1)
    y = (p.sum(-1) * cells).sum(-1)
    return torch.stack([x, y], -1)


def augment(images, joints, seen, cfg):
    if torch.rand(()) < 0.5:
        images = images.flip(-1)
        joints = torch.stack([cfg.size - 1 - joints[..., 0], joints[..., 1]], -1)
        joints, seen = joints[:, MIRROR], seen[:, MIRROR]
    dx, dy = torch.randint(-2, 3, (2,)).tolist()
    images = images.roll((dy, dx), (-2, -1))
    joints = joints + torch.tensor([dx, dy])
    return images + 0.05 * torch.randn_like(images), joints, seen


@torch.no_grad()
def pixel_error(model, images, joints, seen, cfg):
    model.eval()
    away = (read_out(model(images), cfg) - joints).norm(dim=-1)
    return ((away * seen).sum() / seen.sum()).item()


def main(seed):
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    cfg = Config()
    rng = np.random.default_rng(seed)
    images, joints, seen = dataset(cfg.train, rng, cfg, skipped=0.25)
    held_out = dataset(cfg.test, rng, cfg, skipped=0.0)
    model = HeatNet(cfg.widths)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
    per_epoch = cfg.train // cfg.batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, cfg.lr, total_steps=cfg.epochs * per_epoch)
    print(f"untrained: {pixel_error(model, *held_out, cfg):.2f} px")
    for epoch in range(cfg.epochs):
        model.train()
        total = 0.0
        for rows in torch.randperm(cfg.train)[: per_epoch * cfg.batch].view(-1, cfg.batch):
            x, j, s = augment(images[rows], joints[rows], seen[rows], cfg)
            loss = heat_loss(model(x), j, s, cfg)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / per_epoch:.3f} error {pixel_error(model, *held_out, cfg):.2f} px")
    print(f"result {pixel_error(model, *held_out, cfg):.4f}")


if __name__ == "__main__":
    main(next((int(word) for word in sys.argv[1:] if word.isdigit()), 0))
