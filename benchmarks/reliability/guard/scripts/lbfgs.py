"""An optimizer that evaluates the loss by a closure."""

import torch
from torch.nn import functional

from benchmarks.reliability.guard.stage import stage

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.3, max_iter=3)
x = torch.randn(32, 4)
y = x.prod(1, keepdim=True)
stage.watch(model, optimizer)


def closure() -> torch.Tensor:
    """Return the loss, with gradients."""
    optimizer.zero_grad()
    loss = functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for number in range(8):
    stage.step(number)
    stage.loss(optimizer.step(closure))
stage.end([*model.parameters()])
