"""U-Net segmentation of discs; BCE plus Dice."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def make(n, size=32):
    ys, xs = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    images, masks = torch.randn(n, 1, size, size) * 0.3, torch.zeros(n, 1, size, size)
    for i in range(n):
        for _ in range(int(torch.randint(1, 4, (1,)))):
            cx, cy = torch.rand(2) * size
            r = 3 + 4 * torch.rand(1)
            disc = ((xs - cx) ** 2 + (ys - cy) ** 2 < r**2).float()
            masks[i, 0] = torch.maximum(masks[i, 0], disc)
    return images + masks, masks


def double_conv(i, o):
    return nn.Sequential(
        nn.Conv2d(i, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
        nn.Conv2d(o, o, 3, padding=1, bias=False),
        nn.BatchNorm2d(o),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.down1 = double_conv(1, c)
        self.down2 = double_conv(c, 2 * c)
        self.bottom = double_conv(2 * c, 4 * c)
        self.up2 = nn.ConvTranspose2d(4 * c, 2 * c, 2, stride=2)
        self.conv2 = double_conv(4 * c, 2 * c)
        self.up1 = nn.ConvTranspose2d(2 * c, c, 2, stride=2)
        self.conv1 = double_conv(2 * c, c)
        self.out = nn.Conv2d(c, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        y = self.conv2(torch.cat([self.up2(c), b], dim=1))
        y = self.conv1(torch.cat([self.up1(y), a], dim=1))
        return self.out(y)


def dice_loss(logits, target, eps=1.0):
    p = torch.sigmoid(logits).flatten(1)
    t = target.flatten(1)
    return (1 - (2 * (p * t).sum(1) + eps) / (p.sum(1) + t.sum(1) + eps)).mean()


train_x, train_y = make(480)
val_x, val_y = make(96)
net = UNet()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
bce = nn.BCEWithLogitsLoss()
for epoch in range(6):
    net.train()
    order = torch.randperm(len(train_x))
    for k in range(0, len(order), 8):
        idx = order[k : k + 8]
        logits = net(train_x[idx])
        loss = bce(logits, train_y[idx]) + dice_loss(logits, train_y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        score = dice_loss(net(val_x), val_y).item()
    print(f"epoch {epoch}: train {loss.item():.4f} val dice loss {score:.4f}")
print("result", score)
