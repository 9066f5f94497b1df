"""Small ResNet on two-stain microscopy-like shapes stored as RGB."""
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLASSES = ["disc", "square", "cross", "wedge_left", "wedge_right"]


@dataclass
class Config:
    seed: int = 0
    n_train: int = 2048
    n_val: int = 600
    size: int = 16
    width: int = 8
    batch_size: int = 64
    epochs: int = 10
    lr: float = 0.05
    weight_decay: float = 5e-4
    mixup: float = 0.2


def draw(rng, label, s):
    yy, xx = np.mgrid[0:s, 0:s].astype(np.float32)
    r = rng.uniform(2.5, 4.5)
    cy, cx = rng.uniform(5, s - 6, 2)
    dy, dx = yy - cy, xx - cx
    if label == 0:
        m = dy ** 2 + dx ** 2 < r ** 2
    elif label == 1:
        m = (abs(dy) < r * 0.85) & (abs(dx) < r * 0.85)
    elif label == 2:
        m = ((abs(dy) < 1.1) & (abs(dx) < r)) | ((abs(dx) < 1.1) & (abs(dy) < r))
    else:
        side = dx if label == 3 else -dx
        m = (abs(side) < r) & (abs(dy) < (side + r) / 2)
    img = np.zeros((3, s, s), np.float32)
    a, b = rng.uniform(0.25, 0.9, 2)
    img[0] = m * a + rng.normal(0.3, 0.18, (s, s))
    img[1] = m * b + rng.normal(0.2, 0.18, (s, s))
    return np.clip(img * 160, 0, 255).astype(np.uint8)


def make_arrays(n, size, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(CLASSES), n)
    images = np.stack([draw(rng, int(c), size) for c in labels])
    return torch.from_numpy(images), torch.from_numpy(labels)


class ShapeSet(Dataset):
    def __init__(self, images, labels, mean, std, train):
        self.images, self.labels = images, labels
        self.mean, self.std, self.train = mean, std, train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        x = self.images[i].float() / 255
        x = (x - self.mean) / self.std
        if self.train:
            x = self.augment(x)
        return x, self.labels[i]

    def augment(self, x):
        if torch.rand(()) < 0.5:
            x = torch.flip(x, dims=[-2])
        sy, sx = torch.randint(-2, 3, (2,)).tolist()
        return torch.roll(x, (sy, sx), dims=(-2, -1))


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Identity() if stride == 1 and cin == cout else nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.skip(x))


class ResNet(nn.Module):
    def __init__(self, w, n_classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, w, 3, 1, 1, bias=False), nn.BatchNorm2d(w), nn.ReLU())
        self.body = nn.Sequential(Block(w, w, 1), Block(w, 2 * w, 2), Block(2 * w, 4 * w, 2))
        self.fc = nn.Linear(4 * w, n_classes)

    def forward(self, x):
        h = self.body(self.stem(x))
        return self.fc(h.mean(dim=(2, 3)))


def mixup(x, y, alpha):
    lam = float(np.random.beta(alpha, alpha))
    perm = torch.randperm(len(x))
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    loss, right, n = 0.0, 0, 0
    for x, y in loader:
        logits = model(x)
        loss += F.cross_entropy(logits, y, reduction="sum").item()
        right += (logits.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, right / n


def main():
    cfg = Config(seed=int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed)
    xtr, ytr = make_arrays(cfg.n_train, cfg.size, 1000 + cfg.seed)
    xva, yva = make_arrays(cfg.n_val, cfg.size, 2000 + cfg.seed)
    flat = xtr.float() / 255
    mean = flat.mean(dim=(0, 2, 3)).view(3, 1, 1)
    std = flat.std(dim=(0, 2, 3)).view(3, 1, 1).clamp_min(1e-3)
    train_set = ShapeSet(xtr, ytr, mean, std, train=True)
    val_set = ShapeSet(xva, yva, mean, std, train=False)
    train_loader = DataLoader(train_set, batch_size=cfg.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=200)

    model = ResNet(cfg.width, len(CLASSES))
    decay = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim <= 1]
    opt = torch.optim.SGD(
        [{"params": decay, "weight_decay": cfg.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=cfg.lr, momentum=0.9)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, milestones=[6, 9], gamma=0.1)

    for epoch in range(cfg.epochs):
        model.train()
        running = 0.0
        for x, y in train_loader:
            x, ya, yb, lam = mixup(x, y, cfg.mixup)
            logits = model(x)
            loss = lam * F.cross_entropy(logits, ya) + (1 - lam) * F.cross_entropy(logits, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            running += loss.item()
        sched.step()
        vl, va = evaluate(model, val_loader)
        print(f"epoch {epoch:2d} train {running / len(train_loader):.4f} val {vl:.4f} acc {va:.3f}")
    vl, va = evaluate(model, val_loader)
    print(f"result {vl:.5f}")


if __name__ == "__main__":
    main()
