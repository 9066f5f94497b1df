"""Quantisation-aware training: weights and activations in four bits, straight-through gradients."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(int(sys.argv[1]) if len(sys.argv) > 1 else 0)


def fake_quant(x, bits=4):
    scale = x.detach().abs().max().clamp(min=1e-8) / (2 ** (bits - 1) - 1)
    q = (x / scale).round().clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) * scale
    return x + (q - x).detach()


class QuantLinear(nn.Linear):
    def forward(self, x):
        return F.linear(fake_quant(x), fake_quant(self.weight), self.bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = QuantLinear(16, 64)
        self.fc2 = QuantLinear(64, 64)
        self.fc3 = QuantLinear(64, 4)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


rule = torch.randn(16, 4)
X = torch.randn(6000, 16)
Y = ((X**2 - 1) @ rule).argmax(1)
train_x, train_y, test_x, test_y = X[:5000], Y[:5000], X[5000:], Y[5000:]
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(12):
    model.train()
    for idx in torch.randperm(5000).split(64):
        loss = F.cross_entropy(model(train_x[idx]), train_y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val = F.cross_entropy(model(test_x), test_y).item()
    print(epoch, round(loss.item(), 4), round(val, 4))
print("result", val)
