"""A small vision transformer of timm on drawn stripes, with its own cosine schedule."""

import sys

import timm
import torch
import torch.nn.functional as F
from timm.scheduler import CosineLRScheduler

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
model = timm.models.VisionTransformer(
    img_size=16, patch_size=4, in_chans=1, num_classes=4, embed_dim=48, depth=3, num_heads=4
)


def stripes(n):
    labels = torch.randint(0, 4, (n,))
    angle = labels * torch.pi / 4
    ys, xs = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    phase = 6 * torch.rand(n, 1, 1)
    waves = torch.sin(xs * torch.cos(angle)[:, None, None] + ys * torch.sin(angle)[:, None, None] + phase)
    return (waves + 0.7 * torch.randn(n, 16, 16))[:, None], labels


optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
scheduler = CosineLRScheduler(optimizer, t_initial=400, warmup_t=30, warmup_lr_init=1e-5)
model.train()
for step in range(400):
    images, labels = stripes(32)
    loss = F.cross_entropy(model(images), labels, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(step + 1)
model.eval()
with torch.no_grad():
    images, labels = stripes(1000)
    print("result", F.cross_entropy(model(images), labels).item())
