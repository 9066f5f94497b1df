"""SimCLR on synthetic vectors: two noisy views, NT-Xent, then a nearest-centroid probe."""

import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
CLASSES, DIM, NUISANCE = 10, 16, 48
prototypes = 0.6 * torch.randn(CLASSES, DIM)
mixing = torch.randn(DIM + NUISANCE, 64) / 8


def content(n):
    y = torch.randint(0, CLASSES, (n,))
    return prototypes[y] + 0.3 * torch.randn(n, DIM), y


def view(c):
    """The content with nuisance variables drawn anew."""
    return torch.cat([c + 0.1 * torch.randn_like(c), 1.5 * torch.randn(len(c), NUISANCE)], 1) @ mixing


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(64, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU())
        self.projector = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x):
        return self.projector(self.backbone(x))


def nt_xent(z1, z2, temperature=0.2):
    z = F.normalize(torch.cat([z1, z2]), dim=1)
    sim = z @ z.t() / temperature
    n = len(z1)
    sim.fill_diagonal_(-1e9)
    target = torch.cat([torch.arange(n) + n, torch.arange(n)])
    return F.cross_entropy(sim, target)


model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)
for step in range(1200):
    c, _ = content(128)
    loss = nt_xent(model(view(c)), model(view(c)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 200 == 0:
        print(f"step {step} loss {loss.item():.4f}")

model.eval()
with torch.no_grad():
    c, y = content(1000)
    z = F.normalize(model.backbone(view(c)), dim=1)
    centroids = torch.stack([z[:500][y[:500] == k].mean(0) for k in range(CLASSES)])
    wrong = (torch.cdist(z[500:], centroids).argmin(1) != y[500:]).float().mean()
print("result", wrong.item())
