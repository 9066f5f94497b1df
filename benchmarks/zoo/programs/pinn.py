"""PINN for the heat equation u_t = 0.1 u_xx with a sine as the initial condition."""

import sys
import math
import torch
import torch.nn as nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
ALPHA = 0.1


class PINN(nn.Module):
    def __init__(self, width=32, depth=4):
        super().__init__()
        layers = [nn.Linear(2, width), nn.Tanh()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.Tanh()]
        self.net = nn.Sequential(*layers, nn.Linear(width, 1))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], dim=1))


def residual(model, x, t):
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = model(x, t)
    u_t = torch.autograd.grad(u, t, torch.ones_like(u), create_graph=True)[0]
    u_x = torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]
    u_xx = torch.autograd.grad(u_x, x, torch.ones_like(u_x), create_graph=True)[0]
    return u_t - ALPHA * u_xx


model = PINN()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(1000):
    x, t = torch.rand(128, 1), torch.rand(128, 1)
    loss_pde = residual(model, x, t).pow(2).mean()
    x0 = torch.rand(64, 1)
    loss_ic = (model(x0, torch.zeros_like(x0)) - torch.sin(math.pi * x0)).pow(2).mean()
    tb = torch.rand(64, 1)
    loss_bc = model(torch.zeros_like(tb), tb).pow(2).mean() + model(torch.ones_like(tb), tb).pow(2).mean()
    loss = loss_pde + 10 * loss_ic + loss_bc
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 200 == 0:
        print(epoch, loss_pde.item(), loss_ic.item(), loss_bc.item())

with torch.no_grad():
    x, t = torch.rand(4000, 1), torch.rand(4000, 1)
    exact = torch.exp(-ALPHA * math.pi**2 * t) * torch.sin(math.pi * x)
    print("result", (model(x, t) - exact).pow(2).mean().sqrt().item())
