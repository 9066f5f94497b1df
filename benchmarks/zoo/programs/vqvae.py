"""VQ-VAE on small drawn shapes: straight-through codes, commitment loss."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def draw(n):
    grid = torch.stack(torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij"))
    centre = 4 + 8 * torch.rand(n, 2, 1, 1)
    radius = 2 + 3 * torch.rand(n, 1, 1)
    gap = (grid[None] - centre).abs()
    disc = (gap.pow(2).sum(1).sqrt() < radius).float()
    box = (gap.amax(1) < radius).float()
    kind = torch.randint(0, 2, (n, 1, 1)).float()
    return (kind * disc + (1 - kind) * box).unsqueeze(1) + 0.02 * torch.randn(n, 1, 16, 16)


class Quantizer(nn.Module):
    def __init__(self, codes=64, width=16):
        super().__init__()
        self.book = nn.Embedding(codes, width)
        self.book.weight.data.uniform_(-1 / codes, 1 / codes)

    def forward(self, z):
        flat = z.permute(0, 2, 3, 1).reshape(-1, z.shape[1])
        distance = flat.pow(2).sum(1, keepdim=True) - 2 * flat @ self.book.weight.T + self.book.weight.pow(2).sum(1)
        index = distance.argmin(1)
        q = self.book(index).view(z.shape[0], z.shape[2], z.shape[3], -1).permute(0, 3, 1, 2)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(q.detach(), z)
        return z + (q - z).detach(), loss, index


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 16, 1)
        )
        self.vq = Quantizer()
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(16, 32, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 32, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(32, 1, 3, 1, 1),
        )

    def forward(self, x):
        q, vq_loss, index = self.vq(self.enc(x))
        return self.dec(q), vq_loss, index


data, test = draw(4000), draw(500)
variance = data.var()
net = VQVAE()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for it in range(500):
    x = data[torch.randint(0, len(data), (64,))]
    recon, vq_loss, index = net(x)
    recon_loss = F.mse_loss(recon, x) / variance
    loss = recon_loss + vq_loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 100 == 0:
        print(it, round(recon_loss.item(), 4), round(vq_loss.item(), 4), "codes used", index.unique().numel())
net.eval()
with torch.no_grad():
    print("result", (F.mse_loss(net(test)[0], test) / variance).item())
