"""Tensors of no module, moved by the script itself."""

import torch

from benchmarks.reliability.guard.stage import stage

torch.manual_seed(0)
x = torch.randn(32, 4)
y = x @ torch.tensor([1.0, -2.0, 0.5, 0.0])
weight = torch.zeros(4, requires_grad=True)
bias = torch.zeros(1, requires_grad=True)
for number in range(10):
    stage.step(number)
    loss = ((x @ weight + bias - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for tensor in (weight, bias):
            tensor -= 0.05 * tensor.grad
            tensor.grad = None
    stage.loss(loss)
stage.end([weight, bias])
