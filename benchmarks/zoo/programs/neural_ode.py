"""Neural ODE (fixed-step RK4) fitted to a damped oscillator."""

import sys
import torch
import torch.nn as nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
true_A = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
y0 = torch.tensor([[2.0, 0.0]])
steps, dt = 400, 0.0375


def rk4(f, y, h):
    k1 = f(y)
    k2 = f(y + h / 2 * k1)
    k3 = f(y + h / 2 * k2)
    k4 = f(y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def odeint(f, y, n):
    path = [y]
    for _ in range(n - 1):
        y = rk4(f, y, dt)
        path.append(y)
    return torch.stack(path)


with torch.no_grad():
    true_y = odeint(lambda y: (y**3) @ true_A, y0, steps)


def get_batch(size=20, length=10):
    s = torch.randint(0, steps - length, (size,))
    return true_y[s], torch.stack([true_y[s + i] for i in range(length)])


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, y):
        return self.net(y**3)


func = ODEFunc()
optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
for itr in range(500):
    optimizer.zero_grad()
    batch_y0, batch_y = get_batch()
    pred_y = odeint(func, batch_y0, len(batch_y))
    loss = torch.mean(torch.abs(pred_y - batch_y))
    loss.backward()
    optimizer.step()
    if itr % 100 == 0:
        with torch.no_grad():
            print(f"Iter {itr:04d} | Total Loss {torch.mean(torch.abs(odeint(func, y0, steps) - true_y)).item():.6f}")
with torch.no_grad():
    print(
        "result",
        torch.mean(
            torch.abs(
                odeint(func, true_y[:200:10].squeeze(1).unsqueeze(1), 50)
                - torch.stack([true_y[i : i + 200 : 10] for i in range(50)])
            )
        ).item(),
    )
