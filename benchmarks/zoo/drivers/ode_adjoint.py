"""torchdiffeq's solver with the adjoint method learns a spiral."""

import sys

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
truth = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
times = torch.linspace(0, 10, 200)
with torch.no_grad():
    path = odeint(lambda t, y: (y**3) @ truth, torch.tensor([[2.0, 0.0]]), times)


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, t, y):
        return self.net(y**3)


field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=5e-3)
for step in range(300):
    start = torch.randint(0, 190, (16,))
    goal = torch.stack([path[start + i] for i in range(8)])
    loss = (odeint_adjoint(field, path[start], times[:8], method="rk4") - goal).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        print(step, loss.item())
with torch.no_grad():
    print(
        "result",
        (
            odeint(field, path[::20], times[:20], method="rk4")[:, :9]
            - torch.stack([path[i : i + 180 : 20] for i in range(20)])
        )
        .abs()
        .mean()
        .item(),
    )
