import json
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

SIZE = 32


def render(rng):
    """uint8 image and uint8 mask; discs are foreground, rectangles and stripes are clutter"""
    yy, xx = np.mgrid[:SIZE, :SIZE]
    img = 90 + 25 * np.sin(xx / rng.uniform(3, 9) + rng.uniform(0, 6)) + rng.normal(0, 14, (SIZE, SIZE))
    mask = np.zeros((SIZE, SIZE), bool)
    for _ in range(rng.integers(1, 4)):
        w, h = rng.integers(4, 11, 2)
        x, y = rng.integers(0, SIZE - w), rng.integers(0, SIZE - h)
        img[y:y + h, x:x + w] = rng.uniform(130, 220) + rng.normal(0, 10, (h, w))
    for _ in range(rng.integers(1, 3)):
        r = rng.uniform(3, 6.5)
        cx, cy = rng.uniform(r, SIZE - r, 2)
        d = (xx - cx) ** 2 + (yy - cy) ** 2 <= r * r
        img[d] = rng.uniform(130, 220) + rng.normal(0, 10, d.sum())
        mask |= d
    return img.clip(0, 255).astype(np.uint8), mask.astype(np.uint8) * 255


class Discs(Dataset):
    mean, std = 120.0, 45.0

    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        self.items = [render(rng) for _ in range(n)]
        self.train = train

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        img, mask = self.items[i]
        img = torch.from_numpy(img).float()[None]
        mask = torch.from_numpy(mask).float()[None] / 255.0
        img = (img - self.mean) / self.std
        if self.train:
            if torch.rand(()) < 0.5:
                img, mask = img.flip(-1), mask.flip(-1)
            if torch.rand(()) < 0.5:
                img, mask = img.flip(-2), mask.flip(-2)
        return img, mask


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Up(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.up = nn.ConvTranspose2d(i, o, 2, stride=2)
        self.conv = double_conv(2 * o, o)

    def forward(self, x, skip):
        x = self.up(x)
        return self.conv(torch.cat([skip, x], dim=1))


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.enc1 = double_conv(1, c)
        self.enc2 = double_conv(c, 2 * c)
        self.bottom = double_conv(2 * c, 4 * c)
        self.up2 = Up(4 * c, 2 * c)
        self.up1 = Up(2 * c, c)
        self.head = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        e1 = self.enc1(x)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        b = self.bottom(F.max_pool2d(e2, 2))
        d2 = self.up2(b, e2)
        d1 = self.up1(d2, e1)
        return self.head(d1)


class BCEDice(nn.Module):
    def __init__(self, dice_weight=1.0):
        super().__init__()
        self.bce = nn.BCEWithLogitsLoss()
        self.dice_weight = dice_weight

    def forward(self, logits, target):
        p = torch.sigmoid(logits)
        inter = (p * target).sum((1, 2, 3))
        dice = (2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)
        return self.bce(logits, target) + self.dice_weight * (1 - dice).mean()


class Trainer:
    def __init__(self, model, train_loader, test_loader, epochs, lr):
        self.model, self.epochs = model, epochs
        self.train_loader, self.test_loader = train_loader, test_loader
        self.criterion = BCEDice()
        self.opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4, nesterov=True)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, max_lr=lr, total_steps=epochs * len(train_loader))

    def fit(self):
        for e in range(self.epochs):
            self.model.train()
            losses = []
            for img, mask in self.train_loader:
                loss = self.criterion(self.model(img), mask)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.sched.step()
                losses.append(loss.item())
            print(f"epoch {e + 1}/{self.epochs} train loss {np.mean(losses):.4f}")

    @torch.no_grad()
    def iou(self):
        self.model.eval()
        inter = union = 0.0
        for img, mask in self.test_loader:
            pred = torch.sigmoid(self.model(img)) > 0.5
            gt = mask > 0.5
            inter += (pred & gt).sum().item()
            union += (pred | gt).sum().item()
        return inter / max(union, 1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(4)
    train = DataLoader(Discs(800, 0, True), batch_size=16, shuffle=True)
    test = DataLoader(Discs(200, 1, False), batch_size=40)
    trainer = Trainer(UNet(), train, test, epochs=7, lr=0.15)
    trainer.fit()
    print("RESULT", json.dumps({"metric": "test_iou", "value": round(trainer.iou(), 4), "better": "higher"}))


if __name__ == "__main__":
    main()
