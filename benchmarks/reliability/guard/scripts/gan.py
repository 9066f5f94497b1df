"""A generator and a discriminator, each with its optimizer."""

import torch
from torch.nn import functional

from benchmarks.reliability.guard.stage import stage

torch.manual_seed(0)
model = torch.nn.ModuleDict(
    {
        "generator": torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)),
        "judge": torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.LeakyReLU(), torch.nn.Linear(16, 1)),
    }
)
first = torch.optim.Adam(model["generator"].parameters(), lr=1e-3)
second = torch.optim.Adam(model["judge"].parameters(), lr=1e-3)
stage.watch(model, [first, second])
for number in range(12):
    stage.step(number)
    real, made = torch.randn(16, 2) + 1, model["generator"](torch.randn(16, 4))
    second.zero_grad()
    ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
    loss = functional.binary_cross_entropy_with_logits(model["judge"](real), ones)
    loss = loss + functional.binary_cross_entropy_with_logits(model["judge"](made.detach()), zeros)
    loss.backward()
    second.step()
    stage.loss(loss)
    first.zero_grad()
    loss = functional.binary_cross_entropy_with_logits(model["judge"](made), ones)
    loss.backward()
    first.step()
    stage.loss(loss)
stage.end([*model.parameters()])
