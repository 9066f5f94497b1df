"""torchvision's ResNet-18 with a narrow head on drawn discs and squares."""

import sys

import torch
import torch.nn.functional as F
from torchvision.models import resnet18

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
model = resnet18(num_classes=2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 300)
ys, xs = torch.meshgrid(torch.arange(32), torch.arange(32), indexing="ij")


def shapes(n):
    labels = torch.randint(0, 2, (n,))
    cx, cy = 10 + 12 * torch.rand(n, 1, 1), 10 + 12 * torch.rand(n, 1, 1)
    round_ = ((xs - cx) ** 2 + (ys - cy) ** 2 < 49).float()
    square = (((xs - cx).abs() < 6) & ((ys - cy).abs() < 6)).float()
    images = torch.where(labels[:, None, None] == 1, round_, square)
    return (images + 0.5 * torch.randn(n, 32, 32))[:, None].expand(-1, 3, -1, -1), labels


for step in range(300):
    images, labels = shapes(16)
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
model.eval()
with torch.no_grad():
    images, labels = shapes(200)
    print("result", F.cross_entropy(model(images), labels).item())
