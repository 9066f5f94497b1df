"""Metric learning with triplets; anchor, positive and negative from drawn classes."""

import sys

import torch
from torch import nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
centres = 0.8 * torch.randn(40, 10)
lift = torch.randn(30, 50) / 5


def sample(classes):
    x = centres[classes] + 0.3 * torch.randn(len(classes), 10)
    return torch.cat([x, torch.randn(len(classes), 20)], 1) @ lift


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(50, 96), nn.PReLU(), nn.Linear(96, 16))

    def forward(self, x):
        return nn.functional.normalize(self.layers(x), dim=1)


model = Embedder()
criterion = nn.TripletMarginLoss(margin=0.3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(1500):
    a = torch.randint(0, 30, (128,))
    n = (a + torch.randint(1, 30, (128,))) % 30
    loss = criterion(model(sample(a)), model(sample(a)), model(sample(n)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 300 == 0:
        print(step, loss.item())
with torch.no_grad():
    unseen = torch.arange(30, 40).repeat_interleave(40)
    z = model(sample(unseen))
    d = torch.cdist(z, z).fill_diagonal_(99)
    print("result", (unseen[d.argmin(1)] != unseen).float().mean().item())
