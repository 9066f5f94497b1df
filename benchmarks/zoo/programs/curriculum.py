"""An LSTM that adds up marked numbers of sequences that grow longer as it learns: the loss rises at every change."""

import argparse

import torch
from torch import nn


def problems(batch, length):
    values = torch.rand(batch, length)
    marks = torch.zeros(batch, length)
    half = length // 2
    rows = torch.arange(batch)
    first, second = torch.randint(0, half, (batch,)), torch.randint(half, length, (batch,))
    marks[rows, first], marks[rows, second] = 1.0, 1.0
    return torch.stack([values, marks], -1), (values * marks).sum(1, keepdim=True)


class Adder(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.rnn = nn.LSTM(2, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        _, (h, _) = self.rnn(x)
        return self.out(h[-1])


def main(args):
    torch.manual_seed(args.seed)
    model = Adder(args.hidden)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    crit = nn.MSELoss()
    length, good = args.start, 0
    for step in range(args.steps):
        x, y = problems(args.batch, length)
        loss = crit(model(x), y)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        good = good + 1 if loss.item() < 0.01 else 0
        if good >= 10 and length < args.longest:
            length, good = length + 4, 0
            print(f"step {step}: sequences of {length}")
    model.eval()
    with torch.no_grad():
        x, y = problems(500, length)
        error = crit(model(x), y).item()
    print(f"reached length {length}")
    print("result", error)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("seed", type=int, nargs="?", default=0)
    parser.add_argument("--hidden", type=int, default=48)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--start", type=int, default=4)
    parser.add_argument("--longest", type=int, default=24)
    main(parser.parse_args())
