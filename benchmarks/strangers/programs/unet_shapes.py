import math
import time

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

NUM_CLASSES = 4          # background, disc, square, ring
SIZE = 32
EPOCHS, TRAIN_N, VAL_N = 8, 640, 192
MICRO, ACCUM = 8, 2     # 80 micro-batches = 40 optimizer steps an epoch
BASE_LR = 0.12


class ShapesDataset(Dataset):
    """Noisy grey images with up to three shapes; the items depend on their index only."""

    def __init__(self, n, seed, augment=False):
        self.n, self.seed, self.augment = n, seed, augment
        yy, xx = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
        self.yy, self.xx = yy, xx

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 1_000_003 + i)
        img = 0.25 + 0.15 * rng.random() + 0.003 * rng.standard_normal() * self.xx
        mask = np.zeros((SIZE, SIZE), dtype=np.int64)
        for _ in range(rng.integers(1, 4)):
            kind = int(rng.integers(1, NUM_CLASSES))
            cy, cx = rng.uniform(5, SIZE - 5, 2)
            r = rng.uniform(3.5, 7)
            d = np.hypot(self.yy - cy, self.xx - cx)
            if kind == 1:
                m = d < r
            elif kind == 2:
                m = np.maximum(abs(self.yy - cy), abs(self.xx - cx)) < 0.85 * r
            else:
                m = (d < r) & (d > 0.5 * r)
            img = np.where(m, 0.6 + 0.3 * rng.random(), img)
            mask[m] = kind
        img = img + 0.06 * rng.standard_normal((SIZE, SIZE))
        x, y = torch.from_numpy(img.astype(np.float32))[None], torch.from_numpy(mask)
        if self.augment:
            if torch.rand(()) < 0.5:
                x, y = x.flip(-1), y.flip(-1)
            if torch.rand(()) < 0.5:
                x, y = x.flip(-2), y.flip(-2)
        return x, y


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.down1, self.down2 = conv_block(1, w), conv_block(w, 2 * w)
        self.bottom = conv_block(2 * w, 4 * w)
        self.up2 = nn.ConvTranspose2d(4 * w, 2 * w, 2, stride=2)
        self.dec2 = conv_block(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.dec1 = conv_block(2 * w, w)
        self.classify = nn.Conv2d(w, NUM_CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        a = self.dec1(torch.cat([self.up1(b), a], 1))
        return self.classify(a)


class ConfusionMeter:
    """confusion matrix that stays on the device; .item() only when somebody asks"""

    def __init__(self, device):
        self.mat = torch.zeros(NUM_CLASSES, NUM_CLASSES, dtype=torch.int64, device=device)

    def reset(self):
        self.mat.zero_()

    def update(self, pred, target):
        idx = target.flatten() * NUM_CLASSES + pred.flatten()
        self.mat += torch.bincount(idx, minlength=NUM_CLASSES ** 2).view(NUM_CLASSES, NUM_CLASSES)

    def miou(self):
        inter = self.mat.diagonal().float()
        return (inter / (self.mat.sum(0) + self.mat.sum(1) - inter).clamp_min(1)).mean().item()


def segmentation_loss(logits, target):
    flat = logits.float().permute(0, 2, 3, 1).reshape(-1, NUM_CLASSES)
    weight = torch.tensor([0.5, 1.0, 1.0, 1.3], device=logits.device)
    return F.cross_entropy(flat, target.reshape(-1), weight=weight)


@torch.no_grad()
def validate(model, loader, meter, device):
    model.eval()
    meter.reset()
    for x, y in loader:
        x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
        y = y.to(device, non_blocking=True)
        meter.update(model(x).argmax(1), y)
    return meter.miou()


def main():
    torch.manual_seed(17)
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    if cuda:
        torch.backends.cudnn.benchmark = True
    workers = 4 if cuda else 1
    common = dict(pin_memory=cuda, num_workers=workers, persistent_workers=True)
    train_loader = DataLoader(ShapesDataset(TRAIN_N, 1, augment=True), batch_size=MICRO, shuffle=True, drop_last=True, **common)
    val_loader = DataLoader(ShapesDataset(VAL_N, 2), batch_size=64, **common)

    model = UNet().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=BASE_LR, momentum=0.9, nesterov=True, weight_decay=1e-4)
    total = EPOCHS * (TRAIN_N // MICRO) // ACCUM
    warm = total // 12
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: (s + 1) / warm if s < warm else 0.5 * (1 + math.cos(math.pi * min(1, (s - warm) / (total - warm)))))
    scaler = torch.amp.GradScaler(device.type, init_scale=2.0 ** 14)
    meter = ConfusionMeter(device)

    began = time.time()
    for epoch in range(EPOCHS):
        model.train()
        epoch_loss = torch.zeros((), device=device)
        for i, (x, y) in enumerate(train_loader):
            x = x.to(device, non_blocking=True, memory_format=torch.channels_last)
            y = y.to(device, non_blocking=True)
            with torch.autocast(device.type, dtype=torch.float16 if cuda else torch.bfloat16, enabled=cuda):
                logits = model(x)
            loss = segmentation_loss(logits, y) / ACCUM
            scaler.scale(loss).backward()
            epoch_loss += loss.detach()
            if (i + 1) % ACCUM == 0:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
                scheduler.step()
        miou = validate(model, val_loader, meter, device)
        print(f"epoch {epoch} loss {ACCUM * epoch_loss.item() / len(train_loader):.4f} val mIoU {miou:.3f} "
              f"lr {scheduler.get_last_lr()[0]:.4f}", flush=True)
    print(f"elapsed {time.time() - began:.1f}s")
    print(f"FINAL val mIoU {miou:.4f} (all background would give about {0.8 / NUM_CLASSES:.2f})")


if __name__ == "__main__":
    main()
