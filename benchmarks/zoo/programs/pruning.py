"""Iterative magnitude pruning with torch's own masks, the weights fine-tuned between the rounds."""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.prune as prune

seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
torch.manual_seed(seed)
teacher = nn.Sequential(nn.Linear(30, 24), nn.Tanh(), nn.Linear(24, 5))
for p in teacher.parameters():
    p.data.mul_(3)
with torch.no_grad():
    X = torch.randn(6000, 30)
    Y = teacher(X).argmax(1)
X_test, Y_test = X[5000:], Y[5000:]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(30, 200)
        self.fc2 = nn.Linear(200, 100)
        self.fc3 = nn.Linear(100, 5)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


def train(net, steps, lr):
    opt = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    for _ in range(steps):
        i = torch.randint(0, 5000, (128,))
        loss = F.cross_entropy(net(X[i]), Y[i])
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def evaluate(net):
    net.eval()
    with torch.no_grad():
        score = F.cross_entropy(net(X_test), Y_test).item()
    net.train()
    return score


net = Net()
print("dense", train(net, 400, 0.05), evaluate(net))
for fraction in (0.5, 0.5, 0.5):
    layers = [(m, "weight") for m in (net.fc1, net.fc2)]
    prune.global_unstructured(layers, pruning_method=prune.L1Unstructured, amount=fraction)
    last = train(net, 200, 0.02)
    zeros = sum((m.weight == 0).sum().item() for m, _ in layers) / sum(m.weight.numel() for m, _ in layers)
    print(f"sparsity {zeros:.2f} train {last:.4f} test {evaluate(net):.4f}")
for module, name in layers:
    prune.remove(module, name)
print("result", evaluate(net))
