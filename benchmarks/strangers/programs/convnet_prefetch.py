# Orientation classifier for noisy texture patches.  uint8 NHWC patches live in (pinned) host memory; a prefetcher uploads the next
# batch on a side stream and does cast / normalise / augmentation on the device.  fp16 autocast + GradScaler + gradient clipping.
import argparse
import math
import time

import numpy as np
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=8)
parser.add_argument("--bs", type=int, default=64)
parser.add_argument("--lr", type=float, default=0.08)
parser.add_argument("--clip", type=float, default=2.0)
parser.add_argument("--seed", type=int, default=7)
args = parser.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(args.seed)
torch.backends.cudnn.benchmark = True
SIZE, CLASSES = 20, 8
MEAN, STD = (0.47, 0.42, 0.36), (0.21, 0.20, 0.19)


def render(n, rng):
    """Gratings of 8 orientations in a random colour on a random background, plus an unoriented distractor and noise."""
    label = rng.integers(0, CLASSES, n)
    theta = label * math.pi / CLASSES + rng.normal(0, 0.06, n)
    yy, xx = np.meshgrid(np.arange(SIZE), np.arange(SIZE), indexing="ij")
    freq = rng.uniform(0.7, 1.3, n)[:, None, None]
    phase = rng.uniform(0, 2 * math.pi, n)[:, None, None]
    u = np.cos(theta)[:, None, None] * xx + np.sin(theta)[:, None, None] * yy
    wave = np.sin(freq * u + phase)[..., None]
    cx, cy = (rng.uniform(4, SIZE - 4, (n, 1, 1)) for _ in range(2))
    blob = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / 12.0)[..., None]
    paint = rng.normal(0, 1, (n, 1, 1, 3))
    paint /= np.linalg.norm(paint, axis=-1, keepdims=True)
    base = np.asarray(MEAN) + rng.normal(0, 0.08, (n, 1, 1, 3))
    img = base + 0.22 * wave * paint + 0.35 * blob * rng.normal(0, 1, (n, 1, 1, 3)) * 0.5 + rng.normal(0, 0.15, (n, SIZE, SIZE, 3))
    return torch.from_numpy((img.clip(0, 1) * 255).astype(np.uint8)), torch.from_numpy(label)


rng = np.random.default_rng(args.seed)
train_images, train_labels = render(4096, rng)
test_images, test_labels = render(1536, rng)
order = test_labels.argsort(stable=True)  # the test set is stored class by class, as folders are
test_images, test_labels = test_images[order], test_labels[order]

mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
std = torch.tensor(STD, device=device).view(1, 3, 1, 1)


def to_float(batch):
    # NHWC bytes -> NCHW float; the permuted view is already channels_last in memory
    return (batch.permute(0, 3, 1, 2).float() / 255 - mean) / std


class Prefetcher:
    def __init__(self, images, labels, batch_size):
        self.images, self.labels, self.bs = images, labels, batch_size
        self.stream = torch.cuda.Stream() if device == "cuda" else None

    def __len__(self):
        return len(self.images) // self.bs

    def _upload(self, idx):
        x, y = self.images[idx], self.labels[idx]
        if self.stream is None:
            return self._augment(x), y
        with torch.cuda.stream(self.stream):
            x = x.pin_memory().to(device, non_blocking=True)
            y = y.pin_memory().to(device, non_blocking=True)
            return self._augment(x), y

    def _augment(self, x):
        x = to_float(x)
        # a half turn keeps the orientation of a grating
        turn = torch.rand(len(x), 1, 1, 1, device=x.device) < 0.5
        x = torch.where(turn, x.flip(2, 3), x)
        dy, dx = torch.randint(-2, 3, (2,)).tolist()
        return x.roll((dy, dx), (2, 3)).contiguous(memory_format=torch.channels_last)

    def __iter__(self):
        batches = torch.randperm(len(self.images))[: len(self) * self.bs].view(-1, self.bs)
        x, y = self._upload(batches[0])
        for i in range(len(batches)):
            if self.stream is not None:
                torch.cuda.current_stream().wait_stream(self.stream)
                x.record_stream(torch.cuda.current_stream())
                y.record_stream(torch.cuda.current_stream())
            ready_x, ready_y = x, y
            if i + 1 < len(batches):
                x, y = self._upload(batches[i + 1])
            yield ready_x, ready_y


def conv_bn(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Residual(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.body = nn.Sequential(conv_bn(ch, ch), nn.Conv2d(ch, ch, 3, 1, 1, bias=False), nn.BatchNorm2d(ch))

    def forward(self, x):
        return torch.relu(x + self.body(x))


net = nn.Sequential(
    conv_bn(3, 16, 2), Residual(16), conv_bn(16, 32, 2), Residual(32), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, CLASSES)
).to(device, memory_format=torch.channels_last)

loader = Prefetcher(train_images, train_labels, args.bs)
total = args.epochs * len(loader)
opt = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4, nesterov=True)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=total, pct_start=0.2)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
scaler = torch.amp.GradScaler(device, init_scale=2.0**8)
use_amp = device == "cuda"


@torch.no_grad()
def test():
    net.eval()
    hits = 0
    for i in range(0, len(test_images), 128):
        x = to_float(test_images[i : i + 128].to(device)).contiguous(memory_format=torch.channels_last)
        with torch.autocast(device, torch.float16, enabled=use_amp):
            hits += (net(x).argmax(1).cpu() == test_labels[i : i + 128]).sum().item()
    net.train()
    return hits / len(test_images)


start = time.time()
for epoch in range(args.epochs):
    seen = torch.zeros((), device=device)
    for x, y in loader:
        with torch.autocast(device, torch.float16, enabled=use_amp):
            loss = criterion(net(x), y)
        opt.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), args.clip, foreach=True)
        scaler.step(opt)
        scaler.update()
        sched.step()
        seen += loss.detach()
    print(f"epoch {epoch} train loss {seen.item() / len(loader):.4f} test acc {test():.4f} [{time.time() - start:.1f}s]")

print(f"final: test accuracy {test():.4f} (chance {1 / CLASSES:.3f})")
