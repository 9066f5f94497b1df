"""Two-fold super-resolution of procedural textures with a sub-pixel residual network, reported as PSNR."""
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


def render_textures(n, size, gen):
    """Sharp-edged stripes, discs and polygons over a smooth background, three channels in [0, 1]."""
    ys, xs = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    images = []
    for _ in range(n):
        r = torch.rand(24, generator=gen)
        slope = (r[0] - 0.5) * xs + (r[1] - 0.5) * ys
        canvas = (0.45 + 0.3 * slope)[None] + 0.2 * (r[2:5, None, None] - 0.5)
        angle = r[5] * math.pi
        along = xs * torch.cos(angle) + ys * torch.sin(angle)
        stripes = torch.sigmoid(25 * torch.sin(along * (4 + 6 * r[6]) + 6 * r[7]))
        canvas = torch.lerp(canvas, r[8:11, None, None].expand_as(canvas), 0.8 * stripes)
        radius = ((xs - 1.4 * (r[11] - 0.5)) ** 2 + (ys - 1.4 * (r[12] - 0.5)) ** 2).sqrt()
        disc = torch.sigmoid(60 * (0.2 + 0.4 * r[13] - radius))
        canvas = torch.lerp(canvas, r[14:17, None, None].expand_as(canvas), disc)
        side = xs * torch.cos(6 * r[17]) + ys * torch.sin(6 * r[17])
        half = torch.sigmoid(60 * (side - 0.3 - 0.4 * r[18]))
        images.append(torch.lerp(canvas, r[19:22, None, None].expand_as(canvas), half))
    return torch.stack(images).clamp(0, 1)


def degrade(hr, scale):
    """Lens blur (5x5 binomial), then the sensor averages scale x scale pixels."""
    tap = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    kernel = torch.outer(tap, tap).expand(hr.shape[1], 1, 5, 5)
    blurred = F.conv2d(F.pad(hr, (2, 2, 2, 2), mode="reflect"), kernel, groups=hr.shape[1])
    return F.avg_pool2d(blurred, scale)


class PatchDataset(Dataset):
    def __init__(self, hr, lr, patch, scale, length, seed):
        self.hr, self.lr = hr, lr
        self.patch, self.scale, self.length = patch, scale, length
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return self.length

    def __getitem__(self, i):
        k = i % len(self.hr)
        limit = self.lr.shape[-1] - self.patch + 1
        y, x = torch.randint(0, limit, (2,), generator=self.gen).tolist()
        lr = self.lr[k, :, y:y + self.patch, x:x + self.patch]
        ty, tx, tp = y * self.scale, x * self.scale, self.patch * self.scale
        hr = self.hr[k, :, ty:ty + tp, tx:tx + tp]
        flip, turn = torch.randint(0, 2, (2,), generator=self.gen).tolist()
        if flip:
            lr, hr = lr.flip(-1), hr.flip(-1)
        if turn:
            lr, hr = lr.transpose(-1, -2), hr.transpose(-1, -2)
        return lr.contiguous(), hr.contiguous()


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return x + 0.5 * self.body(x)


class SubPixelNet(nn.Module):
    """EDSR-like: the network predicts what bicubic upsampling lacks."""

    def __init__(self, scale, width=24, blocks=2):
        super().__init__()
        self.scale = scale
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*[ResidualBlock(width) for _ in range(blocks)])
        self.tail = nn.Sequential(nn.Conv2d(width, 3 * scale ** 2, 3, padding=1), nn.PixelShuffle(scale))
        nn.init.zeros_(self.tail[0].bias)
        nn.init.normal_(self.tail[0].weight, std=0.01)

    def forward(self, lr):
        base = F.interpolate(lr, scale_factor=self.scale, mode="bicubic", align_corners=False)
        features = self.head(lr - 0.5)
        return base + self.tail(features + self.body(features))


def charbonnier(pred, target, eps=1e-3):
    return ((pred - target) ** 2 + eps ** 2).sqrt().mean()


def psnr(pred, target, border):
    pred, target = pred.clamp(0, 1), target
    pred = pred[..., border:-border, border:-border]
    target = target[..., border:-border, border:-border]
    mse = ((pred - target) ** 2).flatten(1).mean(dim=1)
    return (10 * torch.log10(1.0 / mse.clamp(min=1e-10))).mean().item()


@torch.no_grad()
def evaluate(model, hr, lr, scale):
    model.eval()
    out = torch.cat([model(chunk) for chunk in lr.split(16)])
    model.train()
    return psnr(out, hr, border=scale)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--scale", type=int, default=2)
    parser.add_argument("--size", type=int, default=48)
    parser.add_argument("--patch", type=int, default=12)
    parser.add_argument("--steps", type=int, default=320)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=4e-3)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    gen = torch.Generator().manual_seed(args.seed)
    train_hr = render_textures(160, args.size, gen)
    test_hr = render_textures(32, args.size, gen)
    train_lr, test_lr = degrade(train_hr, args.scale), degrade(test_hr, args.scale)
    dataset = PatchDataset(train_hr, train_lr, args.patch, args.scale, args.steps * args.batch_size, args.seed)
    loader = DataLoader(dataset, batch_size=args.batch_size, shuffle=True)

    model = SubPixelNet(args.scale)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr, betas=(0.9, 0.99))
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1)
    bicubic = F.interpolate(test_lr, scale_factor=args.scale, mode="bicubic", align_corners=False)
    print(f"bicubic PSNR {psnr(bicubic, test_hr, border=args.scale):.3f}")
    for step, (lr, hr) in enumerate(loader, 1):
        loss = charbonnier(model(lr), hr)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        if step % 80 == 0:
            print(f"step {step} loss {loss.item():.4f} test PSNR {evaluate(model, test_hr, test_lr, args.scale):.3f}")
    print(f"result {-evaluate(model, test_hr, test_lr, args.scale):.4f}")


if __name__ == "__main__":
    main()
