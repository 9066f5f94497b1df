"""A classifier with dropout, data loader, clipping and a schedule."""

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.reliability.guard.stage import stage

torch.manual_seed(0)
model = torch.nn.Sequential(
    torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(16, 3)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
x = torch.randn(64, 8)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
stage.watch(model, optimizer)
number = 0
for _ in range(7):
    for inputs, labels in loader:
        stage.step(number)
        number += 1
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        stage.log(accuracy=0.5)
        stage.loss(loss)
    schedule.step()
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
stage.end([*model.parameters()])
