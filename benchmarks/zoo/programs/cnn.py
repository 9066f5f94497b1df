"""CNN with batch norm and augmentation on drawn shapes, SGD with momentum."""

import argparse

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import DataLoader, TensorDataset


def shapes(n, rng):
    grid_y, grid_x = np.mgrid[0:20, 0:20]
    images, labels = np.zeros((n, 1, 20, 20), np.float32), rng.integers(0, 4, n)
    for i, label in enumerate(labels):
        cx, cy, r = rng.uniform(7, 13), rng.uniform(7, 13), rng.uniform(4, 6)
        dx, dy = grid_x - cx, grid_y - cy
        if label == 0:
            mask = dx**2 + dy**2 < r**2
        elif label == 1:
            mask = (abs(dx) < r * 0.8) & (abs(dy) < r * 0.8)
        elif label == 2:
            mask = (abs(dx) < 1.5) | (abs(dy) < 1.5)
        else:
            mask = abs(abs(dx) - abs(dy)) < 1.5
        images[i, 0] = mask * rng.uniform(0.6, 1.0)
    images += rng.normal(0, 0.25, images.shape).astype(np.float32)
    return torch.from_numpy((images - 0.3) / 0.45).float(), torch.from_numpy(labels)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.bn1 = nn.BatchNorm2d(16)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(32)
        self.dropout = nn.Dropout(0.25)
        self.fc1 = nn.Linear(32 * 25, 64)
        self.fc2 = nn.Linear(64, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)
        x = F.max_pool2d(F.relu(self.bn2(self.conv2(x))), 2)
        x = self.dropout(torch.flatten(x, 1))
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def augment(x):
    return torch.roll(x, shifts=(int(torch.randint(-2, 3, (1,))), int(torch.randint(-2, 3, (1,)))), dims=(2, 3))


def train(model, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        output = model(augment(data))
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % 20 == 0:
            print(f"Train Epoch: {epoch} [{batch_idx * len(data)}/{len(loader.dataset)}] Loss: {loss.item():.6f}")


def test(model, loader):
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            correct += output.argmax(dim=1).eq(target).sum().item()
    print(f"Test: loss {test_loss / len(loader.dataset):.4f}, accuracy {correct / len(loader.dataset):.3f}")
    return test_loss / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=0.03)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    train_loader = DataLoader(TensorDataset(*shapes(2400, rng)), batch_size=32, shuffle=True)
    test_loader = DataLoader(TensorDataset(*shapes(600, rng)), batch_size=200)
    model = Net()
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=5e-4)
    scheduler = CosineAnnealingLR(optimizer, T_max=args.epochs)
    for epoch in range(1, args.epochs + 1):
        train(model, train_loader, optimizer, epoch)
        loss = test(model, test_loader)
        scheduler.step()
    print("result", loss)


if __name__ == "__main__":
    main()
