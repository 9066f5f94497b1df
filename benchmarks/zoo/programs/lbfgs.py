"""Full-batch regression with LBFGS and a closure."""

import sys
import torch
import torch.nn as nn

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
torch.set_default_dtype(torch.float64)
X = torch.rand(1500, 4) * 2 - 1
y = (torch.sin(3 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 - X[:, 3]).unsqueeze(1) + 0.02 * torch.randn(1500, 1)
Xt = torch.rand(1000, 4) * 2 - 1
yt = (torch.sin(3 * Xt[:, 0]) * Xt[:, 1] + Xt[:, 2] ** 2 - Xt[:, 3]).unsqueeze(1)

model = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.8, max_iter=10, history_size=20)
for i in range(60):

    def closure():
        optimizer.zero_grad()
        loss = criterion(model(X), y)
        loss.backward()
        return loss

    loss = optimizer.step(closure)
    if i % 10 == 0:
        print("STEP:", i, "loss:", loss.item())
with torch.no_grad():
    print("result", criterion(model(Xt), yt).item())
