"""Anchor-free detection of one square: a heat map with focal loss, and its size by L1."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def scenes(n):
    images, heat, size = 0.3 * torch.randn(n, 1, 32, 32), torch.zeros(n, 1, 8, 8), torch.zeros(n, 1, 8, 8)
    for k in range(n):
        cx, cy, r = *torch.randint(5, 27, (2,)).tolist(), int(torch.randint(2, 6, (1,)))
        images[k, 0, cy - r : cy + r, cx - r : cx + r] += 1
        heat[k, 0, cy // 4, cx // 4] = 1
        size[k, 0, cy // 4, cx // 4] = r / 6
    return images, heat, size


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1),
            nn.GroupNorm(4, 16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, 1, 1),
            nn.GroupNorm(4, 32),
            nn.ReLU(),
        )
        self.heat = nn.Conv2d(32, 1, 1)
        self.size = nn.Conv2d(32, 1, 1)
        nn.init.constant_(self.heat.bias, -4.0)

    def forward(self, x):
        h = self.backbone(x)
        return self.heat(h), self.size(h)


def losses(model, images, heat, size):
    h, s = model(images)
    bce = F.binary_cross_entropy_with_logits(h, heat, reduction="none")
    p = torch.sigmoid(h)
    focal = (bce * torch.where(heat == 1, 1 - p, p) ** 2).sum() / heat.sum()
    return focal, (F.l1_loss(s, size, reduction="none") * heat).sum() / heat.sum()


model = Detector()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
train, test = scenes(1500), scenes(300)
for epoch in range(8):
    for idx in torch.randperm(1500).split(25):
        focal, l1 = losses(model, *(t[idx] for t in train))
        loss = focal + l1
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, focal.item(), l1.item())
model.eval()
with torch.no_grad():
    print("result", sum(losses(model, *test)).item())
