import sys
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(SEED)
np.random.seed(SEED)

N_CLASSES = 4
SIZE = 24
EPOCHS = 15
BATCH = 16


def draw(rng):
    yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    img = rng.normal(0.0, 0.25, (SIZE, SIZE)).astype(np.float32)
    img += rng.uniform(-0.3, 0.3) + 0.01 * rng.uniform(-1, 1) * xx
    lab = np.zeros((SIZE, SIZE), dtype=np.int64)
    for _ in range(rng.integers(2, 4)):
        cx, cy = rng.uniform(4, SIZE - 4, 2)
        r = rng.uniform(2.5, 5.0)
        kind = rng.integers(1, N_CLASSES)
        if kind == 1:
            m = (xx - cx) ** 2 + (yy - cy) ** 2 < r * r
        elif kind == 2:
            d = np.sqrt((xx - cx) ** 2 + (yy - cy) ** 2)
            m = (d < r + 1.0) & (d > r - 1.0)
        else:
            m = (np.abs(xx - cx) + np.abs(yy - cy) < r) & (np.abs(xx - cx) < 1.6)
        img[m] += rng.uniform(0.7, 1.1)
        lab[m] = kind
    return img, lab


class Shapes(Dataset):
    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        pairs = [draw(rng) for _ in range(n)]
        self.x = torch.from_numpy(np.stack([p[0] for p in pairs]))[:, None]
        self.y = torch.from_numpy(np.stack([p[1] for p in pairs]))
        self.train = train

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x, y = self.x[i], self.y[i]
        if self.train:
            if torch.rand(()) < 0.5:
                x, y = x.flip(-1), y.flip(-1)
            if torch.rand(()) < 0.5:
                x, y = x.flip(-2), y.flip(-2)
        return x, y


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, base=8):
        super().__init__()
        self.enc1 = block(1, base)
        self.enc2 = block(base, base * 2)
        self.mid = block(base * 2, base * 4)
        self.up2 = nn.ConvTranspose2d(base * 4, base * 2, 2, stride=2)
        self.dec2 = block(base * 4, base * 2)
        self.up1 = nn.ConvTranspose2d(base * 2, base, 2, stride=2)
        self.dec1 = block(base * 2, base)
        self.head = nn.Conv2d(base, N_CLASSES, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        m = self.mid(F.max_pool2d(e2, 2))
        d2 = self.dec2(torch.cat([self.up2(m), e2], 1))
        d1 = self.dec1(torch.cat([self.up1(d2), e1], 1))
        return self.head(d1)


def dice_loss(logits, target, eps=1.0):
    p = logits.softmax(dim=1)
    t = F.one_hot(target, N_CLASSES).permute(0, 3, 1, 2).float()
    inter = (p * t).sum(dim=(0, 2, 3))
    denom = p.sum(dim=(0, 2, 3)) + t.sum(dim=(0, 2, 3))
    return 1 - ((2 * inter + eps) / (denom + eps)).mean()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    inter = torch.zeros(N_CLASSES)
    denom = torch.zeros(N_CLASSES)
    for x, y in loader:
        pred = model(x).argmax(1)
        for c in range(N_CLASSES):
            inter[c] += ((pred == c) & (y == c)).sum()
            denom[c] += (pred == c).sum() + (y == c).sum()
    return (2 * inter / denom.clamp(min=1))[1:].mean().item()


def main():
    train = Shapes(320, 1000 + SEED, True)
    val = Shapes(160, 9000 + SEED, False)
    train_dl = DataLoader(train, batch_size=BATCH, shuffle=True, drop_last=True)
    val_dl = DataLoader(val, batch_size=80)
    freq = torch.bincount(train.y.flatten(), minlength=N_CLASSES).float()
    weight = freq.sum() / freq
    weight = weight.sqrt() / weight.sqrt().mean()

    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda e: max(0.0, 1 - e / EPOCHS) ** 0.9)

    for epoch in range(EPOCHS):
        model.train()
        run = 0.0
        for x, y in train_dl:
            logits = model(x)
            loss = F.cross_entropy(logits, y, weight=weight) + dice_loss(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            run += loss.item()
        sched.step()
        if epoch % 5 == 4:
            print(f"epoch {epoch} loss {run / len(train_dl):.4f} val dice {evaluate(model, val_dl):.4f}")
    print("result", 1 - evaluate(model, val_dl))


main()
