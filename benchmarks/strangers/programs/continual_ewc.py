"""Continual learning: five related tasks in sequence with online EWC and a small reservoir replay buffer.

Result: mean error over all tasks after the last one has been learned.
"""
import argparse
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

TASKS = 5
CLASSES = 6
DIM = 40


class TaskStream:
    """Each task sees the same classes through its own rotation of part of the input, with a task code appended."""

    def __init__(self, seed, n_train, n_test):
        rng = np.random.default_rng(seed)
        self.protos = 1.1 * rng.standard_normal((CLASSES, 2, DIM))
        self.maps = [np.linalg.qr(rng.standard_normal((DIM, DIM)))[0] for _ in range(TASKS)]
        self.train = [self.draw(rng, t, n_train) for t in range(TASKS)]
        self.test = [self.draw(rng, t, n_test) for t in range(TASKS)]

    def draw(self, rng, task, n):
        y = rng.integers(0, CLASSES, n)
        mode = rng.integers(0, 2, n)
        x = self.protos[y, mode] + 1.5 * rng.standard_normal((n, DIM))
        x = x @ self.maps[task]
        code = np.zeros((n, TASKS))
        code[:, task] = 2.0
        x = np.concatenate([x, code], 1)
        return torch.from_numpy(x.astype(np.float32)), torch.from_numpy(y)


class ReservoirBuffer:
    def __init__(self, capacity):
        self.capacity = capacity
        self.seen = 0
        self.items = []

    def add(self, xs, ys):
        for x, y in zip(xs, ys):
            self.seen += 1
            if len(self.items) < self.capacity:
                self.items.append((x, y))
            else:
                slot = random.randrange(self.seen)
                if slot < self.capacity:
                    self.items[slot] = (x, y)

    def sample(self, n):
        batch = random.sample(self.items, min(n, len(self.items)))
        xs, ys = zip(*batch)
        return torch.stack(xs), torch.stack(ys)


class EWC:
    def __init__(self, model, strength, gamma=0.95):
        self.model = model
        self.strength = strength
        self.gamma = gamma
        self.fisher = {}
        self.anchor = {}

    def consolidate(self, x, y, samples):
        new = {n: torch.zeros_like(p) for n, p in self.model.named_parameters()}
        self.model.eval()
        for i in torch.randperm(len(x))[:samples]:
            self.model.zero_grad()
            logp = F.log_softmax(self.model(x[i:i + 1]), dim=1)
            label = torch.multinomial(logp.exp(), 1).squeeze(1)
            F.nll_loss(logp, label).backward()
            for n, p in self.model.named_parameters():
                new[n] += p.grad.square() / samples
        for n, p in self.model.named_parameters():
            old = self.fisher.get(n, torch.zeros_like(p))
            self.fisher[n] = self.gamma * old + new[n]
            self.anchor[n] = p.detach().clone()

    def penalty(self):
        total = torch.zeros(())
        for n, p in self.model.named_parameters():
            if n in self.fisher:
                total = total + (self.fisher[n] * (p - self.anchor[n]).square()).sum()
        return 0.5 * self.strength * total


def build_model(hidden):
    return nn.Sequential(
        nn.Linear(DIM + TASKS, hidden), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, CLASSES),
    )


@torch.no_grad()
def error(model, data):
    model.eval()
    x, y = data
    return (model(x).argmax(1) != y).float().mean().item()


def train_task(model, task, data, ewc, buffer, args):
    x, y = data
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        model.train()
        order = torch.randperm(len(x))
        for idx in order.split(args.batch):
            loss = F.cross_entropy(model(x[idx]), y[idx])
            if task > 0:
                old_x, old_y = buffer.sample(args.replay_batch)
                loss = loss + args.replay_weight * F.cross_entropy(model(old_x), old_y)
                loss = loss + ewc.penalty()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if epoch == 0:
                buffer.add(x[idx], y[idx])
    ewc.consolidate(x, y, args.fisher_samples)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--hidden", type=int, default=160)
    parser.add_argument("--ewc", type=float, default=60.0)
    parser.add_argument("--capacity", type=int, default=250)
    parser.add_argument("--replay-batch", type=int, default=50)
    parser.add_argument("--replay-weight", type=float, default=2.0)
    parser.add_argument("--fisher-samples", type=int, default=250)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    random.seed(args.seed)
    stream = TaskStream(args.seed, n_train=1500, n_test=800)
    model = build_model(args.hidden)
    ewc = EWC(model, args.ewc)
    buffer = ReservoirBuffer(args.capacity)

    after = np.full((TASKS, TASKS), np.nan)
    for task in range(TASKS):
        train_task(model, task, stream.train[task], ewc, buffer, args)
        for t in range(task + 1):
            after[task, t] = error(model, stream.test[t])
        print(f"after task {task}: " + " ".join(f"{e:.3f}" for e in after[task, :task + 1]))
    forgetting = float(np.mean(after[-1, :-1] - np.diag(after)[:-1]))
    print(f"forgetting {forgetting:.3f}")
    print(f"result {after[-1].mean():.4f}")


if __name__ == "__main__":
    main()
