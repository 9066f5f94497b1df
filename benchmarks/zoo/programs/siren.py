"""SIREN fitted to one image: pixel coordinates in, grey values out, all pixels in each step."""

import sys
import numpy as np
import torch
from torch import nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
SIDE = 48


class SineLayer(nn.Module):
    def __init__(self, in_features, out_features, is_first=False, omega_0=30):
        super().__init__()
        self.omega_0 = omega_0
        self.linear = nn.Linear(in_features, out_features)
        with torch.no_grad():
            bound = 1 / in_features if is_first else np.sqrt(6 / in_features) / omega_0
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, x):
        return torch.sin(self.omega_0 * self.linear(x))


class Siren(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.net = nn.Sequential(
            SineLayer(2, hidden, is_first=True),
            SineLayer(hidden, hidden),
            SineLayer(hidden, hidden),
            nn.Linear(hidden, 1),
        )
        with torch.no_grad():
            self.net[-1].weight.uniform_(-np.sqrt(6 / hidden) / 30, np.sqrt(6 / hidden) / 30)

    def forward(self, coords):
        return self.net(coords)


axis = torch.linspace(-1, 1, SIDE)
ys, xs = torch.meshgrid(axis, axis, indexing="ij")
image = torch.sin(9 * xs) * torch.cos(7 * ys) + (xs**2 + ys**2 < 0.3).float() + 0.5 * torch.sin(25 * xs * ys)
image = (image - image.mean()) / image.std()
coords = torch.stack([xs, ys], -1).view(-1, 2)
truth = image.view(-1, 1)

img_siren = Siren()
optim = torch.optim.Adam(lr=1e-4, params=img_siren.parameters())
for step in range(500):
    model_output = img_siren(coords)
    loss = ((model_output - truth) ** 2).mean()
    if not step % 100:
        print("Step %d, Total loss %0.6f" % (step, loss))
    optim.zero_grad()
    loss.backward()
    optim.step()
with torch.no_grad():
    print("result", ((img_siren(coords) - truth) ** 2).mean().item())
