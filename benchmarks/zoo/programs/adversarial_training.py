"""Robust classifier: projected gradient attack inside every step, then the update on what it found."""

import argparse

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("seed", type=int, nargs="?", default=0)
args = parser.parse_args()
torch.manual_seed(args.seed)

prototypes = torch.rand(6, 1, 12, 12).round()
labels = torch.randint(0, 6, (3600,))
images = (prototypes[labels] * 0.6 + 0.2 + 0.15 * torch.randn(3600, 1, 12, 12)).clamp(0, 1)
train = DataLoader(TensorDataset(images[:3000], labels[:3000]), batch_size=100, shuffle=True)
test = DataLoader(TensorDataset(images[3000:], labels[3000:]), batch_size=300)

model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 9, 64), nn.ReLU(), nn.Linear(64, 6),
)  # fmt: skip


def attack(x, y, eps=0.1, alpha=0.04, steps=4):
    delta = torch.zeros_like(x).uniform_(-eps, eps)
    for _ in range(steps):
        delta.requires_grad_(True)
        loss = F.cross_entropy(model((x + delta).clamp(0, 1)), y)
        (grad,) = torch.autograd.grad(loss, delta)
        delta = (delta + alpha * grad.sign()).clamp(-eps, eps).detach()
    return (x + delta).clamp(0, 1)


optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [8, 11], gamma=0.1)
for epoch in range(13):
    model.train()
    seen = right = 0
    for x, y in train:
        model.eval()
        x_adv = attack(x, y)
        model.train()
        optimizer.zero_grad()
        out = model(x_adv)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        right += (out.argmax(1) == y).sum().item()
        seen += len(y)
    scheduler.step()
    print(f"epoch {epoch} robust train accuracy {right / seen:.3f} lr {scheduler.get_last_lr()[0]:g}")
model.eval()
total = 0.0
for x, y in test:
    x_adv = attack(x, y)
    with torch.no_grad():
        total += F.cross_entropy(model(x_adv), y, reduction="sum").item()
print("result", total / 600)
