"""DCGAN-style training (two optimizers, BCE) on a ring of Gaussians."""

import math
import sys
import torch
import torch.nn as nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
nz, batch_size = 8, 128
centres = torch.tensor([[math.cos(a), math.sin(a)] for a in torch.arange(8) * 2 * math.pi / 8]) * 2


def real_batch(n):
    return centres[torch.randint(0, 8, (n,))] + 0.15 * torch.randn(n, 2)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(nz, 96), nn.ReLU(True), nn.Linear(96, 96), nn.ReLU(True), nn.Linear(96, 2))

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Linear(2, 96), nn.LeakyReLU(0.2), nn.Linear(96, 96), nn.LeakyReLU(0.2), nn.Linear(96, 1), nn.Sigmoid()
        )

    def forward(self, x):
        return self.main(x).view(-1)


netG, netD = Generator(), Discriminator()
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
for i in range(1800):
    netD.zero_grad()
    real = real_batch(batch_size)
    label = torch.full((batch_size,), 1.0)
    errD_real = criterion(netD(real), label)
    errD_real.backward()
    noise = torch.randn(batch_size, nz)
    fake = netG(noise)
    label.fill_(0.0)
    errD_fake = criterion(netD(fake.detach()), label)
    errD_fake.backward()
    errD = errD_real + errD_fake
    optimizerD.step()

    netG.zero_grad()
    label.fill_(1.0)
    errG = criterion(netD(fake), label)
    errG.backward()
    optimizerG.step()
    if i % 300 == 0:
        print(f"[{i}] Loss_D: {errD.item():.4f} Loss_G: {errG.item():.4f}")

with torch.no_grad():
    a, b, c = netG(torch.randn(1500, nz)), real_batch(1500), real_batch(1500)
    energy = 2 * torch.cdist(a, b).mean() - torch.cdist(a, a).mean() - torch.cdist(b, c).mean()
print("result", energy.item())
