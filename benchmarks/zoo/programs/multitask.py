"""Shared trunk, three heads: regression, classes, and a flag; uncertainty weighting (Kendall)."""

import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
X = torch.randn(4000, 20)
W1, W2 = torch.randn(20, 8) / 4, torch.randn(8, 3)
H = torch.tanh(X @ W1)
y_reg = (H[:, 0] * H[:, 1] + H[:, 2] - H[:, 5]).unsqueeze(1) + 0.05 * torch.randn(4000, 1)
y_cls = (H @ W2 + 0.1 * torch.randn(4000, 3)).argmax(1)
y_flag = ((H[:, 3] + H[:, 4]) > 0.2).float()
train, test = random_split(TensorDataset(X, y_reg, y_cls, y_flag), [3200, 800])


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU())
        self.regression = nn.Linear(64, 1)
        self.classes = nn.Linear(64, 3)
        self.flag = nn.Linear(64, 1)
        self.log_vars = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        h = self.trunk(x)
        return self.regression(h), self.classes(h), self.flag(h).squeeze(1)


def losses(model, x, a, b, c):
    r, k, f = model(x)
    return torch.stack(
        [
            nn.functional.mse_loss(r, a),
            nn.functional.cross_entropy(k, b),
            nn.functional.binary_cross_entropy_with_logits(f, c),
        ]
    )


model = MultiTask()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(15):
    model.train()
    for batch in DataLoader(train, batch_size=64, shuffle=True):
        each = losses(model, *batch)
        loss = (torch.exp(-model.log_vars) * each + model.log_vars).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        held = losses(model, *test[:])
    if epoch % 3 == 0:
        print(epoch, [round(v, 4) for v in held.tolist()])
print("result", held.sum().item())
