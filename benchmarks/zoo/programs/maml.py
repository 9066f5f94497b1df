"""MAML on sine waves, one inner step, functional_call."""

import sys
import math
import torch
import torch.nn as nn
from torch.func import functional_call

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
INNER_LR, TASKS, K = 0.02, 8, 10

net = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
meta_optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
mse = nn.MSELoss()


def task():
    amplitude, phase = 0.1 + 4.9 * torch.rand(1), math.pi * torch.rand(1)

    def draw(n):
        x = 10 * torch.rand(n, 1) - 5
        return x, amplitude * torch.sin(x + phase)

    return draw


def adapt(params, x, y, create_graph):
    loss = mse(functional_call(net, params, (x,)), y)
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=create_graph)
    return {name: p - INNER_LR * g for (name, p), g in zip(params.items(), grads)}


for iteration in range(600):
    meta_loss = 0.0
    for _ in range(TASKS):
        draw = task()
        fast = adapt(dict(net.named_parameters()), *draw(K), create_graph=True)
        xq, yq = draw(K)
        meta_loss = meta_loss + mse(functional_call(net, fast, (xq,)), yq)
    meta_loss = meta_loss / TASKS
    meta_optimizer.zero_grad()
    meta_loss.backward()
    meta_optimizer.step()
    if iteration % 100 == 0:
        print(iteration, meta_loss.item())

total = 0.0
for _ in range(200):
    draw = task()
    fast = adapt(dict(net.named_parameters()), *draw(K), create_graph=False)
    x, y = draw(50)
    total += mse(functional_call(net, fast, (x,)), y).item()
print("result", total / 200)
