"""FixMatch on rendered 16x16 shapes: a handful of labelled pictures, many unlabelled ones."""
import copy
import sys

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_CLASSES = 6
SIZE = 16
LABELS_PER_CLASS = 5
NUM_UNLABELLED = 3000
BATCH = 12
MU = 4
STEPS = 200
THRESHOLD = 0.85
LAMBDA_U = 1.0
EMA_DECAY = 0.97
BASE_LR = 0.04


def render(labels, rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    images = np.zeros((len(labels), 1, SIZE, SIZE), dtype=np.float32)
    for i, label in enumerate(labels):
        cy, cx = rng.uniform(6.0, 9.0, size=2)
        r = rng.uniform(3.2, 5.2)
        dy, dx = yy - cy, xx - cx
        dist = np.sqrt(dy ** 2 + dx ** 2)
        if label == 0:
            mask = dist < r
        elif label == 1:
            mask = np.abs(dist - r) < 1.0
        elif label == 2:
            mask = np.maximum(np.abs(dy), np.abs(dx)) < r * 0.9
        elif label == 3:
            mask = ((np.abs(dy) < 1.1) | (np.abs(dx) < 1.1)) & (np.maximum(np.abs(dy), np.abs(dx)) < r)
        elif label == 4:
            mask = (np.abs(np.abs(dy) - np.abs(dx)) < 1.3) & (np.maximum(np.abs(dy), np.abs(dx)) < r)
        else:
            mask = (dy > -r) & (dy < r * 0.8) & (np.abs(dx) < (dy + r) * 0.55)
        ink = rng.uniform(0.5, 1.0)
        images[i, 0] = 0.15 + ink * mask + rng.normal(0, 0.22, size=(SIZE, SIZE))
    return images


def make_data(seed):
    rng = np.random.default_rng(seed)
    y_l = np.repeat(np.arange(NUM_CLASSES), LABELS_PER_CLASS)
    y_u = rng.integers(0, NUM_CLASSES, NUM_UNLABELLED)
    y_t = rng.integers(0, NUM_CLASSES, 1000)
    x_l, x_u, x_t = render(y_l, rng), render(y_u, rng), render(y_t, rng)
    mean, std = x_u.mean(), x_u.std()
    to = lambda x: torch.from_numpy((x - mean) / std)
    return to(x_l), torch.from_numpy(y_l), to(x_u), to(x_t), torch.from_numpy(y_t)


def flip_and_shift(x, max_shift):
    n = x.size(0)
    flip = torch.rand(n) < 0.5
    x = torch.where(flip[:, None, None, None], x.flip(-1), x)
    theta = torch.eye(2, 3).repeat(n, 1, 1)
    theta[:, :, 2] = (torch.randint(-max_shift, max_shift + 1, (n, 2)) * 2.0 / SIZE)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, padding_mode="reflection", align_corners=False)


def weak_augment(x):
    return flip_and_shift(x, 1)


def strong_augment(x):
    x = flip_and_shift(x, 2)
    n = x.size(0)
    gain = torch.empty(n, 1, 1, 1).uniform_(0.5, 1.5)
    bias = torch.empty(n, 1, 1, 1).uniform_(-0.4, 0.4)
    x = x * gain + bias + 0.3 * torch.randn_like(x)
    top, left = torch.randint(0, SIZE - 4, (2, n, 1))
    pos = torch.arange(SIZE)[None]
    rows = (pos >= top) & (pos < top + 5)
    cols = (pos >= left) & (pos < left + 5)
    hole = rows[:, None, :, None] & cols[:, None, None, :]
    return x.masked_fill(hole, 0.0)


class ShapeNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = self.block(1, width)
        self.stage1 = self.block(width, 2 * width)
        self.stage2 = self.block(2 * width, 3 * width)
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.classifier = nn.Linear(3 * width * 4, NUM_CLASSES)

    @staticmethod
    def block(c_in, c_out):
        return nn.Sequential(
            nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out),
            nn.LeakyReLU(0.1), nn.MaxPool2d(2))

    def forward(self, x):
        x = self.stage2(self.stage1(self.stem(x)))
        return self.classifier(self.pool(x).flatten(1))


class ModelEMA:
    def __init__(self, model, decay):
        self.decay = decay
        self.module = copy.deepcopy(model).eval()
        for p in self.module.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.mul_(self.decay).add_(p, alpha=1 - self.decay)
        for e, b in zip(self.module.buffers(), model.buffers()):
            e.copy_(b)


@torch.no_grad()
def error_rate(model, x, y):
    model.eval()
    return (model(x).argmax(1) != y).float().mean().item()


def main(seed):
    torch.manual_seed(seed)
    x_l, y_l, x_u, x_t, y_t = make_data(seed)
    model = ShapeNet()
    ema = ModelEMA(model, EMA_DECAY)
    optimizer = torch.optim.SGD(model.parameters(), lr=BASE_LR, momentum=0.9, nesterov=True, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: float(np.cos(7 * np.pi * step / (16 * STEPS))))

    model.train()
    for step in range(STEPS):
        idx_l = torch.randint(0, len(x_l), (BATCH,))
        idx_u = torch.randint(0, len(x_u), (BATCH * MU,))
        targets_x = y_l[idx_l]
        inputs_x = weak_augment(x_l[idx_l])
        inputs_u_w = weak_augment(x_u[idx_u])
        inputs_u_s = strong_augment(x_u[idx_u])

        logits = model(torch.cat([inputs_x, inputs_u_w, inputs_u_s]))
        logits_x = logits[:BATCH]
        logits_u_w, logits_u_s = logits[BATCH:].chunk(2)

        loss_x = F.cross_entropy(logits_x, targets_x)
        pseudo = torch.softmax(logits_u_w.detach(), dim=-1)
        max_probs, targets_u = pseudo.max(dim=-1)
        mask = max_probs.ge(THRESHOLD).float()
        loss_u = (F.cross_entropy(logits_u_s, targets_u, reduction="none") * mask).mean()
        loss = loss_x + LAMBDA_U * loss_u

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        ema.update(model)
        if (step + 1) % 50 == 0:
            print(f"step {step + 1} loss_x {loss_x.item():.3f} loss_u {loss_u.item():.3f} mask {mask.mean().item():.2f}")

    print(f"result {error_rate(ema.module, x_t, y_t):.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
